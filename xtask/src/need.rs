//! The tools that a task requires. A task reports missing tools, and installs them only on request.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace, describe};

/// Lets tasks install what they need.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Install {
    /// Install missing tools, instead of only reporting them
    #[arg(long)]
    pub(crate) install: bool,
}

/// A required tool.
#[derive(Debug)]
pub(crate) struct Need {
    /// The name to display.
    pub(crate) what: &'static str,
    /// Whether the tool is installed.
    pub(crate) found: bool,
    /// The command that installs the tool.
    pub(crate) install: &'static [&'static str],
}

/// Installs missing tools if `install` is set.
///
/// # Errors
///
/// Fails if a tool is missing and `install` is not set; the message suggests `--install`.
pub(crate) fn meet(needs: &[Need], install: bool) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.found).collect();
    for need in &missing {
        println!("missing: {} (`{}`)", need.what, need.install.join(" "));
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !install {
        bail!(
            "{} of {} required tools are missing; run the command again with --install to install them",
            missing.len(),
            needs.len()
        );
    }
    let mut commands: Vec<&[&str]> = missing.iter().map(|need| need.install).collect();
    commands.dedup();
    for words in commands {
        let (program, args) = words.split_first().context("a command has a name")?;
        let mut command = Command::new(program);
        command.args(args);
        println!("{}", describe(&command));
        workspace::run(&mut command)?;
    }
    Ok(())
}

/// Returns the path of a program, which is searched for in PATH.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Returns the folder of the toolchain that builds this workspace.
pub(crate) fn sysroot(workspace: &Workspace) -> Result<PathBuf> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = rustc
        .args(["--print", "sysroot"])
        .current_dir(&workspace.root)
        .output()
        .context("rustc could not be started")?;
    let text = String::from_utf8(output.stdout).context("rustc's output")?;
    Ok(PathBuf::from(text.trim()))
}

/// Requires the sources of the standard library, to rebuild it for another target or with a
/// sanitizer.
pub(crate) fn std_sources(sysroot: &Path) -> Need {
    Need {
        what: "the sources of the standard library",
        found: sysroot
            .join("lib/rustlib/src/rust/library/std/Cargo.toml")
            .is_file(),
        install: &["rustup", "component", "add", "rust-src"],
    }
}

/// Requires the run-time library of a sanitizer, `asan` or `tsan`.
pub(crate) fn sanitizer(sysroot: &Path, name: &str) -> Need {
    let libraries = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/lib");
    let ending = format!("_rt.{name}.a");
    Need {
        what: "the run-time library of the sanitizer",
        found: fs::read_dir(&libraries).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().ends_with(&ending))
        }),
        install: &["rustup", "component", "add", "rust-std"],
    }
}

#[cfg(test)]
mod tests {
    use super::{Need, meet, program};

    #[test]
    fn what_is_missing_is_installed_only_when_asked() {
        let need = |found, install| Need {
            what: "something",
            found,
            install,
        };
        assert!(meet(&[need(true, &["false"])], false).is_ok());
        let missing = || need(false, &["true"]);
        let error = meet(&[missing()], false).unwrap_err().to_string();
        assert!(error.contains("--install"), "{error}");
        if program("true").is_some() {
            assert!(meet(&[missing()], true).is_ok());
        }
        if program("false").is_some() {
            assert!(meet(&[need(false, &["false"])], true).is_err());
        }
    }
}

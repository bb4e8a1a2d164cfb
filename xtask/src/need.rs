//! The tools that a task requires.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Fails if a tool is missing, with the command that installs it.
pub(crate) fn require(what: &str, found: bool, install: &str) -> Result<()> {
    if !found {
        bail!("{what} is missing; install it with `{install}`");
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

/// Requires the sources of the standard library, to build it for another target or with a
/// sanitizer.
pub(crate) fn std_sources(workspace: &Workspace) -> Result<()> {
    let sources = Path::new("lib/rustlib/src/rust/library/std/Cargo.toml");
    let found = sysroot(workspace)?.join(sources).is_file();
    require(
        "the source of the standard library",
        found,
        "rustup component add rust-src",
    )
}

/// Requires the run-time library of a sanitizer, `asan` or `tsan`.
pub(crate) fn sanitizer(workspace: &Workspace, name: &str) -> Result<()> {
    let libraries = sysroot(workspace)?.join("lib/rustlib/x86_64-unknown-linux-gnu/lib");
    let ending = format!("_rt.{name}.a");
    let entries = libraries.read_dir().into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let found = names.any(|name| name.ends_with(&ending));
    require(
        "the run-time library of the sanitizer",
        found,
        "rustup component add rust-std",
    )
}

/// Returns the folder of the toolchain that builds this workspace.
fn sysroot(workspace: &Workspace) -> Result<PathBuf> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--print", "sysroot"])
        .current_dir(&workspace.root);
    let output = rustc.output().context("rustc could not be started")?;
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}

//! The folders of the workspace, and functions to run commands in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The two folders in which every task works.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder: `CARGO_TARGET_DIR`, or `target` below the root.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the workspace from which this binary was built.
    pub(crate) fn locate() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask has no parent folder")?;
        if !root.join("Cargo.toml").is_file() {
            bail!(
                "the workspace is no longer in {}; rebuild xtask",
                root.display()
            );
        }
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) if !dir.is_empty() => root.join(dir),
            _ => root.join("target"),
        };
        Ok(Self {
            root: root.to_owned(),
            target,
        })
    }

    /// Returns the folder that `setup` fills.
    pub(crate) fn cuda_setup(&self) -> PathBuf {
        self.target.join("cuda-setup")
    }

    /// Returns a `cargo` command in the root, with the cargo that runs this task.
    pub(crate) fn cargo<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root).args(args);
        command
    }

    /// Returns the folder of a workspace package, if there is one with this name.
    pub(crate) fn package_dir(&self, name: &str) -> Option<PathBuf> {
        ["crates", ".", "examples"]
            .into_iter()
            .map(|parent| self.root.join(parent).join(name))
            .find(|dir| dir.join("Cargo.toml").is_file())
    }

    /// Returns `path` relative to the root, with `/` on every platform.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    }
}

/// Runs a command with its output in the terminal. Fails with the command's text if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command
        .status()
        .with_context(|| format!("`{shown}` could not be started"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Returns the text of a command, as typed in a shell.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_stem().unwrap_or(program.as_os_str());
    let mut shown = name.to_string_lossy().into_owned();
    for arg in command.get_args() {
        shown.push(' ');
        shown.push_str(&arg.to_string_lossy());
    }
    shown
}

/// Returns every file below `root` with one of `extensions`, or with any if there are none, sorted,
/// except for build output.
pub(crate) fn files_below(root: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = dir
            .read_dir()
            .with_context(|| format!("cannot list {}", dir.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                // Every workspace has a `target` folder. The output of `bundle` is in the root.
                let built = name == "target" || name == ".git" || path == root.join("bundle");
                if !built {
                    open.push(path);
                }
            } else if extensions.is_empty()
                || extensions
                    .iter()
                    .any(|ext| path.extension() == Some(OsStr::new(ext)))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

//! Where the workspace and its target folder are, and how commands in it are run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The two folders every task works in.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder: `CARGO_TARGET_DIR`, or `target` below the root.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the workspace this binary was built from.
    pub(crate) fn locate() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask lies in no folder")?;
        if !root.join("Cargo.toml").is_file() {
            bail!("the workspace has moved away from {}", root.display());
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

    /// The folder that `setup` fills.
    pub(crate) fn cuda_setup(&self) -> PathBuf {
        self.target.join("cuda-setup")
    }

    /// A `cargo` command in the root, by the cargo that runs this task.
    pub(crate) fn cargo<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root).args(args);
        command
    }

    /// The folder of a workspace package, if there is one of that name.
    pub(crate) fn package_dir(&self, name: &str) -> Option<PathBuf> {
        [self.root.join("crates").join(name), self.root.join(name)]
            .into_iter()
            .find(|dir| dir.join("Cargo.toml").is_file())
    }

    /// `path` relative to the root, with `/` on every platform.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    }
}

/// Runs a command with the terminal's own output and fails with its name when it fails.
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

/// Runs a command for no longer than `limit`: `None` if it took longer, and was ended.
pub(crate) fn within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let mut child = command
        .spawn()
        .with_context(|| format!("`{}` could not be started", describe(command)))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A command as a person would type it.
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

/// Every file below `root` whose extension is one of `extensions`, sorted, build output left out.
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
                // Every workspace has a `target`; what `bundle` writes lies in the root.
                let built = name == "target" || name == ".git" || path == root.join("bundle");
                if !built {
                    open.push(path);
                }
            } else if extensions
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

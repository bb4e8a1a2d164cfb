//! `full mutants`: the random programs of cuda-driver must fail with each fault that a patch in
//! `crates/cuda-driver/tests/mutants` makes in the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};

/// The number of mutants that `ci` runs.
const REDUCED: usize = 2;

/// The integration tests, reduced to the random programs so that each mutant builds quickly.
const MAIN: &str = "//! The random programs.
mod random_programs;
mod support;
";

/// Checks that each patch applies, and runs `REDUCED` mutants: others on each day.
pub(crate) fn reduced(workspace: &Workspace) -> Result<()> {
    let patches = patches(workspace)?;
    let copy = Copy::new(workspace)?;
    for patch in &patches {
        copy.check(patch)?;
    }
    println!("{} patches apply", patches.len());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let day = now.as_secs() / (24 * 60 * 60);
    let first = day as usize * REDUCED % patches.len().max(1);
    let today = patches.iter().cycle().skip(first).take(REDUCED);
    detect(&copy, &today.collect::<Vec<_>>(), patches.len())
}

/// Runs the mutants whose names contain `filter`.
pub(crate) fn full(workspace: &Workspace, filter: &str) -> Result<()> {
    let patches = patches(workspace)?;
    let wanted: Vec<&PathBuf> = patches
        .iter()
        .filter(|it| name(it).contains(filter))
        .collect();
    detect(&Copy::new(workspace)?, &wanted, patches.len())
}

/// Fails if the random programs do not pass without a fault, or pass with one of `patches`.
fn detect(copy: &Copy, patches: &[&PathBuf], all: usize) -> Result<()> {
    copy.build()?;
    if let Some(seed) = copy.failing_seed(false)? {
        bail!("without a fault, the random program of CUDA_SEED={seed} fails");
    }
    let mut survivors = Vec::new();
    for patch in patches {
        let name = name(patch);
        copy.restore()?;
        copy.apply(patch)?;
        copy.build().with_context(|| name.clone())?;
        // Most mutants fail in one of the first programs.
        let seed = match copy.failing_seed(false)? {
            None => copy.failing_seed(true)?,
            found => found,
        };
        match seed {
            Some(seed) => println!("{name:<26} detected by CUDA_SEED={seed}"),
            None => {
                println!("{name:<26} SURVIVES");
                survivors.push(name);
            }
        }
    }
    copy.restore()?;
    if !survivors.is_empty() {
        bail!("no random program detects {}", survivors.join(", "));
    }
    println!("{} of {all} mutants run, all detected", patches.len());
    Ok(())
}

fn patches(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let folder = workspace.root.join("crates/cuda-driver/tests/mutants");
    workspace::files_below(&folder, &["patch"])
}

fn name(patch: &Path) -> String {
    let stem = patch.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// A copy of the workspace in `target/mutants`, so that the patches do not touch the workspace.
struct Copy<'a> {
    workspace: &'a Workspace,
    /// `target/mutants`
    folder: PathBuf,
    git_dir: String,
    /// The contents of the workspace as a tree object of Git.
    contents: String,
}

impl<'a> Copy<'a> {
    /// Copies all files that Git does not ignore. Files that did not change since the last copy
    /// keep their times, so that they are not compiled again.
    fn new(workspace: &'a Workspace) -> Result<Self> {
        let folder = workspace.target.join("mutants");
        fs::create_dir_all(folder.join("tree"))?;
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(&workspace.root).args(args);
            output(git.env("GIT_INDEX_FILE", folder.join("workspace.index")))
        };
        let git_dir = git(&["rev-parse", "--absolute-git-dir"])?;
        git(&["add", "--all"])?;
        let contents = git(&["write-tree"])?;
        let copy = Self {
            workspace,
            git_dir,
            contents,
            folder,
        };
        copy.restore()?;
        Ok(copy)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn git(&self, args: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.current_dir(self.tree()).args(args);
        git.env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", self.tree())
            .env("GIT_INDEX_FILE", self.folder.join("tree.index"));
        git
    }

    /// Undoes the patch that was applied last.
    fn restore(&self) -> Result<()> {
        output(&mut self.git(&["read-tree", "--reset", "-u", &self.contents]))?;
        let main = self.tree().join("crates/cuda-driver/tests/it/main.rs");
        fs::write(main, MAIN)?;
        Ok(())
    }

    fn check(&self, patch: &Path) -> Result<()> {
        output(self.git(&["apply", "--check"]).arg(patch))?;
        Ok(())
    }

    fn apply(&self, patch: &Path) -> Result<()> {
        output(self.git(&["apply"]).arg(patch))?;
        Ok(())
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let test = [
            "test",
            "-p",
            "cuda-driver",
            "--no-default-features",
            "--test",
            "it",
        ];
        let mut command = self.workspace.cargo(test);
        command.args(args).current_dir(self.tree());
        command.env("CARGO_TARGET_DIR", self.folder.join("build"));
        command
    }

    fn build(&self) -> Result<()> {
        output(&mut self.cargo(&["--no-run", "--quiet"]))?;
        Ok(())
    }

    /// Runs the random programs, and returns the seed of one that fails.
    fn failing_seed(&self, is_full: bool) -> Result<Option<String>> {
        let mut run = self.cargo(&["--quiet", "--", "--nocapture", "random_programs"]);
        run.env("CUDA_FULL", if is_full { "1" } else { "0" });
        let output = run.env("RUST_BACKTRACE", "0").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let seed = said.lines().find_map(|line| {
            let (seed, _) = line.strip_prefix("CUDA_SEED=")?.split_once(' ')?;
            Some(seed.to_owned())
        });
        if seed.is_none() && !output.status.success() {
            bail!("the random programs failed without a seed:\n{said}");
        }
        Ok(seed)
    }
}

/// Runs `command` and returns its output. Fails with its error output if it fails.
fn output(command: &mut Command) -> Result<String> {
    let shown = workspace::describe(command);
    let output = command
        .output()
        .with_context(|| format!("`{shown}` could not be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed: {said}");
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

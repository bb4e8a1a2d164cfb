//! `regen-bindings`: regenerates the committed snapshot of the bindings from pinned headers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::workspace::Workspace;

/// Options of `regen-bindings`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if the committed files are not up to date
    #[arg(long)]
    pub(crate) check: bool,
}

/// `cargo xtask regen-bindings`.
///
/// The headers and libclang are always the pinned ones that `setup` fetches, so that the result
/// does not depend on the machine.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let pinned = setup::ensure(workspace, &[setup::TOOLKIT_SET.to_owned()])?;
    let fresh = workspace.target.join("regen-bindings");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    generate(
        workspace,
        &pinned.join("include"),
        &pinned.join("lib"),
        &fresh,
    )?;

    let committed = workspace.root.join("crates/cuda-sys/src/generated");
    let differing = differing(&fresh, &committed)?;
    if differing.is_empty() {
        println!("the committed bindings are up to date with the pinned headers");
        return Ok(());
    }
    for (file, how) in &differing {
        println!("{}: {how}", workspace.relative(&committed.join(file)));
    }
    if options.check {
        bail!("the committed bindings are stale; run `cargo xtask regen-bindings`");
    }
    for (file, how) in &differing {
        match how {
            Difference::Orphan => fs::remove_file(committed.join(file))?,
            Difference::Missing | Difference::Changed { .. } => {
                fs::create_dir_all(&committed)?;
                fs::copy(fresh.join(file), committed.join(file))?;
            }
        }
    }
    println!("{} files rewritten", differing.len());
    Ok(())
}

/// Writes the bindings of the headers in `include` to `out`, with the libclang in `libclang`.
///
/// This runs in a separate process, so that the other tasks need not build bindgen.
fn generate(workspace: &Workspace, include: &Path, libclang: &Path, out: &Path) -> Result<()> {
    let mut command = workspace.cargo([
        "run",
        "--quiet",
        "--package=cuda-bindgen",
        "--example=snapshot",
        "--",
    ]);
    command.arg(include).arg(out).env("LIBCLANG_PATH", libclang);
    crate::workspace::run(&mut command)
}

/// The difference between a committed file and a fresh one.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    Missing,
    Orphan,
    Changed { line: usize },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => write!(f, "is not committed"),
            Self::Orphan => write!(f, "is committed but is no longer generated"),
            Self::Changed { line } => write!(f, "differs from line {line}"),
        }
    }
}

/// Returns the files that differ between two folders, apart from line endings.
fn differing(fresh: &Path, committed: &Path) -> Result<Vec<(PathBuf, Difference)>> {
    let (fresh_names, committed_names) = (names(fresh)?, names(committed)?);
    let mut found = Vec::new();
    for name in fresh_names.union(&committed_names) {
        let difference = match (fresh_names.contains(name), committed_names.contains(name)) {
            (true, false) => Some(Difference::Missing),
            (false, _) => Some(Difference::Orphan),
            (true, true) => first_difference(&fresh.join(name), &committed.join(name))?,
        };
        found.extend(difference.map(|difference| (name.clone(), difference)));
    }
    Ok(found)
}

fn first_difference(fresh: &Path, committed: &Path) -> Result<Option<Difference>> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (fresh, committed) = (read(fresh)?, read(committed)?);
    let (mut left, mut right) = (fresh.lines(), committed.lines());
    for line in 1.. {
        match (left.next(), right.next()) {
            (None, None) => break,
            (left, right) if left != right => return Ok(Some(Difference::Changed { line })),
            _ => {}
        }
    }
    Ok(None)
}

fn names(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    if !dir.is_dir() {
        return Ok(BTreeSet::new());
    }
    let entries = dir
        .read_dir()
        .with_context(|| format!("cannot list {}", dir.display()))?;
    entries.map(|entry| Ok(entry?.file_name().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_orphaned_and_changed_files_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let (fresh, committed) = (dir.path().join("fresh"), dir.path().join("committed"));
        fs::create_dir(&fresh).unwrap();
        fs::create_dir(&committed).unwrap();
        for (file, new, old) in [
            ("same.rs", Some("a\nb\n"), Some("a\r\nb\r\n")),
            ("changed.rs", Some("a\nb\n"), Some("a\nc\n")),
            ("longer.rs", Some("a\nb\nc\n"), Some("a\nb\n")),
            ("missing.rs", Some(""), None),
            ("orphan.rs", None, Some("")),
        ] {
            for (dir, text) in [(&fresh, new), (&committed, old)] {
                if let Some(text) = text {
                    fs::write(dir.join(file), text).unwrap();
                }
            }
        }
        let found = differing(&fresh, &committed).unwrap();
        let expected = [
            ("changed.rs", Difference::Changed { line: 2 }),
            ("longer.rs", Difference::Changed { line: 3 }),
            ("missing.rs", Difference::Missing),
            ("orphan.rs", Difference::Orphan),
        ];
        assert_eq!(
            found,
            expected.map(|(file, how)| (PathBuf::from(file), how))
        );
    }
}

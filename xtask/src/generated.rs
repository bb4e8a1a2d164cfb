//! Committed files that a task generates: the task renews them, or with `--check` compares them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::workspace::files_below;

/// The number of different lines that are shown of each file.
const SHOWN: usize = 20;

/// Options of the tasks that generate files.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if the committed files are not up to date
    #[arg(long)]
    check: bool,
}

/// The options to compare files.
pub(crate) const CHECK: Options = Options { check: true };

/// The text of each file, by its path in the folder.
pub(crate) type Texts = BTreeMap<PathBuf, String>;

/// Makes the files `old` in `folder` equal to `new`. With `--check`, fails if they differ, with the
/// name of the task that writes them.
pub(crate) fn renew(
    folder: &Path,
    old: &Texts,
    new: &Texts,
    task: &str,
    options: Options,
) -> Result<()> {
    let empty = String::new();
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for name in names {
        let path = folder.join(name);
        if old.get(name) == new.get(name) {
            continue;
        }
        println!("{} is not up to date", path.display());
        let changes = changes(
            old.get(name).unwrap_or(&empty),
            new.get(name).unwrap_or(&empty),
        );
        let shown = changes.iter().take(SHOWN);
        shown.for_each(|line| println!("  {line}"));
        println!("  {} lines differ", changes.len());
        match new.get(name) {
            _ if options.check => {}
            Some(text) => fs::write(path, text)?,
            None => fs::remove_file(path)?,
        }
    }
    if options.check && old != new {
        bail!("generated files are stale; run `cargo xtask {task}`");
    }
    println!("the output of `cargo xtask {task}` is up to date");
    Ok(())
}

/// Returns the lines that are only in one of two texts, with `-` for the old text and `+` for the
/// new one.
fn changes(old: &str, new: &str) -> Vec<String> {
    let only = |text: &str, other: &str, sign: &str| -> Vec<String> {
        let other: BTreeSet<&str> = other.lines().collect();
        let lines = text.lines().filter(|line| !other.contains(line));
        lines.map(|line| format!("{sign} {line}")).collect()
    };
    [only(old, new, "-"), only(new, old, "+")].concat()
}

/// Returns the text of each file in a folder, with the line endings of Unix.
pub(crate) fn texts(folder: &Path) -> Result<Texts> {
    let mut texts = BTreeMap::new();
    for path in files_below(folder, &[])? {
        let text = fs::read_to_string(&path)?.replace("\r\n", "\n");
        texts.insert(path.strip_prefix(folder)?.to_owned(), text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::{CHECK, Options, changes, renew, texts};

    #[test]
    fn missing_orphaned_and_changed_files_are_renewed() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("same", "a"), ("changed", "a"), ("orphan", "")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let new = [("same", "a"), ("changed", "b"), ("missing", "")];
        let new = new
            .map(|(name, text)| (name.into(), text.to_owned()))
            .into();
        let old = texts(dir.path()).unwrap();
        let error = renew(dir.path(), &old, &new, "task", CHECK).unwrap_err();
        assert!(error.to_string().contains("`cargo xtask task`"), "{error}");
        assert_eq!(texts(dir.path()).unwrap(), old);
        renew(dir.path(), &old, &new, "task", Options::default()).unwrap();
        assert_eq!(texts(dir.path()).unwrap(), new);
        renew(dir.path(), &new, &new, "task", CHECK).unwrap();
    }

    #[test]
    fn lines_of_only_one_text_are_changes() {
        assert_eq!(changes("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    }
}

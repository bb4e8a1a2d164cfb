//! `regen-bindings`: regenerates the committed snapshot of the bindings from pinned headers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::setup;
use crate::workspace::{self, Workspace, files_below};

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
    let pinned = setup::ensure(workspace, &[setup::TOOLKIT_SET])?;
    let committed = workspace.root.join("crates/cuda-sys/src/generated");
    let fresh = workspace.target.join("regen-bindings");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    // This runs in a separate process, so that the other tasks need not build bindgen.
    let generator = "run --quiet --package=cuda-bindgen --example=snapshot --";
    let mut generate = workspace.cargo(generator.split(' '));
    generate.arg(pinned.join("include")).arg(&fresh);
    workspace::run(generate.env("LIBCLANG_PATH", pinned.join("lib")))?;

    let (old, new) = (texts(&committed)?, texts(&fresh)?);
    let names = differing(&old, &new);
    for name in &names {
        let path = committed.join(name);
        println!("{} is not up to date", workspace.relative(&path));
        match new.get(name) {
            _ if options.check => {}
            Some(text) => fs::write(&path, text)?,
            None => fs::remove_file(&path)?,
        }
    }
    if options.check && !names.is_empty() {
        bail!("the committed bindings are stale; run `cargo xtask regen-bindings`");
    }
    println!("the committed bindings are up to date with the pinned headers");
    Ok(())
}

type Texts = BTreeMap<PathBuf, String>;

/// Returns the files that are only in one of two folders or that differ.
fn differing(old: &Texts, new: &Texts) -> BTreeSet<PathBuf> {
    let names = old.keys().chain(new.keys());
    names
        .filter(|name| old.get(*name) != new.get(*name))
        .cloned()
        .collect()
}

/// Returns the text of each file in a folder, with the line endings of Unix.
fn texts(dir: &Path) -> Result<Texts> {
    let mut texts = BTreeMap::new();
    for path in files_below(dir, &[])? {
        let text = fs::read_to_string(&path)?.replace("\r\n", "\n");
        texts.insert(path.strip_prefix(dir)?.to_owned(), text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::differing;

    #[test]
    fn missing_orphaned_and_changed_files_differ() {
        let texts = |files: [(&str, &str); 3]| {
            files
                .map(|(name, text)| (name.into(), text.to_owned()))
                .into()
        };
        let old = texts([("same", "a"), ("changed", "a"), ("orphan", "")]);
        let new = texts([("same", "a"), ("changed", "b"), ("missing", "")]);
        let expected = ["changed", "missing", "orphan"].map(Into::into);
        assert_eq!(differing(&old, &new), expected.into());
    }
}

//! `ci --only book`: builds the book with mdBook. Its programs are tests of the package `book`.

use std::env::consts::EXE_SUFFIX;
use std::process::Command;

use anyhow::Result;

use crate::setup;
use crate::workspace::{self, Workspace};

/// The pinned mdBook.
pub(crate) const MDBOOK_SET: &str = "mdbook-0.5.4";

/// Runs the programs of the book, and builds it into `target/book`.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let test = "test --all-features -p book";
    workspace::run(&mut workspace.cargo(test.split(' ')))?;
    let setup = setup::ensure(workspace, &[MDBOOK_SET])?;
    let program = setup.join(format!("mdbook/0.5.4/bin/mdbook{EXE_SUFFIX}"));
    let output = workspace.target.join("book");
    let mut mdbook = Command::new(program);
    mdbook.arg("build").arg(workspace.root.join("docs/book"));
    workspace::run(mdbook.arg("--dest-dir").arg(&output))?;
    println!("the book: {}", output.join("index.html").display());
    Ok(())
}

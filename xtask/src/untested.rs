//! `untested`: lists the public functions and methods that no test, example, benchmark or runnable
//! documentation names.
//!
//! The public functions are those of docs/api, which `cargo xtask api` writes. The step compares
//! names, not paths: a method counts as tested if any test uses its name.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, bail};

use crate::source::{self, Source, words};
use crate::workspace::{Workspace, files_below};

/// The folders whose files call the library.
const CALLERS: [&str; 3] = ["crates", "examples", "benches"];

/// `cargo xtask untested`.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let (mut named, mut total, mut untested) = (BTreeSet::new(), 0, 0);
    for folder in CALLERS {
        for source in source::read(workspace, folder)? {
            named.extend(calls(&source));
        }
    }
    for page in files_below(&workspace.root.join("crates"), &["md"])? {
        named.extend(examples(&fs::read_to_string(page)?));
    }
    for page in files_below(&workspace.root.join("docs/api"), &["txt"])? {
        let text = fs::read_to_string(page)?;
        for (line, name) in text
            .lines()
            .filter_map(|line| Some((line, function(line)?)))
        {
            total += 1;
            if !named.contains(name) {
                untested += 1;
                println!("{line}");
            }
        }
    }
    if untested > 0 {
        bail!("{untested} of {total} public functions are named by no test and no example");
    }
    println!("a test or an example names each of {total} public functions");
    Ok(())
}

/// Returns whether a file contains only tests, examples or benchmarks.
fn is_test(path: &str) -> bool {
    !path.starts_with("crates/")
        || !path.contains("/src/")
        || path.ends_with("/tests.rs")
        || path.contains("/tests/")
}

/// Returns the words of the code in a file that tests the library: all of a test, or the unit tests
/// and the examples in the documentation of a library's file.
fn calls(source: &Source) -> BTreeSet<String> {
    let is_test = is_test(&source.path);
    let mut found: BTreeSet<String> = words(source.unit_tests()).map(str::to_owned).collect();
    let mut docs = String::new();
    for line in source.code().lines().map(str::trim_start) {
        if let Some(doc) = line.strip_prefix("///").or(line.strip_prefix("//!")) {
            docs.push_str(doc);
            docs.push('\n');
        } else if is_test && !line.starts_with("//") {
            found.extend(words(line).map(str::to_owned));
        }
    }
    found.extend(examples(&docs));
    found
}

/// Returns the words of the code blocks in Markdown text.
fn examples(text: &str) -> BTreeSet<String> {
    let mut is_example = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_example ^= is_fence;
        is_example && !is_fence
    });
    lines.flat_map(words).map(str::to_owned).collect()
}

/// Returns the name of the function that a line of docs/api lists.
fn function(line: &str) -> Option<&str> {
    let (before, signature) = line.split_once("fn ")?;
    // Types have no path, except for associated ones, whose names begin with a capital letter.
    let path = signature.split('(').next()?;
    let mut names = path.rsplit("::").flat_map(|part| words(part).next());
    let name = names.find(|name| name.starts_with(char::is_lowercase))?;
    (!before.contains("::")).then_some(name)
}

#[cfg(test)]
#[path = "../tests/unit/untested.rs"]
mod tests;

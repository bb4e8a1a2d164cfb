//! `untested`: lists the public functions and methods that no test, example, benchmark or runnable
//! documentation names.
//!
//! It compares names, not paths: a method counts as tested if any test uses its name.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::source::{self, Source, words};
use crate::workspace::{Workspace, files_below};

/// The folders whose files call the library.
const CALLERS: [&str; 3] = ["crates", "examples", "benches"];
/// The crates with an interface for users, which must be tested.
const LIBRARIES: [&str; 7] = [
    "cuda-build",
    "cuda-driver",
    "cuda-nvrtc",
    "cuda-places",
    "cuda-ptx",
    "cuda-sim",
    "cuda-sys",
];

/// `cargo xtask untested`.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let (mut named, mut declared, mut sources) = (BTreeSet::new(), Vec::new(), Vec::new());
    for folder in CALLERS {
        sources.extend(source::read(workspace, folder)?);
    }
    let hidden: Vec<String> = sources.iter().flat_map(hidden_modules).collect();
    for source in &sources {
        named.extend(calls(source));
        let package = source.path.split('/').nth(1).unwrap_or_default();
        let is_hidden = hidden.iter().any(|module| source.path.starts_with(module));
        if LIBRARIES.contains(&package) && !is_hidden && !is_test(&source.path) {
            let places = public(source).into_iter();
            declared.extend(places.map(|(line, name)| (format!("{}:{line}", source.path), name)));
        }
    }
    for page in files_below(&workspace.root.join("crates"), &["md"])? {
        named.extend(words(&std::fs::read_to_string(page)?).map(str::to_owned));
    }
    let total = declared.len();
    declared.retain(|(_, name)| !named.contains(name));
    for (place, name) in &declared {
        println!("{place}: {name}");
    }
    if !declared.is_empty() {
        bail!(
            "{} of {total} public functions are named by no test and no example",
            declared.len()
        );
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

/// Returns the beginnings of the paths of the modules that a crate hides from its documentation.
fn hidden_modules(source: &Source) -> Vec<String> {
    let Some(folder) = source.path.strip_suffix("lib.rs") else {
        return Vec::new();
    };
    let modules = source.text.split("#[doc(hidden)]\npub mod ").skip(1);
    modules
        .flat_map(|rest| words(rest).next())
        .flat_map(|name| [format!("{folder}{name}/"), format!("{folder}{name}.rs")])
        .collect()
}

/// Returns the words of the code in a file that tests the library: all of a test, or the unit tests
/// and the examples in the documentation of a library's file.
fn calls(source: &Source) -> BTreeSet<String> {
    let is_test = is_test(&source.path);
    let mut found: BTreeSet<String> = words(source.unit_tests()).map(str::to_owned).collect();
    let mut is_example = false;
    for line in source.code().lines().map(str::trim_start) {
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        is_example &= doc.is_some();
        if doc.is_some_and(|doc| doc.trim_start().starts_with("```")) {
            is_example = !is_example;
        }
        if is_example || is_test && !line.starts_with("//") {
            found.extend(words(line).map(str::to_owned));
        }
    }
    found
}

/// Returns the public functions that a file declares, with their lines.
fn public(source: &Source) -> Vec<(usize, String)> {
    let code = source.code();
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    // A macro declares a method for each of its lines `name: ATTRIBUTE;`.
    let has_macro = code.contains("pub fn $name");
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let name = if let Some(rest) = line.strip_prefix("pub ") {
            let mut rest = words(rest)
                .skip_while(|word| ["const", "unsafe", "async", "extern", "C"].contains(word));
            (rest.next() == Some("fn")).then(|| rest.next()).flatten()
        } else if has_macro && line.ends_with(';') {
            let name = line.split_once(": CU_").map(|(name, _)| name);
            name.filter(|name| words(name).eq([*name]))
        } else {
            None
        };
        let above = lines[..at].iter().rev();
        let is_hidden = above
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .any(|line| line.contains("doc(hidden)"));
        if let Some(name) = name.filter(|name| *name != "name" && !is_hidden) {
            found.push((at + 1, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{calls, public};
    use crate::source::Source;

    #[test]
    fn public_functions_are_listed() {
        let source = Source::new(
            "crates/a/src/b.rs",
            "pub const unsafe fn one() {}\npub(crate) fn inner() {}\n#[doc(hidden)]\n\
             pub fn hidden() {}\n    pub fn $name() {}\n    /// Two.\n    two: CU_TWO;\n    x: u8;\n\
             #[cfg(test)]\nmod tests {\n    pub fn helper() {}\n}\n",
        );
        let names: Vec<_> = public(&source).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn only_code_counts_as_a_call() {
        let library = "/// Text.\n/// ```\n/// example();\n/// ```\n/// prose\nfn body() {}\n\
                       #[cfg(test)]\nmod tests {\n    unit();\n}\n";
        let found = calls(&Source::new("crates/a/src/b.rs", library));
        for (name, is_call) in [
            ("example", true),
            ("unit", true),
            ("prose", false),
            ("body", false),
        ] {
            assert_eq!(found.contains(name), is_call, "{name}");
        }
        let test = calls(&Source::new(
            "crates/a/tests/it/c.rs",
            "// comment\ncode();\n",
        ));
        assert!(test.contains("code") && !test.contains("comment"));
    }
}

//! The examples in the documentation of the main types: those in the table of the front page, at
//! the root of the crate and in its prelude.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::layers::collect;
use crate::names::exported;
use crate::support::skip;

const README: &str = include_str!("../../README.md");
const ROOT: &str = include_str!("../../src/lib.rs");
const PRELUDE: &str = include_str!("../../src/prelude.rs");

/// The names that need no runnable example, and the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Cubin", "a type of cuda-sys"),
    ("EventFlags", "flags"),
    ("LtoLinker", "it needs a library of NVIDIA"),
    ("PinnedFlags", "flags"),
    ("Ptx", "a type of cuda-sys"),
    ("Reads", "`Kernel` has the example"),
    ("RegisterFlags", "flags"),
    ("Result", "an alias"),
    ("StreamFlags", "flags"),
    ("Version", "a type of cuda-sys"),
    ("Writes", "`Kernel` has the example"),
];

/// Returns the main types.
fn main_types() -> BTreeSet<&'static str> {
    let (_, table) = README.split_once("| I want to").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let cells = table.lines().filter_map(|row| row.split('|').nth(2));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let all = exported(ROOT).into_iter().chain(exported(PRELUDE));
    // A method, a feature or a macro is not a type.
    let is_type = |name: &&str| !name.contains("::") && name.starts_with(char::is_uppercase);
    all.chain(quoted).filter(is_type).collect()
}

/// Returns whether the type `name` that `source` defines has an example that runs; `None` if the
/// source does not define it.
fn has_example(source: &str, name: &str) -> Option<bool> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let defines = |line: &&str| {
        let item = line.strip_prefix("pub ").unwrap_or_default();
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        let kinds = ["struct ", "enum ", "trait ", "type "];
        let named = kinds.iter().find_map(|kind| item.strip_prefix(kind));
        let rest = named.and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let at = lines.iter().position(defines)?;
    // The documentation, and attributes, which may have several lines.
    let start = lines[..at]
        .iter()
        .rposition(|line| line.is_empty() || *line == "}");
    let fences = lines[start.map_or(0, |start| start + 1)..at]
        .iter()
        .filter_map(|line| line.strip_prefix("/// ```"));
    // Every second fence is the end of an example.
    Some(fences.step_by(2).any(str::is_empty))
}

#[test]
fn every_main_type_has_an_example_that_runs() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !src.is_dir() {
        return skip("the source of the crate is not on this machine");
    }
    let mut files = Vec::new();
    collect(&src, &mut files);
    let sources: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let types = main_types();
    assert!(types.len() > 45, "{types:?}");
    let found = |name: &str| sources.iter().find_map(|source| has_example(source, name));
    let missing: Vec<_> = types
        .iter()
        .filter(|name| found(name) != Some(true))
        .copied()
        .collect();
    let excepted: Vec<_> = EXCEPTIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(missing, excepted, "types without an example that runs");
}

#[test]
fn an_example_that_does_not_run_does_not_count() {
    let with =
        |fence: &str| format!("/// A.\n///\n/// {fence}\n/// f();\n/// ```\npub struct A;\n");
    assert_eq!(has_example(&with("```"), "A"), Some(true));
    assert_eq!(has_example(&with("```no_run"), "A"), Some(false));
    assert_eq!(has_example(&with("```"), "B"), None);
}

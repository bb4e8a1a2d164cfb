//! The names at the root of the crate and in its prelude.

use std::collections::BTreeSet;

/// The root of the crate.
const ROOT: &str = include_str!("../../src/lib.rs");
/// The chapters of the API.
const CHAPTERS: [&str; 10] = [
    "context",
    "device",
    "error",
    "event",
    "graph",
    "jit",
    "launch",
    "memory",
    "stream",
    "tensor_map",
];

/// Returns the names that the `pub use` statements of a source export.
fn exported(source: &str) -> BTreeSet<&str> {
    let statements = source.split("\npub use ").skip(1);
    statements
        .filter_map(|rest| rest.split_once(';'))
        .flat_map(|(paths, _)| paths.split(['{', '}', ',', '\n', ' ']))
        .filter_map(|path| path.rsplit("::").next())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn the_root_has_at_most_25_names() {
    let names = exported(ROOT);
    assert!(names.contains("Driver") && names.contains("PinnedBuffer"));
    assert!(names.len() <= 25, "{} names: {names:?}", names.len());
}

#[test]
fn every_chapter_is_a_public_module() {
    for chapter in CHAPTERS {
        let line = format!("\npub mod {chapter};\n");
        assert!(ROOT.contains(&line), "{chapter} is not public");
    }
}

#[test]
fn the_prelude_has_the_names_of_the_root() {
    let prelude = exported(include_str!("../../src/prelude.rs"));
    // A prelude must not replace the `Result` of the program; the others are rare.
    let rare = ["Error", "Library", "Result", "Version"];
    let missing: Vec<_> = exported(ROOT)
        .into_iter()
        .filter(|name| !prelude.contains(name) && !rare.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

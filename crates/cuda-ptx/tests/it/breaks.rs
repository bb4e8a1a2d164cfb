//! The patches of `tests/breaks` fit the analysis.

use std::fs;
use std::path::Path;

/// The lines of a patch that begin with a space or with `sign`, without those characters.
fn lines(hunk: &str, sign: char) -> Vec<&str> {
    let lines = hunk.lines().skip(1);
    lines
        .filter_map(|line| line.strip_prefix([' ', sign]))
        .collect()
}

#[test]
fn every_break_applies_to_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    let folders = ["tests/breaks", "tests/breaks/liberties"].map(|it| root.join(it));
    let entries = folders.map(|it| fs::read_dir(it).expect("the folder"));
    for entry in entries.into_iter().flatten() {
        let path = entry.expect("a file").path();
        if path
            .extension()
            .is_none_or(|extension| extension != "patch")
        {
            continue;
        }
        count += 1;
        let patch = fs::read_to_string(&path).expect("a text");
        let name = path.display();
        let mut parts = patch.split("\n@@ ");
        let head = parts.next().expect("a head");
        assert!(head.starts_with("# "), "{name} has no description");
        let (_, file) = head.split_once("\n+++ b/crates/cuda-ptx/").expect("a file");
        let source = fs::read_to_string(root.join(file)).expect("a source file");
        let hunks: Vec<&str> = parts.collect();
        assert_eq!(hunks.len(), 1, "{name} has several hunks");
        let (old, new) = (lines(hunks[0], '-'), lines(hunks[0], '+'));
        assert_ne!(old, new, "{name} changes nothing");
        let found = source.matches(&old.join("\n")).count();
        assert_eq!(found, 1, "{name} does not apply to {file}");
    }
    assert!(count > 50, "{count} breaks");
}

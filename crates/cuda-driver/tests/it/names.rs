//! The names at the root of the crate and in its prelude.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The root of the crate.
const ROOT: &str = include_str!("../../src/lib.rs");
/// The chapters of the API.
const CHAPTERS: [&str; 12] = [
    "context",
    "device",
    "diagnostics",
    "error",
    "event",
    "graph",
    "jit",
    "launch",
    "memory",
    "profile",
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

/// A module of a program with a name of the crate.
mod of_a_program {
    pub(super) mod launch {
        pub(in super::super) const BLOCK: u32 = 64;
    }
}

#[test]
fn the_prelude_brings_no_module() {
    use cuda_driver::prelude::*;
    use of_a_program::*;
    // Ambiguous if both globs import a module of this name. The macro is imported.
    let launch = |stream: &Stream, kernel: &Function| {
        // SAFETY: never called.
        unsafe { launch!(stream, kernel[1, launch::BLOCK]()) }
    };
    let _: &dyn Fn(&Stream, &Function) -> cuda_driver::Result<()> = &launch;
    assert_eq!(launch::BLOCK, 64);
}

/// An `impl` block with public methods.
struct Block {
    /// The name of the type.
    of: String,
    /// The file and the line.
    place: String,
    /// Whether a doc comment describes the block.
    has_heading: bool,
}

/// Adds the `impl` blocks of a module to `blocks`, in the order in which rustdoc lists them: the
/// child modules come before the module itself. Adds the public types to `types`, with the file
/// that defines them.
fn list_blocks(
    file: &Path,
    children: &Path,
    blocks: &mut Vec<Block>,
    types: &mut BTreeMap<String, String>,
) {
    let source = fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let modules = lines.iter().filter_map(|line| {
        let (before, name) = line.strip_suffix(';')?.split_once("mod ")?;
        let is_listed = (before.is_empty() || before.starts_with("pub")) && name != "tests";
        is_listed.then_some(name)
    });
    for name in modules {
        let folder = children.join(name);
        let of_its_own = children.join(format!("{name}.rs"));
        if of_its_own.exists() {
            list_blocks(&of_its_own, &folder, blocks, types);
        } else {
            list_blocks(&folder.join("mod.rs"), &folder, blocks, types);
        }
    }
    for (at, line) in lines.iter().enumerate() {
        let file = file.display().to_string();
        let first_word = |rest: &str| {
            let end = rest.find(|it: char| !it.is_alphanumeric());
            rest[..end.unwrap_or(rest.len())].to_owned()
        };
        for start in ["pub struct ", "pub enum "] {
            if let Some(rest) = line.strip_prefix(start) {
                types.insert(first_word(rest), file.clone());
            }
        }
        let Some(rest) = line.strip_prefix("impl") else {
            continue;
        };
        let mut body = lines[at..].iter().take_while(|line| **line != "}");
        if line.contains(" for ") || !body.any(|line| is_public_method(line)) {
            continue;
        }
        let of = match rest.strip_prefix('<') {
            Some(generics) => generics.split_once("> ").unwrap().1,
            None => rest.trim_start(),
        };
        blocks.push(Block {
            of: first_word(of),
            place: format!("{file}:{}", at + 1),
            has_heading: lines[at - 1].starts_with("///"),
        });
    }
}

fn is_public_method(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("    pub ") else {
        return false;
    };
    ["fn ", "const fn ", "unsafe fn ", "const unsafe fn "]
        .iter()
        .any(|start| rest.starts_with(start))
}

#[test]
fn pages_start_with_the_block_beside_the_type() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut blocks, mut types) = (Vec::new(), BTreeMap::new());
    list_blocks(&src.join("lib.rs"), &src, &mut blocks, &mut types);
    assert!(types.contains_key("Stream") && blocks.len() > types.len() / 2);
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for block in &blocks {
        let Some(file) = types.get(&block.of) else {
            continue;
        };
        if !seen.insert(&block.of) {
            if !block.has_heading {
                faults.push(format!("{}: no heading for {}", block.place, block.of));
            }
        } else if !block.place.starts_with(file) {
            faults.push(format!("{}: before the methods in {file}", block.place));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

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
pub(crate) fn exported(source: &str) -> BTreeSet<&str> {
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

/// Returns the header of the runtime API, if `cargo xtask setup` or a toolkit has put it on this
/// machine.
fn runtime_header() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = ["CUDA_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(std::env::var_os);
    let usual = ["/usr/local/cuda", "/opt/cuda"].map(Into::into);
    let mut folders = named
        .chain(usual)
        .map(|dir| Path::new(&dir).join("include"));
    std::iter::once(root.join("target/cuda-setup/include"))
        .chain(&mut folders)
        .find_map(|dir| fs::read_to_string(dir.join("cuda_runtime_api.h")).ok())
}

/// Adds the C names by which rustdoc finds the items in the sources below `dir`.
fn list_aliases(dir: &Path, aliases: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list_aliases(&path, aliases);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let names = source.split("#[doc(alias = \"").skip(1);
        aliases.extend(names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
}

#[test]
fn functions_are_found_by_their_runtime_name() {
    let Some(header) = runtime_header() else {
        return test_needs::skip("no cuda_runtime_api.h");
    };
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    let runtime: BTreeSet<&str> = header
        .split(|it| !is_name(it) && it != '(')
        .filter_map(|word| Some(word.split_once('(')?.0))
        .collect();
    let mut aliases = BTreeSet::new();
    list_aliases(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut aliases,
    );
    let names = aliases.iter().filter_map(|name| name.strip_prefix("cu"));
    let names = names.filter(|name| name.starts_with(|it: char| it.is_ascii_uppercase()));
    let expected: Vec<String> = names
        .map(|name| format!("cuda{}", name.trim_end_matches("_v2")))
        .filter(|name| runtime.contains(name.as_str()))
        .collect();
    assert!(expected.len() > 100, "{} names", expected.len());
    let missing = expected.iter().filter(|name| !aliases.contains(*name));
    let missing: Vec<&String> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
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

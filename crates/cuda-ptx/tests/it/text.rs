//! Edits and printed instructions: the text parses to the same tree.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_ptx::{Edits, Span, parse, register_number};

use crate::fuzz::{kernel_of, programs};

#[path = "../../examples/shares/printed.rs"]
mod printed;

/// All PTX texts below a folder.
pub(crate) fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            texts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ptx")
            || folder.ends_with("ptx_text")
        {
            found.push(path);
        }
    }
}

/// Prints every instruction of a text, and parses the result. Returns the number of instructions.
fn check(text: &str, what: &str) -> usize {
    printed::check(text).unwrap_or_else(|error| panic!("{what}: {error}"))
}

#[test]
fn printed_texts_of_the_repository_parse_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "docs", "examples", "fuzz/seeds"] {
        texts(&root.join(folder), &mut found);
    }
    let (mut count, mut modules) = (0, 0);
    let seeds = root.join("fuzz/seeds");
    for path in found {
        let text = fs::read_to_string(&path);
        // Some seeds of the fuzz targets are not PTX.
        if path.starts_with(&seeds) && !text.as_ref().is_ok_and(|text| parse(text).is_ok()) {
            continue;
        }
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        count += check(&text, &path.display().to_string());
        modules += 1;
    }
    println!("{count} instructions in {modules} texts");
    assert!(
        modules > 60 && count > 1500,
        "{count} instructions in {modules} texts"
    );
}

#[test]
fn printed_random_programs_parse_the_same() {
    let (programs, first) = programs(500, 20_000);
    for seed in first..first + programs {
        check(&kernel_of(seed), &format!("CUDA_SEED={seed}"));
    }
}

#[test]
fn edits_apply_in_order_and_must_not_overlap() {
    let text = "ab é cd";
    let mut edits = Edits::new(text);
    edits.insert(7, "!");
    edits.insert(0, "1");
    edits.insert(0, "2");
    edits.replace(Span { start: 0, end: 2 }, "x");
    assert_eq!(edits.apply().as_deref(), Some("12x é c!d"));
    for (start, end) in [(1, 3), (4, 5), (8, 10), (3, 2)] {
        let mut edits = edits.clone();
        edits.replace(Span { start, end }, "");
        assert_eq!(edits.apply(), None, "{start} to {end}");
    }
}

#[test]
fn digits_at_the_end_of_a_name_are_its_number() {
    assert_eq!(register_number("%r02"), Some(("%r", 2)));
    assert_eq!(register_number("%r"), None);
}

#[test]
fn a_pointer_has_the_alignment_of_its_target() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 .ptr \
                .global .align 16 x, .param .u64 y) { ret; }";
    let module = parse(text).unwrap();
    let params = module.functions[0].params.iter();
    let aligns: Vec<_> = params.map(|param| param.target_align()).collect();
    assert_eq!(aligns, [Some(16), None]);
}

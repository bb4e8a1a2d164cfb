//! Edits and printed instructions: the text parses to the same tree.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_ptx::{Edits, Instruction, Module, Span, Statement, check_parameters, parse};

use crate::fuzz::{kernel_of, programs};

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

fn instructions<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Instruction<'a>> {
    let bodies = module
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref());
    bodies.flatten().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    })
}

/// The tree without the positions of its parts.
fn without_spans<'a>(module: &Module<'a>) -> Module<'a> {
    let mut module = module.clone();
    for function in &mut module.functions {
        (function.params_span, function.body_span) = (None, None);
        for statement in function.body.iter_mut().flatten() {
            if let Statement::Instruction(instruction) = statement {
                instruction.span = Span::default();
            }
        }
    }
    module
}

/// Prints every instruction in its place, with the same number of lines, and parses the result.
/// Returns the number of instructions.
fn check(text: &str, what: &str) -> usize {
    let module = parse(text).unwrap_or_else(|error| panic!("{what}: {error}"));
    check_parameters(&module).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(Edits::new(text).apply().as_deref(), Some(text), "{what}");
    let mut edits = Edits::new(text);
    for instruction in instructions(&module) {
        let old = &text[instruction.span.start..instruction.span.end];
        assert!(old.ends_with(';'), "{what}: {old}");
        let starts = [instruction.opcode, "@", ".pragma"];
        let is_start = starts.iter().any(|start| old.starts_with(start));
        assert!(is_start, "{what}: {old}");
        let lines = "\n".repeat(old.matches('\n').count());
        edits.replace(instruction.span, format!("{instruction}{lines}"));
    }
    for function in &module.functions {
        if let (Some(span), Some(params)) = (function.body_span, function.params_span) {
            let part = |span: Span| &text[span.start..span.end];
            assert!(
                part(span).starts_with('{') && part(span).ends_with('}'),
                "{what}"
            );
            assert!(
                part(params).starts_with('(') && part(params).ends_with(')'),
                "{what}"
            );
        }
    }
    let printed = edits.apply().expect("the spans do not overlap");
    let again = parse(&printed).unwrap_or_else(|error| panic!("{what}: {error}\n{printed}"));
    // An instruction over several lines begins on its first line now.
    let line = |module: &Module<'_>| {
        let mut module = without_spans(module);
        for statement in module
            .functions
            .iter_mut()
            .flat_map(|f| f.body.iter_mut().flatten())
        {
            if let Statement::Instruction(instruction) = statement {
                instruction.line = 0;
            }
        }
        format!("{module:?}")
    };
    assert_eq!(line(&module), line(&again), "{what}");
    instructions(&module).count()
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

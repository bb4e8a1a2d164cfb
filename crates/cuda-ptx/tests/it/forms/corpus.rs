//! The PTX texts of the repository keep being analysed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use cuda_ptx::analysis::Analysis;
use test_needs::skip;

/// Kernels that have a form that is not permitted: the end of the path, the kernel, and a part of
/// the reason.
const REFUSED: &[(&str, &str, &str)] = &[
    // It declares a register `%tid` and reads `%tid.x`, which the assembler refuses, too.
    (
        "linked_grid_barrier.ptx",
        "turns",
        "is declared with another type",
    ),
];

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != ".git" {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|it| it == "ptx")
            || folder.ends_with("nvrtc_output")
            || folder.ends_with("written")
        {
            files.push(path);
        }
    }
}

#[test]
fn texts_of_the_repository_have_permitted_forms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("fuzz/seeds").is_dir() {
        return skip("the texts of the workspace are not on this machine");
    }
    let mut files = Vec::new();
    for folder in ["crates", "docs", "examples", "fuzz/seeds"] {
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let (mut kernels, mut found) = (0, String::new());
    for path in &files {
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let Ok(module) = cuda_ptx::parse(&text) else {
            continue;
        };
        let entries = module
            .functions
            .iter()
            .filter(|it| it.entry && it.body.is_some());
        for function in entries {
            kernels += 1;
            let Some(refusal) = Analysis::of(&module, function).refusal() else {
                continue;
            };
            let reason = refusal.to_string();
            let is_form = ["permitted form", "operand", "permitted number", "declared"]
                .iter()
                .any(|part| reason.contains(part));
            let is_expected = REFUSED.iter().any(|(file, name, part)| {
                path.ends_with(file) && function.name == *name && reason.contains(part)
            });
            if is_form && !is_expected {
                let _ = writeln!(found, "{}: {reason}", path.display());
            }
        }
    }
    assert!(kernels > 120, "{kernels}");
    assert!(found.is_empty(), "{found}");
}

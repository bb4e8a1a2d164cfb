//! The text that is printed for safe launches: an assembler makes the same machine code of it.
//!
//! `CUDA_PTX_TEXTS` names more folders with PTX texts, separated by colons.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use cuda_ptx::canonical::Canonical;
use cuda_ptx::{Module, Statement};

use crate::text::texts;

/// What the machine code of one text shows.
#[derive(Default)]
struct Compared {
    equal: usize,
    different: Vec<String>,
    /// Kernels with calls, which the printed text does not have.
    with_calls: usize,
    left_out: usize,
}

#[test]
fn assembler_makes_equal_code_of_printed_kernels() {
    let Some(assembler) = test_assembler::newest() else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "docs", "examples", "fuzz/seeds"] {
        texts(&root.join(folder), &mut found);
    }
    for folder in env::var_os("CUDA_PTX_TEXTS")
        .iter()
        .flat_map(env::split_paths)
    {
        texts(&folder, &mut found);
    }
    let mut all = Compared::default();
    for path in &found {
        compare(&assembler, path, &mut all);
    }
    let Compared {
        equal,
        different,
        with_calls,
        left_out,
    } = &all;
    println!(
        "{} texts: {equal} kernels have equal machine code, {} have other code, {with_calls} have \
         calls, {left_out} are left out",
        found.len(),
        different.len()
    );
    println!("{}", different.join("\n"));
    assert!(*equal > 60, "only {equal} kernels were compared");
    // 99 of 100.
    assert!(
        different.len() * 99 <= *equal,
        "{} kernels have other code:\n{}",
        different.len(),
        different.join("\n")
    );
}

fn compare(assembler: &test_assembler::Assembler, path: &PathBuf, all: &mut Compared) {
    let Ok(text) = fs::read_to_string(path) else {
        return;
    };
    let Ok(module) = cuda_ptx::parse(&text) else {
        return;
    };
    let Ok(canonical) = Canonical::new(&module) else {
        return;
    };
    all.left_out += canonical.refusals().count();
    let target = &module.target;
    let arch = format!("sm_{}{}", target.sm.max(75), target.suffix);
    // A text that the assembler refuses shows nothing.
    let Ok(original) = assembler.assemble(&text, &arch, &[]) else {
        return;
    };
    let printed = assembler.assemble(canonical.text(), &arch, &[]);
    let printed = printed.unwrap_or_else(|refused| {
        panic!("{}: {refused:?}\n{}", path.display(), canonical.text());
    });
    let original: BTreeMap<String, Vec<u8>> = original.code().into_iter().collect();
    for (section, code) in printed.code() {
        let kernel = section.trim_start_matches(".text.");
        if has_calls(&module, kernel) {
            all.with_calls += 1;
        } else if original.get(&section) == Some(&code) {
            all.equal += 1;
        } else {
            let bytes = original.get(&section).map_or(0, Vec::len);
            let line = format!(
                "{}: {kernel}: {bytes}, {} bytes",
                path.display(),
                code.len()
            );
            all.different.push(line);
        }
    }
}

fn has_calls(module: &Module<'_>, kernel: &str) -> bool {
    let mut functions = module.functions.iter();
    let function = functions.find(|it| it.name == kernel && it.body.is_some());
    let body = function.and_then(|function| function.body.as_ref());
    let is_call = |statement: &Statement<'_>| matches!(statement, Statement::Instruction(it) if it.opcode == "call");
    body.is_some_and(|body| body.iter().any(is_call))
}

//! The layers of the library: a module uses only modules below it, as in `docs/architecture.md`.
//!
//! Reads the paths that start with `crate` or `super` in `src`. Tests and comments do not count.

use std::fs;
use std::path::Path;

use test_needs::skip;

/// The modules of each folder of `src`, lowest first. In other folders, most
/// files are parts of one type.
const LAYERS: [(&str, &[&str]); 3] = [
    (
        "",
        &[
            "error",
            "ast",
            "lexer",
            "parser",
            "expression",
            "initial",
            "variable",
            "header",
            "statement",
            "module",
            "tables",
            "exports",
            "print",
            "prefix",
            "edit",
            "flow",
            "parameters",
            "crashes",
            "calls",
            "analysis",
            "canonical",
            "check",
            "instrument",
        ],
    ),
    (
        "flow",
        &[
            "object",
            "tile",
            "op",
            "names",
            "graph",
            "cycles",
            "effect",
            "results",
            "first",
            "local_loops",
            "local",
            "forms",
            "require",
            "addresses",
            "ssa",
            "decode",
            "admit",
            "memory",
            "moves",
            "texture",
            "predicate",
            "float",
            "lower",
            "uses",
        ],
    ),
    (
        "analysis",
        &[
            "form",
            "symbols",
            "ranges",
            "launch",
            "verdict",
            "extremes",
            "bound",
            "condition",
            "known",
            "round",
            "unstable",
            "ends",
            "counted",
            "source",
            "compare",
            "transfer",
            "loops",
            "access",
            "handle",
            "report",
            "family",
        ],
    ),
];

#[test]
fn modules_use_only_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !src.is_dir() {
        return skip("the source of the crate is not on this machine");
    }
    let mut files = Vec::new();
    collect(&src, &[], &mut files);
    let mut faults = Vec::new();
    let mut arrows = 0;
    for (folder, layers) in LAYERS {
        let base: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        let layer = |name: &str| layers.iter().position(|layer| *layer == name);
        for (module, text) in &files {
            let Some(from) = below(module, &base) else {
                continue;
            };
            let Some(own) = layer(from) else {
                faults.push(format!("{folder}: {from} is in no layer"));
                continue;
            };
            for path in paths(module, text) {
                let to = below(&path, &base).filter(|to| *to != from);
                let Some((to, other)) = to.and_then(|to| Some((to, layer(to)?))) else {
                    continue;
                };
                arrows += 1;
                if other > own {
                    faults.push(format!("{} uses {to}", module.join("::")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(arrows > 100, "only {arrows} uses were found");
}

#[test]
fn the_drawing_has_the_layers_in_their_order() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let Ok(text) = fs::read_to_string(docs) else {
        return skip("the documents of the workspace are not on this machine");
    };
    let (_, section) = text.split_once("## Layers of cuda-ptx").unwrap();
    let drawing = section.split("```").nth(1).unwrap();
    // The highest row comes first. The name of a row is separated by two spaces.
    let rows = drawing
        .lines()
        .rev()
        .filter_map(|row| row.trim().split_once("  "));
    let drawn: Vec<&str> = rows
        .flat_map(|(_, names)| names.split_whitespace())
        .collect();
    for (folder, layers) in LAYERS {
        let in_folder = |name: &&str| match name.strip_prefix("flow/") {
            Some(_) => folder == "flow",
            None => layers.contains(name),
        };
        let names = drawn.iter().copied().filter(in_folder);
        let names: Vec<&str> = names.map(|name| name.trim_start_matches("flow/")).collect();
        let expected: Vec<&str> = layers
            .iter()
            .copied()
            .filter(|name| *name != "flow")
            .collect();
        assert_eq!(names, expected, "the layers of `{folder}`");
    }
    let layers: usize = LAYERS.iter().map(|(_, layers)| layers.len()).sum();
    // All but `flow`, whose modules are drawn.
    assert_eq!(drawn.len(), layers - 1, "{drawn:?}");
}

/// Returns the part of `path` after `base`.
fn below<'p>(path: &'p [String], base: &[&str]) -> Option<&'p str> {
    let starts = path.len() > base.len() && path.iter().zip(base).all(|(part, it)| part == it);
    starts.then(|| path[base.len()].as_str())
}

/// Adds the source files in `folder` with their module paths, except files of tests.
fn collect(folder: &Path, module: &[String], files: &mut Vec<(Vec<String>, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mut inner = module.to_vec();
        if !["mod", "lib"].contains(&name) {
            inner.push(name.to_owned());
        }
        if name == "tests" {
        } else if path.is_dir() {
            collect(&path, &inner, files);
        } else {
            files.push((inner, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns the paths in `text`, a file of `module`, that start with `crate` or `super`, from the
/// root of the crate.
fn paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|it| it.is_alphanumeric() || matches!(it, '_' | ':')) {
                expand(module.to_vec(), &code[at..], &mut found);
            }
        }
    }
    found
}

/// Follows the path at the start of `code` from `at`. A group in braces has several paths.
fn expand(mut at: Vec<String>, code: &str, found: &mut Vec<Vec<String>>) {
    let mut rest = code;
    loop {
        let is_name = |it: char| it.is_alphanumeric() || it == '_';
        let end = rest.find(|it| !is_name(it)).unwrap_or(rest.len());
        match &rest[..end] {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" | "" => {}
            name => at.push(name.to_owned()),
        }
        rest = &rest[end..];
        let Some(next) = rest.strip_prefix("::") else {
            break;
        };
        rest = next;
    }
    let Some(group) = rest.strip_prefix('{') else {
        return found.push(at);
    };
    let (mut depth, mut begin) = (0, 0);
    for (index, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let part = group[begin..index].trim();
                if !part.is_empty() {
                    expand(at.clone(), part, found);
                }
                begin = index + 1;
                if it == '}' {
                    return;
                }
            }
            _ => {}
        }
    }
}

#[test]
fn paths_are_resolved_from_the_crate_root() {
    let module = ["flow", "decode"].map(String::from);
    let text = "use super::{MAX, op::{Ins, Op}};\n// use crate::a::B;\nuse crate::ast::Space;\n";
    let mut found: Vec<_> = paths(&module, text)
        .iter()
        .map(|path| path.join("::"))
        .collect();
    found.sort();
    assert_eq!(
        found,
        ["ast::Space", "flow::MAX", "flow::op::Ins", "flow::op::Op"]
    );
    assert_eq!(
        below(&["flow", "op", "Op"].map(String::from), &["flow"]),
        Some("op")
    );
    assert_eq!(below(&["ast", "Space"].map(String::from), &["flow"]), None);
}

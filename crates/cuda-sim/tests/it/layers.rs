//! The modules form layers: no import cycles, except those that are named here with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The folders of `src` whose modules form layers, with the pairs of modules that may import each
/// other.
const LAYERED: [(&str, &[(&str, &str)]); 4] = [
    ("", &[]),
    ("driver", &[]),
    (
        "driver/objects",
        &[
            // A primary context belongs to its device, and a context runs on a device.
            ("context", "device"),
            // A program has settings for each of its kernels, and a kernel is one of a program.
            ("jit", "kernel"),
            // A launch has the attributes of a kernel node, and sets the values of conditional
            // nodes. A kernel node has the shape of its launch.
            ("launch", "graph"),
            // A stream has default attributes for the launches in it, and nodes run in streams.
            ("stream", "graph"),
        ],
    ),
    ("driver/instance", &[]),
];

/// The source files, by module path.
fn sources(folder: &Path, module: &[String], files: &mut BTreeMap<Vec<String>, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut inner = module.to_vec();
        if path.is_dir() {
            inner.push(stem);
            sources(&path, &inner, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            if !matches!(&*stem, "mod" | "lib") {
                inner.push(stem);
            }
            files.insert(inner, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The paths that a file of `module` names with `crate` or `super`, from the root of the crate.
fn paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            expand(module.to_vec(), &code[at..], &mut found);
        }
    }
    found
}

/// Follows a path at the start of `code` from `at`; a group in braces has several paths.
fn expand(mut at: Vec<String>, code: &str, found: &mut Vec<Vec<String>>) {
    let mut rest = code;
    loop {
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        match &rest[..end] {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            "" => break,
            name => at.push(name.to_owned()),
        }
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) => rest = next,
            None => break,
        }
    }
    if let Some(group) = rest.strip_prefix('{') {
        let (mut depth, mut begin) = (0, 0);
        for (index, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    let part = group[begin..index].trim();
                    if !part.is_empty() {
                        expand(at.clone(), part, found);
                    }
                    begin = index + 1;
                    if c == '}' {
                        return;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found.push(at);
}

/// Which modules of `folder` each of them imports.
fn imports(
    files: &BTreeMap<Vec<String>, String>,
    folder: &str,
) -> BTreeMap<String, BTreeSet<String>> {
    let base: Vec<String> = folder
        .split('/')
        .filter(|part| !part.is_empty())
        .map(String::from)
        .collect();
    let modules: BTreeSet<&String> = files
        .keys()
        .filter(|module| module.starts_with(&base))
        .filter_map(|module| module.get(base.len()))
        .collect();
    let mut graph = BTreeMap::new();
    for (module, text) in files {
        let Some(from) = module.strip_prefix(&*base).and_then(|rest| rest.first()) else {
            continue;
        };
        let to: &mut BTreeSet<String> = graph.entry(from.clone()).or_default();
        for path in paths(module, text) {
            let name = path.strip_prefix(&*base).and_then(|rest| rest.first());
            to.extend(
                name.filter(|name| *name != from && modules.contains(name))
                    .cloned(),
            );
        }
    }
    graph
}

/// Removes modules that import nothing that is left, until each one that is left is in a cycle or
/// imports one that is.
fn cyclic(mut graph: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let names: BTreeSet<String> = graph.keys().cloned().collect();
        let before = graph.len();
        for to in graph.values_mut() {
            to.retain(|name| names.contains(name));
        }
        graph.retain(|_, to| !to.is_empty());
        if graph.len() == before {
            return graph;
        }
    }
}

#[test]
fn modules_import_each_other_without_cycles() {
    let mut files = BTreeMap::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&source, &[], &mut files);
    // Tests may use everything.
    files.retain(|module, _| !module.iter().any(|part| part == "tests"));
    for (folder, pairs) in LAYERED {
        let mut graph = imports(&files, folder);
        assert!(graph.len() > 5, "{folder}: {graph:?}");
        for (a, b) in pairs {
            let is_pair = graph[*a].contains(*b) && graph[*b].contains(*a);
            assert!(
                is_pair,
                "{a} and {b} of {folder} no longer import each other: remove the pair"
            );
            graph.get_mut(*a).unwrap().remove(*b);
            graph.get_mut(*b).unwrap().remove(*a);
        }
        // Of a pair, only the import of the first module by the second counts.
        for (a, b) in pairs {
            graph.get_mut(*a).unwrap().remove(*b);
        }
        assert_eq!(cyclic(graph), BTreeMap::new(), "cycle in `{folder}`");
    }
}

#[test]
fn the_check_of_layers_finds_cycles() {
    let file = |module: &str, text: &str| {
        let module: Vec<String> = module.split("::").map(String::from).collect();
        (module, String::from(text))
    };
    let files = BTreeMap::from([
        file("a", "use crate::{b::{self, X}, d};"),
        file(
            "b::inner",
            "// use crate::d;\nfn f() { super::super::c::g(); }",
        ),
        file("c", "use super::a::Y;"),
        file("d", ""),
    ]);
    let found = cyclic(imports(&files, ""));
    let names: Vec<&String> = found.keys().collect();
    assert_eq!(names, ["a", "b", "c"]);
}

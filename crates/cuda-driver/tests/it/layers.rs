//! The layers of the library: a module uses only modules below it.
//!
//! Reads the paths that start with `crate` or `super` in `src`. Tests and comments do not count,
//! nor does `pub use crate::…`: the public modules are chapters of the API, and a chapter also
//! names types of higher modules without using them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::support::skip;

/// The top-level modules, lowest first. A module uses only modules that come before it.
const LAYERS: &[&str] = &[
    "lock",
    "types",
    "error",
    "subscriber",
    "launch_log",
    "reports",
    "deferred",
    "driver",
    "handle",
    "fence",
    "observer",
    "memory_ledger",
    "stream_state",
    "staging_pool",
    "device",
    "topology",
    "context",
    "stream",
    "event",
    "pending",
    "tracking",
    "stream_attribute",
    "copy_threads",
    "memory",
    "memop",
    "external_semaphore",
    "module",
    "function",
    "launch",
    "launch_macro",
    "global",
    "library",
    "safe",
    "linker",
    "lto",
    "tensor_map",
    "vector",
    "texture",
    "transfer",
    "dlpack",
    "graph",
    "diagnostics",
    "profile",
    "jit",
    "nvrtc",
    "without_nvrtc",
];

/// Uses of a higher module by a lower one: the lower module, the higher one, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// The modules that each module uses, with the places where it does.
type Arrows = BTreeMap<String, BTreeMap<String, Vec<String>>>;

#[test]
fn modules_use_only_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !src.is_dir() {
        return skip("the source of the crate is not on this machine");
    }
    let arrows = arrows(&src);
    let mut faults = Vec::new();
    for module in arrows.keys() {
        if !LAYERS.contains(&module.as_str()) {
            faults.push(format!("{module} is in no layer"));
        }
    }
    let floor = |module: &str| LAYERS.iter().position(|it| *it == module);
    let mut used = BTreeSet::new();
    for (from, uses) in &arrows {
        for (to, places) in uses {
            if floor(from) > floor(to) {
                continue;
            }
            match EXCEPTIONS.iter().find(|it| it.0 == from && it.1 == to) {
                Some(exception) => drop(used.insert(exception)),
                None => faults.push(format!("{from} -> {to}: {}", places.join(", "))),
            }
        }
    }
    for exception in EXCEPTIONS {
        if !used.contains(exception) {
            faults.push(format!("this exception is not needed: {exception:?}"));
        }
    }
    let edges: usize = arrows.values().map(BTreeMap::len).sum();
    println!(
        "{} modules, {edges} arrows, largest cycle {}",
        arrows.len(),
        largest_cycle(&arrows)
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the uses between the top-level modules of the crate in the folder `src`.
fn arrows(src: &Path) -> Arrows {
    let mut files = Vec::new();
    collect(src, &mut files);
    files.sort();
    let root = stripped(&fs::read_to_string(src.join("lib.rs")).unwrap());
    let modules: BTreeSet<String> = files
        .iter()
        .map(|file| path_of(src, file)[0].clone())
        .collect();
    let exports = exports(&root);
    let mut arrows = Arrows::new();
    for file in files {
        let here = path_of(src, &file);
        if ["lib", "prelude"].contains(&here[0].as_str()) {
            continue;
        }
        let uses = arrows.entry(here[0].clone()).or_default();
        let text = without_reexports(&stripped(&fs::read_to_string(&file).unwrap()));
        for (line, path) in paths(&text, &here) {
            let Some(first) = path.first() else { continue };
            let target = match exports.get(first) {
                Some(module) if !modules.contains(first) => module,
                _ => first,
            };
            if *target != here[0] && modules.contains(target) {
                let place = file.strip_prefix(src).unwrap().display();
                uses.entry(target.clone())
                    .or_default()
                    .push(format!("{place}:{line}"));
            }
        }
    }
    arrows
}

/// Adds the source files in `folder`, except files of tests.
pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap();
        if path.is_dir() {
            collect(&path, files);
        } else if name != "tests" {
            files.push(path);
        }
    }
}

/// Returns the module path of a file.
pub(crate) fn path_of(src: &Path, file: &Path) -> Vec<String> {
    let relative = file.strip_prefix(src).unwrap().with_extension("");
    let mut path: Vec<String> = relative
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Removes comments, the contents of strings, and modules of tests. Line breaks stay.
pub(crate) fn stripped(text: &str) -> String {
    let mut out = String::new();
    // The indentation of the module of tests that is being skipped.
    let mut skipped: Option<usize> = None;
    let mut is_test = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        if let Some(depth) = skipped {
            if indent == depth && code.starts_with('}') {
                skipped = None;
            }
        } else if code.starts_with("#[cfg(") && code.contains("test") && !code.contains("not(test")
        {
            is_test = true;
        } else if is_test && code.starts_with("mod ") && code.ends_with('{') {
            (skipped, is_test) = (Some(indent), false);
        } else {
            is_test = is_test && code.starts_with("#[");
            let code = line.split("//").next().unwrap_or_default();
            let outside = code.split('"').step_by(2);
            out.extend(outside);
        }
        out.push('\n');
    }
    out
}

/// Removes `pub use crate::…;`. Line breaks stay.
fn without_reexports(text: &str) -> String {
    let mut out = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.starts_with("pub use crate::");
        if !is_inside {
            out.push_str(line);
        }
        is_inside &= !line.ends_with(';');
        out.push('\n');
    }
    out
}

/// Returns the names that `lib.rs` re-exports from a module, with the module.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for item in root.split("pub use ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        let (module, names) = item.split_once("::").unwrap_or((item, ""));
        for name in names.split(|it: char| !it.is_alphanumeric() && it != '_') {
            exports.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    exports
}

/// Returns the paths in `text` from the crate root, with their lines. `here` is the module of the
/// text.
fn paths(text: &str, here: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for start in ["crate::", "super::"] {
            for (at, _) in line.match_indices(start) {
                let before = line[..at].chars().next_back();
                let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
                if before.is_some_and(is_part) {
                    continue;
                }
                found.push((number + 1, resolve(&line[at..], here)));
            }
        }
    }
    found
}

/// Resolves the path at the start of `text`.
fn resolve(text: &str, here: &[String]) -> Vec<String> {
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_' && it != ':');
    let mut path = here.to_vec();
    for (index, part) in text[..end.unwrap_or(text.len())].split("::").enumerate() {
        match part {
            "crate" => path.clear(),
            // The first `super` of a file is the parent of its module.
            "super" => drop(path.pop()),
            "" => {}
            part if index > 0 => path.push(part.to_owned()),
            _ => {}
        }
    }
    path
}

/// Returns the number of modules in the largest set whose members all reach each other.
fn largest_cycle(arrows: &Arrows) -> usize {
    let reach = |start: &str| {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            for next in arrows.get(module).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&str, _> = arrows.keys().map(|it| (it.as_str(), reach(it))).collect();
    let cycle = |start: &str| {
        all[start]
            .iter()
            .filter(|it| all.get(*it).is_some_and(|back| back.contains(start)))
            .count()
    };
    all.keys().map(|start| cycle(start)).max().unwrap_or(0)
}

#[test]
fn paths_are_resolved_from_the_crate_root() {
    let here = ["memory", "pinned", "block"].map(String::from);
    let text = "use crate::error::Error;\nuse super::super::{Memory};\n";
    let found: Vec<_> = paths(text, &here)
        .into_iter()
        .map(|(line, path)| (line, path.join("::")))
        .collect();
    assert_eq!(
        found,
        [(1, "error::Error".into()), (2, String::from("memory"))]
    );
}

#[test]
fn cycles_are_found_and_tests_ignored() {
    let uses = |from: &str, to: &str| (from.to_owned(), [(to.to_owned(), Vec::new())].into());
    let arrows = Arrows::from([
        uses("a", "b"),
        uses("b", "c"),
        uses("c", "a"),
        uses("d", "a"),
    ]);
    assert_eq!(largest_cycle(&arrows), 3);
    let text = "#[cfg(test)]\nmod tests {\n    use crate::graph::Graph;\n}\nuse crate::lock;\n";
    assert_eq!(paths(&stripped(text), &[]).len(), 1);
    let text = "pub use crate::graph::{\n    Graph,\n};\nuse crate::lock;\n";
    assert_eq!(paths(&without_reexports(text), &[]).len(), 1);
}

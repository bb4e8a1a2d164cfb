//! The cycles of files: `docs/architecture.md` lists each one, with a reason.
//!
//! A file uses another if it names it, or an item of it, in a path that starts with `crate`,
//! `super` or `self`. A `mod.rs` also uses the modules that it declares, except where it only
//! re-exports their items. Calls of methods are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::layers::{collect, path_of, stripped};
use crate::support::skip;

/// The path of a module from the root of the crate.
type Module = Vec<String>;

/// A path after `use`, or in code, with the name that it gets in the file.
type Named = (String, Vec<String>);

/// A file of the crate.
#[derive(Default)]
struct File {
    /// The names that other files can find here although they are defined elsewhere.
    aliases: BTreeMap<String, Vec<String>>,
    /// The paths that the file uses itself.
    used: Vec<Vec<String>>,
}

#[test]
fn cycles_of_files_are_in_the_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = root.join("../../docs/architecture.md");
    let (src, Ok(document)) = (root.join("src"), fs::read_to_string(document)) else {
        return skip("the documents of the project are not on this machine");
    };
    if !src.is_dir() {
        return skip("the source of the crate is not on this machine");
    }
    let mut files = Vec::new();
    collect(&src, &mut files);
    let texts = files.iter().map(|file| {
        let is_module = file.ends_with("mod.rs") || file.ends_with("lib.rs");
        let mut module = path_of(&src, file);
        if module == ["lib"] {
            module.clear();
        }
        (
            module,
            (stripped(&fs::read_to_string(file).unwrap()), is_module),
        )
    });
    let found = cycles(&texts.collect());
    let listed = listed(&document);
    let is_in = |cycle: &BTreeSet<String>, row: &BTreeSet<String>| {
        row == cycle
            || row.iter().any(|name| {
                let folder = name.strip_suffix('*');
                folder.is_some_and(|folder| cycle.iter().all(|file| file.starts_with(folder)))
            })
    };
    let mut faults = Vec::new();
    for cycle in &found {
        if !listed.iter().any(|row| is_in(cycle, row)) {
            faults.push(format!("the table lacks the cycle {cycle:?}"));
        }
    }
    for row in &listed {
        if !found.iter().any(|cycle| is_in(cycle, row)) {
            faults.push(format!("the table has a row that is no cycle: {row:?}"));
        }
    }
    let count = found.len();
    assert!(
        faults.is_empty(),
        "{count} cycles; docs/architecture.md, layers of cuda-driver:\n{}",
        faults.join("\n")
    );
}

/// Returns the files of each row of the table in the section about cuda-driver.
fn listed(document: &str) -> Vec<BTreeSet<String>> {
    let section = document.split("\n## ").find(|section| {
        let title = section.lines().next();
        title == Some("Layers of cuda-driver")
    });
    let rows = section.unwrap().lines().filter_map(|line| {
        let cell = line.strip_prefix("| `")?.split(" | ").next()?;
        Some(cell.split('`').step_by(2).map(str::to_owned).collect())
    });
    rows.collect()
}

/// Returns the sets of files that all reach each other. The input has the text of each module, and
/// whether its file declares other modules.
fn cycles(texts: &BTreeMap<Module, (String, bool)>) -> BTreeSet<BTreeSet<String>> {
    let files: BTreeMap<&Module, File> = texts
        .iter()
        .map(|(module, (text, _))| (module, file(module, text, texts)))
        .collect();
    let arrows: BTreeMap<&Module, BTreeSet<Module>> = files
        .iter()
        .filter(|(module, _)| !module.is_empty() && module[0] != "prelude")
        .map(|(&module, file)| {
            let used = file.used.iter().map(|path| resolve(path.clone(), &files));
            (module, used.filter(|used| used != module).collect())
        })
        .collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = arrows
        .keys()
        .map(|start| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![*start]);
            while let Some(module) = open.pop() {
                for next in arrows.get(module).into_iter().flatten() {
                    if reached.insert(next) {
                        open.push(next);
                    }
                }
            }
            (*start, reached)
        })
        .collect();
    let in_cycle = reached.iter().filter(|(start, all)| all.contains(*start));
    in_cycle
        .map(|(start, all)| {
            let both = all.iter().filter(|it| {
                let back = reached.get(**it);
                back.is_some_and(|back| back.contains(start))
            });
            both.map(|module| name(module, texts[*module].1)).collect()
        })
        .collect()
}

/// Returns the name of a module in the document: the path of its file without `.rs`.
fn name(module: &Module, declares: bool) -> String {
    let mut name = module.join("/");
    if declares {
        name.push_str("/mod");
    }
    name
}

/// Finds the paths in the text of `module`.
fn file(module: &Module, text: &str, texts: &BTreeMap<Module, (String, bool)>) -> File {
    let is_start = |first: &str| {
        let mut child = module.clone();
        child.push(first.to_owned());
        ["crate", "super", "self"].contains(&first) || texts.contains_key(&child)
    };
    let (mut code, mut exports, mut imports) = (String::new(), Vec::new(), Vec::new());
    for statement in without_inline_modules(text).split(';') {
        let lines: Vec<&str> = statement.lines().map(str::trim).collect();
        let is_use = |line: &&str| {
            line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ")
        };
        let at = lines.iter().position(is_use).unwrap_or(lines.len());
        code.push_str(&(lines[..at].join("\n") + "\n"));
        let tree = lines[at..].join(" ");
        if let Some((visibility, tree)) = tree.split_once("use ")
            && is_start(word(tree))
        {
            let is_export = !visibility.is_empty();
            let found = if is_export {
                &mut exports
            } else {
                &mut imports
            };
            expand(module.clone(), tree, found);
        }
    }
    for (at, _) in code.match_indices("::") {
        let before = code[..at]
            .rfind(|c: char| !is_part(c))
            .map_or(0, |end| end + 1);
        if !code[..before].ends_with("::") && is_start(&code[before..at]) {
            expand(module.clone(), &code[before..], &mut imports);
        }
    }
    // Items of the file itself.
    let is_own = |path: &Module| path.len() == module.len() + 1 && path.starts_with(module);
    imports.retain(|(_, path)| !is_own(path) || texts.contains_key(path));
    let words: BTreeSet<&str> = code.split(|c| !is_part(c)).collect();
    let is_used = |(name, _): &&Named| words.contains(&**name);
    let used = imports.iter().chain(exports.iter().filter(is_used));
    File {
        used: used.map(|(_, path)| path.clone()).collect(),
        aliases: imports.into_iter().chain(exports).collect(),
    }
}

/// Rewrites paths in inline modules, so that the first `super` of every path is the parent of the
/// file's module. Inline modules are recognized by their indentation.
fn without_inline_modules(text: &str) -> String {
    let mut out = String::new();
    let mut inline: Option<usize> = None;
    for line in text.lines() {
        let (code, indent) = (line.trim(), line.len() - line.trim_start().len());
        let is_module = code.contains("mod ") && code.ends_with('{');
        match inline {
            None if is_module => inline = Some(indent),
            Some(start) if start == indent && code == "}" => inline = None,
            Some(_) => {
                let outer = line.replace("super::super::", "super..");
                let outer = outer.replace("super::", "self::");
                out.push_str(&outer.replace("super..", "super::"));
                out.push('\n');
                continue;
            }
            None => {}
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the identifier at the start of `code`.
fn word(code: &str) -> &str {
    code.split(|c| !is_part(c)).next().unwrap_or_default()
}

/// Follows a path at the start of `code` from the module `at`; a group in braces has several paths.
fn expand(mut at: Module, code: &str, found: &mut Vec<Named>) {
    let mut rest = code;
    loop {
        let name = word(rest);
        match name {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" | "" => {}
            name => at.push(name.to_owned()),
        }
        rest = &rest[name.len()..];
        match rest.strip_prefix("::") {
            Some(next) => rest = next,
            None => break,
        }
    }
    let Some(group) = rest.strip_prefix('{') else {
        let alias = rest.trim_start().strip_prefix("as ").map(word);
        let name = alias.or(at.last().map(String::as_str)).unwrap_or_default();
        found.push((name.to_owned(), at));
        return;
    };
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

/// Returns the module that defines the item with this path.
fn resolve(mut path: Vec<String>, files: &BTreeMap<&Module, File>) -> Module {
    // Each step follows one re-export.
    for _ in 0..8 {
        let len = (0..=path.len())
            .rev()
            .find(|len| files.contains_key(&path[..*len].to_vec()));
        let rest = path.split_off(len.unwrap_or_default());
        let alias = rest.first().and_then(|name| files[&path].aliases.get(name));
        match alias {
            Some(target) => path = target.iter().chain(&rest[1..]).cloned().collect(),
            None => break,
        }
    }
    path
}

#[test]
fn a_cycle_through_a_reexport_is_found() {
    let text = |module: &str, text: &str, declares| {
        let module = module.split('/').map(str::to_owned).collect();
        (module, (text.to_owned(), declares))
    };
    let texts = BTreeMap::from([
        (Vec::new(), (String::from("mod a;\nmod d;\nmod f;"), true)),
        text("a", "mod b;\nmod c;\npub(crate) use b::{B, C as D};", true),
        text("a/b", "use super::c;\nfn f() { c::g(); }", false),
        text("a/c", "use crate::a::{D, X};", false),
        text("d", "use super::a::B;", false),
        text("f", "mod g;\nuse g::G;", true),
        text("f/g", "mod h {\n    use super::X;\n}", false),
    ]);
    let names = |cycle: BTreeSet<String>| cycle.into_iter().collect::<Vec<_>>();
    let found: Vec<_> = cycles(&texts).into_iter().map(names).collect();
    assert_eq!(found, [["a/b", "a/c"]]);
    let document = "\n## Layers of cuda-driver\n\n| files | reason |\n|---|---|\n\
                    | `a/b`, `a/c` | both |\n\n## Other\n| `x` | no |\n";
    let names: Vec<_> = listed(document).into_iter().map(names).collect();
    assert_eq!(names, [["a/b", "a/c"]]);
}

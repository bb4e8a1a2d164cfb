//! Lists the public items of crates, as the crate `public-api` reads them from rustdoc's JSON.
//!
//! The arguments are a folder for the listings and the JSON files. `cargo xtask api` runs this
//! program. It is an example so that no other task has to build `public-api`.
//!
//! Four kinds of items are left out: those from generated files, which are reviewed in these files;
//! derived implementations; the functions of implementations, which follow from the trait; and the
//! methods that each type of the crate `bitflags` has. In a signature, types have no module,
//! because the line of the type itself names it.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use public_api::{Builder, PublicItem};
use serde_json::Value;

/// The methods of each type of the crate `bitflags`.
const BITFLAGS: [&str; 22] = [
    "all",
    "bits",
    "complement",
    "contains",
    "difference",
    "empty",
    "from_bits",
    "from_bits_retain",
    "from_bits_truncate",
    "from_name",
    "insert",
    "intersection",
    "intersects",
    "is_all",
    "is_empty",
    "iter",
    "iter_names",
    "remove",
    "set",
    "symmetric_difference",
    "toggle",
    "union",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = paths.next().ok_or("the first argument is a folder")?;
    for json in paths {
        let api = Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()?;
        let crate_json: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
        let mut items: Vec<&PublicItem> = api
            .items()
            .filter(|item| is_listed(item, &crate_json["index"]))
            .collect();
        items.sort_by(|a, b| PublicItem::grouping_cmp(a, b));
        // The contents of a type or module that is reexported are listed once.
        let mut listed = HashSet::new();
        items.retain(|item| listed.insert((item.id(), item.parent_id())));
        let lines: Vec<_> = items.iter().map(|item| short(&item.to_string())).collect();
        let flags = lines
            .iter()
            .filter_map(|line| line.strip_prefix("impl Flags for "));
        let flags: HashSet<&str> = flags.collect();
        let lines = lines.iter().filter(|line| !is_of_bitflags(line, &flags));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let name = json.file_stem().ok_or("a JSON file has a name")?;
        let name = name.to_string_lossy().replace('_', "-");
        fs::write(folder.join(name).with_extension("txt"), text)?;
    }
    Ok(())
}

fn is_listed(item: &PublicItem, index: &Value) -> bool {
    let json = &index[item.id().0.to_string()];
    let file = json["span"]["filename"].as_str().unwrap_or_default();
    let is_generated = file.replace('\\', "/").contains("src/generated/");
    let parent = item.parent_id().map(|id| &index[id.0.to_string()]);
    let is_in_trait_impl = parent.is_some_and(|parent| !parent["inner"]["impl"]["trait"].is_null());
    let is_function = !json["inner"]["function"].is_null();
    !(is_generated || is_in_trait_impl && is_function)
}

/// Returns whether the crate `bitflags` defines the method of a line for one of the types `flags`.
fn is_of_bitflags(line: &str, flags: &HashSet<&str>) -> bool {
    let path = line.split('(').next().unwrap_or_default();
    let mut parts = path.rsplit("::");
    let is_method = parts.next().is_some_and(|name| BITFLAGS.contains(&name));
    is_method && parts.next().is_some_and(|name| flags.contains(name))
}

/// Removes the modules of all types in a line except for the item that it is about.
fn short(line: &str) -> String {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut own = !line.starts_with("impl");
    let mut found = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(is_path) {
        found += &rest[..start];
        rest = &rest[start..];
        let (path, after) = rest.split_at(rest.find(|c| !is_path(c)).unwrap_or(rest.len()));
        let named = path
            .find(|c: char| c.is_uppercase())
            .filter(|at| path[..*at].ends_with("::") && !path.starts_with(':'));
        match named {
            Some(at) if !own => found += &path[at..],
            _ => found += path,
        }
        own &= !path.contains("::");
        rest = after;
    }
    found + rest
}

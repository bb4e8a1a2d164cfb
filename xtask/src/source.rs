//! Reads Rust sources line by line, as rustfmt lays them out.

use std::fs;

use anyhow::Result;

use crate::workspace::{Workspace, files_below};

/// A source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads the Rust files below `folder`, except for generated ones.
pub(crate) fn read(workspace: &Workspace, folder: &str) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for file in files_below(&workspace.root.join(folder), &["rs"])? {
        let path = workspace.relative(&file);
        if !path.contains("/generated/") {
            sources.push(Source::new(&path, &fs::read_to_string(&file)?));
        }
    }
    Ok(sources)
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Returns the text before the unit tests. A module of tests in another file does not end it.
    pub(crate) fn code(&self) -> &str {
        let mut modules = self.text.match_indices("#[cfg(test)]\nmod ");
        let end = modules.find(|(at, start)| {
            let rest = &self.text[at + start.len()..];
            rest.lines().next().is_some_and(|line| line.ends_with('{'))
        });
        &self.text[..end.map_or(self.text.len(), |(at, _)| at)]
    }

    /// Returns the unit tests.
    pub(crate) fn unit_tests(&self) -> &str {
        &self.text[self.code().len()..]
    }

    pub(crate) fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }

    /// Returns the name of the item that begins in a line, with the type whose `impl` block it is
    /// in; `None` if no item begins there.
    pub(crate) fn item_at(&self, number: usize) -> Option<String> {
        let lines = self.lines();
        let line = *lines.get(number)?;
        let name = item_name(line)?;
        let indent = line.len() - line.trim_start().len();
        if indent == 0 {
            return Some(name.to_owned());
        }
        // The block that contains the line begins at the last line with a smaller indentation that
        // is not the end of another block.
        let head = lines[..number].iter().rev().find(|line| {
            let text = line.trim_start();
            line.len() - text.len() < indent
                && text.starts_with(char::is_alphabetic)
                && !text.starts_with("where")
        })?;
        match implemented(head) {
            Some(owner) => Some(format!("{owner}::{name}")),
            None => Some(name.to_owned()),
        }
    }
}

/// Returns the name of the function, type, constant or macro that a line declares.
fn item_name(line: &str) -> Option<&str> {
    let mut found = words(line.trim_start()).skip_while(|word| {
        [
            "pub", "const", "unsafe", "async", "crate", "super", "extern", "C", "in",
        ]
        .contains(word)
    });
    let keyword = found.next()?;
    if ![
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "macro_rules",
        "union",
        "static",
    ]
    .contains(&keyword)
    {
        // `const` was skipped: `pub const NAME: u32`.
        return line.contains("const ").then_some(keyword);
    }
    found.next()
}

/// Returns the type of a line such as `impl<'a, T: Copy> Trait for Type<'a, T> {`, or the name of a
/// trait.
fn implemented(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some((_, rest)) = line.split_once("trait ") {
        return words(rest).next();
    }
    let mut rest = line
        .strip_prefix("unsafe ")
        .unwrap_or(line)
        .strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    if let Some((_, owner)) = rest.split_once(" for ") {
        rest = owner;
    }
    let path = rest.split(['<', '{']).next()?;
    words(path).last()
}

/// Returns the identifiers, keywords and numbers in a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
#[path = "../tests/unit/source.rs"]
mod tests;

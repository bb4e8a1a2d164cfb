//! `coverage`: lists the tests of each feature, from `docs/coverage.toml`, in `docs/coverage.md`.

mod evidence;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::Workspace;
use evidence::Evidence;

/// Options of `coverage`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if docs/coverage.md is stale or a row names a missing test
    #[arg(long)]
    pub(crate) check: bool,
}

/// The groups of rows: letter, number of rows, and title.
const GROUPS: [(char, u32, &str); 10] = [
    ('B', 12, "Bindings and loading"),
    ('D', 7, "Devices and topology"),
    ('X', 4, "Contexts"),
    ('M', 13, "Memory"),
    ('S', 6, "Streams and events"),
    ('K', 12, "Modules, kernels, launch"),
    ('R', 5, "Graphs"),
    ('N', 7, "Run-time compilation"),
    ('E', 6, "Errors, diagnostics, profiling"),
    ('T', 8, "Trust"),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Coverage {
    row: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    title: String,
    status: Status,
    /// Tests that run on any machine.
    #[serde(default)]
    tests: Vec<String>,
    /// Tests that require a GPU.
    #[serde(default)]
    gpu: Vec<String>,
    #[serde(default)]
    note: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Done,
    Partial,
    Planned,
}

/// `cargo xtask coverage`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let docs = workspace.root.join("docs");
    let text = read(&docs.join("coverage.toml"))?;
    let coverage: Coverage = toml::from_str(&text).context("docs/coverage.toml")?;
    let mut problems = coverage.problems();
    let evidence = Evidence::collect(workspace)?;
    for row in &coverage.row {
        for test in row.tests.iter().chain(&row.gpu) {
            if let Err(why) = evidence.find(test) {
                problems.push(format!("{}: {why}", row.id));
            }
        }
    }
    for named in tests_in(&read(&docs.join("unsound.md"))?) {
        if let Err(why) = evidence.find(named) {
            problems.push(format!("docs/unsound.md: {why}"));
        }
    }
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!(
            "the docs have {} problems with the tests they name",
            problems.len()
        );
    }

    let page = coverage.page();
    let path = docs.join("coverage.md");
    let current = std::fs::read_to_string(&path)
        .unwrap_or_default()
        .replace("\r\n", "\n");
    if current == page {
        println!("docs/coverage.md is up to date");
    } else if options.check {
        bail!("docs/coverage.md is stale; run `cargo xtask coverage`");
    } else {
        std::fs::write(&path, page)?;
        println!("docs/coverage.md written");
    }
    Ok(())
}

/// Returns the tests that a page names as `code`.
fn tests_in(page: &str) -> impl Iterator<Item = &str> {
    let code = page.split('`').skip(1).step_by(2);
    code.filter(|code| {
        code.starts_with("ui:c") || code.contains("::it::") || code.contains("::attacks::")
    })
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

impl Coverage {
    /// Returns the problems of the rows themselves.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        for row in &self.row {
            if !seen.insert(row.id.as_str()) {
                problems.push(format!("{} is listed twice", row.id));
            }
            let proven = !row.tests.is_empty() || !row.gpu.is_empty();
            match row.status {
                Status::Done if !proven => {
                    problems.push(format!("{} is called done without a test", row.id))
                }
                Status::Partial if row.note.is_empty() => {
                    problems.push(format!(
                        "{} is called partial without a note on what is missing",
                        row.id
                    ));
                }
                _ => {}
            }
        }
        let expected: Vec<String> = expected_ids().collect();
        problems.extend(
            expected
                .iter()
                .filter(|id| !seen.contains(id.as_str()))
                .map(|id| format!("{id} is missing")),
        );
        problems.extend(
            seen.iter()
                .filter(|id| !expected.iter().any(|e| e == *id))
                .map(|id| format!("{id} is not a known row")),
        );
        problems
    }

    fn page(&self) -> String {
        let count = |status| self.row.iter().filter(|row| row.status == status).count();
        let mut page = format!(
            "# Coverage\n\n\
             Generated from `coverage.toml` by `cargo xtask coverage`: edit that file. Each row is a\n\
             capability and names the tests that show it: those that run on any machine, and those that\n\
             only a GPU can answer. `cargo xtask ci` fails if a row called done names no test, or if a\n\
             test that is named does not exist.\n\n\
             {} rows: {} done, {} partial, {} planned.\n",
            self.row.len(),
            count(Status::Done),
            count(Status::Partial),
            count(Status::Planned),
        );
        for (letter, _, title) in GROUPS {
            page.push_str(&format!("\n## {letter}. {title}\n\n"));
            page.push_str("| id | capability | status | shown by | on a GPU by | note |\n|---|---|---|---|---|---|\n");
            for row in self.row.iter().filter(|row| row.id.starts_with(letter)) {
                let status = match row.status {
                    Status::Done => "done",
                    Status::Partial => "partial",
                    Status::Planned => "planned",
                };
                let cell = |text: &str| {
                    if text.is_empty() {
                        String::new()
                    } else {
                        format!(" {text}")
                    }
                };
                // Writing to a string cannot fail.
                let _ = writeln!(
                    page,
                    "| {} | {} | {status} |{} |{} |{} |",
                    row.id,
                    row.title,
                    cell(&listed(&row.tests)),
                    cell(&listed(&row.gpu)),
                    cell(&row.note),
                );
            }
        }
        page
    }
}

fn expected_ids() -> impl Iterator<Item = String> {
    GROUPS
        .into_iter()
        .flat_map(|(letter, rows, _)| (1..=rows).map(move |number| format!("{letter}{number}")))
}

fn listed(tests: &[String]) -> String {
    let quoted: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Coverage {
        let row = |id| Row {
            id,
            title: "Something".to_owned(),
            status: Status::Planned,
            tests: Vec::new(),
            gpu: Vec::new(),
            note: String::new(),
        };
        Coverage {
            row: expected_ids().map(row).collect(),
        }
    }

    #[test]
    fn a_complete_list_of_plans_is_fine() {
        assert_eq!(complete().problems(), Vec::<String>::new());
        assert_eq!(complete().row.len(), 80);
    }

    #[test]
    fn a_row_called_done_needs_a_test() {
        let mut coverage = complete();
        coverage.row[0].status = Status::Done;
        assert_eq!(coverage.problems(), ["B1 is called done without a test"]);
        coverage.row[0]
            .gpu
            .push("cuda-sys::it::gpu::resolves".to_owned());
        assert_eq!(coverage.problems(), Vec::<String>::new());
    }

    #[test]
    fn the_tests_of_a_page_are_found() {
        let page = "`ui:` tests\n| `close` tells | `a::it::b::c`, `ui:cuda-driver/d.rs`, `a::attacks::e::f` |\n";
        let found: Vec<&str> = super::tests_in(page).collect();
        assert_eq!(
            found,
            ["a::it::b::c", "ui:cuda-driver/d.rs", "a::attacks::e::f"]
        );
    }

    #[test]
    fn lost_doubled_and_invented_rows_are_found() {
        let mut coverage = complete();
        coverage.row[1].id = "B1".to_owned();
        coverage.row[2].id = "Q9".to_owned();
        let expected = [
            "B1 is listed twice",
            "B2 is missing",
            "B3 is missing",
            "Q9 is not a known row",
        ];
        assert_eq!(coverage.problems(), expected);
    }

    #[test]
    fn the_page_counts_and_lists_every_row() {
        let mut coverage = complete();
        coverage.row[79].status = Status::Done;
        coverage.row[79].tests.push("a::b".to_owned());
        let page = coverage.page();
        assert!(
            page.contains("80 rows: 1 done, 0 partial, 79 planned."),
            "{page}"
        );
        assert!(
            page.contains("| T8 | Something | done | `a::b` | | |"),
            "{page}"
        );
        assert_eq!(
            page.lines()
                .filter(|line| line.contains("| Something |"))
                .count(),
            80
        );
    }
}

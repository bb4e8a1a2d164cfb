//! The summary of all runs: numbers, findings, and the rows without a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::item::{Item, Run};
use crate::parent::{Ended, Outcomes};

/// The findings that are printed. The file has all.
const SHOWN: usize = 25;

/// What the runs of one row have shown.
#[derive(Clone, Debug, Default)]
struct Row {
    runs: u64,
    sets: u64,
    numbers: u64,
    accesses: u64,
    findings: Vec<String>,
    /// The instructions that were not executed, by reason.
    none: BTreeMap<String, Vec<String>>,
}

/// The summary of all runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// The rows in the order of the list.
    rows: Vec<(&'static str, &'static str, Row)>,
    instructions: usize,
    inactive: u64,
    /// The runs that were not reached in time.
    missed: u64,
}

impl Summary {
    pub(crate) fn new(items: &[Item], runs: &[Run], chosen: &[usize], outcomes: &Outcomes) -> Self {
        let mut summary = Self::default();
        let mut executed = BTreeSet::new();
        for &number in chosen {
            let run = runs[number];
            let item = &items[run.item];
            if summary.rows.last().is_none_or(|row| row.1 != item.row) {
                summary.rows.push((item.family, item.row, Row::default()));
            }
            let Some((_, _, row)) = summary.rows.last_mut() else {
                continue;
            };
            let place = run.place.map_or("", |place| place.name());
            let name = format!("{} {place}", item.text);
            match outcomes.get(&number) {
                Some(Ended::Done(report)) => {
                    executed.insert(run.item);
                    row.runs += 1;
                    row.sets += report.sets;
                    row.numbers += report.numbers;
                    row.accesses += report.accesses;
                    summary.inactive += report.inactive;
                    for fault in &report.faults {
                        row.findings.push(format!("{name}: {fault}"));
                    }
                }
                Some(Ended::Lost(text)) => row.findings.push(format!("{name}: lost: {text}")),
                Some(Ended::None(reason)) => {
                    row.none.entry(reason.clone()).or_default().push(name);
                }
                None => {
                    let reason = "not reached in time".to_owned();
                    summary.missed += 1;
                    row.none.entry(reason).or_default().push(name);
                }
            }
        }
        summary.instructions = executed.len();
        summary
    }

    /// Whether there is no finding, and all was executed that can be.
    pub(crate) fn is_right(&self) -> bool {
        self.missed == 0
            && self.instructions > 0
            && self.rows.iter().all(|row| row.2.findings.is_empty())
    }

    /// The rows without a run, with the reason.
    fn without(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| row.2.runs == 0);
        rows.map(|(_, form, row)| {
            let reason = row.none.keys().next().map_or("lost", String::as_str);
            format!("{form}: {reason:.200}")
        })
        .collect()
    }

    /// A short text.
    pub(crate) fn text(&self) -> String {
        let sum = |get: fn(&Row) -> u64| self.rows.iter().map(|row| get(&row.2)).sum::<u64>();
        let with = |get: fn(&Row) -> u64| self.rows.iter().filter(|row| get(&row.2) > 0).count();
        let findings: Vec<&String> = self.rows.iter().flat_map(|row| &row.2.findings).collect();
        let without = self.without();
        let mut text = String::new();
        let _ = write!(
            text,
            "rows {}, executed {}; instructions {}, runs {}, operand sets {}, of them in inactive \
             lanes {}\nnumbers compared with a claim that says more than the type: {}, in {} rows\n\
             accesses whose bytes were compared: {}, in {} rows\nfindings: {}\n",
            self.rows.len(),
            with(|row| row.runs),
            self.instructions,
            sum(|row| row.runs),
            sum(|row| row.sets),
            self.inactive,
            sum(|row| row.numbers),
            with(|row| row.numbers),
            sum(|row| row.accesses),
            with(|row| row.accesses),
            findings.len()
        );
        for finding in findings.iter().take(SHOWN) {
            let _ = writeln!(text, "  {finding:.400}");
        }
        if self.missed > 0 {
            let _ = writeln!(text, "runs that were not reached in time: {}", self.missed);
        }
        let _ = writeln!(text, "rows without a run: {}", without.len());
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for row in &without {
            let reason = row.rsplit_once(": ").map_or(row.as_str(), |it| it.1);
            *reasons.entry(reason).or_default() += 1;
        }
        for (reason, count) in reasons {
            let _ = writeln!(text, "  {count}: {reason:.150}");
        }
        text
    }

    /// Everything: a line for each row, the findings, and what was not executed.
    pub(crate) fn details(&self) -> String {
        let mut text = self.text();
        let mut family = "";
        for (title, form, row) in &self.rows {
            if family != *title {
                family = title;
                let _ = writeln!(text, "\n{title}");
            }
            let _ = writeln!(
                text,
                "{form}\n    runs {}, sets {}, numbers {}, accesses {}",
                row.runs, row.sets, row.numbers, row.accesses
            );
            for finding in &row.findings {
                let _ = writeln!(text, "    FINDING {finding}");
            }
            for (reason, instructions) in &row.none {
                let count = instructions.len();
                let first = instructions.first().map_or("", String::as_str);
                let _ = writeln!(
                    text,
                    "    not executed: {count}, for example {first}: {reason}"
                );
            }
        }
        text
    }
}

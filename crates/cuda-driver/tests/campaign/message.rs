//! The lines that a worker writes for its parent, and the counts in them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Separates the counts in a line.
const SEPARATOR: char = '\x1f';
/// Stands for the end of a line in a report.
const NEWLINE: char = '\x1e';

/// How often something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) BTreeMap<String, u64>);

impl Counts {
    pub(crate) fn add(&mut self, name: &str) {
        self.add_many(name, 1);
    }

    pub(crate) fn add_many(&mut self, name: &str, count: u64) {
        *self.0.entry(name.to_owned()).or_default() += count;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add_many(name, *count);
        }
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The counts with `separator` behind each.
    pub(crate) fn text(&self, separator: char) -> String {
        let mut text = String::new();
        for (name, count) in &self.0 {
            let _ = write!(text, "{count} {name}{separator}");
        }
        text
    }

    /// Reads what [`text`](Self::text) wrote. Lines without a count are left out.
    pub(crate) fn parse(text: &str, separator: char) -> Self {
        let entries = text.split(separator).filter_map(|entry| {
            let (count, name) = entry.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        });
        Self(entries.collect())
    }
}

/// A line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The worker has a context and its memory.
    Ready,
    /// The worker loads the module, or launches this kernel.
    At(Option<usize>),
    /// All launches before this one are done and compared.
    Clean(usize, Counts),
    /// Words changed outside of the arguments.
    Hit(String),
    /// A kernel does not end, or has lost the device. The worker ends.
    Endless(usize),
    Fault(usize, String),
    /// A remark, such as that the driver did not compile a kernel.
    Note(String),
    /// The unit is complete.
    Done,
}

impl Message {
    pub(crate) fn text(&self) -> String {
        let escaped = |text: &str| text.replace('\n', &NEWLINE.to_string());
        match self {
            Self::Ready => "ready".to_owned(),
            Self::At(None) => "load".to_owned(),
            Self::At(Some(kernel)) => format!("at {kernel}"),
            Self::Clean(launch, counts) => format!("clean {launch} {}", counts.text(SEPARATOR)),
            Self::Hit(text) => format!("hit {}", escaped(text)),
            Self::Endless(kernel) => format!("endless {kernel}"),
            Self::Fault(kernel, text) => format!("fault {kernel} {}", escaped(text)),
            Self::Note(text) => format!("note {}", escaped(text)),
            Self::Done => "done".to_owned(),
        }
    }

    /// Reads a line. Returns nothing for one that another part of the process has written.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let plain = |text: &str| text.replace(NEWLINE, "\n");
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(match word {
            "ready" => Self::Ready,
            "load" => Self::At(None),
            "at" => Self::At(Some(rest.parse().ok()?)),
            "clean" => Self::Clean(first.parse().ok()?, Counts::parse(second, SEPARATOR)),
            "hit" => Self::Hit(plain(rest)),
            "endless" => Self::Endless(rest.parse().ok()?),
            "fault" => Self::Fault(first.parse().ok()?, plain(second)),
            "note" => Self::Note(plain(rest)),
            "done" => Self::Done,
            _ => return None,
        })
    }
}

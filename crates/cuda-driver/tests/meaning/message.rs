//! The lines that a worker writes for its parent.

use crate::check::Report;

/// What a worker says. The numbers are those of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The worker has its context.
    Ready(String),
    /// It loads a module with these runs.
    Load(Vec<usize>),
    /// It begins a run.
    At(usize),
    /// The run has ended.
    Done(usize, Report),
    /// There is no run, for this reason.
    None(usize, String),
    /// The device is lost in this run.
    Lost(usize, String),
    /// All runs of the unit have ended.
    End,
}

/// A list of numbers as one word.
pub(crate) fn list(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(",")
}

/// Reads a list.
pub(crate) fn numbers(text: &str) -> Vec<usize> {
    text.split(',').filter_map(|it| it.parse().ok()).collect()
}

impl Message {
    pub(crate) fn text(&self) -> String {
        let line = |text: &str| text.replace(['\n', '\t', '\r'], " ");
        match self {
            Self::Ready(text) => format!("=ready\t{}", line(text)),
            Self::Load(runs) => format!("=load\t{}", list(runs)),
            Self::At(run) => format!("=at\t{run}"),
            Self::Done(run, report) => {
                let numbers = [
                    report.sets,
                    report.inactive,
                    report.numbers,
                    report.accesses,
                ];
                let numbers = numbers.map(|number| number.to_string()).join("\t");
                let faults: Vec<String> = report.faults.iter().map(|it| line(it)).collect();
                format!("=done\t{run}\t{numbers}\t{}", faults.join("\t"))
            }
            Self::None(run, reason) => format!("=none\t{run}\t{}", line(reason)),
            Self::Lost(run, text) => format!("=lost\t{run}\t{}", line(text)),
            Self::End => "=end".to_owned(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split('\t');
        let kind = words.next()?;
        let mut next = || words.next().unwrap_or("").to_owned();
        Some(match kind {
            "=ready" => Self::Ready(next()),
            "=load" => Self::Load(numbers(&next())),
            "=at" => Self::At(next().parse().ok()?),
            "=done" => {
                let run = next().parse().ok()?;
                let mut number = || next().parse().ok();
                let mut report = Report {
                    sets: number()?,
                    inactive: number()?,
                    numbers: number()?,
                    accesses: number()?,
                    faults: Vec::new(),
                };
                report.faults = words
                    .filter(|it| !it.is_empty())
                    .map(str::to_owned)
                    .collect();
                Self::Done(run, report)
            }
            "=none" => Self::None(next().parse().ok()?, next()),
            "=lost" => Self::Lost(next().parse().ok()?, next()),
            "=end" => Self::End,
            _ => return None,
        })
    }
}

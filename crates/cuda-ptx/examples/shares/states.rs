//! The states of kernels, in a file, and which of them differ from those of an earlier run.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use cuda_ptx::analysis::Verdict;

/// What a launch of a kernel is, and why accesses are not proven or the kernel is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    name: String,
    /// The number of accesses for each reason.
    reasons: BTreeMap<String, u32>,
}

impl State {
    pub(crate) fn new(verdict: &Verdict, reasons: BTreeMap<String, u32>) -> Self {
        let name = match verdict {
            Verdict::Proven(_) => "proven",
            Verdict::Checked(_) => "checked",
            Verdict::Refused(_) => "refused",
        };
        Self {
            name: name.to_owned(),
            reasons,
        }
    }

    pub(crate) fn refused(reason: String) -> Self {
        Self {
            name: "refused".to_owned(),
            reasons: BTreeMap::from([(reason, 1)]),
        }
    }

    /// A refusal is above all numbers of checks.
    fn rank(&self) -> u32 {
        match self.name.as_str() {
            "refused" => u32::MAX,
            _ => self.reasons.values().sum(),
        }
    }

    /// The reasons that this state has more often than another one.
    fn beyond(&self, other: &Self) -> impl Iterator<Item = (&str, u32)> {
        let is_other = self.name != other.name;
        self.reasons.iter().filter_map(move |(reason, count)| {
            let before = match other.reasons.get(reason) {
                Some(before) if !is_other || self.name == "checked" => *before,
                _ => 0,
            };
            (*count > before).then(|| (reason.as_str(), count - before))
        })
    }
}

/// The states of kernels by their names.
#[derive(Debug, Default)]
pub(crate) struct States(BTreeMap<String, State>);

impl States {
    pub(crate) fn add(&mut self, kernel: String, state: State) {
        self.0.insert(kernel, state);
    }

    /// One line for each kernel, with its state and its reasons between tabs.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (kernel, state) in &self.0 {
            text += &format!("{kernel}\t{}", state.name);
            for (reason, count) in &state.reasons {
                text += &format!("\t{count} {reason}");
            }
            text.push('\n');
        }
        text
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut states = Self::default();
        for line in text.lines() {
            let wrong = || format!("{line}: not a line with the state of a kernel");
            let mut parts = line.split('\t');
            let (kernel, name) = parts.next().zip(parts.next()).ok_or_else(wrong)?;
            let reasons = parts.map(|part| {
                let (count, reason) = part.split_once(' ')?;
                Some((reason.to_owned(), count.parse().ok()?))
            });
            let state = State {
                name: name.to_owned(),
                reasons: reasons.collect::<Option<_>>().ok_or_else(wrong)?,
            };
            states.add(kernel.to_owned(), state);
        }
        Ok(states)
    }

    /// What is not the same as in `before`.
    pub(crate) fn changes(&self, before: &Self) -> Changes {
        let mut changes = Changes::default();
        for (kernel, new) in &self.0 {
            let Some(old) = before.0.get(kernel) else {
                changes.new += 1;
                continue;
            };
            if old.name == new.name && old.rank() == new.rank() {
                changes.same += 1;
                continue;
            }
            let is_worse = new.rank() > old.rank();
            let (from, to) = if is_worse { (old, new) } else { (new, old) };
            let change = format!("{} -> {}", old.name, new.name);
            let mut line = format!("{kernel}: {change}: ");
            let word = if is_worse { "now" } else { "no longer" };
            for (index, (reason, count)) in to.beyond(from).enumerate() {
                let comma = if index == 0 { word } else { ";" };
                let _ = write!(line, "{comma} {count} × {reason}");
                let rule = format!("{change}: {word}: {reason}");
                *changes.rules.entry(rule).or_default() += 1;
            }
            changes.lines.push(line);
        }
        let is_gone = |kernel: &&String| !self.0.contains_key(*kernel);
        changes.gone = before.0.keys().filter(is_gone).count();
        changes
    }
}

/// The kernels whose states or numbers of checks differ, and for each rule how many they are.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    lines: Vec<String>,
    rules: BTreeMap<String, u32>,
    same: usize,
    new: usize,
    gone: usize,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(
            f,
            "{} kernels differ from the earlier run, {} are as before, {} are new, {} are gone",
            self.lines.len(),
            self.same,
            self.new,
            self.gone,
        )?;
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (rule, count) in rules {
            writeln!(f, "    {count:6} {rule}")?;
        }
        Ok(())
    }
}

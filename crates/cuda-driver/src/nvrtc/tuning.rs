//! Candidates, their outcomes, and the table of results.

use std::fmt;
use std::time::Duration;

use cuda_nvrtc::Options;

/// One choice of a block size and of a value for each constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Candidate {
    /// The number of threads in a block.
    pub block: u32,
    /// Each constant with its value.
    pub defines: Vec<(String, String)>,
}

/// A candidate and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trial {
    /// The candidate.
    pub candidate: Candidate,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a candidate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The candidate ran.
    Ran {
        /// The shortest of the sampled times. The excess of the other samples is noise.
        least: Duration,
        /// The median of the sampled times.
        median: Duration,
    },
    /// The candidate did not compile, or could not be launched. The string is the reason.
    Failed(String),
}

/// The outcomes of all candidates, the fastest first. `Display` prints them as a table.
#[derive(Clone, Debug)]
pub struct Tuning {
    kernel: String,
    trials: Vec<Trial>,
    is_remembered: bool,
}

impl Outcome {
    pub(super) fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let least = times.first().copied().unwrap_or_default();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Self::Ran { least, median }
    }

    /// The shortest time, if the candidate ran.
    #[must_use]
    pub fn least(&self) -> Option<Duration> {
        match self {
            Self::Ran { least, .. } => Some(*least),
            Self::Failed(_) => None,
        }
    }
}

impl Candidate {
    /// The value of a constant, if the candidate defines it.
    #[must_use]
    pub fn define(&self, name: &str) -> Option<&str> {
        let found = self.defines.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Adds the constants of this candidate to `options`, for compiling the program.
    pub fn options(&self, options: &Options) -> Options {
        let set = self.defines.iter();
        set.fold(options.clone(), |options, (name, value)| {
            options.define(name, value)
        })
    }
}

impl Tuning {
    pub(super) fn new(kernel: &str, mut trials: Vec<Trial>, is_remembered: bool) -> Self {
        trials.sort_by_key(|trial| trial.outcome.least().unwrap_or(Duration::MAX));
        Self {
            kernel: kernel.to_owned(),
            trials,
            is_remembered,
        }
    }

    /// Whether this result was found in the cache, so that nothing was launched.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// The fastest candidate, if any ran.
    #[must_use]
    pub fn best(&self) -> Option<&Candidate> {
        let first = self.trials.first()?;
        first.outcome.least().map(|_| &first.candidate)
    }

    /// The outcomes of all candidates, the fastest first, and those that failed last.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.block)?;
        self.defines
            .iter()
            .try_for_each(|(name, value)| write!(f, ", {name}={value}"))
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: &Duration| time.as_secs_f64() * 1e6;
        write!(f, "{:>12} {:>12}  {}", "least µs", "median µs", self.kernel)?;
        if self.is_remembered {
            write!(f, " (remembered)")?;
        }
        for Trial { candidate, outcome } in &self.trials {
            match outcome {
                Outcome::Ran { least, median } => {
                    write!(
                        f,
                        "\n{:>12.2} {:>12.2}  {candidate}",
                        micros(least),
                        micros(median)
                    )?;
                }
                Outcome::Failed(reason) => {
                    let line = reason.lines().next().unwrap_or_default();
                    write!(f, "\n{:>12} {:>12}  {candidate}: {line}", "-", "-")?;
                }
            }
        }
        Ok(())
    }
}

//! A tuner: which block size and which compile-time constants make a kernel fastest on a device.
//!
//! It tries every candidate, times each by events, and shows what it tried. It knows nothing of the kernel: what a
//! candidate means for grid and arguments is the caller's closure.

use std::fmt;
use std::time::Duration;

use cuda_nvrtc::{Options, Program};

use super::CompileError;
use crate::error::{Error, Result};
use crate::event::{Event, EventFlags};
use crate::function::Function;
use crate::module::Module;
use crate::stream::Stream;

/// What to try for one kernel of a program.
///
/// ```no_run
/// # use cuda_driver::prelude::*;
/// # use cuda_driver::nvrtc::Tuner;
/// # use cuda_nvrtc::{Options, Program};
/// # fn tune(stream: &Stream, program: &Program, x: &mut DeviceBuffer<f32>, n: u32)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// let tuning = Tuner::new(program, "scale")
///     .blocks([64, 128, 256])
///     .define("UNROLL", ["1", "2", "4"])
///     .tune(stream, &Options::new(), |candidate, kernel| {
///         let unroll: u32 = candidate.define("UNROLL").map_or(1, |value| value.parse().unwrap_or(1));
///         let blocks = n.div_ceil(candidate.block * unroll);
///         let config = LaunchConfig::new(blocks, candidate.block);
///         // SAFETY: with each of these constants the kernel touches n floats of `x`.
///         unsafe { stream.launch(kernel, config, (&mut *x, n)) }
///     })?;
/// println!("{tuning}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Tuner<'a> {
    program: &'a Program,
    kernel: String,
    blocks: Vec<u32>,
    defines: Vec<(String, Vec<String>)>,
    samples: usize,
}

/// One choice of a block size and of a value for each constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Candidate {
    /// Threads in a block.
    pub block: u32,
    /// Each constant with its value.
    pub defines: Vec<(String, String)>,
}

/// A candidate, and how it went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trial {
    /// What was tried.
    pub candidate: Candidate,
    /// How it went.
    pub outcome: Outcome,
}

/// How a candidate went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It ran.
    Ran {
        /// The shortest of the samples: what the others have more is disturbance.
        least: Duration,
        /// The middle one.
        median: Duration,
    },
    /// It did not compile, or could not be launched.
    Failed(String),
}

/// Every candidate and how it went, the fastest first. Prints as a table.
#[derive(Clone, Debug)]
pub struct Tuning {
    kernel: String,
    trials: Vec<Trial>,
}

/// Why tuning gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// No candidate ran.
    #[error("no candidate ran:\n{0}")]
    NothingRan(Tuning),
    /// The device is lost: a candidate's kernel did what it must not.
    #[error("{candidate}: {source}")]
    Lost {
        /// The candidate that ran last.
        candidate: Candidate,
        /// What the driver said.
        source: Error,
    },
    /// Something that has to do with no candidate.
    #[error(transparent)]
    Driver(#[from] Error),
}

impl<'a> Tuner<'a> {
    /// A tuner of the kernel of this name, as it stands in the image, with a block of 256 and no constants.
    pub fn new(program: &'a Program, kernel: impl Into<String>) -> Self {
        let kernel = kernel.into();
        Self {
            program,
            kernel,
            blocks: vec![256],
            defines: Vec::new(),
            samples: 7,
        }
    }

    /// Block sizes to try.
    pub fn blocks(mut self, sizes: impl IntoIterator<Item = u32>) -> Self {
        self.blocks = sizes.into_iter().collect();
        self
    }

    /// Values to try for a constant, which the source sees as a macro.
    pub fn define(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = impl ToString>,
    ) -> Self {
        let values = values.into_iter().map(|value| value.to_string()).collect();
        self.defines.push((name.into(), values));
        self
    }

    /// How often each candidate is timed, after one launch that is not; at least once.
    pub fn samples(mut self, samples: usize) -> Self {
        self.samples = samples.max(1);
        self
    }

    /// Compiles, launches and times every candidate.
    ///
    /// `launch` queues one launch of the candidate on `stream`; it is called several times for each and must do the
    /// same work each time.
    ///
    /// # Errors
    ///
    /// [`TuneError::NothingRan`] with the reason of each, [`TuneError::Lost`] if a kernel took the device with it.
    pub fn tune(
        &self,
        stream: &Stream,
        options: &Options,
        mut launch: impl FnMut(&Candidate, &Function) -> Result<()>,
    ) -> Result<Tuning, TuneError> {
        let start = Event::new(stream.context(), EventFlags::empty())?;
        let end = Event::new(stream.context(), EventFlags::empty())?;
        let mut trials = Vec::new();
        for defines in self.combinations() {
            let function = self.compile(stream, options, &defines);
            for &block in &self.blocks {
                let candidate = Candidate {
                    block,
                    defines: defines.clone(),
                };
                let outcome = match &function {
                    Err(error) => Outcome::Failed(error.to_string()),
                    Ok(function) => {
                        let mut timed = || -> Result<Duration> {
                            start.record(stream)?;
                            launch(&candidate, function)?;
                            end.record(stream)?;
                            end.synchronize()?;
                            end.time_since(&start)
                        };
                        // The first launch also loads code and fills caches.
                        let times =
                            timed().and_then(|_| (0..self.samples).map(|_| timed()).collect());
                        match times {
                            Ok(times) => Outcome::of(times),
                            Err(source) if is_lost(&source) => {
                                return Err(TuneError::Lost { candidate, source });
                            }
                            Err(error) => Outcome::Failed(error.to_string()),
                        }
                    }
                };
                trials.push(Trial { candidate, outcome });
            }
        }
        trials.sort_by_key(|trial| trial.outcome.least().unwrap_or(Duration::MAX));
        let tuning = Tuning {
            kernel: self.kernel.clone(),
            trials,
        };
        if tuning.best().is_some() {
            Ok(tuning)
        } else {
            Err(TuneError::NothingRan(tuning))
        }
    }

    /// Every choice of a value for each constant; one empty choice if there are none.
    fn combinations(&self) -> Vec<Vec<(String, String)>> {
        let mut choices = vec![Vec::new()];
        for (name, values) in &self.defines {
            let mut longer = Vec::new();
            for choice in &choices {
                for value in values {
                    let mut choice: Vec<_> = choice.clone();
                    choice.push((name.clone(), value.clone()));
                    longer.push(choice);
                }
            }
            choices = longer;
        }
        choices
    }

    fn compile(
        &self,
        stream: &Stream,
        options: &Options,
        defines: &[(String, String)],
    ) -> Result<Function, CompileError> {
        let options = defines
            .iter()
            .fold(options.clone(), |options, (name, value)| {
                options.define(name, value)
            });
        let module = Module::compile(stream.context(), self.program, &options)?;
        Ok(module.function(&self.kernel)?)
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Driver(error) if error.is_sticky())
}

impl Outcome {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let least = times.first().copied().unwrap_or_default();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Self::Ran { least, median }
    }

    fn least(&self) -> Option<Duration> {
        match self {
            Self::Ran { least, .. } => Some(*least),
            Self::Failed(_) => None,
        }
    }
}

impl Candidate {
    /// The value of a constant.
    #[must_use]
    pub fn define(&self, name: &str) -> Option<&str> {
        let found = self.defines.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Tuning {
    /// The fastest candidate.
    #[must_use]
    pub fn best(&self) -> Option<&Candidate> {
        let first = self.trials.first()?;
        first.outcome.least().map(|_| &first.candidate)
    }

    /// All candidates, the fastest first, those that failed last.
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

//! A tuner, which finds the block size and the compile-time constants with which a kernel is
//! fastest on a device.
//!
//! It times every candidate with events, and lists all of them in the result. It knows nothing of
//! the kernel: the caller's closure defines what a candidate means for the grid and the arguments,
//! and the caller checks that the results are right.

use std::fmt;
use std::time::Duration;

use cuda_nvrtc::{Cache, Options, Program};

use super::choice::{Choice, is_lost};
use super::load::Job;
use super::remembered;
use super::tuning::{Candidate, Outcome, Trial, Tuning};
use crate::error::{Error, Result};
use crate::event::{Event, EventFlags};
use crate::function::Function;
use crate::stream::Stream;

/// The candidates to try for one kernel of a program.
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
    memory: Option<(&'a Cache, String)>,
}

/// The reason why tuning returned no result.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// No candidate ran.
    #[error("no candidate ran:\n{table}\n{failure}", table = .0, failure = first_failure(.0))]
    NothingRan(Tuning),
    /// The device was lost because of a fault in the kernel of a candidate.
    #[error("{candidate}: {source}")]
    Lost {
        /// The candidate during which the loss was reported.
        candidate: Candidate,
        /// The error of the driver.
        source: Error,
    },
    /// A failure that is independent of the candidates.
    #[error(transparent)]
    Driver(#[from] Error),
}

impl fmt::Debug for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the whole text of the first failure. The table has its first line.
fn first_failure(tuning: &Tuning) -> &str {
    let mut outcomes = tuning.trials().iter().map(|trial| &trial.outcome);
    let failure = outcomes.find_map(|outcome| match outcome {
        Outcome::Failed(reason) => Some(reason.as_str()),
        Outcome::Ran { .. } => None,
    });
    failure.unwrap_or_default()
}

impl<'a> Tuner<'a> {
    /// Creates a tuner for the kernel with this name, with a block size of 256 and no constants.
    ///
    /// The name is that of an `extern "C"` kernel, or a name expression of the program, such as
    /// `scale<float>`.
    pub fn new(program: &'a Program, kernel: impl Into<String>) -> Self {
        let kernel = kernel.into();
        Self {
            program,
            kernel,
            blocks: vec![256],
            defines: Vec::new(),
            samples: 7,
            memory: None,
        }
    }

    /// Sets the block sizes to try.
    pub fn blocks(mut self, sizes: impl IntoIterator<Item = u32>) -> Self {
        self.blocks = sizes.into_iter().collect();
        self
    }

    /// Adds a constant with the values to try; the source sees it as a macro.
    pub fn define(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = impl ToString>,
    ) -> Self {
        let values = values.into_iter().map(|value| value.to_string()).collect();
        self.defines.push((name.into(), values));
        self
    }

    /// Sets the number of times that each candidate is timed, at least 1. One launch before them is
    /// not timed.
    pub fn samples(mut self, samples: usize) -> Self {
        self.samples = samples.max(1);
        self
    }

    /// Stores results and compiled code in `cache`: the next run with the same inputs launches
    /// nothing.
    ///
    /// A stored result is used for the same machine code, candidates and number of samples, on a
    /// device with the same name and compute capability and with the same driver version. `problem`
    /// must identify all other inputs that affect the timing, such as the size of the arrays: it is
    /// compared as text. Candidates that failed are stored as failed.
    pub fn remember(mut self, cache: &'a Cache, problem: impl Into<String>) -> Self {
        self.memory = Some((cache, problem.into()));
        self
    }

    /// Compiles, launches and times every candidate, unless a stored result exists.
    ///
    /// `launch` must queue one launch of the candidate on `stream`. It is called several times for
    /// each candidate and must do the same work each time.
    ///
    /// # Errors
    ///
    /// [`TuneError::NothingRan`] with the reason for each candidate; [`TuneError::Lost`] if a
    /// kernel caused the loss of the device.
    pub fn tune(
        &self,
        stream: &Stream,
        options: &Options,
        mut launch: impl FnMut(&Candidate, &Function) -> Result<()>,
    ) -> Result<Tuning, TuneError> {
        let choices = self.choices(stream, options)?;
        let candidates = self.candidates(&choices);
        let memory = match &self.memory {
            Some((cache, problem)) => {
                let facts = [&self.kernel, problem, &self.samples.to_string()];
                let key =
                    remembered::key(stream.context().device(), facts, &choices, &self.blocks)?;
                Some((cache, key))
            }
            None => None,
        };
        if let Some((cache, key)) = &memory
            && let Some(trials) = remembered::read(cache, key, &candidates)
        {
            return self.tuning(trials, true);
        }
        let timer = Timer::new(stream, self.samples)?;
        let mut trials = Vec::new();
        let mut candidates = candidates.into_iter();
        for choice in &choices {
            let function = choice.load(&self.kernel)?;
            for candidate in candidates.by_ref().take(self.blocks.len()) {
                let outcome = match &function {
                    Err(reason) => Outcome::Failed(reason.clone()),
                    Ok(function) => match timer.times(|| launch(&candidate, function)) {
                        Ok(times) => Outcome::of(times),
                        Err(source) if is_lost(&source) => {
                            return Err(TuneError::Lost { candidate, source });
                        }
                        Err(error) => Outcome::Failed(error.to_string()),
                    },
                };
                trials.push(Trial { candidate, outcome });
            }
        }
        // If no candidate ran, nothing is stored: the next attempt may succeed.
        if let Some((cache, key)) = &memory
            && trials.iter().any(|trial| trial.outcome.least().is_some())
        {
            remembered::store(cache, key, &trials);
        }
        self.tuning(trials, false)
    }

    fn tuning(&self, trials: Vec<Trial>, is_remembered: bool) -> Result<Tuning, TuneError> {
        let tuning = Tuning::new(&self.kernel, trials, is_remembered);
        if tuning.best().is_some() {
            Ok(tuning)
        } else {
            Err(TuneError::NothingRan(tuning))
        }
    }

    /// Compiles the program for every choice of the constants.
    fn choices<'s>(&'s self, stream: &'s Stream, options: &Options) -> Result<Vec<Choice<'s>>> {
        let cache = self.memory.as_ref().map(|(cache, _)| *cache);
        let choice = |defines: Vec<(String, String)>| {
            let set = defines.iter();
            let options = set.fold(options.clone(), |options, (name, value)| {
                options.define(name, value)
            });
            let job = Job::new(stream.context(), self.program, &options, cache)?;
            let cubin = job.cubin();
            Ok(Choice {
                defines,
                job,
                cubin,
            })
        };
        self.combinations().into_iter().map(choice).collect()
    }

    /// Returns the candidates: each choice with each block size.
    fn candidates(&self, choices: &[Choice<'_>]) -> Vec<Candidate> {
        let of = |choice: &Choice<'_>| {
            let defines = choice.defines.clone();
            let blocks = self.blocks.clone().into_iter();
            blocks.map(move |block| Candidate {
                block,
                defines: defines.clone(),
            })
        };
        choices.iter().flat_map(of).collect()
    }

    /// Returns every combination of values of the constants; one empty combination if there are no
    /// constants.
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
}

/// Times launches with events.
struct Timer<'a> {
    stream: &'a Stream,
    start: Event,
    end: Event,
    samples: usize,
}

impl<'a> Timer<'a> {
    fn new(stream: &'a Stream, samples: usize) -> Result<Self> {
        Ok(Self {
            stream,
            start: Event::new(stream.context(), EventFlags::empty())?,
            end: Event::new(stream.context(), EventFlags::empty())?,
            samples,
        })
    }

    fn times(&self, mut launch: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
        let mut time = || {
            self.start.record(self.stream)?;
            launch()?;
            self.end.record(self.stream)?;
            self.end.synchronize()?;
            self.end.elapsed_since(&self.start)
        };
        // The first launch also loads code and fills caches.
        time()?;
        (0..self.samples).map(|_| time()).collect()
    }
}

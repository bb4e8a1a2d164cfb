//! A tuner: which block size and which compile-time constants make a kernel fastest on a device.
//!
//! It tries every candidate, times each by events, and shows what it tried. It knows nothing of the
//! kernel: what a candidate means for grid and arguments is the caller's closure, and so is whether
//! the results are right.

use std::time::Duration;

use cuda_nvrtc::{Cache, Compiled, Cubin, Options, Program};

use super::CompileError;
use super::load::Source;
use super::remembered;
use super::tuning::{Candidate, Outcome, Trial, Tuning};
use crate::error::{Error, Result};
use crate::event::{Event, EventFlags};
use crate::function::Function;
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
    memory: Option<(&'a Cache, String)>,
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
    /// A tuner of the kernel of this name, with a block of 256 and no constants.
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

    /// Keeps results in `cache`, and compilations too: the next time nothing is launched.
    ///
    /// What is remembered is of the same machine code, candidates and number of samples, on a
    /// device of the same name and compute capability with the same version of the driver. What
    /// else decides, such as the size of the arrays, `problem` has to tell: it is compared as text.
    /// Candidates that failed are remembered as failed.
    pub fn remember(mut self, cache: &'a Cache, problem: impl Into<String>) -> Self {
        self.memory = Some((cache, problem.into()));
        self
    }

    /// Compiles, launches and times every candidate, unless the result is remembered.
    ///
    /// `launch` queues one launch of the candidate on `stream`; it is called several times for each
    /// and must do the same work each time.
    ///
    /// # Errors
    ///
    /// [`TuneError::NothingRan`] with the reason of each, [`TuneError::Lost`] if a kernel took the
    /// device with it.
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
        // Where nothing ran, the next attempt may do better.
        if let Some((cache, key)) = &memory
            && trials.iter().any(|trial| trial.outcome.least().is_some())
        {
            remembered::keep(cache, key, &trials);
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

    /// The choices of constants, compiled.
    fn choices<'s>(&'s self, stream: &'s Stream, options: &Options) -> Result<Vec<Choice<'s>>> {
        let cache = self.memory.as_ref().map(|(cache, _)| *cache);
        let choice = |defines: Vec<(String, String)>| {
            let set = defines.iter();
            let options = set.fold(options.clone(), |options, (name, value)| {
                options.define(name, value)
            });
            let source = Source::new(stream.context(), self.program, &options, cache)?;
            let cubin = source.cubin();
            Ok(Choice {
                defines,
                source,
                cubin,
            })
        };
        self.combinations().into_iter().map(choice).collect()
    }

    /// The candidates: each choice with each block size.
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
}

/// One value for each constant, compiled.
pub(super) struct Choice<'a> {
    pub(super) defines: Vec<(String, String)>,
    source: Source<'a>,
    pub(super) cubin: Result<Compiled<Cubin>, CompileError>,
}

impl Choice<'_> {
    /// The kernel, or why there is none; an error if the device is lost.
    fn load(&self, kernel: &str) -> Result<Result<Function, String>> {
        let cubin = match &self.cubin {
            Ok(cubin) => cubin,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let name = cubin.lowered_name(kernel).unwrap_or(kernel);
        let loaded = self.source.load_cubin(&cubin.image);
        match loaded.and_then(|module| Ok(module.function(name)?)) {
            Err(CompileError::Driver(error)) if is_lost(&error) => Err(error),
            other => Ok(other.map_err(|error| error.to_string())),
        }
    }
}

/// Times launches by events.
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
            self.end.time_since(&self.start)
        };
        // The first launch also loads code and fills caches.
        time()?;
        (0..self.samples).map(|_| time()).collect()
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Driver(error) if error.is_sticky())
}

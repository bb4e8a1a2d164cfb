//! A loaded module: its kernels are launched one at a time, and each launch is waited for.

use std::time::{Duration, Instant};

use cuda_driver::error::Status;
use cuda_driver::jit::Global;
use cuda_driver::launch::ArgList;
use cuda_driver::prelude::*;
use cuda_driver::safe::SafeLaunchError;
use cuda_driver::{Error, Result};

use crate::arena::{Arena, Place};
use crate::generate::BANK_WORDS;
use crate::module::{Launch, Plan, words};
use crate::planted::Planted;

/// The value of the words before and behind the variable `table`.
const FENCE: u32 = 0x5a5a_5a5a;

/// The outcome of a launch.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Proven,
    Checked,
    Violation,
    /// The kernel or the launch was refused, with the reason.
    Refused(String),
    /// The driver did not compile the kernel or its copy, or did not launch it.
    NotLaunched(String),
    /// The kernel does not end.
    Endless,
    /// The device is lost.
    Fault(String),
    /// A buffer that is passed as `&` has changed, or words before or behind a variable.
    Changed(String),
}

/// How long a kernel may run, and the seconds after which its buffers are set to small numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) release: Duration,
    pub(crate) end: Duration,
}

struct Variables {
    low: Global<u32>,
    table: Global<u32>,
    high: Global<u32>,
    bank: Global<u32>,
}

pub(crate) struct Session<'a> {
    pub(crate) plan: &'a Plan,
    module: SafeModule,
    variables: Option<Variables>,
    patience: Patience,
    rounds: u32,
    planted: Vec<Planted>,
}

impl<'a> Session<'a> {
    /// Loads the kernels.
    pub(crate) fn load(
        arena: &Arena,
        plan: &'a Plan,
        kernels: &[usize],
        patience: Patience,
        rounds: u32,
    ) -> Result<Self> {
        let (text, _) = plan.text(kernels);
        let module = SafeModule::load_with(&arena.context, &Ptx::new(text)?, &plan.options())?;
        let variables = Variables::of(&module, &arena.stream)?;
        Ok(Self {
            plan,
            module,
            variables,
            patience,
            rounds,
            planted: Vec::new(),
        })
    }

    /// Adds kernels that are launched in place of others, for tests of the campaign itself.
    pub(crate) fn plant(&mut self, planted: Vec<Planted>) {
        self.planted = planted;
    }

    /// Launches a kernel, and waits for it.
    pub(crate) fn run(&mut self, arena: &mut Arena, number: usize) -> Outcome {
        let plan = self.plan;
        let launch = &plan.launches[number];
        if let Some(planted) = self.planted.iter().find(|it| it.number == number) {
            let launched = planted.launch(arena, plan.ranges());
            return match launched.and_then(|()| self.wait(arena)) {
                Ok(Some(_)) => Outcome::Proven,
                Ok(None) => Outcome::Endless,
                Err(error) => of_loss(&error),
            };
        }
        let kernel = &plan.kernels[launch.kernel];
        let outcome = self.launch(arena, launch, &kernel.name);
        match outcome {
            Ok(outcome) => outcome,
            Err(Error::SafeLaunch(error)) => Outcome::Refused(reason(&error)),
            Err(error) if is_loss(&error) => of_loss(&error),
            Err(Error::Violation(_)) => Outcome::Violation,
            Err(error) => Outcome::NotLaunched(first_line(&error.to_string())),
        }
    }

    fn launch(&mut self, arena: &mut Arena, launch: &Launch, name: &str) -> Result<Outcome> {
        let kernel = self.module.kernel(name)?;
        let kernel = kernel.with_unproven(launch.unproven);
        let ranges = self.plan.ranges();
        let contents = words(launch, &self.plan.layout);
        for (part, words) in arena.buffers(ranges)?.iter_mut().zip(&contents) {
            part.copy_from_host(words)?;
        }
        let is_using = self.plan.kernels[launch.kernel].uses_variables;
        if is_using && let Some(variables) = &mut self.variables {
            variables.set(&contents[0])?;
        }
        if launch.is_disturbed {
            self.disturb(arena, is_using, self.rounds)?;
        }
        let stream = arena.stream.clone();
        let checked = {
            let [mut x, y, mut z] = arena.buffers(ranges)?;
            let (n, m, w) = launch.numbers;
            let mut args = ArgList::new();
            args.push(&mut x).push(y.as_slice()).push(&mut z);
            args.push(n).push(m).push(w);
            if is_using && let Some(variables) = &mut self.variables {
                args.uses(&mut variables.table).uses(&mut variables.bank);
            }
            stream
                .launch_safe(&kernel, launch.config, &args)?
                .is_checked()
        };
        let Some(is_violated) = self.wait(arena)? else {
            return Ok(Outcome::Endless);
        };
        arena.settle()?;
        if !launch.is_disturbed {
            let [_, y, _] = arena.buffers(ranges)?;
            let after = y.as_slice().to_vec()?;
            if after != contents[1] {
                let at = after.iter().zip(&contents[1]).position(|(a, b)| a != b);
                return Ok(Outcome::Changed(format!(
                    "word {at:?} of y, which is read-only"
                )));
            }
        }
        if is_using
            && let Some(variables) = &self.variables
            && let Some(place) = variables.changed()?
        {
            return Ok(Outcome::Changed(place));
        }
        Ok(match (checked, is_violated) {
            (_, true) => Outcome::Violation,
            (true, false) => Outcome::Checked,
            (false, false) => Outcome::Proven,
        })
    }

    fn disturb(&self, arena: &Arena, is_using: bool, rounds: u32) -> Result<()> {
        for (from, words) in self.plan.ranges() {
            arena.disturb(Place::Window(from), words, rounds)?;
        }
        if is_using && let Some(variables) = &self.variables {
            let bank = Place::Address(variables.bank.as_raw());
            arena.disturb(bank, BANK_WORDS as usize, rounds)?;
        }
        Ok(())
    }

    /// Waits for the stream. Returns whether there was a violation, or nothing if the kernel does
    /// not end.
    fn wait(&self, arena: &Arena) -> Result<Option<bool>> {
        let (start, mut is_released) = (Instant::now(), false);
        while !arena.stream.is_done()? {
            let passed = start.elapsed();
            if passed > self.patience.end {
                return Ok(None);
            }
            if passed > self.patience.release && !is_released {
                // A loop that waits for a small number ends.
                is_released = true;
                self.disturb(arena, false, 1)?;
            }
            if passed > Duration::from_micros(200) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        match arena.stream.synchronize() {
            Ok(()) => Ok(Some(false)),
            Err(Error::Violation(_)) => Ok(Some(true)),
            Err(error) => Err(error),
        }
    }
}

impl Variables {
    /// Returns the variables of a module, unless it has none.
    fn of(module: &SafeModule, stream: &Stream) -> Result<Option<Self>> {
        let find = |name| module.module().global::<u32>(name, stream);
        let (Ok(low), Ok(table), Ok(high), Ok(bank)) = (
            find("fence_low"),
            find("table"),
            find("fence_high"),
            find("bank"),
        ) else {
            return Ok(None);
        };
        let mut variables = Self {
            low,
            table,
            high,
            bank,
        };
        for fence in [&mut variables.low, &mut variables.high] {
            let words = vec![FENCE; fence.len()];
            fence.copy_from_host(&words)?;
        }
        Ok(Some(variables))
    }

    fn set(&mut self, words: &[u32]) -> Result<()> {
        for variable in [&mut self.table, &mut self.bank] {
            let words: Vec<u32> = words.iter().copied().cycle().take(variable.len()).collect();
            variable.copy_from_host(&words)?;
        }
        Ok(())
    }

    /// Returns the first word before or behind `table` that has changed.
    fn changed(&self) -> Result<Option<String>> {
        for fence in [&self.low, &self.high] {
            let words = fence.to_vec()?;
            if let Some(at) = words.iter().position(|word| *word != FENCE) {
                let (name, value) = (fence.name(), words[at]);
                return Ok(Some(format!("word {at} of variable {name}: {value:#x}")));
            }
        }
        Ok(None)
    }
}

/// Returns whether the error says that the process can no longer use the device.
pub(crate) fn is_loss(error: &Error) -> bool {
    let is_sticky = error.driver_error().is_some_and(|error| error.is_sticky());
    is_sticky || error.loss().is_some()
}

/// Returns the outcome of a launch that loses the device. The software device ends kernels that run
/// for too long.
fn of_loss(error: &Error) -> Outcome {
    match error.status() {
        Some(Status::CUDA_ERROR_LAUNCH_TIMEOUT) => Outcome::Endless,
        _ => Outcome::Fault(first_line(&error.to_string())),
    }
}

/// The reason of a refusal, without names and numbers.
fn reason(error: &SafeLaunchError) -> String {
    let text = match error {
        SafeLaunchError::Refused { reason, .. } => reason.clone(),
        SafeLaunchError::Syntax { message } => format!("syntax: {message}"),
        SafeLaunchError::Variable {
            variable,
            is_written,
            ..
        } => format!("variable {variable} is not passed; written: {is_written}"),
        other => other.to_string(),
    };
    let words = first_line(&text);
    let words = words.split_whitespace().map(|word| {
        let is_name =
            word.contains(|letter: char| letter.is_ascii_digit() || "%$[]_".contains(letter));
        if is_name { "…" } else { word }
    });
    words.take(16).collect::<Vec<_>>().join(" ")
}

pub(crate) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

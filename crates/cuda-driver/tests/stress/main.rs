//! Random operations of 16 threads on several devices, compared with a model on the host: kernels
//! with peer arguments, peer copies, graphs, memory of all pools, host functions and transfers.
//!
//! An ordinary run does some operations on four software devices, and on the GPUs if there are two
//! or more. The full run does a million operations on the GPUs, or on software devices without
//! them. Environment variables:
//!
//! - `CUDA_FULL=1`: the full run.
//! - `CUDA_STRESS_OPERATIONS`: the number of operations, instead of these.
//! - `CUDA_STRESS_SECONDS`: the time limit; 600 unless it is set.
//! - `CUDA_STRESS_STATE`: a file that contains how far earlier runs came. With it, a run continues
//!   where the last one ended, until all operations are done.
//! - `CUDA_STRESS_ROUND=n`: only the round of this number.

mod buffers;
mod machine;
mod round;

use std::env;
use std::fs;
use std::str::FromStr;
use std::time::{Duration, Instant};

use cuda_sim::{Builder, Schedule};
use test_drivers::{gpu_driver, simulator};
use test_needs::skip;

use machine::{Machine, free_memory, until};

/// The number of operations of the full run.
const FULL: u64 = 1_000_000;
/// The number of operations of an ordinary run, on software devices and on GPUs.
const REDUCED: [u64; 2] = [4_000, 20_000];
/// The number of software devices.
const DEVICES: usize = 4;

/// The size of a run.
struct Plan {
    operations: u64,
    end: Instant,
    state: Option<String>,
}

/// How far a run and those before it came.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    rounds: u64,
    operations: u64,
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    let parsed = value.parse().ok();
    Some(parsed.unwrap_or_else(|| panic!("{name} is {value:?}; it must be a number")))
}

fn is_full() -> bool {
    env::var("CUDA_FULL").is_ok_and(|value| value == "1")
}

impl Plan {
    fn new(reduced: u64) -> Self {
        let operations = if is_full() { FULL } else { reduced };
        let seconds = variable("CUDA_STRESS_SECONDS").unwrap_or(600);
        Self {
            operations: variable("CUDA_STRESS_OPERATIONS").unwrap_or(operations),
            end: Instant::now() + Duration::from_secs(seconds),
            state: env::var("CUDA_STRESS_STATE").ok(),
        }
    }

    /// Returns what earlier runs did.
    fn before(&self) -> Progress {
        let text = self
            .state
            .as_ref()
            .and_then(|it| fs::read_to_string(it).ok());
        let numbers: Vec<u64> = text
            .iter()
            .flat_map(|text| text.split_whitespace())
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [rounds, operations] => Progress { rounds, operations },
            _ => Progress::default(),
        }
    }

    fn save(&self, progress: Progress) {
        if let Some(state) = &self.state {
            let Progress { rounds, operations } = progress;
            fs::write(state, format!("{rounds} {operations}\n")).unwrap();
        }
    }

    /// Runs rounds until the operations are done or the time is over.
    fn run(&self, name: &str, machine: impl Fn(u64) -> Machine) {
        if let Some(number) = variable("CUDA_STRESS_ROUND") {
            let done = machine(number).round(number);
            println!("{name}: {done} operations in round {number}");
            return;
        }
        let before = self.before();
        let (mut progress, start) = (before, Instant::now());
        while progress.operations < self.operations && Instant::now() < self.end {
            let machine = machine(progress.rounds);
            for _ in 0..machine.rounds() {
                progress.operations += machine.round(progress.rounds);
                progress.rounds += 1;
                self.save(progress);
                if progress.operations >= self.operations || Instant::now() >= self.end {
                    break;
                }
            }
            machine.end();
        }
        let here = progress.operations - before.operations;
        println!(
            "{name}: rounds {} to {}, {here} operations, {:.0} a second; {} of {} in all runs",
            before.rounds,
            progress.rounds,
            here as f64 / start.elapsed().as_secs_f64(),
            progress.operations,
            self.operations
        );
    }
}

#[test]
fn random_operations_on_software_devices_match_the_model() {
    if is_full() && gpu_driver().is_some() {
        return skip("the full run uses the GPUs");
    }
    Plan::new(REDUCED[0]).run("software devices", |round| {
        let builder = Builder::new().devices(DEVICES);
        let builder = match round % 3 {
            0 => builder,
            seed => builder.schedule(Schedule::Late { seed: seed + round }),
        };
        Machine::software(simulator(&builder))
    });
}

#[test]
fn random_operations_on_gpus_match_the_model() {
    let Some(driver) = gpu_driver() else { return };
    if driver.devices().unwrap().len() < 2 {
        return skip("it needs two GPUs");
    }
    // What the driver allocates once for the process is in use from now on.
    free_memory(&driver);
    let before = free_memory(&driver);
    Plan::new(REDUCED[1]).run("GPUs", |_| Machine::gpus(&driver));
    until(|| {
        let after = free_memory(&driver);
        let is_less = after
            .iter()
            .zip(&before)
            .any(|(after, before)| after < before);
        is_less.then(|| format!("{after:?} bytes are free, {before:?} were"))
    });
    println!("GPUs: {before:?} bytes are free, as before");
}

//! Random programs on a device that delays and reorders work as far as it is allowed to, compared
//! with a sequential model.
//!
//! In a quarter of the programs, driver calls fail at random: everything that a failed step does
//! not touch must match the model.
//!
//! `CUDA_FULL=1` runs all of them; `CUDA_SEED=n` runs the program of that seed.

mod graphs;
mod machine;
mod maker;
mod model;
mod program;

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use machine::{Machine, describe, is_planned};
use model::Model;
use program::Program;

/// The number of programs with `CUDA_FULL=1`.
const FULL: u64 = 120_000;
/// The number of programs in an ordinary run.
const REDUCED: u64 = 1_000;

#[test]
fn random_programs_match_the_model() {
    if let Ok(seed) = env::var("CUDA_SEED") {
        let seed = seed.parse().expect("CUDA_SEED must be a number");
        return check(seed).unwrap_or_else(|why| panic!("{why}"));
    }
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if full { FULL } else { REDUCED };
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(16));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        break;
                    }
                    if let Err(why) = check(seed) {
                        // The other threads stop after their current program.
                        next.store(count, Ordering::Relaxed);
                        panic!("{why}");
                    }
                }
            });
        }
    });
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("{count} of {FULL} random programs, {rate:.0} a second");
}

/// Runs the program of `seed`. The error describes the shortest failing program that was found.
fn check(seed: u64) -> Result<(), String> {
    let program = Program::of_seed(seed);
    let Err(first) = run(&program) else {
        return Ok(());
    };
    let (shortest, why) = shrink(program, first);
    let steps: String = shortest
        .steps
        .iter()
        .map(|step| format!("  {step:?}\n"))
        .collect();
    Err(format!(
        "CUDA_SEED={seed} fails, and this subset of its steps fails too:\n{steps}{why}"
    ))
}

fn run(program: &Program) -> Result<(), String> {
    let mut model = Model::default();
    let mut machine = Machine::new(program).map_err(|error| describe(&error))?;
    let mut program = program.clone();
    let mut index = 0;
    while let Some(step) = program.steps.get(index) {
        match machine.step(step) {
            Ok(got) => {
                let want = model.act(&step.action);
                if want.is_some() && got != want {
                    return Err(format!("step {index}: read {got:?}\n  should be {want:?}"));
                }
                index += 1;
            }
            Err(error) if !program.faults || !is_planned(&error) => {
                return Err(format!("step {index}: {}", describe(&error)));
            }
            Err(_) if step.action.makes() => program = program.without(index..index + 1),
            Err(_) => {
                model.fail(&step.action);
                index += 1;
            }
        }
    }
    machine.end(program.seed)
}

/// Removes steps as long as the rest still fails.
fn shrink(mut program: Program, mut why: String) -> (Program, String) {
    let mut size = program.steps.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        let mut is_shorter = false;
        while start < program.steps.len() {
            let end = (start + size).min(program.steps.len());
            let less = program.without(start..end);
            match run(&less) {
                Err(error) => {
                    (program, why) = (less, error);
                    is_shorter = true;
                }
                Ok(()) => start = end,
            }
        }
        if !is_shorter || size > 1 {
            size /= 2;
        }
    }
    (program, why)
}

//! Random graphs, each built node by node and captured, on a device that delays and reorders work
//! as far as it is allowed to, compared with a sequential model.
//!
//! `CUDA_FULL=1` runs all of them; `CUDA_SEED=n` runs the graph of that seed.

mod machine;
mod program;

use std::env;
use std::time::Instant;

use machine::Machine;
use program::Program;

use crate::support::{gpu, late, software};

/// The number of programs with `CUDA_FULL=1`.
const FULL: u64 = 20_000;
/// The number of programs in an ordinary run.
const REDUCED: u64 = 120;
/// The number of programs on a GPU.
const ON_A_GPU: u64 = 200;

#[test]
fn built_and_captured_random_graphs_match_the_model() {
    if let Ok(seed) = env::var("CUDA_SEED") {
        return check(seed.parse().expect("CUDA_SEED must be a number"));
    }
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if full { FULL } else { REDUCED };
    let start = Instant::now();
    (0..count).for_each(check);
    println!("{count} of {FULL} random graphs in {:?}", start.elapsed());
    if let Some(fixture) = gpu() {
        for seed in 0..ON_A_GPU {
            run(seed, &mut Machine::new(&fixture, &Program::new(seed)));
        }
    }
}

fn check(seed: u64) {
    let fixture = software(late(seed));
    run(seed, &mut Machine::new(&fixture, &Program::new(seed)));
}

/// Runs both graphs with other uses between the launches, several times.
fn run(seed: u64, machine: &mut Machine<'_>) {
    machine.run();
    let found = machine.differences();
    assert!(found.is_empty(), "CUDA_SEED={seed}: {found:?}");
}

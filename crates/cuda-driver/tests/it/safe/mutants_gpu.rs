//! The mutants of [`mutants`](super::mutants) on a GPU: the safe launch reports those that leave
//! their arguments, and the context survives all of them. Plain launches of the same mutants, one
//! in a process, show what happens without the checks, also under a sanitizer.
//!
//! `CUDA_FULL=1` runs until 500 defects were found. `CUDA_PLAIN=n` launches one mutant plainly.

use std::env;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::Error;
use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_sim::{Report, ReportKind};

use super::mutants::{is_foreign, mutant, run_as_on_a_gpu, run_on};
use crate::support::{Fixture, gpu, skip};

/// The number of defects that a run finds, and that with `CUDA_FULL=1`.
const DEFECTS: u32 = 40;
const FULL_DEFECTS: u32 = 500;
/// The time after which a mutant is taken for endless.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Counts {
    mutants: u32,
    /// Mutants with an access outside of their arguments on the software device: reported, and
    /// refused.
    reported: u32,
    refused: u32,
    /// Other mutants: with a report, and without one.
    found_alone: u32,
    silent: u32,
    /// Mutants without a report whose results were equal on both devices, and those whose results
    /// depend on the order of the threads or on memory that was never written.
    compared: u32,
    undetermined: u32,
    /// Mutants that are not launched, because they do not end, or because the driver's compiler
    /// refuses them.
    endless: u32,
    not_compiled: u32,
    /// The seeds of the mutants with an access outside of their arguments.
    seeds: Vec<u64>,
}

/// Words that no mutant may change, allocated among the buffers of the mutants.
fn canary(stream: &Stream) -> DeviceBuffer<u32> {
    let mut words = DeviceBuffer::zeroed_in(&Unpooled, stream, 1024).unwrap();
    words.copy_from_host(&[0x5a5a_5a5a; 1024]).unwrap();
    words
}

fn is_unchanged(canary: &DeviceBuffer<u32>) -> bool {
    canary.to_vec().unwrap().iter().all(|it| *it == 0x5a5a_5a5a)
}

/// Compares a mutant on the GPU with the same one on software devices.
fn check(seed: u64, gpu: &Fixture, canary: &DeviceBuffer<u32>, counts: &Mutex<Counts>) {
    let mutant = mutant(seed);
    let what = format!("CUDA_SEED={seed}: {}", mutant.name());
    let [plain, model] = [false, true].map(|is_safe| run_as_on_a_gpu(&mutant, is_safe));
    let mut reports = plain.reports.iter().chain(&model.reports);
    let is_endless = reports.any(|it| it.kind == ReportKind::Fault);
    counts.lock().unwrap().mutants += 1;
    if is_endless {
        counts.lock().unwrap().endless += 1;
        return;
    }
    let foreign = plain.reports.iter().find(|report| is_foreign(report));
    let is_open =
        |it: &Report| matches!(it.kind, ReportKind::Race(_) | ReportKind::UninitializedRead);
    let is_undetermined = plain.reports.iter().chain(&model.reports).any(is_open)
        || run_as_on_a_gpu(&mutant.reversed(), false).words != plain.words;
    let safe = run_on(gpu, &mutant, true);
    assert!(is_unchanged(canary), "{what}: foreign memory was changed");
    let mut counts = counts.lock().unwrap();
    if foreign.is_some() {
        counts.seeds.push(seed);
    }
    match (&safe.launched, foreign) {
        (Err(Error::Violation(_)), Some(_)) => counts.reported += 1,
        (Err(Error::SafeLaunch(_)), Some(_)) => counts.refused += 1,
        (Err(Error::Violation(_)), None) => counts.found_alone += 1,
        (Err(Error::SafeLaunch(_) | Error::Ptx(_)), None) => counts.silent += 1,
        (Ok(_), None) => {
            counts.silent += 1;
            if model.launched.is_ok() && plain.launched.is_ok() {
                // The result of a race, or of memory that was never written, differs.
                if is_undetermined {
                    counts.undetermined += 1;
                } else {
                    assert_eq!(model.words, safe.words, "{what}");
                    counts.compared += 1;
                }
            }
        }
        (Err(Error::Jit(_)), _) => counts.not_compiled += 1,
        (Ok(_), Some(report)) => panic!("{what}: not reported: {report}"),
        (Err(error), _) => panic!("{what}: {error}"),
    }
}

#[test]
fn planted_defects_are_reported_on_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let wanted = if full { FULL_DEFECTS } else { DEFECTS };
    let (next, counts) = (AtomicU64::new(0), Mutex::new(Counts::default()));
    let workers = thread::available_parallelism().map_or(2, |count| count.get().clamp(2, 12));
    let started: Vec<Mutex<Option<(u64, Instant)>>> =
        (0..workers).map(|_| Mutex::default()).collect();
    let begin = Instant::now();
    thread::scope(|scope| {
        let worker = |state: &Mutex<Option<(u64, Instant)>>| {
            let stream = gpu.stream();
            let canary = canary(&stream);
            let is_enough = || {
                let counts = counts.lock().unwrap();
                counts.reported + counts.refused >= wanted
            };
            while !is_enough() {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                *state.lock().unwrap() = Some((seed, Instant::now()));
                check(seed, &gpu, &canary, &counts);
            }
            *state.lock().unwrap() = None;
        };
        let workers: Vec<_> = started
            .iter()
            .map(|state| scope.spawn(move || worker(state)))
            .collect();
        // A kernel that does not end would stop the test for ever.
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            for state in &started {
                let state = state.lock().map_or(None, |state| *state);
                if let Some((seed, start)) = state
                    && start.elapsed() > PATIENCE
                {
                    println!("CUDA_SEED={seed}: the mutant does not end");
                    process::abort();
                }
            }
        }
    });
    // The context is alive.
    let stream = gpu.stream();
    assert!(is_unchanged(&canary(&stream)));
    stream.synchronize().unwrap();
    let mut counts = counts.into_inner().unwrap();
    counts.seeds.sort_unstable();
    println!("{counts:?}\n{workers} threads, {:?}", begin.elapsed());
}

/// One mutant without checks, which may end the context of its process.
#[test]
fn a_plain_launch_shows_what_a_defect_does() {
    let Some(seed) = env::var("CUDA_PLAIN").ok().and_then(|it| it.parse().ok()) else {
        return skip("CUDA_PLAIN=n launches a mutant plainly on a GPU");
    };
    let Some(gpu) = gpu() else { return };
    let mutant = mutant(seed);
    let stream = gpu.stream();
    let canary = canary(&stream);
    let plain = run_on(&gpu, &mutant, false);
    let context = match stream.synchronize() {
        Ok(()) if is_unchanged(&canary) => "alive",
        Ok(()) => "alive, but foreign memory was changed",
        Err(_) => "lost",
    };
    let result = match &plain.launched {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    };
    println!("{seed}: {}: {result}; context {context}", mutant.name());
    if context == "lost" {
        // Destructors would report the same error.
        process::exit(0);
    }
}

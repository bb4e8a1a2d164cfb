//! Counts the programs of all runs in a file, so that a later run continues after them.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The number of programs that a thread runs between two changes of the file.
const PIECE: u64 = 1000;

/// Statistics of all programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) programs: u64,
    pub(super) accesses: u64,
    pub(super) proven: u64,
    pub(super) unreached: u64,
    pub(super) threads: u64,
    pub(super) executed: u64,
    /// Executions of proven accesses, and those that reached the last proven byte.
    pub(super) proven_executed: u64,
    pub(super) at_end: u64,
}

const NAMES: [&str; 8] = [
    "programs",
    "accesses",
    "proven",
    "unreached",
    "threads",
    "executed",
    "proven_executed",
    "at_end",
];

impl Counts {
    fn numbers(&mut self) -> [&mut u64; 8] {
        [
            &mut self.programs,
            &mut self.accesses,
            &mut self.proven,
            &mut self.unreached,
            &mut self.threads,
            &mut self.executed,
            &mut self.proven_executed,
            &mut self.at_end,
        ]
    }

    fn add(&mut self, mut other: Self) {
        for (number, more) in self.numbers().into_iter().zip(other.numbers()) {
            *number += *more;
        }
    }

    /// Reads what [`Display`] wrote.
    fn parse(text: &str) -> Self {
        let mut counts = Self::default();
        for (number, name) in counts.numbers().into_iter().zip(NAMES) {
            let mut words = text.split_whitespace();
            words
                .find(|word| *word == name)
                .expect("a count of an earlier run");
            *number = words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a number");
        }
        counts
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut counts = *self;
        for (number, name) in counts.numbers().into_iter().zip(NAMES) {
            writeln!(f, "{name} {number}")?;
        }
        Ok(())
    }
}

/// Runs the programs with the seeds from `first` on, and returns the counts. With a file, continues
/// after the seeds that it counts.
pub(super) fn run(first: u64, programs: u64, check: fn(u64, &mut Counts)) -> Counts {
    let file = env::var_os("CUDA_PTX_COUNT");
    let file = file.as_ref().map(Path::new);
    let minutes: Option<u64> = env::var("CUDA_PTX_MINUTES")
        .ok()
        .and_then(|it| it.parse().ok());
    let limit = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let text = file.and_then(|file| fs::read_to_string(file).ok());
    let mut counts = text.map_or_else(Counts::default, |text| Counts::parse(&text));
    let (start, before) = (Instant::now(), counts.programs);
    let workers = match programs {
        0..=100 => 1,
        _ => thread::available_parallelism().map_or(1, |count| count.get() as u64),
    };
    while counts.programs < programs && limit.is_none_or(|limit| start.elapsed() < limit) {
        let seeds = (0..workers).map(|worker| {
            let from = (counts.programs + worker * PIECE).min(programs);
            first + from..first + (from + PIECE).min(programs)
        });
        let pieces: Vec<Counts> = thread::scope(|scope| {
            let workers: Vec<_> = seeds
                .map(|seeds| {
                    scope.spawn(move || {
                        let mut counts = Counts::default();
                        for seed in seeds {
                            check(seed, &mut counts);
                            counts.programs += 1;
                        }
                        counts
                    })
                })
                .collect();
            let pieces = workers
                .into_iter()
                .map(|worker| worker.join().expect("a sound proof"));
            pieces.collect()
        });
        pieces.into_iter().for_each(|piece| counts.add(piece));
        if let Some(file) = file {
            fs::write(file, counts.to_string()).expect("the file with the counts is written");
        }
    }
    let new = counts.programs - before;
    let rate = new as f64 / start.elapsed().as_secs_f64();
    println!(
        "{new} programs in {:.0?}, {rate:.0} in a second",
        start.elapsed()
    );
    counts
}

#[test]
fn counts_are_read_as_they_are_written() {
    let mut counts = Counts::default();
    for (number, value) in counts.numbers().into_iter().zip(7..) {
        *number = value;
    }
    assert_eq!(Counts::parse(&counts.to_string()), counts);
    let mut sum = counts;
    sum.add(counts);
    assert_eq!((sum.programs, sum.at_end), (14, 28));
}

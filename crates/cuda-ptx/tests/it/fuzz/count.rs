//! Counts the programs of all runs in a file, so that a later run continues after them.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The number of programs that a thread runs between two changes of the file.
const PIECE: u64 = 1000;

/// Numbers that are added up over all programs. The first one is the number of programs.
pub(crate) trait Counted: Copy + Default + Send {
    /// The numbers with their names.
    fn numbers(&mut self) -> Vec<(&'static str, &mut u64)>;
}

/// Declares a struct of numbers that are added up.
macro_rules! counts {
    (
        $(#[$doc:meta])* $vis:vis struct $name:ident {
            $($(#[$field_doc:meta])* $field:ident,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name { $($(#[$field_doc])* $vis $field: u64,)* }

        impl count::Counted for $name {
            fn numbers(&mut self) -> Vec<(&'static str, &mut u64)> {
                vec![$((stringify!($field), &mut self.$field)),*]
            }
        }
    };
}
pub(crate) use counts;

/// Returns the text of the file: a name and a number per line.
pub(crate) fn text(mut counts: impl Counted) -> String {
    let numbers = counts.numbers().into_iter();
    numbers
        .map(|(name, number)| format!("{name} {number}\n"))
        .collect()
}

/// Reads what [`text`] returned.
pub(crate) fn parse<C: Counted>(text: &str) -> C {
    let mut counts = C::default();
    for (name, number) in counts.numbers() {
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

fn add<C: Counted>(counts: &mut C, mut more: C) {
    for ((_, number), (_, more)) in counts.numbers().into_iter().zip(more.numbers()) {
        *number += *more;
    }
}

/// The number of programs to run, and the seed of the first: `CUDA_PTX_PROGRAMS`, and `CUDA_SEED`,
/// which runs one program unless their number is given.
pub(crate) fn programs(few: u64, many: u64) -> (u64, u64) {
    let number = |name| {
        let value = env::var(name).ok();
        value.map(|value| {
            value
                .parse()
                .unwrap_or_else(|_| panic!("{name} must be a number"))
        })
    };
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let default = if full { many } else { few };
    match (number("CUDA_PTX_PROGRAMS"), number("CUDA_SEED")) {
        (count, None) => (count.unwrap_or(default), 0),
        (count, Some(seed)) => (count.unwrap_or(1), seed),
    }
}

/// Runs the programs with the seeds from `first` on, and returns the counts. With a file, continues
/// after the seeds that it counts.
pub(crate) fn run<C: Counted>(first: u64, programs: u64, check: fn(u64, &mut C)) -> C {
    let file = env::var_os("CUDA_PTX_COUNT");
    let file = file.as_ref().map(Path::new);
    let minutes: Option<u64> = env::var("CUDA_PTX_MINUTES")
        .ok()
        .and_then(|it| it.parse().ok());
    let limit = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let stored = file.and_then(|file| fs::read_to_string(file).ok());
    let mut counts: C = stored.map_or_else(C::default, |stored| parse(&stored));
    let done = |counts: &mut C| *counts.numbers()[0].1;
    let (start, before) = (Instant::now(), done(&mut counts));
    let workers = match programs {
        0..=100 => 1,
        _ => thread::available_parallelism().map_or(1, |count| count.get() as u64),
    };
    // A short run has work for each thread.
    let piece = PIECE.min(programs.div_ceil(workers));
    while done(&mut counts) < programs && limit.is_none_or(|limit| start.elapsed() < limit) {
        let completed = done(&mut counts);
        let seeds = (0..workers).map(|worker| {
            let from = (completed + worker * piece).min(programs);
            first + from..first + (from + piece).min(programs)
        });
        let pieces: Vec<C> = thread::scope(|scope| {
            let workers: Vec<_> = seeds
                .map(|seeds| {
                    scope.spawn(move || {
                        let mut counts = C::default();
                        for seed in seeds {
                            check(seed, &mut counts);
                            *counts.numbers()[0].1 += 1;
                        }
                        counts
                    })
                })
                .collect();
            let pieces = workers
                .into_iter()
                .map(|worker| worker.join().expect("no program fails"));
            pieces.collect()
        });
        pieces.into_iter().for_each(|piece| add(&mut counts, piece));
        if let Some(file) = file {
            fs::write(file, text(counts)).expect("the file with the counts is written");
        }
    }
    let new = done(&mut counts) - before;
    let rate = new as f64 / start.elapsed().as_secs_f64();
    println!(
        "{new} programs in {:.0?}, {rate:.0} in a second",
        start.elapsed()
    );
    counts
}

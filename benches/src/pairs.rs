//! The difference in nanoseconds between two ways to do something, measured in alternation.

use std::env;
use std::time::Instant;

use cuda_driver::Driver;

use crate::null_driver;

/// The number of runs of one way before the other has its turn. Four such rows fit in a stream's
/// queue without making a launch wait for room.
const ROW: u32 = 64;

/// The measured differences of pairs of runs.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// For each group of four rows: the nanoseconds of one run of the first way, and how much
    /// longer one run of the second took.
    samples: Vec<(f64, f64)>,
    /// The number of runs of each way.
    runs: usize,
}

/// A median with its 95 % confidence interval, which is computed from the order statistics alone.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// The median of the samples.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Pairs {
    /// Runs both ways in rows, first and second, then second and first, until there are `count`
    /// runs of each, with `drain` outside the measured time.
    pub fn measure(
        count: u32,
        first: impl FnMut(),
        second: impl FnMut(),
        drain: impl FnMut(),
    ) -> Self {
        Self::measure_rows(count, ROW, first, second, drain)
    }

    /// Like [`measure`](Self::measure), with rows of `length` runs, for work that fills a stream's
    /// queue sooner.
    pub fn measure_rows(
        count: u32,
        length: u32,
        mut first: impl FnMut(),
        mut second: impl FnMut(),
        mut drain: impl FnMut(),
    ) -> Self {
        let mut samples = Vec::new();
        for _ in 0..count.div_ceil(2 * length) {
            let a = row(length, &mut first);
            let b = row(length, &mut second);
            let b = b + row(length, &mut second);
            let a = a + row(length, &mut first);
            drain();
            samples.push((a / 2.0, (b - a) / 2.0));
        }
        let runs = samples.len() * 2 * length as usize;
        Self { samples, runs }
    }

    /// The number of pairs that were run.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs
    }

    /// Adds the samples of `others`, which measured the same two ways.
    pub fn extend(&mut self, others: &Self) {
        self.samples.extend_from_slice(&others.samples);
        self.runs += others.runs;
    }

    /// The nanoseconds of one run of the first way.
    #[must_use]
    pub fn first(&self) -> Estimate {
        Estimate::of(self.samples.iter().map(|sample| sample.0).collect())
    }

    /// The additional nanoseconds of one run of the second way.
    #[must_use]
    pub fn difference(&self) -> Estimate {
        Estimate::of(self.samples.iter().map(|sample| sample.1).collect())
    }
}

impl Estimate {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let count = samples.len() as f64;
        let at = |rank: f64| {
            let last = samples.len().saturating_sub(1);
            samples
                .get((rank.max(0.0) as usize).min(last))
                .copied()
                .unwrap_or(f64::NAN)
        };
        let half = 1.96 * count.sqrt() / 2.0;
        Self {
            median: at(count / 2.0),
            low: at(count / 2.0 - half),
            high: at(count / 2.0 + half),
        }
    }
}

/// The nanoseconds per run, over a row of `length` runs.
fn row(length: u32, run: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..length {
        run();
    }
    start.elapsed().as_nanos() as f64 / f64::from(length)
}

/// Returns the number of pairs of each row: the value of an environment variable, or `usual`. If
/// cargo only checks that the bench runs (`cargo test --benches`), returns a small number.
#[must_use]
pub fn number_of_pairs(variable: &str, usual: u32) -> u32 {
    let is_test = env::args().any(|argument| argument == "--test");
    let asked = env::var(variable).ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if is_test { 1000 } else { usual })
}

/// Calls `measure` with the null driver and, if there is one, with the driver of a GPU, and with
/// the name of each.
///
/// # Panics
///
/// Panics if the null driver lacks a function.
pub fn on_each_driver(mut measure: impl FnMut(&str, &Driver)) {
    let null = null_driver().expect("the null driver has every required function");
    for (name, driver) in [("null driver", Driver::new(null)), ("GPU", Driver::load())] {
        match driver {
            Ok(driver) => {
                println!("\n{name}: {}, CUDA {}", driver.origin(), driver.version());
                measure(name, &driver);
            }
            Err(error) => println!("skipped: {name}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::Pairs;

    #[test]
    fn a_known_difference_is_found() {
        let spin = |time: Duration| {
            let start = Instant::now();
            while start.elapsed() < time {}
        };
        // Other processes disturb some measurements.
        let found = (0..50).any(|_| {
            let drained = Cell::new(0);
            let pairs = Pairs::measure(
                2000,
                || spin(Duration::from_micros(2)),
                || spin(Duration::from_micros(5)),
                || drained.set(drained.get() + 1),
            );
            assert_eq!((pairs.count(), drained.get()), (2048, 16));
            let difference = pairs.difference();
            assert!(difference.low <= difference.median && difference.median <= difference.high);
            println!("{difference:?}");
            (2900.0..3300.0).contains(&difference.median)
        });
        assert!(found, "no difference was between 2.9 and 3.3 µs");
    }
}

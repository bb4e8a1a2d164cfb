//! The times of the evaluation for one launch.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cuda_ptx::analysis::{Analysis, LaunchValues};

/// The number of evaluations of which the fastest counts.
const REPEATS: u32 = 5;

/// The time of each kernel.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<(Duration, String)>);

impl Times {
    /// Measures the evaluation of a kernel.
    pub(crate) fn measure(&mut self, name: String, analysis: &Analysis, values: &LaunchValues) {
        let fastest = (0..REPEATS)
            .map(|_| {
                let start = Instant::now();
                black_box(analysis.evaluate(black_box(values)));
                start.elapsed()
            })
            .min();
        self.0.extend(fastest.map(|time| (time, name)));
    }
}

impl fmt::Display for Times {
    /// Writes how many kernels are below the two goals, some percentiles, and the slowest kernels.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times: Vec<_> = self.0.iter().collect();
        times.sort();
        let below = |limit| times.iter().take_while(|(time, _)| *time <= limit).count();
        let at = |percent| times.get(times.len() * percent / 100);
        write!(
            f,
            "    evaluation: {} of {} kernels take 100 µs or less, {} take 1 ms or less",
            below(Duration::from_micros(100)),
            times.len(),
            below(Duration::from_millis(1)),
        )?;
        for percent in [50, 90, 95] {
            if let Some((time, _)) = at(percent) {
                write!(f, "; {percent} %: {time:?}")?;
            }
        }
        for (time, name) in times.iter().rev().take(5) {
            write!(f, "\n    {time:?}: {name}")?;
        }
        Ok(())
    }
}

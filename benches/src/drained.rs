//! Measures calls on a stream whose queue never fills up.

use std::time::{Duration, Instant};

use cuda_driver::Stream;

/// The number of calls that fit in a stream's queue without blocking.
const BATCH: u64 = 256;

/// Runs `work` as often as Criterion asks, and drains the stream between batches, outside the
/// measured time.
///
/// # Panics
///
/// If the queued work fails.
pub fn drained(stream: &Stream, iterations: u64, mut work: impl FnMut()) -> Duration {
    let mut left = iterations;
    let mut elapsed = Duration::ZERO;
    while left > 0 {
        let batch = left.min(BATCH);
        let start = Instant::now();
        for _ in 0..batch {
            work();
        }
        elapsed += start.elapsed();
        stream.synchronize().expect("the queued work succeeds");
        left -= batch;
    }
    elapsed
}

//! Time on a stream that is never full.

use std::time::{Duration, Instant};

use cuda_driver::Stream;

/// So many calls fit in a stream's queue without making one wait.
const BATCH: u64 = 256;

/// Runs `work` as often as Criterion asks, draining the stream between batches, outside the
/// measured time.
///
/// # Panics
///
/// If what was queued fails.
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
        stream.synchronize().expect("what was queued runs");
        left -= batch;
    }
    elapsed
}

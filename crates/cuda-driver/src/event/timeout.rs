//! Waits with a timeout, which CUDA does not have.

use std::thread;
use std::time::{Duration, Instant};

use super::Event;
use crate::error::Result;
use crate::stream::Stream;

/// How long a wait polls without sleeping.
const SPIN: Duration = Duration::from_micros(50);
/// The longest sleep between two queries.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Polls until `is_done` returns true or `limit` has passed. Returns the result of the last query.
pub(crate) fn poll(limit: Duration, mut is_done: impl FnMut() -> Result<bool>) -> Result<bool> {
    let start = Instant::now();
    let mut sleep = Duration::from_micros(10);
    loop {
        let done = is_done()?;
        let passed = start.elapsed();
        if done || passed >= limit {
            return Ok(done);
        }
        if passed < SPIN {
            thread::yield_now();
        } else {
            thread::sleep(sleep.min(limit - passed));
            sleep = (2 * sleep).min(LONGEST_SLEEP);
        }
    }
}

/// Waits with a timeout.
impl Event {
    /// `cuEventQuery()`—Waits until the work before the event is complete, but at most for `limit`.
    /// Returns `false` if it is not complete then.
    ///
    /// The host polls, at intervals of up to a millisecond. Use it where the work may never
    /// complete: after a recording in another process, which may have been killed, or behind a
    /// [wait for a value](Stream::wait_value).
    ///
    /// # Errors
    ///
    /// Fails as [`synchronize`](Self::synchronize) does.
    #[doc(alias = "cuEventQuery")]
    pub fn synchronize_timeout(&self, limit: Duration) -> Result<bool> {
        let done = poll(limit, || self.is_done())?;
        if done {
            self.mark.report()?;
        }
        Ok(done)
    }
}

/// Waits with a timeout.
impl Stream {
    /// `cuStreamQuery()`—Waits until all work that is queued on the stream is complete, but at most
    /// for `limit`. Returns `false` if it is not complete then. See
    /// [`Event::synchronize_timeout`].
    ///
    /// # Errors
    ///
    /// Fails as [`synchronize`](Self::synchronize) does.
    #[doc(alias = "cuStreamQuery")]
    pub fn synchronize_timeout(&self, limit: Duration) -> Result<bool> {
        self.expect_direct("Stream::synchronize_timeout")?;
        let done = poll(limit, || self.is_done())?;
        if done {
            // Not a wait for the stream: another thread may have queued more work.
            self.report_violations()?;
        }
        Ok(done)
    }
}

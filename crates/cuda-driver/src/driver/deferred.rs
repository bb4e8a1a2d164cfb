//! Work that must not run on the thread that asks for it, because it frees an object or waits.
//!
//! The work of a handle of the driver belongs to the context of that handle, or to no context.

use std::thread;
use std::time::{Duration, Instant};

use super::Driver;
use crate::deferred::must_not_wait;

/// The longest time that [`Driver::wait_for_deferred`] waits.
const DEFERRED_TIMEOUT: Duration = Duration::from_secs(1);

impl Driver {
    /// Returns whether ordered deferred work of the context is queued or running.
    pub(crate) fn has_deferred(&self) -> bool {
        self.jobs().is_open()
    }

    /// Returns whether calls that free an object of the context must be [deferred](Self::defer).
    /// That is so where waiting is not allowed, and while earlier deferred calls of the same
    /// context are still pending: objects are freed in the order of their drops, for example a
    /// stream before its context. Other contexts are not affected.
    #[inline]
    pub(crate) fn must_defer(&self) -> bool {
        must_not_wait() || self.has_deferred()
    }

    /// Waits up to a second until the deferred work of the context is done. Returns whether it is
    /// done. Does not wait where waiting is not allowed.
    pub(crate) fn wait_for_deferred(&self) -> bool {
        let start = Instant::now();
        while self.must_defer() {
            if must_not_wait() || start.elapsed() > DEFERRED_TIMEOUT {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits up to a second until the deferred work that waits for the whole context is done, which
    /// is how modules are unloaded. Does not wait where waiting is not allowed.
    pub(crate) fn wait_for_unloads(&self) {
        let start = Instant::now();
        while self.jobs().has_waits() && !must_not_wait() && start.elapsed() < DEFERRED_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs `work` on the worker thread of the context, after all its earlier deferred work. `work`
    /// may wait; it does not invalidate a capture of other code.
    pub(crate) fn defer(&self, work: impl FnOnce() + Send + 'static) {
        self.jobs().add(self.job(work));
    }

    /// Runs `work`, which waits until a whole context is idle and owns everything it needs, on a
    /// worker thread. Other deferred work of the context does not wait for it.
    pub(crate) fn defer_wait(&self, work: impl FnOnce() + Send + 'static) {
        self.jobs().add_wait(self.job(work));
    }

    /// Wraps `work` as a job of a worker thread.
    fn job(&self, work: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
        let driver = self.clone();
        Box::new(move || {
            let _relaxed = driver.relaxed();
            work();
        })
    }

    /// Runs `work`, which frees an object: now, or after the earlier deferred work of its context.
    /// `work` must free what it owns explicitly; anything merely dropped would be deferred again,
    /// and be freed after its own context.
    #[inline]
    pub(crate) fn run_in_order(&self, work: impl FnOnce() + Send + 'static) {
        if self.must_defer() {
            self.defer(work);
        } else {
            work();
        }
    }

    /// Runs `work`, which may wait: now, or on a worker thread if waiting is not allowed here.
    pub(crate) fn run_or_defer(&self, work: impl FnOnce() + Send + 'static) {
        if must_not_wait() {
            self.defer(work);
        } else {
            work();
        }
    }

    /// Runs `work` as [`defer_wait`](Self::defer_wait) does, or now if waiting is allowed here.
    pub(crate) fn run_or_defer_wait(&self, work: impl FnOnce() + Send + 'static) {
        if must_not_wait() {
            self.defer_wait(work);
        } else {
            let _relaxed = self.relaxed();
            work();
        }
    }
}

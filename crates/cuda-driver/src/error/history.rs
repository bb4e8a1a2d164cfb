//! The errors that a driver has returned: a bounded list, and counts for each code and call. C has
//! no counterpart.
//!
//! A history that is off costs one relaxed load per error, and nothing per call that succeeds.

use std::backtrace::Backtrace;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::SystemTime;

use cuda_sys::{CUresult, Function};

use super::{Category, DriverError};
use crate::lock::{Mutex, rank};

/// The settings of an error history: see [`Driver::record_errors`](crate::Driver::record_errors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HistoryOptions {
    capacity: usize,
    has_backtraces: bool,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl HistoryOptions {
    /// Keeps the last 256 errors, without backtraces.
    pub const fn new() -> Self {
        Self {
            capacity: 256,
            has_backtraces: false,
        }
    }

    /// Keeps the last `capacity` errors. The counts cover all errors.
    pub const fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// Captures a backtrace for each error that is kept, which takes some microseconds. Printing it
    /// takes much longer.
    pub const fn backtraces(mut self, are_captured: bool) -> Self {
        self.has_backtraces = are_captured;
        self
    }
}

/// The errors that a driver has returned since the history was turned on.
///
/// `CUDA_ERROR_NOT_READY` is not recorded: queries about unfinished work return it. Errors that
/// this crate handles itself are included.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::error::HistoryOptions;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// driver.record_errors(HistoryOptions::new().capacity(1));
/// for exponent in 50..53 {
///     assert!(DeviceBuffer::<u8>::zeroed(&stream, 1 << exponent).is_err());
/// }
///
/// let history = driver.error_history();
/// assert_eq!((history.errors().len(), history.total()), (1, 3));
/// assert_eq!(history.counts()[0].count(), 3);
/// println!("{}", history.errors()[0].error());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ErrorHistory {
    errors: Vec<RecordedError>,
    counts: Vec<ErrorCount>,
}

/// An error in an [`ErrorHistory`].
#[derive(Clone, Debug)]
pub struct RecordedError {
    error: DriverError,
    time: SystemTime,
    thread: ThreadId,
    backtrace: Option<Arc<Backtrace>>,
}

/// The number of errors with the same status from the same call.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCount {
    status: CUresult,
    call: &'static Function,
    count: u64,
    first: SystemTime,
    last: SystemTime,
}

impl ErrorHistory {
    /// The errors that were kept, oldest first.
    #[must_use]
    pub fn errors(&self) -> &[RecordedError] {
        &self.errors
    }

    /// The number of errors of each status and call, most frequent first.
    #[must_use]
    pub fn counts(&self) -> &[ErrorCount] {
        &self.counts
    }

    /// The number of all errors.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.count).sum()
    }
}

impl RecordedError {
    /// The error.
    #[must_use]
    pub fn error(&self) -> DriverError {
        self.error
    }

    /// The time at which the driver returned it.
    #[must_use]
    pub fn time(&self) -> SystemTime {
        self.time
    }

    /// The thread that made the call.
    #[must_use]
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The backtrace of the call, if [backtraces](HistoryOptions::backtraces) are captured.
    #[must_use]
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.backtrace.as_deref()
    }
}

impl ErrorCount {
    /// The status code.
    #[must_use]
    pub fn status(&self) -> CUresult {
        self.status
    }

    /// The call that returned the status.
    #[must_use]
    pub fn call(&self) -> &'static Function {
        self.call
    }

    /// The category of the status; [`Category::Other`] for a code that these bindings do not know.
    #[must_use]
    pub fn category(&self) -> Category {
        Category::of(self.status).unwrap_or(Category::Other)
    }

    /// How often the call returned the status.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time of the first error.
    #[must_use]
    pub fn first(&self) -> SystemTime {
        self.first
    }

    /// The time of the last error.
    #[must_use]
    pub fn last(&self) -> SystemTime {
        self.last
    }
}

/// Lists the counts, most frequent first, one per line.
impl fmt::Display for ErrorHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total() {
            1 => f.write_str("1 error")?,
            total => write!(f, "{total} errors")?,
        }
        for ErrorCount {
            status,
            call,
            count,
            ..
        } in &self.counts
        {
            write!(f, "\n{count:>8} × {call}: {status}")?;
        }
        Ok(())
    }
}

/// The history of a driver, which is off at first.
#[derive(Default)]
pub(crate) struct History {
    is_on: AtomicBool,
    has_backtraces: AtomicBool,
    inner: Mutex<Inner, { rank::ERROR_HISTORY }>,
}

#[derive(Default)]
struct Inner {
    capacity: usize,
    errors: VecDeque<RecordedError>,
    /// Keyed by the status and the name of the call.
    counts: BTreeMap<(u32, &'static str), ErrorCount>,
}

impl History {
    /// Starts to record errors, with an empty list.
    pub(crate) fn start(&self, options: HistoryOptions) {
        let mut inner = self.inner.lock();
        *inner = Inner {
            capacity: options.capacity,
            ..Inner::default()
        };
        self.has_backtraces
            .store(options.has_backtraces, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Stops recording. The recorded errors stay available.
    pub(crate) fn stop(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Records an error if the history is on.
    #[inline]
    pub(crate) fn add(&self, error: &DriverError) {
        if self.is_on.load(Ordering::Relaxed) {
            self.record(error);
        }
    }

    #[cold]
    fn record(&self, error: &DriverError) {
        if error.status() == CUresult::CUDA_ERROR_NOT_READY {
            return;
        }
        // Captured before the lock is taken: other threads need not wait for it.
        let has_backtraces = self.has_backtraces.load(Ordering::Relaxed);
        let backtrace = has_backtraces.then(|| Arc::new(Backtrace::force_capture()));
        let recorded = RecordedError {
            error: *error,
            time: SystemTime::now(),
            thread: thread::current().id(),
            backtrace,
        };
        let mut inner = self.inner.lock();
        let time = recorded.time;
        let count = inner
            .counts
            .entry((error.status().0, error.call().name))
            .or_insert(ErrorCount {
                status: error.status(),
                call: error.call(),
                count: 0,
                first: time,
                last: time,
            });
        count.count += 1;
        count.last = count.last.max(time);
        count.first = count.first.min(time);
        if inner.capacity == 0 {
            return;
        }
        let oldest = if inner.errors.len() == inner.capacity {
            inner.errors.pop_front()
        } else {
            None
        };
        inner.errors.push_back(recorded);
        drop(inner);
        drop(oldest);
    }

    /// Returns a copy of the recorded errors.
    pub(crate) fn get(&self) -> ErrorHistory {
        let inner = self.inner.lock();
        let errors = inner.errors.iter().cloned().collect();
        let mut counts: Vec<_> = inner.counts.values().copied().collect();
        drop(inner);
        counts.sort_by_key(|count| std::cmp::Reverse(count.count));
        ErrorHistory { errors, counts }
    }
}

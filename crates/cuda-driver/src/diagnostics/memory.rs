//! Reports on the device memory that a program holds.

use std::fmt;

use crate::context::Context;
use crate::memory_ledger::MemoryReport;

/// The memory that the program holds.
impl Context {
    /// Starts to record which places of the program hold device memory, or stops. What was recorded
    /// before is discarded.
    ///
    /// Buffers that exist already are not recorded. Recording is off at first. While it is off, it
    /// costs one load per allocation.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// context.track_memory(true);
    /// let kept = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    /// drop(DeviceBuffer::<f32>::zeroed(&stream, 500)?);
    ///
    /// let report = context.memory_report();
    /// assert_eq!((report.live(), report.peak()), (4000, 6000));
    /// // Prints the file and the line of each place.
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn track_memory(&self, is_on: bool) {
        self.memory_ledger().set_on(is_on);
    }

    /// Returns the memory that was allocated since [`track_memory`](Self::track_memory) and is
    /// still held.
    ///
    /// A buffer keeps its context alive. So a program that expects nothing to be left asks here
    /// before it drops its last handle of the context, or uses
    /// [`check_leaks`](Self::check_leaks).
    #[must_use]
    pub fn memory_report(&self) -> MemoryReport {
        self.memory_ledger().report()
    }

    /// Reports leaks: calls `report` when the returned value is dropped, if the program then still
    /// holds memory that was allocated since [`track_memory`](Self::track_memory). Tracks memory
    /// until then, unless it is tracked already.
    ///
    /// A leaked buffer keeps its context alive for ever, so no report can be made when the context
    /// ends. Create the check before the buffers: variables are dropped in reverse order.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let check = context.check_leaks(|report| eprintln!("leaked: {report}"));
    /// std::mem::forget(DeviceBuffer::<f32>::zeroed(&stream, 1000)?);
    /// // Prints the file and the line of the buffer.
    /// drop(check);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_leaks(&self, report: impl FnOnce(&MemoryReport) + Send + 'static) -> LeakCheck {
        let starts_tracking = !self.memory_ledger().is_on();
        if starts_tracking {
            self.track_memory(true);
        }
        LeakCheck {
            context: self.clone(),
            report: Some(Box::new(report)),
            starts_tracking,
        }
    }
}

/// Reports memory that is held when it is dropped: see [`Context::check_leaks`].
#[must_use = "the check is made when it is dropped"]
pub struct LeakCheck {
    context: Context,
    /// Taken when it is called.
    report: Option<Report>,
    /// Whether memory is tracked only for this check.
    starts_tracking: bool,
}

type Report = Box<dyn FnOnce(&MemoryReport) + Send>;

impl Drop for LeakCheck {
    fn drop(&mut self) {
        let held = self.context.memory_report();
        if let Some(report) = self.report.take()
            && held.count() > 0
        {
            report(&held);
        }
        if self.starts_tracking {
            self.context.track_memory(false);
        }
    }
}

impl fmt::Debug for LeakCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeakCheck({:?})", self.context)
    }
}

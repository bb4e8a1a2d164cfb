//! Reports on the device memory that a program holds.

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
    /// before it drops its last handle of the context.
    #[must_use]
    pub fn memory_report(&self) -> MemoryReport {
        self.memory_ledger().report()
    }
}

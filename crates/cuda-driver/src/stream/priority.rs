//! The range of stream priorities (`cuCtxGetStreamPriorityRange`).
//!
//! C returns two numbers, of which the greater priority is the smaller number. Here both have a
//! name.

use crate::context::Context;
use crate::driver::call;
use crate::error::Result;

/// The priorities that streams of a context can have. A lower number is more urgent.
///
/// ```
/// use cuda_driver::Stream;
/// use cuda_driver::stream::StreamFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// let range = context.stream_priority_range()?;
/// let urgent = Stream::new(&context, StreamFlags::NON_BLOCKING, range.greatest)?;
/// assert_eq!(urgent.priority()?, range.greatest);
/// assert_eq!(range.clamp(i32::MIN), range.greatest);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PriorityRange {
    /// The priority of the least urgent streams: the largest number.
    pub least: i32,
    /// The priority of the most urgent streams: the smallest number.
    pub greatest: i32,
}

impl PriorityRange {
    /// Returns `true` if the device has more than one priority.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self.least != self.greatest
    }

    /// Returns `true` if a stream can have this priority.
    #[must_use]
    pub fn contains(self, priority: i32) -> bool {
        (self.greatest..=self.least).contains(&priority)
    }

    /// Returns the priority of the range that is nearest to `priority`. The driver gives it to a
    /// stream that is created with `priority`.
    #[must_use]
    pub fn clamp(self, priority: i32) -> i32 {
        priority.min(self.least).max(self.greatest)
    }
}

/// The priorities of streams.
impl Context {
    /// `cuCtxGetStreamPriorityRange()`—Returns the range of stream priorities. Both ends are 0 if
    /// the device does not support priorities.
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    #[doc(alias = "cudaDeviceGetStreamPriorityRange")]
    pub fn stream_priority_range(&self) -> Result<PriorityRange> {
        let _current = self.enter()?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the pointers must be writable ← they are to locals.
        unsafe {
            call!(
                self.driver(),
                cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)
            )
        }?;
        Ok(PriorityRange { least, greatest })
    }
}

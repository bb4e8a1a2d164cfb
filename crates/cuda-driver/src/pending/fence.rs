//! Fences: points in a stream that cost one driver call each.
//!
//! In C such a point is an event, which is created and destroyed with its own calls. Here the
//! context keeps the events of dropped fences, and the next fence uses one of them again.

use std::fmt;
use std::future::IntoFuture;

use crate::context::Context;
use crate::error::Result;
use crate::fence;
use crate::stream::Stream;

use super::Completion;

/// A point in a stream that threads and other streams can wait for. A clone is the same point.
///
/// [`Stream::fence`] creates one. It is cheaper than an [`Event`](crate::Event): the events behind
/// fences are reused, so a fence costs one driver call, and so does a wait for it. It records no
/// time, and cannot be recorded again.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Stream};
/// use cuda_driver::stream::StreamFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// let [one, two] = [1, 2].map(|_| Stream::new(&context, StreamFlags::NON_BLOCKING, 0));
/// let (one, two) = (one?, two?);
/// let buffer = DeviceBuffer::filled(&one, 1000, 1_u8)?;
/// let fence = one.fence()?;
/// // Work on `two` from here on starts after the fill.
/// two.wait_fence(&fence)?;
/// std::thread::spawn(move || fence.synchronize()).join().unwrap()?;
/// # drop(buffer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Fence {
    /// Declared before `context`: the event has to be dropped before its context.
    event: fence::Fence,
    context: Context,
}

impl Fence {
    /// `cuEventSynchronize()`—Waits until the work before the fence is complete.
    ///
    /// # Errors
    ///
    /// The fault of any kernel before the fence.
    #[doc(alias = "cuEventSynchronize")]
    #[doc(alias = "cudaEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.event.synchronize_explicitly()?)
    }

    /// `cuEventQuery()`—Returns whether the work before the fence is complete.
    ///
    /// # Errors
    ///
    /// The fault of any kernel before the fence.
    #[doc(alias = "cuEventQuery")]
    #[doc(alias = "cudaEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.event.query_explicitly()?)
    }

    /// `cuStreamWaitEvent()`, `cuLaunchHostFunc()`—Returns a future that is ready when the work
    /// before the fence is complete.
    ///
    /// If setting it up fails, the future returns the error. `(&fence).await` is the same.
    #[must_use]
    pub fn completion(&self) -> Completion {
        Completion::behind(&self.context, self.event.clone())
    }

    /// Returns the context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl IntoFuture for &Fence {
    type Output = Result<()>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        self.completion()
    }
}

/// Fences on a stream.
impl Stream {
    /// `cuEventRecord()`—Returns a fence after the work that is queued on the stream now.
    ///
    /// # Errors
    ///
    /// [`Error::EagerCapture`](crate::Error::EagerCapture) if calls on the stream are being
    /// captured, and `CUDA_ERROR_OUT_OF_MEMORY` if the driver cannot create another event.
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cudaEventRecord")]
    pub fn fence(&self) -> Result<Fence> {
        self.expect_direct("Stream::fence")?;
        Ok(Fence {
            event: self.state().record(self.context())?,
            context: self.context().clone(),
        })
    }

    /// `cuStreamWaitEvent()`—Makes work that is queued on the stream from now on wait for `fence`,
    /// which may be of another context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the fence belongs to another driver,
    /// and [`Error::EagerCapture`](crate::Error::EagerCapture) if calls on the stream are being
    /// captured.
    #[doc(alias = "cuStreamWaitEvent")]
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait_fence(&self, fence: &Fence) -> Result<()> {
        self.expect_direct("Stream::wait_fence")?;
        self.driver()
            .expect_handles_of(fence.context.driver(), "the fence")?;
        Ok(self.state().wait(self.context(), fence.event.raw())?)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({:?})", self.event.raw())
    }
}

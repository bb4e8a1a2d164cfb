//! The type [`Event`].

use std::any::Any;
use std::fmt;
use std::time::Duration;

use cuda_sys::{CUevent, CUresult};

use crate::context::Context;
use crate::driver::call;
use crate::error::Result;
use crate::fence::RawEvent;
use crate::handle::Handle;
use crate::reports::{Mark, MarkSlot};
use crate::stream::Stream;
use crate::types::SendPtr;

bitflags::bitflags! {
    /// The behaviour of an event. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct EventFlags: u32 {
        /// A thread that waits for the event sleeps instead of spinning.
        const BLOCKING_SYNC = 1;
        /// The event records no time, which makes it cheaper.
        const DISABLE_TIMING = 2;
        /// The event can be opened in another process: see [`Event::ipc_handle`]. Requires
        /// `DISABLE_TIMING`.
        const INTERPROCESS = 4;
        const _ = !0;
    }
}

impl EventFlags {
    /// `CU_EVENT_DEFAULT`: the event records the time, and a thread that waits for it spins.
    #[doc(alias = "CU_EVENT_DEFAULT")]
    #[doc(alias = "cudaEventDefault")]
    pub const DEFAULT: Self = Self::empty();
}

/// A point in a stream that the host and other streams can wait for.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Event};
/// use cuda_driver::event::EventFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let start = stream.record_event()?;
/// let buffer = DeviceBuffer::filled(&stream, 1 << 20, 1_u8)?;
/// // An event of which no time is needed is cheaper with `EventFlags::DISABLE_TIMING`.
/// let end = Event::new(&context, EventFlags::DEFAULT)?;
/// end.record(&stream)?;
/// end.synchronize()?;
/// assert!(start.is_done()? && end.is_done()?);
/// println!("{} bytes in {:?}", buffer.len(), end.elapsed_since(&start)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Event {
    /// Declared before `context`: the event has to be dropped before its context.
    pub(super) handle: Handle<RawEvent>,
    /// The checked launches before the event.
    pub(super) mark: MarkSlot,
    pub(super) context: Context,
}

impl Event {
    /// `cuEventCreate(flags)`—Creates an event in `context`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY`; `CUDA_ERROR_INVALID_VALUE` if the flags cannot be combined.
    #[doc(alias = "cuEventCreate")]
    #[doc(alias = "cudaEventCreate")]
    pub fn new(context: &Context, flags: EventFlags) -> Result<Self> {
        Ok(Self {
            handle: context.create_event(flags.bits())?,
            mark: MarkSlot::default(),
            context: context.clone(),
        })
    }

    /// `cuEventRecord(stream)`—Records the event after the work that is queued on `stream` now.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another
    /// context.
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cudaEventRecord")]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.expect_context(&self.context, "the event")?;
        stream.expect_direct("Event::record")?;
        let queueing = stream.queueing()?;
        // SAFETY: the event and the stream must be alive ← both are borrowed.
        unsafe {
            call!(
                stream.driver(),
                cuEventRecord(self.as_raw(), queueing.raw())
            )
        }?;
        drop(queueing);
        self.mark.set(stream.mark());
        Ok(())
    }

    /// `cuEventSynchronize()`—Waits until the work before the event is complete. Returns at once if
    /// the event was never recorded.
    ///
    /// # Errors
    ///
    /// The fault of any kernel before the event.
    /// [`Error::Violation`](crate::Error::Violation) with the violations of
    /// [safe launches](Stream::launch_safe) that were made before the event on its stream and that
    /// were not reported.
    #[doc(alias = "cuEventSynchronize")]
    #[doc(alias = "cudaEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event must be alive ← it is borrowed.
        unsafe { call!(self.handle.driver(), cuEventSynchronize(self.as_raw())) }?;
        self.mark.report()
    }

    /// `cuEventQuery()`—Returns whether the work before the event is complete.
    ///
    /// # Errors
    ///
    /// The fault of any kernel before the event.
    #[doc(alias = "cuEventQuery")]
    #[doc(alias = "cudaEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: the event must be alive ← it is borrowed.
        match unsafe { call!(self.handle.driver(), cuEventQuery(self.as_raw())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// `cuEventElapsedTime(start, self)`—Returns the time from `start` to this event, or zero if
    /// `start` is the later one. Both events must have been recorded and be complete.
    ///
    /// The resolution is about half a microsecond.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_READY` if an event is not complete; `CUDA_ERROR_INVALID_HANDLE` if an event
    /// was never recorded or has timing disabled;
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the events belong to different
    /// drivers.
    #[doc(alias = "cuEventElapsedTime")]
    #[doc(alias = "cudaEventElapsedTime")]
    #[doc(alias = "time_since")]
    pub fn elapsed_since(&self, start: &Self) -> Result<Duration> {
        let milliseconds = self.milliseconds_since(start)?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1000.0).unwrap_or_default())
    }

    /// `cuEventElapsedTime(self, end)`—Returns the time from this event until `end`, or zero if
    /// `end` is the earlier one: [`elapsed_since`](Self::elapsed_since) with the roles exchanged.
    ///
    /// # Errors
    ///
    /// Fails as [`elapsed_since`](Self::elapsed_since) does.
    #[doc(alias = "cuEventElapsedTime")]
    #[doc(alias = "cudaEventElapsedTime")]
    #[doc(alias = "time_till")]
    pub fn elapsed_until(&self, end: &Self) -> Result<Duration> {
        end.elapsed_since(self)
    }

    /// `cuEventElapsedTime(start, self)`—Returns the milliseconds from `start` to this event, as
    /// the driver reports them: negative if `start` is the later one.
    ///
    /// # Errors
    ///
    /// Fails as [`elapsed_since`](Self::elapsed_since) does.
    #[doc(alias = "cuEventElapsedTime")]
    #[doc(alias = "cudaEventElapsedTime")]
    #[doc(alias = "milliseconds_till")]
    pub fn milliseconds_since(&self, start: &Self) -> Result<f32> {
        self.context
            .driver()
            .expect_handles_of(start.context.driver(), "the event")?;
        let mut milliseconds = 0.0;
        // The first revision of the function: it measures the same, and every driver has it.
        // SAFETY: the pointer must be writable and both events alive ← `milliseconds` is a local,
        // and both events are borrowed.
        unsafe {
            call!(
                self.handle.driver(),
                cuEventElapsedTime(&raw mut milliseconds, start.as_raw(), self.as_raw())
            )
        }?;
        Ok(milliseconds)
    }

    /// The checked launches before the event, as recorded now.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark.get()
    }

    /// Returns the context of the event.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// `cuEventDestroy()`—Destroys the event and returns the result of the driver. Streams that
    /// wait for the event still do.
    #[doc(alias = "cuEventDestroy")]
    #[doc(alias = "cudaEventDestroy")]
    pub fn close(self) -> Result<()> {
        Ok(self.handle.close()?)
    }
}

/// Events of other code.
impl Event {
    /// Borrows an event that other code created: another library, or raw calls.
    ///
    /// The handle refers to `raw` itself. `owner` keeps the event alive, and is dropped with the
    /// handle.
    ///
    /// # Safety
    ///
    /// - `raw` is an event of the driver of `context`, and was created in `context`.
    /// - The event is alive as long as `owner` has not been dropped.
    /// - The owner of the event does not record it in a capture while this handle exists.
    #[must_use]
    pub unsafe fn borrow_raw(
        context: &Context,
        raw: CUevent,
        owner: impl Any + Send + Sync,
    ) -> Self {
        // SAFETY: the event must be alive as long as `owner` exists ← the caller guarantees it.
        let handle = unsafe { Handle::foreign(context.driver(), SendPtr(raw), owner) };
        Self {
            handle,
            mark: MarkSlot::default(),
            context: context.clone(),
        }
    }

    /// Returns the raw event. It stays alive as long as this value.
    #[must_use]
    pub fn as_raw(&self) -> CUevent {
        self.handle.raw().0
    }
}

/// Events on a stream.
impl Stream {
    /// `cuEventCreate()`, `cuEventRecord()`—Creates an event that records the time, and records it
    /// after the work that is queued on the stream now.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY` if the driver cannot create another event.
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cudaEventRecord")]
    pub fn record_event(&self) -> Result<Event> {
        self.record_event_with(EventFlags::DEFAULT)
    }

    /// `cuEventCreate(flags)`, `cuEventRecord()`—Creates an event and records it after the work
    /// that is queued on the stream now. With [`EventFlags::DISABLE_TIMING`] it is cheaper.
    ///
    /// To order work, [`fence`](Self::fence) is cheaper still.
    ///
    /// # Errors
    ///
    /// Fails as [`Event::new`] and [`Event::record`] do.
    #[doc(alias = "cuEventCreateWithFlags")]
    #[doc(alias = "cudaEventCreateWithFlags")]
    pub fn record_event_with(&self, flags: EventFlags) -> Result<Event> {
        let event = Event::new(self.context(), flags)?;
        event.record(self)?;
        Ok(event)
    }

    /// `cuStreamWaitEvent(event)`—Makes work that is queued on the stream from now on wait for
    /// `event`.
    ///
    /// The event may be of another context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the event belongs to another driver.
    #[doc(alias = "cuStreamWaitEvent")]
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.expect_direct("Stream::wait")?;
        self.driver()
            .expect_handles_of(event.context().driver(), "the event")?;
        Ok(self.state().wait(self.context(), event.as_raw())?)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.as_raw())
    }
}

//! Events: points in a stream that others can wait for, and clocks.

mod pool;

pub(crate) use pool::{EventPool, UseEvent};

use std::fmt;
use std::ptr;
use std::time::Duration;

use cuda_sys::{CUevent, CUevent_st, CUresult};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::stream::{SendPtr, Stream};

bitflags::bitflags! {
    /// How an event behaves. Bits that are not named here are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct EventFlags: u32 {
        /// A thread that waits for it sleeps rather than spins.
        const BLOCKING_SYNC = 1;
        /// It keeps no time, and is cheaper.
        const DISABLE_TIMING = 2;
        /// It can be opened in another process; needs `DISABLE_TIMING`.
        const INTERPROCESS = 4;
        const _ = !0;
    }
}

/// A point in a stream.
pub struct Event {
    /// Before `context`: an event goes before its context.
    handle: Handle<RawEvent>,
    context: Context,
}

pub(crate) struct RawEvent;

impl Destroy for RawEvent {
    type Raw = SendPtr<CUevent_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the event must be alive ← the handle owns it. Streams that wait for it are not
        // disturbed.
        unsafe { call!(driver, cuEventDestroy_v2(raw.0)) }
    }
}

impl RawEvent {
    pub(crate) fn create(
        context: &Context,
        flags: EventFlags,
    ) -> Result<Handle<Self>, DriverError> {
        let driver = context.driver();
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(driver, cuEventCreate(&raw mut raw, flags.bits())) }?;
        // SAFETY: nobody else must destroy it ← it was made just now.
        Ok(unsafe { Handle::new(driver, SendPtr(raw)) })
    }
}

impl Event {
    /// `cuEventCreate(flags)`—Creates an event in `context`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY`, or `CUDA_ERROR_INVALID_VALUE` for flags that do not go together.
    #[doc(alias = "cuEventCreate")]
    pub fn new(context: &Context, flags: EventFlags) -> Result<Self> {
        Ok(Self {
            handle: RawEvent::create(context, flags)?,
            context: context.clone(),
        })
    }

    /// The context of the event.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The raw event. It stays alive as long as this value.
    #[must_use]
    pub fn as_raw(&self) -> CUevent {
        self.handle.raw().0
    }

    /// `cuEventRecord(stream)`—Puts the event behind what is queued on `stream` now.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream is of another context, or
    /// what the call answers.
    #[doc(alias = "cuEventRecord")]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.expect_context(&self.context, "the event")?;
        let queueing = stream.queueing()?;
        // SAFETY: event and stream must be alive ← both are borrowed.
        Ok(unsafe {
            call!(
                stream.driver(),
                cuEventRecord(self.as_raw(), queueing.raw())
            )
        }?)
    }

    /// `cuEventSynchronize()`—Waits until the work before the event is done; returns at once if it
    /// was never recorded.
    ///
    /// # Errors
    ///
    /// A fault of any kernel before it.
    #[doc(alias = "cuEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event must be alive ← it is borrowed.
        Ok(unsafe { call!(self.handle.driver(), cuEventSynchronize(self.as_raw())) }?)
    }

    /// `cuEventQuery()`—Whether the work before the event is done.
    ///
    /// # Errors
    ///
    /// A fault of any kernel before it.
    #[doc(alias = "cuEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: the event must be alive ← it is borrowed.
        match unsafe { call!(self.handle.driver(), cuEventQuery(self.as_raw())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// `cuEventElapsedTime(start, self)`—The time from `start` to this event, both recorded and
    /// done; zero if `start` is the later one.
    ///
    /// The resolution is about half a microsecond.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_READY` if one is not done, `CUDA_ERROR_INVALID_HANDLE` if one was not
    /// recorded or keeps no time, [`Error::OtherContext`](crate::Error::OtherContext) if they are
    /// of two drivers.
    #[doc(alias = "cuEventElapsedTime")]
    pub fn time_since(&self, start: &Self) -> Result<Duration> {
        let milliseconds = self.milliseconds_since(start)?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1000.0).unwrap_or_default())
    }

    /// `cuEventElapsedTime(self, end)`—The time from this event to `end`:
    /// [`time_since`](Self::time_since) the other way round.
    ///
    /// # Errors
    ///
    /// As [`time_since`](Self::time_since).
    #[doc(alias = "cuEventElapsedTime")]
    pub fn time_till(&self, end: &Self) -> Result<Duration> {
        end.time_since(self)
    }

    /// `cuEventElapsedTime(start, self)`—The milliseconds from `start` to this event, as the driver
    /// tells them: below zero if `start` is the later one.
    ///
    /// # Errors
    ///
    /// As [`time_since`](Self::time_since).
    #[doc(alias = "cuEventElapsedTime")]
    pub fn milliseconds_since(&self, start: &Self) -> Result<f32> {
        self.context
            .driver()
            .expect_handles_of(start.context.driver(), "the event")?;
        let mut milliseconds = 0.0;
        // The first revision: it measures the same and every driver has it. SAFETY: the pointer
        // must be writable and both events alive ← a local, and both are borrowed.
        unsafe {
            call!(
                self.handle.driver(),
                cuEventElapsedTime(&raw mut milliseconds, start.as_raw(), self.as_raw())
            )
        }?;
        Ok(milliseconds)
    }

    /// `cuEventElapsedTime(self, end)`—The milliseconds from this event to `end`, as the driver
    /// tells them.
    ///
    /// # Errors
    ///
    /// As [`time_since`](Self::time_since).
    #[doc(alias = "cuEventElapsedTime")]
    pub fn milliseconds_till(&self, end: &Self) -> Result<f32> {
        end.milliseconds_since(self)
    }

    /// `cuEventDestroy()`—Destroys the event, and answers what the driver says. Streams that wait
    /// for it still do.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuEventDestroy")]
    pub fn close(self) -> Result<()> {
        Ok(self.handle.close()?)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.as_raw())
    }
}

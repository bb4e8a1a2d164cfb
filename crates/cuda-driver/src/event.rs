//! Events: points in a stream that others can wait for, and clocks.

use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cuda_sys::{CUevent, CUevent_st, CUresult};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::stream::{SendPtr, Stream, StreamState};

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
        // SAFETY: the event must be alive ← the handle owns it. Streams that wait for it are not disturbed.
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
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream is of another context, or what the call
    /// answers.
    #[doc(alias = "cuEventRecord")]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.expect_context(&self.context, "the event")?;
        // SAFETY: event and stream must be alive ← both are borrowed.
        Ok(unsafe {
            call!(
                stream.driver(),
                cuEventRecord(self.as_raw(), stream.as_raw())
            )
        }?)
    }

    /// `cuEventSynchronize()`—Waits until the work before the event is done; returns at once if it was never recorded.
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

    /// `cuEventElapsedTime(start, self)`—The time from `start` to this event, both recorded and done.
    ///
    /// The resolution is about half a microsecond.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_READY` if one is not done, `CUDA_ERROR_INVALID_HANDLE` if one was not recorded or keeps no time,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if they are of two drivers.
    #[doc(alias = "cuEventElapsedTime")]
    pub fn time_since(&self, start: &Self) -> Result<Duration> {
        self.context
            .driver()
            .expect_handles_of(start.context.driver(), "the event")?;
        let mut milliseconds = 0.0;
        // The first revision: it measures the same and every driver has it.
        // SAFETY: the pointer must be writable and both events alive ← a local, and both are borrowed.
        unsafe {
            call!(
                self.handle.driver(),
                cuEventElapsedTime(&raw mut milliseconds, start.as_raw(), self.as_raw())
            )
        }?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1000.0).unwrap_or_default())
    }

    /// `cuEventDestroy()`—Destroys the event, and answers what the driver says. Streams that wait for it still do.
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

/// Events of one context that wait to be used again: making one needs the context current, recording does not.
#[derive(Default)]
pub(crate) struct EventPool {
    free: Mutex<Vec<Arc<Handle<RawEvent>>>>,
}

/// An event that marks the end of some uses of buffers; goes back to its pool with its last owner.
#[derive(Clone)]
pub(crate) struct UseEvent {
    event: Arc<Handle<RawEvent>>,
    pool: Arc<EventPool>,
    /// Counts the recordings on its stream: of two, the later one has the greater.
    turn: u64,
}

impl UseEvent {
    /// Records an event of the pool of `context` behind what is queued on `stream` now.
    pub(crate) fn record(context: &Context, stream: &StreamState) -> Result<Self, DriverError> {
        let pool = Arc::clone(context.events());
        let free = pool
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let event = match free {
            Some(event) => event,
            None => Arc::new(RawEvent::create(context, EventFlags::DISABLE_TIMING)?),
        };
        let mut this = Self {
            event,
            pool,
            turn: 0,
        };
        let mut turns = stream.turns();
        // SAFETY: event and stream must be alive ← both are borrowed.
        unsafe { call!(stream.driver(), cuEventRecord(this.raw(), stream.raw())) }?;
        *turns += 1;
        this.turn = *turns;
        Ok(this)
    }

    /// Whether this event was recorded after `other`, on the same stream.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.turn > other.turn
    }

    /// Whether its context is gone, and with it all work that it stands for.
    pub(crate) fn is_gone(&self) -> bool {
        self.event.driver().is_gone()
    }

    /// Whether the work before it is known to be done.
    pub(crate) fn is_done(&self) -> bool {
        if self.is_gone() {
            return true;
        }
        // SAFETY: the event must be alive ← `self` owns it.
        unsafe { call!(self.event.driver(), cuEventQuery(self.raw())) }.is_ok()
    }

    /// Makes the calling thread wait until the work before it is done.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the event must be alive ← `self` owns it.
        unsafe { call!(self.event.driver(), cuEventSynchronize(self.raw())) }
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.event.raw().0
    }
}

impl Drop for UseEvent {
    fn drop(&mut self) {
        // Two last owners that go at the same time may both see the other: then the event is destroyed, not kept.
        if Arc::strong_count(&self.event) == 1 {
            let mut free = self
                .pool
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            free.push(Arc::clone(&self.event));
        }
    }
}

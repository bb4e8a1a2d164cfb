//! Fences: events that mark the end of work on a stream. Each context has a pool of them.

use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUevent, CUevent_flags, CUevent_st, CUresult, CUstream};

use crate::driver::{Driver, call};
use crate::error::DriverError;
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::types::SendPtr;

/// The flags of an event that records no time.
pub(crate) const UNTIMED: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;

pub(crate) struct RawEvent;

impl Destroy for RawEvent {
    type Raw = SendPtr<CUevent_st>;

    /// Seen on driver 580: docs/safety.md, Captures of other code.
    const IS_HARMLESS_TO_CAPTURES: bool = true;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the event must be alive ← the handle owns it. Streams that wait for it still do.
        unsafe { call!(driver, cuEventDestroy_v2(raw.0)) }
    }
}

impl RawEvent {
    /// `cuEventCreate(flags)`—Creates an event in the current context, which is one of `driver`.
    pub(crate) fn create(driver: &Driver, flags: u32) -> Result<Handle<Self>, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(driver, cuEventCreate(&raw mut raw, flags)) }?;
        // SAFETY: the handle must be the only owner ← the event was created just now.
        Ok(unsafe { Handle::new(driver, SendPtr(raw)) })
    }
}

/// The idle events of a context. Pooling avoids creating events, which needs the context to be
/// current; recording them does not.
#[derive(Default)]
pub(crate) struct EventPool {
    free: Mutex<Vec<Arc<Handle<RawEvent>>>, { rank::FREE_EVENTS }>,
}

impl EventPool {
    /// Records a fence after the work that is queued on `stream` now, as the recording with the
    /// number `turn`. Calls `create` for an event if none is idle.
    ///
    /// # Safety
    ///
    /// `stream` is alive, and its context is current if the handle needs that.
    pub(crate) unsafe fn record(
        self: &Arc<Self>,
        driver: &Driver,
        stream: CUstream,
        turn: u64,
        create: impl FnOnce() -> Result<Handle<RawEvent>, DriverError>,
    ) -> Result<Fence, DriverError> {
        let free = self.free().pop();
        let event = match free {
            Some(event) => event,
            None => Arc::new(create()?),
        };
        let fence = Fence {
            event,
            pool: Arc::clone(self),
            turn,
        };
        // SAFETY: the event and the stream must be alive ← `fence` owns the event, and the caller
        // guarantees that the stream is.
        unsafe { call!(driver, cuEventRecord(fence.raw(), stream)) }?;
        Ok(fence)
    }

    fn free(&self) -> MutexGuard<'_, Vec<Arc<Handle<RawEvent>>>> {
        self.free.lock()
    }
}

/// An event that marks the end of some work. The last owner returns it to its pool.
#[derive(Clone)]
pub(crate) struct Fence {
    event: Arc<Handle<RawEvent>>,
    pool: Arc<EventPool>,
    /// The number of the recording on its stream. A later recording has a greater number.
    turn: u64,
}

impl Fence {
    /// Returns whether this event was recorded after `other` on the same stream.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.turn > other.turn
    }

    /// Returns whether the work before the event is known to be complete.
    pub(crate) fn is_done(&self) -> bool {
        self.is_gone() || self.query() == Ok(true)
    }

    /// Returns whether the context was destroyed, and with it all work before the event.
    pub(crate) fn is_gone(&self) -> bool {
        self.event.driver().is_gone()
    }

    /// Queries whether the work before the event is complete. The program does not know this event,
    /// so the call is made in relaxed capture mode and does not invalidate a capture of other code.
    pub(crate) fn query(&self) -> Result<bool, DriverError> {
        let _relaxed = self.event.driver().relaxed();
        self.query_explicitly()
    }

    /// Waits until the work before the event is complete, in relaxed capture mode like
    /// [`query`](Self::query).
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        let _relaxed = self.event.driver().relaxed();
        self.synchronize_explicitly()
    }

    /// Queries as [`query`](Self::query) does, where the program explicitly asked for it.
    pub(crate) fn query_explicitly(&self) -> Result<bool, DriverError> {
        // SAFETY: the event must be alive ← `self` owns it.
        match unsafe { call!(self.event.driver(), cuEventQuery(self.raw())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits as [`synchronize`](Self::synchronize) does, where the program explicitly asked for it.
    pub(crate) fn synchronize_explicitly(&self) -> Result<(), DriverError> {
        // SAFETY: the event must be alive ← `self` owns it.
        unsafe { call!(self.event.driver(), cuEventSynchronize(self.raw())) }
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.event.raw().0
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // Two last owners that are dropped at the same time may each see the other's count. The
        // event is then destroyed instead of returned to the pool.
        if Arc::strong_count(&self.event) == 1 {
            self.pool.free().push(Arc::clone(&self.event));
        }
    }
}

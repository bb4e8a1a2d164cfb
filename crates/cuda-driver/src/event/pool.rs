//! The events behind uses of buffers, which the pool of their context keeps for the next.

use std::sync::Arc;

use cuda_sys::{CUevent, CUresult, CUstream};

use super::{EventFlags, RawEvent};
use crate::context::Context;
use crate::driver::call;
use crate::error::DriverError;
use crate::handle::Handle;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::stream::StreamState;

/// Events of one context that wait to be used again: making one needs the context current,
/// recording does not.
#[derive(Default)]
pub(crate) struct EventPool {
    free: Mutex<Vec<Arc<Handle<RawEvent>>>, { rank::FREE_EVENTS }>,
}

impl EventPool {
    fn free(&self) -> MutexGuard<'_, Vec<Arc<Handle<RawEvent>>>> {
        self.free.lock()
    }
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
        stream.record(context)
    }

    /// Records an event of the pool of `context` on a stream, as the recording with the number
    /// `turn`. Only for [`StreamState::record`], which prepares the stream.
    ///
    /// # Safety
    ///
    /// `stream` is alive, and its context current if the handle needs that.
    pub(crate) unsafe fn record_raw(
        context: &Context,
        stream: CUstream,
        turn: u64,
    ) -> Result<Self, DriverError> {
        let pool = Arc::clone(context.events());
        let free = pool.free().pop();
        let event = match free {
            Some(event) => event,
            None => Arc::new(RawEvent::create(context, EventFlags::DISABLE_TIMING)?),
        };
        let this = Self { event, pool, turn };
        // SAFETY: event and stream must be alive ← `this` owns the event, and the caller says so of
        // the stream.
        unsafe { call!(context.driver(), cuEventRecord(this.raw(), stream)) }?;
        Ok(this)
    }

    /// Whether this event was recorded after `other`, on the same stream.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.turn > other.turn
    }

    /// Whether the work before it is known to be done.
    pub(crate) fn is_done(&self) -> bool {
        self.is_gone() || self.query() == Ok(true)
    }

    /// Whether its context is gone, and with it all work that it stands for.
    pub(crate) fn is_gone(&self) -> bool {
        self.event.driver().is_gone()
    }

    /// Whether the work before it is done. The program does not know this event, so the call breaks
    /// no capture of other code.
    pub(crate) fn query(&self) -> Result<bool, DriverError> {
        let _relaxed = self.event.driver().relaxed();
        // SAFETY: the event must be alive ← `self` owns it.
        match unsafe { call!(self.event.driver(), cuEventQuery(self.raw())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the work before it is done, as [`query`](Self::query) asks.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        let _relaxed = self.event.driver().relaxed();
        // SAFETY: the event must be alive ← `self` owns it.
        unsafe { call!(self.event.driver(), cuEventSynchronize(self.raw())) }
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.event.raw().0
    }
}

impl Drop for UseEvent {
    fn drop(&mut self) {
        // Two last owners that go at the same time may both see the other: then the event is
        // destroyed, not kept.
        if Arc::strong_count(&self.event) == 1 {
            self.pool.free().push(Arc::clone(&self.event));
        }
    }
}

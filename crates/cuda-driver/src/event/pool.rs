//! The events that mark the end of buffer uses. Each context has a pool of them.

use std::sync::Arc;

use cuda_sys::{CUevent, CUresult, CUstream};

use super::{EventFlags, RawEvent};
use crate::context::Context;
use crate::driver::call;
use crate::error::DriverError;
use crate::handle::Handle;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::stream::StreamState;

/// The idle events of a context. Pooling avoids creating events, which needs the context to be
/// current; recording them does not.
#[derive(Default)]
pub(crate) struct EventPool {
    free: Mutex<Vec<Arc<Handle<RawEvent>>>, { rank::FREE_EVENTS }>,
}

impl EventPool {
    fn free(&self) -> MutexGuard<'_, Vec<Arc<Handle<RawEvent>>>> {
        self.free.lock()
    }
}

/// An event that marks the end of some uses of buffers. The last owner returns it to its pool.
#[derive(Clone)]
pub(crate) struct UseEvent {
    event: Arc<Handle<RawEvent>>,
    pool: Arc<EventPool>,
    /// The number of the recording on its stream. A later recording has a greater number.
    turn: u64,
}

impl UseEvent {
    /// Records an event of the pool of `context` after the work that is queued on `stream` now.
    pub(crate) fn record(context: &Context, stream: &StreamState) -> Result<Self, DriverError> {
        stream.record(context)
    }

    /// Records an event of the pool of `context` on a stream, as the recording with the number
    /// `turn`. Only for [`StreamState::record`], which prepares the stream.
    ///
    /// # Safety
    ///
    /// `stream` is alive, and its context is current if the handle needs that.
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
        // SAFETY: the event and the stream must be alive ← `this` owns the event, and the caller
        // guarantees that the stream is.
        unsafe { call!(context.driver(), cuEventRecord(this.raw(), stream)) }?;
        Ok(this)
    }

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
        // SAFETY: the event must be alive ← `self` owns it.
        match unsafe { call!(self.event.driver(), cuEventQuery(self.raw())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the work before the event is complete, in relaxed capture mode like
    /// [`query`](Self::query).
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
        // Two last owners that are dropped at the same time may each see the other's count. The
        // event is then destroyed instead of returned to the pool.
        if Arc::strong_count(&self.event) == 1 {
            self.pool.free().push(Arc::clone(&self.event));
        }
    }
}

//! The page-locked blocks that the pieces of a copy go through.

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::fence::UNTIMED;
use crate::memory::pinned::PinnedFlags;
use crate::staging_pool::{PinnedBlock, Shelf, Slot};
use crate::stream::{Queueing, Stream};

impl Shelf {
    /// Gives back a block that the work queued last on `stream` reads. The block is reused when
    /// that work is complete.
    ///
    /// # Errors
    ///
    /// A fault of earlier work, if the stream had to be waited for.
    pub(super) fn put_behind(&self, slot: Slot, stream: &Stream) -> Result<(), DriverError> {
        let state = stream.state();
        let slot = match stream.queueing() {
            Ok(queueing) => {
                let record = |slot: &Slot| slot.record(state.driver(), &queueing);
                match self.put_busy(slot, state.id(), record) {
                    None => return Ok(()),
                    Some(slot) => slot,
                }
            }
            Err(_) => slot,
        };
        match state.synchronize(stream.context()) {
            Ok(()) => self.put(slot),
            Err(error) => {
                self.lose(slot);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Slot {
    /// Creates a block of `bytes` bytes in `context`.
    pub(super) fn allocate(context: &Context, bytes: usize) -> Result<Self> {
        let _relaxed = context.driver().relaxed();
        let block = PinnedBlock::allocate(context, bytes, PinnedFlags::empty())?;
        Ok(Self::new(block, context.create_event(UNTIMED)?))
    }

    pub(super) fn record(&self, driver: &Driver, stream: &Queueing<'_>) -> Result<(), DriverError> {
        // SAFETY: the event and the stream must be alive ← the event is owned, and the callers
        // borrow the stream.
        unsafe { call!(driver, cuEventRecord(self.event(), stream.raw())) }
    }
}

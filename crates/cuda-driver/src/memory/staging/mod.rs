//! Copies of pageable memory through the page-locked blocks of a context.
//!
//! The driver would do the same internally, but on one thread, and it might access the program's
//! memory after the call. Here the device accesses only the blocks. Only threads of the program
//! access the program's memory, and only while it is borrowed.

mod chunks;
mod copy;
mod download;
mod filling;
mod non_temporal;
mod upload;

pub(crate) use copy::{DeviceSide, download, download_rows, upload, upload_rows};

use super::pinned::PinnedFlags;
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::fence::UNTIMED;
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
    fn allocate(context: &Context, bytes: usize) -> Result<Self> {
        let _relaxed = context.driver().relaxed();
        let block = PinnedBlock::allocate(context, bytes, PinnedFlags::empty())?;
        Ok(Self::new(block, context.create_event(UNTIMED)?))
    }

    fn record(&self, driver: &Driver, stream: &Queueing<'_>) -> Result<(), DriverError> {
        // SAFETY: the event and the stream must be alive ← the event is owned, and the callers
        // borrow the stream.
        unsafe { call!(driver, cuEventRecord(self.event(), stream.raw())) }
    }
}

//! Memory leased by graphs, which can outlive its owner.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::tracking::Tracker;

/// A lease of memory for a graph: while one lives, the memory is not freed, even if its owner is
/// dropped.
pub(crate) struct Lease {
    tracker: ManuallyDrop<Arc<Tracker>>,
}

impl Lease {
    /// Leases memory for the graph with this number. The caller has a borrow that allows what the
    /// graph will do with the memory.
    ///
    /// From now on each use of the memory takes the slow path, which accounts for replays, because
    /// replays take no borrows. Because the caller holds the borrow, no conflicting use can be
    /// between [`acquire`](Tracker::acquire) and [`commit`](Tracker::commit) at this point.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for managed memory, which the host may access at any time,
    /// [`Error::MemoryOfCapture`] for memory that nodes of a graph allocate, and
    /// [`Error::NotYetWritten`] for memory that the first launch of another graph writes.
    pub(crate) fn new(memory: &Memory, number: u64) -> Result<Self> {
        Self::of_tracker(&memory.tracker, memory.is_managed(), number)
    }

    /// Leases memory, as [`new`](Self::new) does, by its tracker.
    pub(crate) fn of_tracker(
        tracker: &Arc<Tracker>,
        is_managed: bool,
        number: u64,
    ) -> Result<Self> {
        if is_managed {
            return Err(Error::Unsupported {
                what: "using managed memory in a graph; use a `DeviceBuffer`",
            });
        }
        if tracker.graph() != 0 {
            return Err(Error::MemoryOfCapture);
        }
        let writer = tracker.unwritten_by();
        if writer != 0 && writer != number {
            return Err(Error::NotYetWritten);
        }
        tracker.add_lease();
        Ok(Self {
            tracker: ManuallyDrop::new(Arc::clone(tracker)),
        })
    }

    pub(crate) fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        self.tracker.add_lease();
        Self {
            tracker: ManuallyDrop::new(Arc::clone(&self.tracker)),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: `self.tracker` must not be used again ← `self` is being dropped.
        let tracker = unsafe { ManuallyDrop::take(&mut self.tracker) };
        let driver = tracker.owning_stream().driver().clone();
        // Inside a host function even the lock of the tracker must not be taken: its holder may be
        // waiting for that function.
        driver.run_or_defer(move || tracker.remove_lease());
    }
}

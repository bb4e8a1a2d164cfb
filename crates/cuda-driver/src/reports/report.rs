//! The report of a launch.

use std::sync::Arc;

use crate::error::Violation;

/// The report of one launch of a kernel, or of one replay of a graph.
pub(crate) trait Report: Send + Sync {
    /// Waits for the launch and reads its records, if this thread may wait. Returns whether there
    /// may be violations that were not taken.
    fn settle(&self) -> bool;

    /// Takes the violations, the first one first, without waiting for the launch. Returns `None` if
    /// the launch is not known to be complete, or if another thread takes them now.
    fn take(&self) -> Option<Vec<Violation>>;

    /// Returns whether the launch used some of this memory, and if so, whether it may have written
    /// to it.
    fn uses(&self, memory: &MemoryUse) -> Option<bool>;

    /// Prints the violations when the launch is complete, on another thread if it is not complete
    /// now. Called when no handle is left that could return them.
    fn print_later(self: Arc<Self>);
}

/// A range of addresses of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// The identity of the driver's library.
    pub(crate) driver: usize,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl MemoryUse {
    /// Whether both have a byte in common. An array has one number as its address.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |this: &Self| this.address.saturating_add(this.bytes.max(1));
        self.driver == other.driver && self.address < end(other) && other.address < end(self)
    }
}

//! The blocks that the device fills during a copy to the host.

use std::collections::VecDeque;
use std::ops::Range;

use crate::lock::{Mutex, MutexGuard, rank};
use crate::staging_pool::Slot;

/// The blocks that the device fills for one copy, in the order in which the transfers were queued.
/// A thread that takes a block empties it, and continues until no block is left.
#[derive(Default)]
pub(super) struct Filling(Mutex<VecDeque<(Slot, Range<usize>)>, { rank::COPY_FILLING }>);

impl Filling {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Slot, Range<usize>)>> {
        self.0.lock()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn push(&self, block: (Slot, Range<usize>)) {
        self.lock().push_back(block);
    }

    pub(super) fn pop(&self) -> Option<(Slot, Range<usize>)> {
        self.lock().pop_front()
    }
}

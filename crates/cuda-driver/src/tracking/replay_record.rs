//! The replays of an executable graph as uses: one record for all memory that the executable uses.
//!
//! Recording a replay at each of its buffers would take time proportional to their number. So each
//! executable has one record with its last replay (the driver runs its replays one after the
//! other), and each buffer that it uses refers to the record. Other uses of a buffer wait for the
//! last replay if they conflict with it, and mark the buffer as dirty in the record. A replay waits
//! for the uses of the dirty buffers; there are none if nothing happened since the last replay.
//! Executables that share a buffer with conflicting accesses are peers: a replay of one waits for
//! the last replay of the other.
//!
//! This module holds the part that other uses of the buffers need. The replays themselves are in
//! `graph/replay.rs`.

use std::mem;
use std::ptr;
use std::sync::Arc;

use super::{Access, Blocked, Scope, Tracker, Use};
use crate::context::{Context, KeptContext};
use crate::fence::Fence;
use crate::lock::{Mutex, MutexGuard, rank};

/// The replays of one executable.
#[derive(Default)]
pub(crate) struct ReplayRecord {
    state: Mutex<ReplayState, { rank::REPLAYS }>,
}

/// The state that the lock of a record guards.
#[derive(Default)]
pub(crate) struct ReplayState {
    /// The last replay. It represents all earlier replays.
    pub(crate) last: Option<Use>,
    /// The memory that the executable uses. An entry keeps its index.
    slots: Vec<Slot>,
    /// The indices of unused entries in `slots`.
    free: Vec<usize>,
    /// The indices of slots that were used elsewhere since the last replay, without duplicates.
    dirty: Vec<usize>,
    /// The executables with conflicting uses of the same memory, each with the number of buffers
    /// that they share in this way.
    pub(crate) peers: Vec<(Arc<ReplayRecord>, usize)>,
    /// The number of host guards that conflict with a replay.
    pub(crate) host_guards: usize,
    /// Whether the first replay writes memory that cannot be used before.
    has_unwritten: bool,
}

#[derive(Default)]
struct Slot {
    tracker: Option<Arc<Tracker>>,
    is_dirty: bool,
}

impl ReplayRecord {
    /// Returns a number that no other record has as long as this one exists.
    pub(crate) fn identity(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Makes the stream of `scope` wait for the last replay. `context` is the context of the
    /// executable.
    pub(crate) fn wait_for_last(
        &self,
        scope: &Scope<'_>,
        context: &Context,
    ) -> Result<(), Blocked> {
        match &mut self.lock().last {
            Some(last) => last.make_wait(scope, context, 0),
            None => Ok(()),
        }
    }

    /// Returns the fence after the last replay, or `None` if there is none, or if the last replay
    /// is complete.
    pub(crate) fn try_fence(&self, context: &Context) -> Result<Option<Fence>, Blocked> {
        match &mut self.lock().last {
            Some(last) => last.fence_after(context),
            None => Ok(None),
        }
    }

    /// Returns the context to wait for if the last replay is an incomplete unfenced use.
    pub(super) fn unfenced_in(&self, context: &Context) -> Option<KeptContext> {
        self.lock().last.as_ref()?.unfenced_in(context)
    }

    /// Marks the memory at this index as used elsewhere.
    pub(crate) fn mark_dirty(&self, slot: usize) {
        self.lock().mark_dirty(slot);
    }

    /// Locks the state. A thread locks only one record at a time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ReplayState> {
        self.state.lock()
    }
}

impl ReplayState {
    fn mark_dirty(&mut self, slot: usize) {
        if let Some(place) = self.slots.get_mut(slot)
            && !mem::replace(&mut place.is_dirty, true)
        {
            self.dirty.push(slot);
        }
    }

    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the trackers of the dirty memory.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = Arc<Tracker>> {
        self.dirty
            .iter()
            .filter_map(|slot| self.slots.get(*slot)?.tracker.clone())
    }

    /// Returns the tracker with this address, if the executable uses its memory.
    pub(crate) fn find(&self, address: usize) -> Option<Arc<Tracker>> {
        let trackers = self.slots.iter().filter_map(|slot| slot.tracker.as_ref());
        let mut trackers = trackers.filter(|it| Arc::as_ptr(it).addr() == address);
        trackers.next().cloned()
    }

    /// Unmarks all dirty memory after a replay has waited for it.
    pub(crate) fn clean(&mut self) {
        for slot in self.dirty.drain(..) {
            if let Some(place) = self.slots.get_mut(slot) {
                place.is_dirty = false;
            }
        }
    }

    /// Adds memory. Returns its index.
    pub(crate) fn add(&mut self, tracker: &Arc<Tracker>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.has_unwritten |= tracker.unwritten_by() != 0;
        self.slots[slot].tracker = Some(Arc::clone(tracker));
        slot
    }

    /// Allows uses of the memory that the first replay writes. Called after each replay that was
    /// recorded, under the replay lock.
    #[inline]
    pub(crate) fn set_written(&mut self) {
        if mem::take(&mut self.has_unwritten) {
            let memory = self.slots.iter().filter_map(|it| it.tracker.as_ref());
            memory.for_each(|tracker| tracker.set_written());
        }
    }

    /// Forgets memory. Returns the last replay as a use of that memory, and the tracker.
    pub(crate) fn remove(
        &mut self,
        slot: usize,
        access: Access,
    ) -> (Option<Use>, Option<Arc<Tracker>>) {
        let last = self.last.as_ref();
        let last = last.map(|last| last.for_buffer(access.without_signal()));
        if mem::take(&mut self.slots[slot].is_dirty) {
            self.dirty.retain(|it| *it != slot);
        }
        self.free.push(slot);
        (last, self.slots[slot].tracker.take())
    }
}

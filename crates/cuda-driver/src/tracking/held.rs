//! Memory leased by graphs, which can outlive its owner.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::CUdeviceptr;

use super::uses::{Removed, Use};
use super::{Access, Record, Tracker, matters};
use crate::error::{Error, Result};
use crate::memory::{Block, Memory, Source};

/// The graphs that hold the memory of a tracker, and their users of it.
#[derive(Default)]
pub(super) struct Estate {
    /// The number of [`Held`] values.
    holders: usize,
    /// The allocation, if its owner was dropped while a graph held it.
    left: Option<(CUdeviceptr, usize, Source)>,
    /// The executables whose replays use the memory.
    pub(super) users: Vec<User>,
    /// The number of host guards that read the memory, if it is host memory.
    pub(super) readers: usize,
    /// The number of host guards that write the memory: at most one.
    pub(super) writers: usize,
}

/// An executable that uses the memory.
pub(super) struct User {
    pub(super) record: Arc<Record>,
    /// The index of the tracker in the record.
    pub(super) slot: usize,
    /// The combined access of all its nodes to the memory.
    pub(super) access: Access,
    /// The number of its nodes that use the memory.
    pub(super) nodes: usize,
}

impl Estate {
    /// Returns how many host guards conflict with `access`.
    pub(super) fn lent_against(&self, access: Access) -> usize {
        if access.write {
            self.readers + self.writers
        } else {
            self.writers
        }
    }

    /// Returns the count of guards of this kind.
    pub(super) fn guards(&mut self, access: Access) -> &mut usize {
        if access.write {
            &mut self.writers
        } else {
            &mut self.readers
        }
    }

    /// Returns the users whose replays conflict with `access`.
    pub(super) fn users_against(&self, access: Access) -> impl Iterator<Item = &User> {
        self.users
            .iter()
            .filter(move |user| matters(user.access, access))
    }
}

/// A lease of memory for a graph: while one lives, the memory is not freed, even if its owner is
/// dropped.
pub(crate) struct Held {
    tracker: ManuallyDrop<Arc<Tracker>>,
}

impl Held {
    /// Leases memory. The caller has a borrow that allows what the graph will do with the memory.
    ///
    /// From now on each use of the memory takes the slow path, which accounts for replays: they
    /// take no borrows. Because the caller holds the borrow, no conflicting use can be between
    /// [`before`](Tracker::before) and [`after`](Tracker::after) at this point.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for managed memory, which the host may access at any time.
    pub(crate) fn new(memory: &Memory) -> Result<Self> {
        if memory.is_managed() {
            return Err(Error::Unsupported {
                what: "using managed memory in a graph",
            });
        }
        memory.tracker.hold();
        Ok(Self {
            tracker: ManuallyDrop::new(Arc::clone(&memory.tracker)),
        })
    }

    pub(crate) fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.tracker.hold();
        Self {
            tracker: ManuallyDrop::new(Arc::clone(&self.tracker)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: `self.tracker` must not be used again ← `self` is being dropped.
        let tracker = unsafe { ManuallyDrop::take(&mut self.tracker) };
        let driver = tracker.home().driver().clone();
        // Inside a host function even the lock of the tracker must not be taken: its holder may be
        // waiting for that function.
        driver.run_or_defer(move || {
            if let Some((address, bytes, source)) = tracker.let_go() {
                let _ = source.take_back(Block {
                    address,
                    bytes,
                    tracker,
                });
            }
        });
    }
}

impl Tracker {
    /// Returns whether a graph holds or has held the memory.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Adds a holder.
    fn hold(&self) {
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        if !self.crossed.cross() {
            // As for the first use on another stream: uses on the home stream were not recorded, so
            // one placeholder represents all of them.
            removed.extend(uses.list.drain(..));
            uses.list.push(Use::at_home(self.home(), true));
        }
        self.is_held.store(true, Ordering::Release);
        uses.estate.get_or_insert_default().holders += 1;
    }

    /// Removes a holder. If it was the last one, returns the allocation that the owner left behind.
    fn let_go(&self) -> Option<(CUdeviceptr, usize, Source)> {
        let mut uses = self.lock();
        let estate = uses.estate.as_mut()?;
        estate.holders -= 1;
        if estate.holders == 0 {
            estate.left.take()
        } else {
            None
        }
    }

    /// Called when the owner is dropped. Returns the source if there are no holders; otherwise the
    /// last holder frees the memory.
    pub(crate) fn leave(
        &self,
        address: CUdeviceptr,
        bytes: usize,
        source: Source,
    ) -> Option<Source> {
        let mut uses = self.lock();
        match uses.estate.as_mut() {
            Some(estate) if estate.holders > 0 => {
                estate.left = Some((address, bytes, source));
                None
            }
            _ => Some(source),
        }
    }

    /// Returns whether the memory has holders now.
    pub(crate) fn has_holders(&self) -> bool {
        let uses = self.lock();
        uses.estate
            .as_ref()
            .is_some_and(|estate| estate.holders > 0)
    }
}

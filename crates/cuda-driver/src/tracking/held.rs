//! Memory leased by graphs, which can outlive its owner.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::uses::{Removed, Use};
use super::{Access, Record, Tracker, matters};

/// A call that frees memory, or returns it to its owner, with the tracker of that memory.
type Free = Box<dyn FnOnce(Arc<Tracker>) + Send>;

/// The graphs that hold the memory of a tracker, and their users of it.
#[derive(Default)]
pub(super) struct Estate {
    /// The number of [`Held`] values.
    holders: usize,
    /// Frees the memory, if its owner was dropped while a graph held it.
    left: Option<Free>,
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

impl Tracker {
    /// Returns whether a graph holds or has held the memory.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Adds a holder.
    pub(crate) fn hold(&self) {
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

    /// Removes a holder. If it was the last one, and the owner was dropped before, frees the memory.
    pub(crate) fn let_go(self: Arc<Self>) {
        let mut uses = self.lock();
        let Some(estate) = uses.estate.as_mut() else {
            return;
        };
        estate.holders -= 1;
        if estate.holders > 0 {
            return;
        }
        let left = estate.left.take();
        drop(uses);
        if let Some(free) = left {
            free(self);
        }
    }

    /// Called when the owner is dropped. Returns the source of the memory if there are no holders;
    /// otherwise the last holder calls `free` with it.
    pub(crate) fn leave<S: Send + 'static>(
        &self,
        source: S,
        free: impl FnOnce(S, Arc<Self>) + Send + 'static,
    ) -> Option<S> {
        let mut uses = self.lock();
        match uses.estate.as_mut() {
            Some(estate) if estate.holders > 0 => {
                estate.left = Some(Box::new(move |tracker| free(source, tracker)));
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

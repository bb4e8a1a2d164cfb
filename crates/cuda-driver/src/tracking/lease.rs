//! Memory whose uses take the replay lock: memory leased by graphs, which can outlive its owner,
//! and memory with writable aliases.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::uses::Removed;
use super::{Access, ReplayRecord, Tracker, Use, Uses, conflict};

/// A call that frees memory, or returns it to its owner, with the tracker of that memory.
type Free = Box<dyn FnOnce(Arc<Tracker>) + Send>;

/// The graphs that lease the memory of a tracker, and their executables.
#[derive(Default)]
pub(crate) struct GraphUsers {
    leases: usize,
    /// Frees the memory, if its owner was dropped while a graph leased it.
    free: Option<Free>,
    /// The executables whose replays use the memory.
    pub(crate) users: Vec<GraphUser>,
    /// The number of host guards that read the memory, if it is host memory.
    readers: usize,
    /// The number of host guards that write the memory: at most one.
    writers: usize,
}

/// An executable that uses the memory.
pub(crate) struct GraphUser {
    pub(crate) record: Arc<ReplayRecord>,
    /// The index of the tracker in the record.
    pub(crate) slot: usize,
    /// The combined access of all its nodes to the memory.
    pub(crate) access: Access,
    /// The number of its nodes that use the memory.
    pub(crate) nodes: usize,
}

impl GraphUsers {
    /// Returns how many host guards conflict with `access`.
    pub(crate) fn guards_against(&self, access: Access) -> usize {
        if access.write {
            self.readers + self.writers
        } else {
            self.writers
        }
    }

    /// Returns the count of guards of this kind.
    pub(crate) fn guards(&mut self, access: Access) -> &mut usize {
        if access.write {
            &mut self.writers
        } else {
            &mut self.readers
        }
    }

    /// Returns the users whose replays conflict with `access`.
    pub(crate) fn users_against(&self, access: Access) -> impl Iterator<Item = &GraphUser> {
        self.users
            .iter()
            .filter(move |user| conflict(user.access, access))
    }
}

impl Tracker {
    /// Returns whether uses of the memory take the replay lock: a graph leases or has leased the
    /// memory, or the memory may have aliases.
    #[inline]
    pub(crate) fn needs_replay_lock(&self) -> bool {
        self.needs_replay_lock.load(Ordering::Acquire)
    }

    /// Adds a lease.
    pub(crate) fn add_lease(&self) {
        self.record_uses_of_thread();
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        self.require_replay_lock(&mut uses, &mut removed);
        uses.graphs.get_or_insert_default().leases += 1;
    }

    /// Makes every later use take the replay lock: aliases, like replays, are used without a borrow
    /// that excludes other uses.
    pub(crate) fn allow_aliases(&self) {
        if self.needs_replay_lock() {
            return;
        }
        self.record_uses_of_thread();
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        self.require_replay_lock(&mut uses, &mut removed);
    }

    /// Makes every use an error until the graph with this number is launched, which writes the
    /// memory. Until then only nodes of that graph can use it.
    pub(crate) fn expect_launch_of(&self, graph: u64) {
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        self.require_replay_lock(&mut uses, &mut removed);
        self.unwritten_by.store(graph, Ordering::Release);
    }

    /// Returns the number of the graph whose first launch writes the memory, or 0 if it was
    /// launched, and for all other memory.
    pub(crate) fn unwritten_by(&self) -> u64 {
        self.unwritten_by.load(Ordering::Acquire)
    }

    /// Allows uses of the memory, because the graph that writes it was launched. The caller holds
    /// the replay lock and has recorded the launch, so later uses wait for it.
    pub(super) fn set_written(&self) {
        self.unwritten_by.store(0, Ordering::Release);
    }

    fn require_replay_lock(&self, uses: &mut Uses, removed: &mut Removed) {
        if !self.shared.set() {
            // As for the first use on another stream: uses on the owning stream were not recorded,
            // so one placeholder represents all of them.
            removed.extend(uses.list.drain(..));
            let placeholder = Use::placeholder(self.owning_stream(), Access::WRITE);
            uses.list.push(placeholder);
        }
        self.needs_replay_lock.store(true, Ordering::Release);
    }

    /// Removes a lease. If it was the last one, and the owner was dropped before, frees the memory.
    pub(crate) fn remove_lease(self: Arc<Self>) {
        let mut uses = self.lock();
        let Some(graphs) = uses.graphs.as_mut() else {
            return;
        };
        graphs.leases -= 1;
        if graphs.leases > 0 {
            return;
        }
        let free = graphs.free.take();
        drop(uses);
        if let Some(free) = free {
            free(self);
        }
    }

    /// Called when the owner is dropped. Returns the source of the memory if no graph leases it;
    /// otherwise the end of the last lease calls `free` with the source.
    pub(crate) fn leave_to_leases<S: Send + 'static>(
        &self,
        source: S,
        free: impl FnOnce(S, Arc<Self>) + Send + 'static,
    ) -> Option<S> {
        let mut uses = self.lock();
        match uses.graphs.as_mut() {
            Some(graphs) if graphs.leases > 0 => {
                graphs.free = Some(Box::new(move |tracker| free(source, tracker)));
                None
            }
            _ => Some(source),
        }
    }

    /// Returns whether graphs lease the memory now.
    pub(crate) fn has_leases(&self) -> bool {
        let uses = self.lock();
        uses.graphs.as_ref().is_some_and(|graphs| graphs.leases > 0)
    }
}

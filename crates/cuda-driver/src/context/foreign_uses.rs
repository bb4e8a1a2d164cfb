//! Uses of memory by other code that are in progress: closures of
//! [`Stream::using`](crate::Stream::using).
//!
//! No lock is held while the closure runs. Replays and aliases use memory without a borrow that
//! excludes the closure, so the uses of memory that take the replay lock are listed here.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::{Condvar, Mutex, rank};

/// The uses by other code that are in progress in a context.
#[derive(Default)]
pub(crate) struct ForeignUses {
    list: Mutex<Vec<ForeignUse>, { rank::FOREIGN_USES }>,
    /// The length of the list.
    count: AtomicUsize,
    /// Notified when a use has ended.
    ended: Condvar,
}

/// A use of memory, which is identified by the address of its tracker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignUse {
    pub(crate) memory: usize,
    pub(crate) is_write: bool,
    /// The thread that runs the closure.
    pub(super) thread: usize,
}

/// The way in which a use in progress is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// This thread runs a closure, so it must not wait for another one.
    Inside,
    /// Another thread runs the closure: wait for it.
    Elsewhere,
}

impl ForeignUses {
    /// Returns whether there may be uses. Exact while this thread holds the replay lock.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Adds a use. The caller holds the replay lock.
    pub(super) fn begin(&self, begun: ForeignUse) {
        let mut list = self.list.lock();
        list.push(begun);
        self.count.store(list.len(), Ordering::Release);
    }

    /// Removes a use that was added before.
    pub(super) fn end(&self, ended: ForeignUse) {
        let mut list = self.list.lock();
        if let Some(at) = list.iter().position(|it| *it == ended) {
            list.swap_remove(at);
        }
        self.count.store(list.len(), Ordering::Release);
        drop(list);
        self.ended.notify_all();
    }

    /// Returns the uses in progress.
    pub(crate) fn all(&self) -> Vec<ForeignUse> {
        self.list.lock().clone()
    }

    /// Returns whether a use conflicts with the access of `thread` to `memory`.
    pub(super) fn conflict(
        &self,
        memory: usize,
        is_write: bool,
        thread: usize,
    ) -> Option<Conflict> {
        let list = self.list.lock();
        let mut conflicts = list.iter().filter(|it| it.conflicts(memory, is_write));
        conflicts.next()?;
        let is_inside = list.iter().any(|it| it.thread == thread);
        Some(if is_inside {
            Conflict::Inside
        } else {
            Conflict::Elsewhere
        })
    }

    /// Waits until no use conflicts with an access to `memory`. The caller holds no lock.
    pub(crate) fn wait(&self, memory: usize, is_write: bool) {
        let mut list = self.list.lock();
        while list.iter().any(|it| it.conflicts(memory, is_write)) {
            list = self.ended.wait(list);
        }
    }
}

impl ForeignUse {
    fn conflicts(&self, memory: usize, is_write: bool) -> bool {
        self.memory == memory && (self.is_write || is_write)
    }
}

//! The replay lock: excludes replays of graphs and other uses of the same memory from each other.
//!
//! Replays use the buffers of a graph without borrowing them. So the borrow checker does not
//! prevent another thread from using one of these buffers after a replay has waited for the other
//! uses, but before the replay is queued. Each context has one lock. Replays take it, and so does
//! every use of memory in the locked state: memory that a graph has leased, or that may have
//! aliases.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::foreign_uses::{Conflict, ForeignUse, ForeignUses};
use crate::lock::{Mutex, MutexGuard, rank};

/// A reentrant lock: one thread at a time holds it, and may lock it again.
#[derive(Default)]
pub(crate) struct ReplayLock {
    mutex: Mutex<(), { rank::REPLAY }>,
    /// The identity of the thread that holds the lock; 0 if there is none.
    holder: AtomicUsize,
    foreign: ForeignUses,
}

/// A guard: this thread holds the lock until it is dropped. The guards of a thread are dropped in
/// reverse order.
pub(crate) struct ReplayGuard<'a> {
    lock: &'a ReplayLock,
    /// `None` if the thread held the lock already.
    guard: Option<MutexGuard<'a, ()>>,
}

/// The guards of several locks.
pub(crate) struct ReplayGuards<'a>(SmallVec<[ReplayGuard<'a>; 2]>);

impl Drop for ReplayGuards<'_> {
    fn drop(&mut self) {
        // In reverse order: a lock may be among them twice, and its first guard unlocks it.
        while self.0.pop().is_some() {}
    }
}

impl ReplayLock {
    #[inline]
    pub(crate) fn lock(&self) -> ReplayGuard<'_> {
        let this = this_thread();
        // Only this thread stores this value, so it is found here exactly if this thread holds the
        // lock.
        if self.is_held() {
            return ReplayGuard {
                lock: self,
                guard: None,
            };
        }
        let guard = self.mutex.lock();
        self.holder.store(this, Ordering::Relaxed);
        ReplayGuard {
            lock: self,
            guard: Some(guard),
        }
    }

    /// Returns whether this thread holds the lock.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == this_thread()
    }

    /// Returns the uses by other code that are in progress.
    pub(crate) fn foreign(&self) -> &ForeignUses {
        &self.foreign
    }

    /// Begins a use by other code. The caller holds the lock.
    pub(crate) fn begin_foreign(&self, memory: usize, is_write: bool) -> ForeignUse {
        let begun = ForeignUse {
            memory,
            is_write,
            thread: this_thread(),
        };
        self.foreign.begin(begun);
        begun
    }

    /// Ends a use by other code.
    pub(crate) fn end_foreign(&self, ended: ForeignUse) {
        self.foreign.end(ended);
    }

    /// Returns whether a use by other code conflicts with an access of this thread. The caller
    /// holds the lock.
    pub(crate) fn foreign_conflict(&self, memory: usize, is_write: bool) -> Option<Conflict> {
        if !self.foreign.any() {
            return None;
        }
        self.foreign.conflict(memory, is_write, this_thread())
    }

    /// Locks several of them. All threads do so in the same order, so they cannot deadlock.
    pub(crate) fn lock_all<'a>(locks: impl Iterator<Item = &'a Self>) -> ReplayGuards<'a> {
        let mut locks: SmallVec<[&Self; 2]> = locks.collect();
        locks.sort_unstable_by_key(|lock| ptr::from_ref(*lock).addr());
        ReplayGuards(locks.into_iter().map(Self::lock).collect())
    }
}

impl Drop for ReplayGuard<'_> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.lock.holder.store(0, Ordering::Relaxed);
        }
    }
}

/// Returns a number other than 0 that no other live thread has.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static HERE: Cell<u8> = const { Cell::new(0) };
    }
    HERE.with(|here| ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use super::ReplayLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn replay_lock_is_exclusive_and_reentrant() {
        let (lock, inside, most) = (
            ReplayLock::default(),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _outer = lock.lock();
                        assert!(lock.is_held());
                        assert!(!thread::scope(|it| it
                            .spawn(|| lock.is_held())
                            .join()
                            .unwrap()));
                        let now = inside.fetch_add(1, Ordering::AcqRel) + 1;
                        most.fetch_max(now, Ordering::AcqRel);
                        drop(lock.lock());
                        // Dropping the inner guard has not released the lock.
                        assert!(lock.is_held());
                        thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::AcqRel), 1);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }

    #[test]
    fn two_replay_locks_are_locked_in_address_order() {
        let (a, b) = (ReplayLock::default(), ReplayLock::default());
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            for turn in 0..4 {
                let (a, b, count) = (&a, &b, &count);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let (one, other) = if turn % 2 == 0 { (a, b) } else { (b, a) };
                        let _both = ReplayLock::lock_all([one, other].into_iter());
                        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2000);
    }
}

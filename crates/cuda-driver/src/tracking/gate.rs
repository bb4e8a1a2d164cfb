//! The replay lock: excludes replays of graphs and other uses of the same memory from each other.
//!
//! Replays use the buffers of a graph without borrowing them. So the borrow checker does not
//! prevent another thread from using such a buffer after a replay has waited for the other uses,
//! but before the replay is queued. Each context has one gate, which is taken by replays and by
//! uses of memory that graphs hold, and by nothing else.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::{Mutex, MutexGuard, rank};

/// A reentrant lock: one thread at a time is inside, and it may enter again.
#[derive(Default)]
pub(crate) struct Gate {
    lock: Mutex<(), { rank::GATE }>,
    /// The identity of the thread that is inside; 0 if there is none.
    inside: AtomicUsize,
}

/// A guard: this thread is inside until it is dropped. The guards of a thread are dropped in
/// reverse order.
pub(crate) struct Entered<'a> {
    gate: &'a Gate,
    /// `None` if the thread was inside already.
    guard: Option<MutexGuard<'a, ()>>,
}

impl Gate {
    #[inline]
    pub(crate) fn enter(&self) -> Entered<'_> {
        let this = this_thread();
        // Only this thread stores this value, so it is found here exactly if this thread is inside.
        if self.is_inside() {
            return Entered {
                gate: self,
                guard: None,
            };
        }
        let guard = self.lock.lock();
        self.inside.store(this, Ordering::Relaxed);
        Entered {
            gate: self,
            guard: Some(guard),
        }
    }

    /// Returns whether this thread is inside.
    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed) == this_thread()
    }

    /// Enters two gates. All threads enter them in the same order, so they cannot deadlock.
    pub(crate) fn enter_both<'a>(one: &'a Self, other: &'a Self) -> [Entered<'a>; 2] {
        if ptr::from_ref(one) < ptr::from_ref(other) {
            [one, other].map(Self::enter)
        } else {
            [other, one].map(Self::enter)
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.gate.inside.store(0, Ordering::Relaxed);
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
    use super::Gate;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn one_thread_is_inside_and_may_enter_again() {
        let (gate, inside, most) = (Gate::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _outer = gate.enter();
                        assert!(gate.is_inside());
                        assert!(!thread::scope(|it| it
                            .spawn(|| gate.is_inside())
                            .join()
                            .unwrap()));
                        let now = inside.fetch_add(1, Ordering::AcqRel) + 1;
                        most.fetch_max(now, Ordering::AcqRel);
                        drop(gate.enter());
                        // Dropping the inner guard has not opened the gate.
                        assert!(gate.is_inside());
                        thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::AcqRel), 1);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }

    #[test]
    fn two_gates_are_entered_in_one_order() {
        let (a, b) = (Gate::default(), Gate::default());
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            for turn in 0..4 {
                let (a, b, count) = (&a, &b, &count);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let (one, other) = if turn % 2 == 0 { (a, b) } else { (b, a) };
                        let _both = Gate::enter_both(one, other);
                        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2000);
    }
}

//! What keeps replays of graphs and other uses of the same memory apart.
//!
//! A buffer that a graph holds is used by replays that borrow nothing. So nothing but this keeps
//! another thread from using it between the moment in which a replay is ordered behind the other
//! uses and the moment in which it is queued. Each context has one gate, taken by replays and by
//! uses of memory that graphs hold, and by nothing else.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::{Mutex, MutexGuard, rank};

/// One thread at a time is inside, and may enter again.
#[derive(Default)]
pub(crate) struct Gate {
    lock: Mutex<(), { rank::GATE }>,
    /// The thread that is inside; 0 if none is.
    inside: AtomicUsize,
}

/// This thread is inside until this goes. Those of one thread go in the reverse order.
pub(crate) struct Entered<'a> {
    gate: &'a Gate,
    /// `None` if the thread was inside already.
    guard: Option<MutexGuard<'a, ()>>,
}

impl Gate {
    #[inline]
    pub(crate) fn enter(&self) -> Entered<'_> {
        let this = this_thread();
        // Only this thread writes this value, so that it is found here if and only if it is inside.
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

    /// Whether this thread is inside.
    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed) == this_thread()
    }

    /// Enters two gates, in one order for all.
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

/// A number that no other live thread has; not 0.
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
                        // The inner one has not opened it.
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

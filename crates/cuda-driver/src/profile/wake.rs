//! The times at which the thread of a profiler reads events.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Once a stream has more pending operations than this, the thread is woken.
const READ_FROM: usize = 4096;
/// After how many further operations it is woken again.
const WAKE_EVERY: usize = 256;
/// Once a stream has more pending operations than this, each new one also reads some of them.
pub(super) const READ_NOW: usize = 16_384;

/// Wakes the thread that reads events.
#[derive(Default)]
pub(super) struct Wake {
    thread: OnceLock<Thread>,
    /// Set once the thread shall end.
    is_over: AtomicBool,
}

impl Wake {
    /// Sets the thread.
    pub(super) fn set(&self, thread: Thread) {
        // A recorder has one thread.
        let _ = self.thread.set(thread);
    }

    /// Wakes the thread, if that is worth it for `count` pending operations.
    pub(super) fn wake(&self, count: usize) {
        if count > READ_FROM && count.is_multiple_of(WAKE_EVERY) {
            self.unpark();
        }
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.unpark();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

//! A handle of the driver that other threads may use.

use std::fmt;

/// A raw handle that can be sent to another thread.
pub(crate) struct SendPtr<T>(pub(crate) *mut T);

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SendPtr<T> {}

impl<T> fmt::Debug for SendPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: the pointer is never dereferenced here. It only names an object of the driver, which is
// thread-safe (docs/safety.md, Threads).
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: a shared reference only gives a copy of the pointer, which is `Send` for the reason
// above.
unsafe impl<T> Sync for SendPtr<T> {}

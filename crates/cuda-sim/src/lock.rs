//! Mutexes that nobody finds poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. What it guards is whole after each statement, so a thread that panicked with it
/// leaves nothing to repair.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Events of the crate `tracing`, which the program's subscriber receives.
//!
//! A subscriber is code of the program that runs in the middle of a call of this crate: locks may be
//! held, and the state of a buffer may be about to change. So its panics end here, and it cannot
//! call the driver.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_EMITTING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a subscriber is receiving an event on this thread.
#[inline]
pub(super) fn is_emitting() -> bool {
    IS_EMITTING.get()
}

/// Emits an event, unless the subscriber has caused it while it received another one.
///
/// A panic of the subscriber ends here, after its message was printed. Otherwise a call could unwind
/// that has queued work but has not recorded yet which memory the work uses, so that the memory
/// would be freed too early.
pub(crate) fn emit(event: impl FnOnce()) {
    if IS_EMITTING.replace(true) {
        return;
    }
    let result = catch_unwind(AssertUnwindSafe(event));
    IS_EMITTING.set(false);
    if let Err(payload) = result {
        // Dropping the payload could panic again.
        mem::forget(payload);
    }
}

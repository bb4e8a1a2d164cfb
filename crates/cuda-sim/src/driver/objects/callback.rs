//! Callbacks of the program, from which it must not call the driver.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether this thread is running a host callback of the program.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is running a host callback of the program.
pub(in crate::driver) fn is_in_callback() -> bool {
    IN_CALLBACK.get()
}

/// Wraps `work` as a host callback: calls of the driver from it fail, as the real driver documents.
pub(in crate::driver) fn callback(work: impl FnOnce() + Send) -> impl FnOnce() + Send {
    move || {
        IN_CALLBACK.set(true);
        let ended = catch_unwind(AssertUnwindSafe(work));
        IN_CALLBACK.set(false);
        if ended.is_err() {
            eprintln!("cuda-sim: a host function panicked");
        }
    }
}

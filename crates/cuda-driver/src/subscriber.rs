//! Events of the crate `tracing`, which the program's subscriber receives.
//!
//! A subscriber is code of the program that runs in the middle of a call of this crate: locks may
//! be held, and the state of a buffer may be about to change. So its panics end here, and it cannot
//! call the driver.

#[cfg(feature = "tracing")]
use std::cell::Cell;
#[cfg(feature = "tracing")]
use std::mem;
#[cfg(feature = "tracing")]
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Emits an event of the crate `tracing`. Without the feature `tracing`, it is nothing.
macro_rules! event {
    ($level:ident, $($fields:tt)*) => {
        #[cfg(feature = "tracing")]
        $crate::subscriber::emit(|| ::tracing::$level!(target: "cuda_driver", $($fields)*));
    };
}
pub(crate) use event;

#[cfg(feature = "tracing")]
thread_local! {
    static RECEIVES: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the subscriber is receiving an event on this thread.
#[cfg(feature = "tracing")]
#[inline]
pub(crate) fn receives() -> bool {
    RECEIVES.get()
}

/// Emits an event, unless the subscriber has caused it while it received another one.
///
/// A panic of the subscriber ends here, after its message was printed. Otherwise a call could
/// unwind that has queued work but has not recorded yet which memory the work uses, so that the
/// memory would be freed too early.
#[cfg(feature = "tracing")]
pub(crate) fn emit(event: impl FnOnce()) {
    if RECEIVES.replace(true) {
        return;
    }
    let result = catch_unwind(AssertUnwindSafe(event));
    RECEIVES.set(false);
    if let Err(payload) = result {
        // Dropping the payload could panic again.
        mem::forget(payload);
    }
}

//! The threads that must not wait for the device or for the program.

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static IS_REAPER: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as inside a host function, on the driver's thread, until the guard is dropped.
pub(crate) struct InsideHostFunction {
    before: bool,
}

impl InsideHostFunction {
    pub(crate) fn enter() -> Self {
        Self {
            before: INSIDE.replace(true),
        }
    }
}

impl Drop for InsideHostFunction {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Marks this thread as the reaper thread of the process.
pub(crate) fn mark_reaper() {
    IS_REAPER.set(true);
}

/// Returns whether this thread is the reaper thread, which polls pending work.
pub(crate) fn is_reaper() -> bool {
    IS_REAPER.get()
}

/// Returns whether this thread is inside a host function, where the driver must not be called.
#[inline]
pub(crate) fn is_inside_host_function() -> bool {
    INSIDE.get()
}

/// Returns whether this thread must not wait for the device or the program: it is inside a host
/// function, or it is the reaper thread, which serves all contexts and drivers.
#[inline]
pub(crate) fn must_not_wait() -> bool {
    INSIDE.get() || IS_REAPER.get()
}

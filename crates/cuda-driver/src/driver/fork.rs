//! Detection of `fork`. A child process gets a copy of the memory of a driver, but neither its
//! threads nor its devices.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the one in which the first driver was created.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of events that can make drivers or contexts unusable: forks, and contexts that were
/// reset. A call compares only this number; what has happened is looked up if it has changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Returns the number of these events so far.
#[inline]
pub(super) fn changes() -> u32 {
    CHANGES.load(Ordering::Relaxed)
}

/// Counts a context that was reset.
pub(super) fn note_change() {
    CHANGES.fetch_add(1, Ordering::AcqRel);
}

/// Returns the number of forks so far. A driver that was created at a smaller number cannot be
/// used.
#[inline]
pub(super) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on. Children of `vfork` and of the system call `clone` are not counted.
#[cfg(unix)]
pub(super) fn watch() {
    use std::ffi::c_int;
    use std::sync::Once;

    type Handler = Option<unsafe extern "C" fn()>;

    // SAFETY: the declaration must be that of the C library ← POSIX defines it in this way.
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    unsafe extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        CHANGES.fetch_add(1, Ordering::Relaxed);
    }

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler must only do what is allowed between a fork and an exec, and must
        // exist as long as the process ← it changes an atomic number, and is a function.
        let _ = unsafe { pthread_atfork(None, None, Some(count)) };
    });
}

/// Does nothing: this system has no `fork`.
#[cfg(not(unix))]
pub(super) fn watch() {}

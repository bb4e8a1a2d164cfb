//! Printing violations that no call has returned: when the last handle of their stream was dropped,
//! and at the end of the process.

use std::ffi::c_int;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use once_cell::sync::OnceCell;

use super::report::Report;
use crate::error::Violation;
use crate::lock::{Mutex, rank};
#[cfg(feature = "tracing")]
use crate::subscriber::event;

/// The reports of streams without a handle whose launches were not complete.
static LEFT: Mutex<Vec<Weak<dyn Report>>, { rank::LEFT_REPORTS }> = Mutex::new(Vec::new());

/// How long the end of the process waits for launches.
const LIMIT: Duration = Duration::from_millis(100);
/// How long it waits for the thread that prints, which stops by itself unless the driver hangs.
const HARD_LIMIT: Duration = Duration::from_millis(400);

/// Prints violations: as an event of `tracing` if the program collects events, and otherwise on
/// stderr. Never panics.
pub(crate) fn print(violations: &[Violation]) {
    let print = || {
        for violation in violations {
            if !trace(violation) {
                // Not `eprintln!`, which panics if stderr is closed.
                let _ = writeln!(
                    io::stderr(),
                    "cuda-driver: no wait has returned this violation: {violation}"
                );
            }
        }
    };
    quietly(print);
}

/// Reports a violation to the subscriber of `tracing`. Returns `false` if there is none.
fn trace(violation: &Violation) -> bool {
    #[cfg(feature = "tracing")]
    if ::tracing::dispatcher::has_been_set() {
        event!(
            error,
            kernel = violation.kernel,
            "no wait has returned this violation: {violation}"
        );
        return true;
    }
    let _ = violation;
    false
}

/// Prints the violations of a report when its launch is complete.
pub(super) fn leave(report: Arc<dyn Report>) {
    if let Some(violations) = report.take() {
        return print(&violations);
    }
    let mut left = LEFT.lock();
    left.retain(|report| report.strong_count() > 0);
    left.push(Arc::downgrade(&report));
    drop(left);
    quietly(|| report.print_later());
}

/// Returns the reports of all streams with a handle.
type Unread = fn() -> Vec<Arc<dyn Report>>;

/// The reports to print at the end of the process, and the process. A forked process calls the
/// function of `atexit` too, but cannot use the driver.
static AT_END: OnceCell<(Unread, u32)> = OnceCell::new();

unsafe extern "C" {
    /// `atexit(function)` of the C library.
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Makes the end of the process print the violations of these reports that no call has returned.
pub(super) fn at_end_of_process(unread: Unread) {
    AT_END.get_or_init(|| {
        // SAFETY: the function must be callable at the end of the process ← it is a function of
        // this library, which the C runtime calls before it unloads the library, and it does not
        // unwind.
        let _ = unsafe { atexit(end) };
        (unread, process::id())
    });
}

extern "C" fn end() {
    let Some(&(unread, own)) = AT_END.get() else {
        return;
    };
    if own != process::id() {
        return;
    }
    // Another thread: the thread-local values of this one are destroyed, and subscribers of
    // `tracing` use such values. If the driver hangs, the process ends without a report.
    quietly(|| {
        let (done, is_done) = mpsc::channel::<()>();
        let printer = thread::Builder::new().name(String::from("cuda-driver reports"));
        let printing = printer.spawn(move || {
            quietly(|| print_all(unread));
            drop(done);
        });
        if printing.is_ok() {
            let _ = is_done.recv_timeout(HARD_LIMIT);
        }
    });
}

/// Prints the violations of all launches that are complete within [`LIMIT`].
fn print_all(unread: Unread) {
    let start = Instant::now();
    loop {
        let left: Vec<_> = LEFT.lock().iter().filter_map(Weak::upgrade).collect();
        let mut is_any_left = false;
        for report in unread().iter().chain(&left) {
            match report.take() {
                Some(violations) => print(&violations),
                None => is_any_left = true,
            }
        }
        if !is_any_left || start.elapsed() >= LIMIT {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Calls `f` and ignores a panic, which the panic hook has reported.
fn quietly(f: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        // The drop of the payload could panic again.
        std::mem::forget(panic);
    }
}

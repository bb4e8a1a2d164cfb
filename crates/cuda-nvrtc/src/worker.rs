//! The thread on which the compiler runs. It has a large stack and restores the locale of the
//! process.

use std::io;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::Version;

use crate::flow::Flow;
use crate::stack_guard::StackGuard;
use crate::{Error, pch, stack_guard};

/// The time after which an overdue compilation is abandoned. NVRTC's parser does not call the flow
/// callback, so a compilation may continue after it should have ended.
const GRACE: Duration = Duration::from_secs(1);

/// The interval between checks for an overdue compilation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work` on a thread with a stack of `stack` bytes, and waits for it as long as `flow`
/// allows.
///
/// The depth of recursion of NVRTC's parser is the depth of nesting of its source, and the caller's
/// thread may have a stack of only 1 MiB.
pub(crate) fn run<T: Send + 'static>(
    stack: usize,
    version: Version,
    flow: &Flow,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let work = move || {
        let _guard = match StackGuard::new() {
            Ok(guard) => guard,
            Err(error) => {
                let _unwanted = sender.send(Err(Error::Thread(error)));
                return;
            }
        };
        let heap = pch::keep_heap();
        let locale = locale::Guard::new(version);
        let result = work();
        // Both guards are dropped before the caller continues.
        drop(locale);
        drop(heap);
        // The receiver is gone if the compilation was abandoned.
        let _unwanted = sender.send(Ok(result));
    };
    let thread = thread::Builder::new()
        .name("nvrtc".to_owned())
        .stack_size(stack.saturating_add(stack_guard::SIZE))
        .spawn(work)
        .map_err(Error::Thread)?;
    let mut overdue_since = None;
    loop {
        let result = if flow.is_limited() {
            receiver.recv_timeout(POLL_INTERVAL)
        } else {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match result {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {}
            // Only a panic ends the thread without a result.
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(payload) => panic::resume_unwind(payload),
                Ok(()) => {
                    let lost = io::Error::other("it ended without a result");
                    return Err(Error::Thread(lost));
                }
            },
        }
        if let Some(error) = flow.stopped() {
            let since = overdue_since.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                return Err(error);
            }
        }
    }
}

/// Restores the locale of the process, which NVRTC 12.0 to 12.6 sets while it compiles.
#[cfg(unix)]
mod locale {
    use std::ffi::{CStr, CString};
    use std::ptr;
    use std::sync::{Mutex, MutexGuard};

    use cuda_sys::Version;

    use crate::lock::lock;

    /// The newest version that is known to change the locale.
    const LAST: Version = Version::new(12060);

    struct State {
        compiling: usize,
        before: Option<CString>,
    }

    static STATE: Mutex<State> = Mutex::new(State {
        compiling: 0,
        before: None,
    });

    /// A guard for one compilation. The first live guard saves the locale; dropping the last
    /// restores it.
    pub(super) struct Guard {
        active: bool,
    }

    impl Guard {
        pub(super) fn new(version: Version) -> Self {
            let active = version <= LAST;
            if active {
                let mut state = state();
                if state.compiling == 0 {
                    state.before = current();
                }
                state.compiling += 1;
            }
            Self { active }
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            if !self.active {
                return;
            }
            let mut state = state();
            state.compiling -= 1;
            if state.compiling > 0 {
                return;
            }
            let before = state.before.take();
            if let Some(before) = before.filter(|before| current().as_ref() != Some(before)) {
                // SAFETY: the string must be one that `setlocale` returned ← `current` copied it.
                // No other thread may use the locale during the call, which cannot be checked here;
                // but NVRTC has just changed the locale under the same risk, and this call only
                // undoes that change.
                unsafe { libc::setlocale(libc::LC_ALL, before.as_ptr()) };
            }
        }
    }

    fn state() -> MutexGuard<'static, State> {
        lock(&STATE)
    }

    fn current() -> Option<CString> {
        // SAFETY: a null name must only query the locale ← the C standard specifies so. Nothing is
        // changed.
        let name = unsafe { libc::setlocale(libc::LC_ALL, ptr::null()) };
        if name.is_null() {
            return None;
        }
        // SAFETY: `name` must point to a live C string ← the C library owns it, and keeps it until
        // the locale is next changed.
        Some(unsafe { CStr::from_ptr(name) }.to_owned())
    }
}

#[cfg(not(unix))]
mod locale {
    /// NVRTC has its own C library on this system, so it does not change the locale of the process.
    pub(super) struct Guard;

    impl Guard {
        pub(super) fn new(_version: cuda_sys::Version) -> Self {
            Self
        }
    }
}

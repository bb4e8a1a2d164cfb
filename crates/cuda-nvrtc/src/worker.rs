//! Where the compiler runs: on a thread of its own with a large stack, with the process's locale
//! put back.

use std::io;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::Version;

use crate::flow::Flow;
use crate::{Error, pch};

/// NVRTC's parser does not ask the flow callback. A compilation that has not ended so long after it
/// should have is left to itself.
const GRACE: Duration = Duration::from_secs(1);

/// How often to look whether that is so.
const PATIENCE: Duration = Duration::from_millis(20);

/// Runs `work` on a thread with a stack of `stack` bytes, and waits for it as long as `flow`
/// allows.
///
/// NVRTC's parser recurses as deep as its source is nested, and the caller's thread may have as
/// little as 1 MiB.
pub(crate) fn run<T: Send + 'static>(
    stack: usize,
    version: Version,
    flow: &Flow,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let work = move || {
        let heap = pch::keep_heap();
        let locale = locale::Guard::new(version);
        let result = work();
        // Before the caller goes on.
        drop(locale);
        drop(heap);
        // Nobody waits for the result of a compilation that was left to itself.
        let _unwanted = sender.send(result);
    };
    let thread = thread::Builder::new()
        .name("nvrtc".to_owned())
        .stack_size(stack)
        .spawn(work)
        .map_err(Error::Thread)?;
    let mut overdue_since = None;
    loop {
        let result = if flow.is_limited() {
            receiver.recv_timeout(PATIENCE)
        } else {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match result {
            Ok(value) => return Ok(value),
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

/// NVRTC 12.0 to 12.6 sets the locale of the process while it compiles and leaves it so.
#[cfg(unix)]
mod locale {
    use std::ffi::{CStr, CString};
    use std::ptr;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use cuda_sys::Version;

    /// The newest version that is known to do it.
    const LAST: Version = Version::new(12060);

    struct State {
        compiling: usize,
        before: Option<CString>,
    }

    static STATE: Mutex<State> = Mutex::new(State {
        compiling: 0,
        before: None,
    });

    /// While any is alive the locale of before the first is remembered; the last one puts it back.
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
                // SAFETY: the string must be one that `setlocale` answered ← `current` copied it.
                // That no other thread uses the locale meanwhile cannot be seen from here; NVRTC
                // has just changed it without asking, and this changes it back.
                unsafe { libc::setlocale(libc::LC_ALL, before.as_ptr()) };
            }
        }
    }

    fn state() -> MutexGuard<'static, State> {
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current() -> Option<CString> {
        // SAFETY: a null name must only ask ← so says C. Nothing is changed.
        let name = unsafe { libc::setlocale(libc::LC_ALL, ptr::null()) };
        if name.is_null() {
            return None;
        }
        // SAFETY: it must be a string that is alive ← it is the C library's own, until the locale
        // is next changed.
        Some(unsafe { CStr::from_ptr(name) }.to_owned())
    }
}

#[cfg(not(unix))]
mod locale {
    /// NVRTC has a C library of its own here.
    pub(super) struct Guard;

    impl Guard {
        pub(super) fn new(_version: cuda_sys::Version) -> Self {
            Self
        }
    }
}

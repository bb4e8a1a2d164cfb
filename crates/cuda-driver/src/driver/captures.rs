//! The captures in progress in a context, and the waits that would invalidate them.
//!
//! `cuCtxSynchronize` on any thread invalidates every capture in its context (docs/safety.md).
//! Therefore a capture begins only when no thread is waiting for the whole context, and no thread
//! begins to wait for it while a capture is in progress. A wait that the program did not ask for is
//! deferred until the last capture has ended.

use std::mem;

use crate::lock::{Condvar, Mutex, MutexGuard, rank};

/// A closure that runs when no capture is in progress.
type Deferred = Box<dyn FnOnce() + Send>;

/// The captures of a context.
#[derive(Default)]
pub(crate) struct Captures {
    state: Mutex<State, { rank::CAPTURES }>,
    /// Signalled when the last wait for the whole context is over.
    waited: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of captures in progress.
    active: usize,
    /// The number of threads that wait for the whole context.
    waits: usize,
    deferred: Vec<Deferred>,
}

/// A guard: no capture begins while it exists.
pub(crate) struct NoCaptureGuard<'a>(&'a Captures);

impl Captures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Prevents captures from beginning. Returns `None` if a capture is in progress.
    pub(crate) fn quiet(&self) -> Option<NoCaptureGuard<'_>> {
        let mut state = self.lock();
        (state.active == 0).then(|| self.wait(&mut state))
    }

    fn wait(&self, state: &mut State) -> NoCaptureGuard<'_> {
        state.waits += 1;
        NoCaptureGuard(self)
    }

    /// Runs `call`, which would invalidate a capture, now or when the last capture has ended.
    pub(crate) fn when_quiet(&self, call: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.active > 0 {
            state.deferred.push(Box::new(call));
            return;
        }
        let _quiet = self.wait(&mut state);
        drop(state);
        call();
    }

    /// Begins a capture, after waiting until no thread waits for the whole context.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        while state.waits > 0 {
            state = self.waited.wait(state);
        }
        state.active += 1;
    }

    /// Ends a capture. If it was the last one, returns the deferred calls.
    pub(crate) fn end(&self) -> Vec<Deferred> {
        let mut state = self.lock();
        state.active -= 1;
        if state.active == 0 {
            mem::take(&mut state.deferred)
        } else {
            Vec::new()
        }
    }
}

impl Drop for NoCaptureGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waits -= 1;
        if state.waits == 0 {
            self.0.waited.notify_all();
        }
    }
}

//! Captures under way in a context, and what would break them.
//!
//! `cuCtxSynchronize`, on any thread, invalidates every capture in its context (docs/safety.md). So
//! a capture begins only when nobody waits for the whole context, and while there is one nobody
//! begins to: a hidden wait is deferred until the last capture has ended.

use crate::lock::{Condvar, Mutex, MutexGuard, rank};

use super::Context;

/// What is to be done once nothing captures.
type Deferred = Box<dyn FnOnce() + Send>;

/// The captures of a context.
#[derive(Default)]
pub(crate) struct Captures {
    state: Mutex<State, { rank::CAPTURES }>,
    /// Signalled when the last wait for the context is over.
    waited: Condvar,
}

#[derive(Default)]
struct State {
    /// How many captures there are.
    active: usize,
    /// How many threads wait for the whole context.
    waits: usize,
    deferred: Vec<Deferred>,
}

/// As long as it lives no capture begins.
pub(crate) struct Quiet<'a>(&'a Captures);

/// A capture in a context: as long as it lives nobody waits for the whole context.
pub(crate) struct Capturing {
    context: Context,
}

impl Captures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Keeps captures from beginning; `None` if there is one.
    pub(crate) fn quiet(&self) -> Option<Quiet<'_>> {
        let mut state = self.lock();
        (state.active == 0).then(|| self.wait(&mut state))
    }

    fn wait(&self, state: &mut State) -> Quiet<'_> {
        state.waits += 1;
        Quiet(self)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waits -= 1;
        if state.waits == 0 {
            self.0.waited.notify_all();
        }
    }
}

impl Context {
    /// Does something that would break a capture: now, or when the last capture has ended.
    pub(crate) fn when_quiet(&self, call: impl FnOnce() + Send + 'static) {
        let captures = self.captures();
        let mut state = captures.lock();
        if state.active > 0 {
            state.deferred.push(Box::new(call));
            return;
        }
        let _quiet = captures.wait(&mut state);
        drop(state);
        call();
    }
}

impl Capturing {
    /// Waits until nobody waits for the whole context.
    pub(crate) fn new(context: &Context) -> Self {
        let captures = context.captures();
        let mut state = captures.lock();
        while state.waits > 0 {
            state = captures.waited.wait(state);
        }
        state.active += 1;
        drop(state);
        Self {
            context: context.clone(),
        }
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let mut state = self.context.captures().lock();
        state.active -= 1;
        let deferred = if state.active == 0 {
            std::mem::take(&mut state.deferred)
        } else {
            Vec::new()
        };
        drop(state);
        // The program has dropped what these give back earlier.
        let _relaxed = self.context.driver().relaxed();
        for call in deferred {
            self.context.when_quiet(call);
        }
    }
}

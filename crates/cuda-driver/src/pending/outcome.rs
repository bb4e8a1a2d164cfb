//! What becomes of something pending, for those that wait for it.

use std::mem;
use std::task::{Context, Poll, Waker};

use crate::error::Result;
use crate::lock::{Condvar, Mutex, MutexGuard, rank};

/// Set once; waited for by a thread, by a task, or by nobody.
#[derive(Default)]
pub(crate) struct Outcome {
    state: Mutex<State, { rank::OUTCOME }>,
    set: Condvar,
}

enum State {
    /// With the waker of the task that asked last.
    Pending(Option<Waker>),
    Known(Result<()>),
}

impl Default for State {
    fn default() -> Self {
        Self::Pending(None)
    }
}

impl Outcome {
    /// One that is known.
    pub(crate) fn known(result: Result<()>) -> Self {
        Self {
            state: Mutex::new(State::Known(result)),
            set: Condvar::new(),
        }
    }

    /// Tells the outcome to those that wait; the first one stays.
    pub(crate) fn resolve(&self, result: Result<()>) {
        let mut state = self.state();
        if matches!(*state, State::Known(_)) {
            return;
        }
        let before = mem::replace(&mut *state, State::Known(result));
        drop(state);
        self.set.notify_all();
        if let State::Pending(Some(waker)) = before {
            waker.wake();
        }
    }

    /// The outcome, if it is known.
    pub(crate) fn get(&self) -> Option<Result<()>> {
        match &*self.state() {
            State::Known(result) => Some(result.clone()),
            State::Pending(_) => None,
        }
    }

    /// The outcome, when it is known.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut state = self.state();
        loop {
            if let State::Known(result) = &*state {
                return result.clone();
            }
            state = self.set.wait(state);
        }
    }

    /// The outcome, or the task is woken when it is known.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<()>> {
        // Wakers are code of others: none of it runs under the lock.
        let waker = context.waker().clone();
        let mut state = self.state();
        let before = match &mut *state {
            State::Known(result) => {
                let result = result.clone();
                drop(state);
                return Poll::Ready(result);
            }
            State::Pending(before) => before.replace(waker),
        };
        drop(state);
        drop(before);
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

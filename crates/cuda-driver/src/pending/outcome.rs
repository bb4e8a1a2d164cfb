//! The result of pending work, and how threads and tasks wait for it.

use std::mem;
use std::task::{Context, Poll, Waker};

use crate::error::Result;
use crate::lock::{Condvar, Mutex, MutexGuard, rank};

/// A result that is set once. A thread or a task can wait for it.
#[derive(Default)]
pub(crate) struct Outcome {
    state: Mutex<State, { rank::OUTCOME }>,
    set: Condvar,
}

enum State {
    /// Not set yet, with the waker of the task that polled last.
    Pending(Option<Waker>),
    Known(Result<()>),
}

impl Default for State {
    fn default() -> Self {
        Self::Pending(None)
    }
}

impl Outcome {
    /// Creates an outcome that is already set.
    pub(crate) fn known(result: Result<()>) -> Self {
        Self {
            state: Mutex::new(State::Known(result)),
            set: Condvar::new(),
        }
    }

    /// Sets the result and wakes all waiters. Does nothing if it is already set.
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

    /// Returns the result if it is set.
    pub(crate) fn get(&self) -> Option<Result<()>> {
        match &*self.state() {
            State::Known(result) => Some(result.clone()),
            State::Pending(_) => None,
        }
    }

    /// Blocks until the result is set, and returns it.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut state = self.state();
        loop {
            if let State::Known(result) = &*state {
                return result.clone();
            }
            state = self.set.wait(state);
        }
    }

    /// Returns the result if it is set. Otherwise registers the task to be woken.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<()>> {
        // Wakers are foreign code, which must not run under the lock.
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

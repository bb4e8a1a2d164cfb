//! Unloading code once nothing uses it any more.

use std::sync::Arc;

use crate::context::Context;
use crate::error::Error;
use crate::handle::{Destroy, Handle};
use crate::order::Tracker;
use crate::pending;

/// A module or a library on its way out: it is unloaded when the uses of its variables and all work
/// in its contexts are over.
pub(crate) struct Unloading<T: Destroy> {
    /// The trackers of its variables. A stream of any context may copy from them.
    variables: Vec<Arc<Tracker>>,
    /// The contexts in which its kernels may run. Their launches are queued, and nothing else
    /// remembers them.
    contexts: Vec<Context>,
    handle: Handle<T>,
}

impl<T: Destroy> Unloading<T>
where
    Handle<T>: Send,
{
    pub(crate) fn new(
        handle: Handle<T>,
        variables: Vec<Arc<Tracker>>,
        contexts: Vec<Context>,
    ) -> Self {
        Self {
            variables,
            contexts,
            handle,
        }
    }

    /// Unloads the code: before this returns, or on another thread where this one must not wait, or
    /// when the captures that a wait would break have ended.
    ///
    /// If a wait fails, the code stays loaded until its context ends.
    pub(crate) fn start(self) {
        // Other contexts do not wait for the one that is waited for first.
        let driver = self.contexts.last().map(Context::driver);
        let driver = driver.unwrap_or(self.handle.driver()).clone();
        pending::waiting(&driver, move || self.wait_for_variables());
    }

    fn wait_for_variables(mut self) {
        while let Some(variable) = self.variables.last() {
            if let Some(context) = variable.unsettled() {
                let same = context.clone();
                return context.when_quiet(move || match same.settle_strays() {
                    Ok(()) => self.wait_for_variables(),
                    Err(_) => self.abandon(),
                });
            }
            if variable.wait_for_uses_elsewhere().is_err() {
                return self.abandon();
            }
            self.variables.pop();
        }
        self.wait_for_contexts();
    }

    fn wait_for_contexts(mut self) {
        let Some(context) = self.contexts.pop() else {
            // On this thread, which may wait: so does the driver if a stream of the context waits
            // for the program.
            let _ = self.handle.close();
            return;
        };
        let same = context.clone();
        context.when_quiet(move || match same.synchronize_quiet() {
            // Nothing runs in a context that its owner has declared dead.
            Ok(()) | Err(Error::ContextGone { .. }) => self.wait_for_contexts(),
            Err(_) => self.abandon(),
        });
    }

    /// Leaves the code loaded, as something may still use it.
    fn abandon(self) {
        for variable in &self.variables {
            Tracker::keep_context_while_used_elsewhere(variable);
        }
        self.handle.abandon();
    }
}

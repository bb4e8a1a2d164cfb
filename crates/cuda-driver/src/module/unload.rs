//! Unloads code when nothing uses it any more.

use std::sync::Arc;

use crate::context::Context;
use crate::error::Error;
use crate::handle::{Destroy, Handle};
use crate::tracking::Tracker;

/// A module or a library to unload when the uses of its variables and all work in its contexts are
/// complete.
pub(crate) struct Unloading<T: Destroy> {
    /// The trackers of its variables. Streams of any context may still copy from the variables.
    variables: Vec<Arc<Tracker>>,
    /// The contexts in which its kernels may run. Their launches are queued, and nothing else keeps
    /// track of them.
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

    /// Unloads the code before this function returns. If this thread must not wait, another thread
    /// unloads it. If a wait would invalidate captures, the code is unloaded when they have ended.
    ///
    /// If a wait fails, the code stays loaded until its context ends.
    pub(crate) fn start(self) {
        // The work is queued with the context that is waited for first, so other contexts do not
        // wait for it.
        let driver = self.contexts.last().map(Context::driver);
        let driver = driver.unwrap_or(self.handle.driver()).clone();
        driver.run_or_defer_wait(move || self.wait_for_variables());
    }

    fn wait_for_variables(mut self) {
        while let Some(variable) = self.variables.last() {
            if let Some(context) = variable.unfenced_context() {
                let same = context.clone();
                return context.when_quiet(move || match same.wait_for_unfenced() {
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
            // Unload on this thread, which is allowed to wait: the driver also waits here if a
            // stream of the context waits for the host.
            let _ = self.handle.close();
            return;
        };
        let same = context.clone();
        context.when_quiet(move || match same.synchronize_quiet() {
            // No work runs in a context that its owner has declared dead.
            Ok(()) | Err(Error::ContextGone { .. }) => self.wait_for_contexts(),
            Err(_) => self.abandon(),
        });
    }

    /// Leaves the code loaded, because it may still be in use.
    fn abandon(self) {
        for variable in &self.variables {
            Tracker::keep_context_while_used_elsewhere(variable);
        }
        self.handle.abandon();
    }
}

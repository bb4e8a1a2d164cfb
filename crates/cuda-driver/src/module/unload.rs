//! Unloads code when nothing uses it any more.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use crate::context::Context;
use crate::error::{Error, Result};
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
    /// Receives the result, if the program asked for it.
    report: Option<Report>,
    handle: Handle<T>,
}

/// The sending end for the result of an unload.
pub(crate) type Report = Sender<Result<()>>;

/// Calls `drop_code`, which starts an unload that sends its result to the given report. Returns the
/// result, or `Ok` if the unload was deferred.
pub(crate) fn report_of(drop_code: impl FnOnce(Report)) -> Result<()> {
    let (report, result) = mpsc::channel();
    drop_code(report);
    result.try_recv().unwrap_or(Ok(()))
}

impl<T: Destroy> Unloading<T>
where
    Handle<T>: Send,
{
    pub(crate) fn new(
        handle: Handle<T>,
        variables: Vec<Arc<Tracker>>,
        contexts: Vec<Context>,
        report: Option<Report>,
    ) -> Self {
        Self {
            variables,
            contexts,
            report,
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
                    Err(error) => self.abandon(error.into()),
                });
            }
            if let Err(error) = variable.wait_for_uses_elsewhere() {
                return self.abandon(error.into());
            }
            self.variables.pop();
        }
        self.wait_for_contexts();
    }

    fn wait_for_contexts(mut self) {
        let Some(context) = self.contexts.pop() else {
            // Unload on this thread, which is allowed to wait: the driver also waits here if a
            // stream of the context waits for the host.
            send(self.report, self.handle.close().map_err(Error::from));
            return;
        };
        let same = context.clone();
        context.when_quiet(move || match same.synchronize_quiet() {
            // No work runs in a context that its owner has declared dead.
            Ok(()) | Err(Error::ContextGone { .. }) => self.wait_for_contexts(),
            Err(error) => self.abandon(error),
        });
    }

    /// Leaves the code loaded, because it may still be in use.
    fn abandon(self, error: Error) {
        for variable in &self.variables {
            Tracker::keep_context_while_used_elsewhere(variable);
        }
        self.handle.abandon();
        send(self.report, Err(error));
    }
}

/// Sends the result of an unload, if the program still waits for it.
fn send(report: Option<Report>, result: Result<()>) {
    if let Some(report) = report {
        // It fails if the unload was deferred and nothing waits for its result.
        let _ = report.send(result);
    }
}

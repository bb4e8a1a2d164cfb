//! Destroys modules, libraries, memory pools and external semaphores when nothing uses them any
//! more.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use crate::context::Context;
use crate::deferred::must_not_wait;
use crate::error::{Error, Result};
use crate::handle::{Destroy, Handle};
use crate::stream_state::Kind;
use crate::tracking::Tracker;

/// A module, a library, a memory pool or an external semaphore to destroy when the uses of its
/// variables and all work in its contexts are complete.
pub(crate) struct DestroyWhenIdle<T: Destroy> {
    /// The trackers of the variables of a module or a library. Streams of any context may still
    /// copy from the variables.
    variables: Vec<Arc<Tracker>>,
    /// The contexts in which its kernels may run, or in which its memory may be freed. That work is
    /// queued, and nothing else keeps track of it.
    contexts: Vec<Context>,
    /// Receives the result, if the program asked for it.
    report: Option<Report>,
    handle: Handle<T>,
}

/// The sending end for the result of a destruction.
pub(crate) type Report = Sender<Result<()>>;

/// Calls `drop_object`, which starts a destruction that sends its result to the given report.
/// Returns the result, or `Ok` if the destruction was deferred.
pub(crate) fn report_of(drop_object: impl FnOnce(Report)) -> Result<()> {
    let (report, result) = mpsc::channel();
    drop_object(report);
    result.try_recv().unwrap_or(Ok(()))
}

impl<T: Destroy> DestroyWhenIdle<T>
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

    /// Destroys the object before this function returns, with two exceptions: if this thread must
    /// not wait, another thread destroys the object; and if a wait would invalidate captures, the
    /// object is destroyed when they have ended.
    ///
    /// If a wait fails, the object is not destroyed.
    pub(crate) fn start(self) {
        // If the wait is deferred, it runs on a worker thread of the context that it waits for
        // first, so it delays no worker thread of another context.
        let driver = self.contexts.last().map(Context::driver);
        let driver = driver.unwrap_or(self.handle.driver()).clone();
        driver.run_or_defer_wait(move || self.wait_for_variables());
    }

    /// Destroys the object as [`start`](Self::start) does, unless launches are queued or running in
    /// its contexts. A worker thread then waits for all work there and destroys the object, so that
    /// this thread does not wait.
    pub(crate) fn start_behind_work(self) {
        if self.report.is_some() || self.contexts.iter().all(seems_idle) {
            return self.start();
        }
        let driver = self.contexts.last().map(Context::driver);
        let driver = driver.unwrap_or(self.handle.driver()).clone();
        driver.defer_wait(move || self.wait_for_variables());
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
            // Destroy on this thread, which is allowed to wait: the driver also waits here if a
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

    /// Gives up the object without destroying it, because it may still be in use.
    fn abandon(self, error: Error) {
        for variable in &self.variables {
            Tracker::keep_context_while_used_elsewhere(variable);
        }
        self.handle.abandon();
        send(self.report, Err(error));
    }
}

/// Returns whether no launch seems to be queued or running on the streams of the program. Other
/// work may be queued nevertheless, for example on a stream that was dropped, so the result only
/// tells whether a wait is likely to take long. A stream without launches since it was last waited
/// for is not queried: the frees of the buffers of a program that ends take no time. The default
/// streams of C are not queried either, because that could invalidate a capture of other code.
fn seems_idle(context: &Context) -> bool {
    // A thread that must not wait must not query streams either.
    must_not_wait()
        || context.driver().is_gone()
        || context
            .streams()
            .of_program()
            .iter()
            .filter(|stream| stream.kind() == Kind::Own && stream.launches().in_flight() > 0)
            .all(|stream| stream.is_done(context))
}

/// Sends the result of a destruction, if the program still waits for it.
fn send(report: Option<Report>, result: Result<()>) {
    if let Some(report) = report {
        // It fails if the destruction was deferred and nothing waits for its result.
        let _ = report.send(result);
    }
}

//! Host functions: closures in the order of a stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::{Stream, StreamState};
use crate::context::Context;
use crate::driver::call;
use crate::error::Result;
use crate::event::UseEvent;
use crate::pending::{self, Entry, Id, Outcome};

/// A closure that was queued on a stream: waits for it, or tells that it panicked. Dropping it
/// changes nothing.
///
/// It is a future too.
pub struct HostCall {
    id: Id,
    outcome: Arc<Outcome>,
    /// Behind the call, if it could be recorded.
    event: Option<UseEvent>,
    /// To be waited for where there is no event.
    stream: Option<Arc<StreamState>>,
    /// Last: it goes behind the event and the stream.
    context: Context,
}

impl Stream {
    /// `cuLaunchHostFunc(function)`—Queues a closure: the driver calls it when all that was queued
    /// before is done, and the stream goes on when it has returned.
    ///
    /// It is called on a thread of the driver's, which has one for all: be short. It must not call
    /// the driver, nor wait for something that does; what it drops is freed by another thread,
    /// soon. It may wait for the program (for a channel, say), but then also holds up the host
    /// functions of other streams.
    ///
    /// If the device is lost first, the closure is dropped without being called, within a second.
    ///
    /// # Errors
    ///
    /// What the calls answer; then the closure was dropped.
    #[doc(alias = "cuLaunchHostFunc")]
    #[doc(alias = "cuStreamAddCallback")]
    pub fn launch_host(&self, function: impl FnOnce() + Send + 'static) -> Result<HostCall> {
        let context = self.context();
        self.driver().note_blocking();
        let mut entry = Entry::new(context);
        entry.run = Some(Box::new(function));
        let outcome = Arc::clone(&entry.outcome);
        let id = pending::add(entry);
        let queued = self.state().block(context, || {
            // SAFETY: the stream must be alive, and the function callable with this once, at any
            // later time ← it is borrowed, and the function only looks for an entry of this number.
            unsafe {
                call!(
                    self.driver(),
                    cuLaunchHostFunc(self.as_raw(), Some(pending::called), id.as_data())
                )
            }
        });
        if let Err(error) = queued {
            drop(pending::take(id));
            return Err(error.into());
        }
        let event = UseEvent::record(context, self.state()).ok();
        if let Some(event) = &event {
            pending::set_event(id, event.clone());
        }
        let stream = event.is_none().then(|| Arc::clone(self.state()));
        Ok(HostCall {
            id,
            outcome,
            event,
            stream,
            context: context.clone(),
        })
    }
}

impl HostCall {
    /// Whether the closure has returned, or will never be called.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// `cuEventSynchronize()`—Blocks this thread until the closure has returned. (Where no event
    /// could be recorded behind it, until the stream has done all that is queued.)
    ///
    /// # Errors
    ///
    /// [`Error::HostFunctionPanicked`](crate::Error::HostFunctionPanicked), or the fault that lost
    /// the device.
    pub fn wait(self) -> Result<()> {
        let synchronized = match (&self.event, &self.stream) {
            (Some(event), _) => event.synchronize(),
            (None, Some(stream)) => stream.synchronize(&self.context),
            (None, None) => Ok(()),
        };
        match synchronized {
            Ok(()) => self.outcome.wait(),
            Err(error) => {
                if error.is_sticky()
                    && let Some(entry) = pending::take(self.id)
                {
                    entry.fail(error);
                }
                self.outcome.get().unwrap_or(Err(error.into()))
            }
        }
    }
}

impl Future for HostCall {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        self.outcome.poll(context)
    }
}

impl fmt::Debug for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostCall({:?})", self.outcome.get())
    }
}

//! Host functions: closures that run at their position in a stream (`cuLaunchHostFunc`).
//!
//! Unlike C's function pointers, the closures own their data, and a panic is caught and reported.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use super::{Entry, Id, Outcome};
use crate::context::Context;
use crate::driver::call;
use crate::error::Result;
use crate::fence::Fence;
use crate::observer::Work;
use crate::reports::Mark;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::WorkKind;

/// A closure that was queued on a stream. It can be waited for, and reports whether the closure
/// panicked. Dropping it does not cancel the closure.
///
/// It is also a future.
pub struct HostCall {
    id: Id,
    outcome: Arc<Outcome>,
    /// The event after the call, if one could be recorded.
    event: Option<Fence>,
    /// The stream to wait for if `event` is `None`.
    stream: Option<Arc<StreamState>>,
    /// The checked launches before the call.
    mark: Option<Mark>,
    /// Declared last: it has to be dropped after the event and the stream.
    context: Context,
}

/// Host functions.
impl Stream {
    /// `cuLaunchHostFunc(function)`—Queues a closure. The driver calls it when all work that was
    /// queued before is complete, and the stream continues after it has returned.
    ///
    /// The driver calls all host functions on one thread of its own, so the closure should be
    /// short. It must not call the driver, nor wait for anything that does; the objects of this
    /// crate that it drops are freed by another thread soon after. It may wait for the program (for
    /// example, for a channel), but then it also delays the host functions of other streams.
    ///
    /// If the device is lost before the call, the closure is dropped within a second without being
    /// called.
    ///
    /// # Errors
    ///
    /// If the driver fails to queue the closure, the closure is dropped.
    #[doc(alias = "cuLaunchHostFunc")]
    #[doc(alias = "cudaLaunchHostFunc")]
    #[doc(alias = "cuStreamAddCallback")]
    #[doc(alias = "cudaStreamAddCallback")]
    pub fn launch_host(&self, function: impl FnOnce() + Send + 'static) -> Result<HostCall> {
        self.expect_direct("Stream::launch_host")?;
        let context = self.context();
        self.driver().note_host_wait();
        let mut entry = Entry::new(context);
        entry.run = Some(Box::new(function));
        let outcome = Arc::clone(&entry.outcome);
        let id = super::add(entry);
        let queued = self.state().queue_host_wait(context, || {
            self.observed(Work::of_kind(WorkKind::HostFunction, 0), || {
                // SAFETY: the stream must be alive, and the function callable once with this data
                // at any later time ← the stream is borrowed, and the function only looks up the
                // entry with this id.
                unsafe {
                    call!(
                        self.driver(),
                        cuLaunchHostFunc(self.as_raw(), Some(super::called), id.as_data())
                    )
                }
            })
        });
        if let Err(error) = queued {
            drop(super::take(id));
            return Err(error.into());
        }
        let event = self.state().record(context).ok();
        if let Some(event) = &event {
            super::set_fence(id, event.clone());
        }
        let stream = event.is_none().then(|| Arc::clone(self.state()));
        Ok(HostCall {
            id,
            outcome,
            event,
            stream,
            mark: self.mark(),
            context: context.clone(),
        })
    }
}

impl HostCall {
    /// Returns whether the closure has returned, or will never be called.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Returns the context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// `cuEventSynchronize()`—Blocks this thread until the closure has returned. If no event could
    /// be recorded after the closure, waits for all work that is queued on the stream instead.
    ///
    /// # Errors
    ///
    /// [`Error::HostFunctionPanicked`](crate::Error::HostFunctionPanicked) if the closure panicked,
    /// or the fault that lost the device. [`Error::Violation`](crate::Error::Violation) with the
    /// violations of [safe launches](Stream::launch_safe) before the closure that were not
    /// reported.
    pub fn wait(mut self) -> Result<()> {
        let synchronized = match (&self.event, &self.stream) {
            (Some(event), _) => event.synchronize(),
            (None, Some(stream)) => stream.synchronize(&self.context),
            (None, None) => Ok(()),
        };
        match synchronized {
            Ok(()) => {
                let waited = self.outcome.wait();
                self.finish(waited)
            }
            Err(error) => {
                if error.is_sticky()
                    && let Some(entry) = super::take(self.id)
                {
                    entry.fail(error);
                }
                self.outcome.get().unwrap_or(Err(error.into()))
            }
        }
    }
}

impl HostCall {
    /// Fails with the violations of launches before the call, after a wait with this result.
    fn finish(&mut self, waited: Result<()>) -> Result<()> {
        waited?;
        self.mark.take().map_or(Ok(()), |mark| mark.report())
    }
}

impl Future for HostCall {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        let waited = ready!(self.outcome.poll(context));
        Poll::Ready(self.finish(waited))
    }
}

impl fmt::Debug for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostCall({:?})", self.outcome.get())
    }
}

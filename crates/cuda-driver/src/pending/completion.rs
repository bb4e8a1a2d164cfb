//! Waiting without blocking a thread: futures that the driver wakes through host functions.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use super::{Entry, Outcome};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::fence::Fence;
use crate::reports::Mark;
use crate::stream::Stream;
use crate::stream_state::StreamState;

/// A future that is ready when work is complete. It works with any runtime; the driver wakes it.
///
/// Created by [`Stream::completion`] and [`Event::completion`]. Dropping it does not cancel the
/// work. If the device is lost, the future fails within a second.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Result, Stream};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// async fn squares(stream: &Stream) -> Result<Vec<u32>> {
///     let words: Vec<u32> = (0..10).map(|i| i * i).collect();
///     let buffer = DeviceBuffer::from_host(stream, &words)?;
///     stream.completion().await?;
///     buffer.to_vec()
/// }
///
/// # let mut future = std::pin::pin!(squares(&stream));
/// # let mut task = std::task::Context::from_waker(std::task::Waker::noop());
/// # let squares = loop {
/// #     match future.as_mut().poll(&mut task) {
/// #         std::task::Poll::Ready(done) => break done?,
/// #         std::task::Poll::Pending => std::thread::yield_now(),
/// #     }
/// # };
/// # assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]);
/// // Without a runtime:
/// stream.completion().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Completion {
    outcome: Arc<Outcome>,
    /// The event after the work, if one could be recorded.
    event: Option<Fence>,
    /// The checked launches among the work.
    mark: Option<Mark>,
    /// Declared last: it has to be dropped after the event.
    context: Context,
}

impl Completion {
    /// Creates a completion of the work before `event`.
    pub(crate) fn behind(context: &Context, event: Fence) -> Self {
        let this = Self::new(context, |side| {
            side.wait_at_once(context, event.raw())?;
            Ok(event.clone())
        });
        match this.outcome.get() {
            // No host function could be queued after the work, so the reaper thread polls the
            // event.
            Some(Err(_)) => Self::asked_for(context, event),
            _ => this,
        }
    }

    fn asked_for(context: &Context, event: Fence) -> Self {
        let mut entry = Entry::new(context);
        entry.fence = Some(event.clone());
        let outcome = Arc::clone(&entry.outcome);
        super::add(entry);
        Self {
            outcome,
            event: Some(event),
            mark: None,
            context: context.clone(),
        }
    }

    /// Creates a completion of the work that `prepare` makes an internal stream wait for. `prepare`
    /// returns an event that is complete once that work is.
    ///
    /// Each completion uses its own internal stream, so that it delays neither the work nor
    /// other completions.
    fn new(context: &Context, prepare: impl FnOnce(&StreamState) -> Result<Fence>) -> Self {
        let queue = || {
            let side = context.take_internal_stream()?;
            let event = prepare(&side)?;
            let mut entry = Entry::new(context);
            entry.fence = Some(event.clone());
            entry.side = Some(Arc::clone(&side));
            let outcome = Arc::clone(&entry.outcome);
            let id = super::add(entry);
            let queued = side.queueing(context).and_then(|queueing| {
                // SAFETY: the stream must be alive, and the function callable once with this data
                // at any later time ← `side` is owned here, and the function only looks up the
                // entry with this id.
                unsafe {
                    call!(
                        side.driver(),
                        cuLaunchHostFunc(queueing.raw(), Some(super::called), id.as_data())
                    )
                }
            });
            if let Err(error) = queued {
                drop(super::take(id));
                return Err(error.into());
            }
            Ok((outcome, event))
        };
        let (outcome, event) = match queue() {
            Ok((outcome, event)) => (outcome, Some(event)),
            Err(error) => (Arc::new(Outcome::known(Err(error))), None),
        };
        Self {
            outcome,
            event,
            mark: None,
            context: context.clone(),
        }
    }

    /// Returns a completion that also reports the violations of the marked launches.
    pub(crate) fn with_mark(mut self, mark: Option<Mark>) -> Self {
        self.mark = mark;
        self
    }

    /// Returns a completion that fails with `error`.
    pub(crate) fn failed(context: &Context, error: Error) -> Self {
        Self {
            outcome: Arc::new(Outcome::known(Err(error))),
            event: None,
            mark: None,
            context: context.clone(),
        }
    }

    /// Fails with the violations of the work, after a wait with this result.
    fn finish(&mut self, waited: Result<()>) -> Result<()> {
        waited?;
        self.mark.take().map_or(Ok(()), |mark| mark.report())
    }

    /// Returns the context of the work.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns whether the work is complete.
    ///
    /// # Errors
    ///
    /// A fault of the work, or an error of the calls that set up the completion.
    pub fn is_done(&self) -> Result<bool> {
        match (self.outcome.get(), &self.event) {
            (Some(result), _) => result.map(|()| true),
            (None, Some(event)) => Ok(event.query()?),
            (None, None) => Ok(false),
        }
    }

    /// `cuEventSynchronize()`—Blocks this thread until the work is complete.
    ///
    /// # Errors
    ///
    /// Fails as [`is_done`](Self::is_done) does. [`Error::Violation`] with the violations of
    /// [safe launches](Stream::launch_safe) among the work that were not reported.
    pub fn wait(mut self) -> Result<()> {
        let waited = match &self.event {
            Some(event) => event.synchronize().map_err(Error::from),
            None => self.outcome.wait(),
        };
        self.finish(waited)
    }
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        let waited = ready!(self.outcome.poll(context));
        Poll::Ready(self.finish(waited))
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({:?})", self.outcome.get())
    }
}

/// Waiting with `async` code.
impl Stream {
    /// `cuEventRecord()`, `cuLaunchHostFunc()`—Returns a future that is ready when all work that is
    /// queued on the stream now is complete.
    ///
    /// If setting it up fails, the future returns the error. `(&stream).await` is the same.
    #[doc(alias = "cuLaunchHostFunc")]
    #[doc(alias = "cudaLaunchHostFunc")]
    #[must_use]
    pub fn completion(&self) -> Completion {
        Completion::new(self.context(), |side| {
            self.expect_direct("Stream::completion")?;
            let event = self.state().record(self.context())?;
            side.wait_at_once(self.context(), event.raw())?;
            Ok(event)
        })
        .with_mark(self.mark())
    }
}

/// Waiting with `async` code.
impl Event {
    /// `cuStreamWaitEvent()`, `cuLaunchHostFunc()`—Returns a future that is ready when the work
    /// before the event, as recorded now, is complete. It is ready at once if the event was never
    /// recorded.
    ///
    /// If setting it up fails, the future returns the error. `(&event).await` is the same.
    #[must_use]
    pub fn completion(&self) -> Completion {
        Completion::new(self.context(), |side| {
            side.wait_at_once(self.context(), self.as_raw())?;
            // An internal event, because the program may record `self` again.
            side.record(self.context()).map_err(Error::from)
        })
        .with_mark(self.mark())
    }
}

impl IntoFuture for &Stream {
    type Output = Result<()>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        self.completion()
    }
}

impl IntoFuture for &Event {
    type Output = Result<()>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        self.completion()
    }
}

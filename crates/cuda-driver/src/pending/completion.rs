//! Waiting without a thread: futures that the driver wakes.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::{Entry, Outcome};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::event::{Event, UseEvent};
use crate::stream::{Stream, StreamState};

/// That work is done: a future, for any runtime, which the driver wakes.
///
/// Made by [`Stream::completion`] and [`Event::completion`]. The work goes on whatever becomes of
/// this value. If the device is lost, the error comes within a second.
pub struct Completion {
    outcome: Arc<Outcome>,
    /// Behind the work, if it could be recorded.
    event: Option<UseEvent>,
    /// Last: it goes behind the event.
    context: Context,
}

impl Completion {
    /// Of what is before `event`.
    pub(crate) fn behind(context: &Context, event: UseEvent) -> Self {
        let this = Self::new(context, |side| {
            side.wait_at_once(context, event.raw())?;
            Ok(event.clone())
        });
        match this.outcome.get() {
            // The driver cannot be made to report it, so it is asked.
            Some(Err(_)) => Self::asked_for(context, event),
            _ => this,
        }
    }

    fn asked_for(context: &Context, event: UseEvent) -> Self {
        let mut entry = Entry::new(context);
        entry.event = Some(event.clone());
        let outcome = Arc::clone(&entry.outcome);
        super::add(entry);
        Self {
            outcome,
            event: Some(event),
            context: context.clone(),
        }
    }

    /// Of what `prepare` makes a hidden stream wait for; it answers an event that is done then.
    ///
    /// The driver wakes from a stream of its own for each completion, so that none holds up
    /// another, nor the work.
    fn new(context: &Context, prepare: impl FnOnce(&StreamState) -> Result<UseEvent>) -> Self {
        let queue = || {
            let side = context.take_side_stream()?;
            let event = prepare(&side)?;
            let mut entry = Entry::new(context);
            entry.event = Some(event.clone());
            entry.side = Some(Arc::clone(&side));
            let outcome = Arc::clone(&entry.outcome);
            let id = super::add(entry);
            let queued = side.queueing(context).and_then(|queueing| {
                // SAFETY: the stream must be alive, and the function callable with this once, at
                // any later time ← it is owned here, and the function only looks for an entry of
                // this number.
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
            context: context.clone(),
        }
    }

    /// The context of the work.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the work is done.
    ///
    /// # Errors
    ///
    /// A fault of the work, or of the calls that prepared to wait for it.
    pub fn is_done(&self) -> Result<bool> {
        match (self.outcome.get(), &self.event) {
            (Some(result), _) => result.map(|()| true),
            (None, Some(event)) => Ok(event.query()?),
            (None, None) => Ok(false),
        }
    }

    /// `cuEventSynchronize()`—Blocks this thread until the work is done.
    ///
    /// # Errors
    ///
    /// As [`is_done`](Self::is_done).
    pub fn wait(self) -> Result<()> {
        match &self.event {
            Some(event) => Ok(event.synchronize()?),
            None => self.outcome.wait(),
        }
    }
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        self.outcome.poll(context)
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({:?})", self.outcome.get())
    }
}

impl Stream {
    /// `cuEventRecord()`, `cuLaunchHostFunc()`—A future that is ready when all that is queued on
    /// the stream now is done.
    ///
    /// What goes wrong here, it answers. `(&stream).await` is the same.
    #[doc(alias = "cuLaunchHostFunc")]
    #[must_use]
    pub fn completion(&self) -> Completion {
        Completion::new(self.context(), |side| {
            let event = UseEvent::record(self.context(), self.state())?;
            side.wait_at_once(self.context(), event.raw())?;
            Ok(event)
        })
    }
}

impl Event {
    /// `cuStreamWaitEvent()`, `cuLaunchHostFunc()`—A future that is ready when the work before the
    /// event, as it is recorded now, is done; at once if it was never recorded.
    ///
    /// What goes wrong here, it answers. `(&event).await` is the same.
    #[must_use]
    pub fn completion(&self) -> Completion {
        Completion::new(self.context(), |side| {
            side.wait_at_once(self.context(), self.as_raw())?;
            // One of our own, which nobody records elsewhere.
            UseEvent::record(self.context(), side).map_err(Error::from)
        })
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

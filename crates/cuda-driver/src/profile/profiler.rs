//! The type [`Profiler`].

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::recorder::Recorder;
use super::result::Profile;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::stream::Stream;

/// Observes the work that is queued on the streams of a context, or on one stream, until it is
/// dropped or [finished](Self::finish).
///
/// See the [module](crate::profile) for an example, and for what the times mean.
pub struct Profiler {
    /// Declared first: its events have to be dropped before the context.
    recorder: Arc<Recorder>,
    /// The stream that is observed, or `None` for all streams of the context.
    stream: Option<Stream>,
    context: Context,
}

impl Profiler {
    /// Starts to observe all streams of `context`, including those that are created later.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if another profiler observes the context. The errors of recording an
    /// event.
    pub fn start(context: &Context) -> Result<Self> {
        if context.streams().observer.is_set() {
            return Err(SECOND);
        }
        let recorder = Arc::new(Recorder::new(context)?);
        let observer: Arc<dyn Observer> = Arc::<Recorder>::clone(&recorder);
        context.streams().observer.set(Some(Arc::clone(&observer)));
        for stream in context.streams().of_program() {
            stream.set_observer(Some(Arc::clone(&observer)));
        }
        Ok(Self {
            recorder,
            stream: None,
            context: context.clone(),
        })
    }

    /// Starts to observe `stream`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if another profiler observes the stream. The errors of recording an
    /// event.
    pub fn start_on(stream: &Stream) -> Result<Self> {
        if stream.state().observer().is_set() {
            return Err(SECOND);
        }
        let recorder = Arc::new(Recorder::new(stream.context())?);
        let observer: Arc<dyn Observer> = Arc::<Recorder>::clone(&recorder);
        stream.state().set_observer(Some(observer));
        Ok(Self {
            recorder,
            stream: Some(stream.clone()),
            context: stream.context().clone(),
        })
    }

    /// Calls `call`. The work that this thread queues in the meantime belongs to a range with this
    /// name. Ranges can be nested.
    pub fn range<R>(&self, name: &str, call: impl FnOnce() -> R) -> R {
        let _open = self.recorder.open_range(name);
        call()
    }

    /// Returns what has completed so far. Does not wait.
    #[must_use]
    pub fn collect(&self) -> Profile {
        self.recorder.read();
        self.recorder.profile(&self.context)
    }

    /// Stops observing, waits for the work that was observed, and returns the results.
    ///
    /// # Errors
    ///
    /// The fault of any kernel that was still running.
    pub fn finish(self) -> Result<Profile> {
        self.stop();
        self.recorder.wait()?;
        Ok(self.recorder.profile(&self.context))
    }

    /// Removes the observer from the streams.
    fn stop(&self) {
        let is_own = |observer: Option<Arc<dyn Observer>>| {
            observer.is_some_and(|it| ptr::addr_eq(Arc::as_ptr(&it), Arc::as_ptr(&self.recorder)))
        };
        if let Some(stream) = &self.stream {
            if is_own(stream.state().observer().get()) {
                stream.state().set_observer(None);
            }
            return;
        }
        let streams = self.context.streams();
        if is_own(streams.observer.get()) {
            streams.observer.set(None);
        }
        for stream in streams.of_program() {
            if is_own(stream.observer().get()) {
                stream.set_observer(None);
            }
        }
    }
}

const SECOND: Error = Error::Unsupported {
    what: "a second profiler at the same time",
};

impl Drop for Profiler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stream {
            Some(stream) => write!(f, "Profiler({stream:?})"),
            None => write!(f, "Profiler({:?})", self.context),
        }
    }
}

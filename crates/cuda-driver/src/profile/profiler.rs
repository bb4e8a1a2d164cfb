//! The type [`Profiler`].

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::cupti::{Backend, Cupti, Scope, Session};
use super::reading::Reader;
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
///
/// ```
/// use cuda_driver::prelude::*;
/// use cuda_driver::profile::Profiler;
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut words = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
/// let profiler = Profiler::start_on(&stream)?;
/// profiler.range("fills", || {
///     words.fill(1)?;
///     words.fill(2)
/// })?;
/// let profile = profiler.finish()?;
///
/// assert_eq!(profile.ranges()[0].name(), "fills");
/// for fill in profile.operations() {
///     println!("{}: {} bytes in {:?}", fill.name(), fill.bytes(), fill.duration());
/// }
/// # assert_eq!(profile.operations().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Profiler {
    /// `None` once the profiler is finished.
    reader: Option<Reader>,
    /// Declared before the context: its events have to be dropped earlier.
    recorder: Arc<Recorder>,
    /// The use of CUPTI, and the records that belong to this profiler.
    cupti: Option<(Session, Scope)>,
    /// The stream that is observed, or `None` for all streams of the context.
    stream: Option<Stream>,
    context: Context,
}

impl Profiler {
    /// Starts to observe all streams of `context`, including those that are created later, with
    /// events.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if another profiler observes the context. The errors of recording an
    /// event.
    pub fn start(context: &Context) -> Result<Self> {
        Self::new(context, None, None)
    }

    /// Starts to observe `stream` with events.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if another profiler observes the stream. The errors of recording an
    /// event.
    pub fn start_on(stream: &Stream) -> Result<Self> {
        Self::new(stream.context(), Some(stream), None)
    }

    /// Starts to observe all streams of `context`, including those that are created later, with
    /// the activity records of CUPTI if it is installed and can be used, and otherwise with events.
    /// [`backend`](Self::backend) returns which.
    ///
    /// # Errors
    ///
    /// Fails as [`start`](Self::start) does.
    pub fn start_best(context: &Context) -> Result<Self> {
        // CUPTI sees the work of NVIDIA's driver, which loads machine code. Software drivers load
        // PTX only.
        if context.driver().library().loads_machine_code()
            && let Ok(cupti) = Cupti::load(context.driver())
        {
            match Self::start_with_cupti(context, &cupti) {
                Err(Error::Cupti(_)) => {}
                result => return result,
            }
        }
        Self::start(context)
    }

    /// Starts to observe all streams of `context`, including those that are created later, with
    /// the activity records of CUPTI.
    ///
    /// The times are those at which the device began and ended each piece of work. The profile also
    /// has the nodes of graphs, and the work that other code queues in the context. Host functions
    /// are timed with events.
    ///
    /// # Errors
    ///
    /// [`Error::Cupti`] if another profiler or another tool uses CUPTI in this process, or if CUPTI
    /// cannot be used with the driver; otherwise as [`start`](Self::start).
    pub fn start_with_cupti(context: &Context, cupti: &Cupti) -> Result<Self> {
        Self::new(context, None, Some(cupti))
    }

    /// Starts to observe `stream` with the activity records of CUPTI.
    ///
    /// # Errors
    ///
    /// Fails as [`start_with_cupti`](Self::start_with_cupti) does.
    pub fn start_on_with_cupti(stream: &Stream, cupti: &Cupti) -> Result<Self> {
        Self::new(stream.context(), Some(stream), Some(cupti))
    }

    fn new(context: &Context, stream: Option<&Stream>, cupti: Option<&Cupti>) -> Result<Self> {
        let is_observed = match stream {
            None => context.streams().observer.is_set(),
            Some(stream) => stream.state().observer().is_set(),
        };
        if is_observed {
            return Err(SECOND);
        }
        let session = cupti.map(Session::start).transpose()?;
        let backend = match &session {
            None => Backend::Events,
            Some(_) => Backend::Cupti,
        };
        let recorder = Arc::new(Recorder::new(context, backend)?);
        let cupti = match session {
            None => None,
            Some(session) => {
                let scope = Scope::new(&session, context, stream, || recorder.now())?;
                Some((session, scope))
            }
        };
        let reader = Reader::start(&recorder, context);
        let observer: Arc<dyn Observer> = Arc::<Recorder>::clone(&recorder);
        match stream {
            Some(stream) => stream.state().set_observer(Some(observer)),
            None => {
                context.streams().observer.set(Some(Arc::clone(&observer)));
                for stream in context.streams().of_program() {
                    stream.set_observer(Some(Arc::clone(&observer)));
                }
            }
        }
        Ok(Self {
            reader: Some(reader),
            recorder,
            cupti,
            stream: stream.cloned(),
            context: context.clone(),
        })
    }

    /// The source of the times.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.recorder.backend()
    }

    /// Calls `call`. The work that this thread queues in the meantime belongs to a range with this
    /// name. Ranges can be nested. With the feature `nvtx`, NVIDIA's tools show them too.
    pub fn range<R>(&self, name: &str, call: impl FnOnce() -> R) -> R {
        #[cfg(feature = "nvtx")]
        let _shown = super::nvtx::Range::open(name);
        let _open = self.recorder.open_range(name);
        call()
    }

    /// Returns what has completed so far. Does not wait.
    #[must_use]
    pub fn collect(&self) -> Profile {
        self.recorder.read();
        self.profile()
    }

    /// Stops observing, waits for the work that was observed, and returns the results.
    ///
    /// # Errors
    ///
    /// The fault of any kernel that was still running.
    pub fn finish(mut self) -> Result<Profile> {
        self.stop();
        self.reader = None;
        self.recorder.wait()?;
        if self.cupti.is_some() {
            self.wait_for_streams()?;
        }
        Ok(self.profile())
    }

    fn profile(&self) -> Profile {
        self.recorder.profile(&self.context, |profile| {
            if let Some((session, scope)) = &self.cupti {
                scope.add_to(profile, session);
            }
        })
    }

    /// Waits for observed work that has no events.
    fn wait_for_streams(&self) -> Result<()> {
        if let Some(stream) = &self.stream {
            return stream.synchronize();
        }
        match self.context.synchronize() {
            // The streams that are not being captured.
            Err(Error::Capturing { .. }) => {
                for stream in self.context.streams().of_program() {
                    match stream.synchronize(&self.context).map_err(Error::from) {
                        Err(Error::Capturing { .. }) => {}
                        result => result?,
                    }
                }
                Ok(())
            }
            result => result,
        }
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
    what: "a second profiler at the same time; drop the first one",
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

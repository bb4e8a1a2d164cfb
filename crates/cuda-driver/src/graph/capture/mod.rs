//! Capture: a graph made of calls in the order in which a stream would run them.
//!
//! Where C turns a stream of the program into a recorder, a capture here has streams of its own,
//! which only its scopes use: what becomes of it, the program's streams are as they were. It is
//! relaxed, so no hidden call breaks it; waits for the whole context, which would, are deferred or
//! refused meanwhile.

mod scope;
mod seen;

pub use scope::CaptureScope;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUgraph, CUstreamCaptureMode};

use super::node::Edge;
use super::{Graph, Root};
use crate::context::{Capturing, Context};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::event::{EventFlags, RawEvent};
use crate::handle::Handle;
use crate::lock::{Mutex, rank};
use crate::pending;
use crate::stream::{Stream, StreamFlags};

/// A capture under way, for those who cannot put it into a closure; others use [`Graph::capture`].
///
/// If it is dropped it ends, and what it has made goes.
pub struct Capture {
    session: ManuallyDrop<Session>,
}

/// What all scopes of a capture share.
pub(super) struct Session {
    pub(super) root: Arc<Root>,
    /// Which graph of `root`.
    pub(super) at: usize,
    /// The stream that the capture began with.
    origin: Stream,
    /// The others, all of which have joined the capture. Locked after the graph.
    pub(super) forks: Mutex<Vec<Stream>, { rank::CAPTURE_FORKS }>,
    /// What streams of the capture wait for each other with. Used with `forks` locked.
    pub(super) event: Handle<RawEvent>,
    /// Last: it goes when the capture has ended.
    capturing: Capturing,
}

impl Graph {
    /// `cuStreamBeginCapture(RELAXED)`, `cuStreamEndCapture()`—A graph of the calls that `calls`
    /// makes on its scope.
    ///
    /// ```no_run
    /// # use cuda_driver::{DeviceBuffer, Function, Graph, LaunchConfig, Stream};
    /// # fn f(stream: &Stream, twice: &Function) -> cuda_driver::Result<()> {
    /// let mut x = DeviceBuffer::<f32>::zeroed(stream, 256)?;
    /// let graph = Graph::capture(stream.context(), |scope| {
    ///     scope.fill(&mut x, 1.0)?;
    ///     // SAFETY: the kernel doubles 256 floats of `x`.
    ///     unsafe { scope.launch(twice, LaunchConfig::new(1, 256), (&mut x,)) }?;
    ///     Ok(())
    /// })?;
    /// graph.instantiate()?.launch(stream)?;
    /// assert_eq!(x.to_vec()?, [2.0; 256]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Nothing runs before the graph is launched, and captured calls are no uses of their buffers:
    /// launches are. The graph holds buffers and kernels as if its nodes had been added one by one.
    /// If `calls` answers an error or panics, the capture ends and there is no graph.
    ///
    /// What `calls` does beside its scope is not captured: it may allocate, load modules and use
    /// streams as ever. Only waiting for the whole context is refused, and deferred where a drop
    /// does it.
    ///
    /// # Errors
    ///
    /// What `calls` answers, `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the
    /// capture, or what the calls answer.
    #[doc(alias = "cuStreamBeginCapture")]
    pub fn capture(
        context: &Context,
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<()>,
    ) -> Result<Self> {
        Ok(Self::capture_with(context, calls)?.0)
    }

    /// `cuStreamBeginCapture(RELAXED)`, `cuStreamEndCapture()`—The same; answers what `calls` does
    /// too, such as nodes to update.
    ///
    /// # Errors
    ///
    /// As [`capture`](Self::capture).
    pub fn capture_with<R>(
        context: &Context,
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<R>,
    ) -> Result<(Self, R)> {
        let mut capture = Capture::begin(context)?;
        let result = calls(&mut capture.scope())?;
        Ok((capture.end()?, result))
    }

    /// `cuStreamBeginCaptureToGraph(RELAXED)`, `cuStreamEndCapture()`—Adds the calls that `calls`
    /// makes on its scope to this graph, the first behind `after`. The graph may be the body of a
    /// conditional node. (CUDA 12.3 on.)
    ///
    /// If `calls` answers an error or panics, what it has captured so far stays in the graph. If
    /// other code breaks the capture the graph is lost: all that is asked of it from then on is an
    /// error. Executables of it can still be launched.
    ///
    /// # Errors
    ///
    /// As [`capture`](Self::capture), and [`Error::OtherGraph`](crate::Error::OtherGraph).
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    pub fn capture_into<R>(
        &mut self,
        after: &[Edge],
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut capture = Capture::begin_into(self, after)?;
        let result = calls(&mut capture.scope())?;
        capture.end()?;
        Ok(result)
    }
}

impl Capture {
    /// `cuStreamBeginCapture(RELAXED)`—Begins a capture.
    ///
    /// Waits for threads that wait for the whole context or drop a module at this moment, which
    /// would break it.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    #[doc(alias = "cuStreamBeginCapture")]
    pub fn begin(context: &Context) -> Result<Self> {
        let (origin, event, capturing) = Self::prepare(context)?;
        let _current = context.enter()?;
        // SAFETY: the stream must be alive ← it is borrowed.
        unsafe {
            call!(
                context.driver(),
                cuStreamBeginCapture_v2(origin.as_raw(), RELAXED)
            )
        }?;
        let graph = match seen::look(&origin) {
            Ok(seen) => seen.graph,
            Err(error) => {
                if let Ok(raw) = end(&origin)
                    && !raw.is_null()
                {
                    // SAFETY: it must be alive, of this context, and nobody else's ← the end of the
                    // capture gave it to us.
                    drop(unsafe { Graph::of_raw(context, raw) });
                }
                return Err(error.into());
            }
        };
        // SAFETY: it must be alive, of this context, and nobody else's ← the capture has made it,
        // and gives it to us at its end; if there is none, `finish` lets go of it.
        let graph = unsafe { Graph::of_raw(context, graph) };
        graph.root.lock()[graph.at].is_reshaped = true;
        Ok(Self::new(&graph, origin, event, capturing))
    }

    fn begin_into(graph: &Graph, after: &[Edge]) -> Result<Self> {
        let context = graph.context();
        let (origin, event, capturing) = Self::prepare(context)?;
        let mut all = graph.root.lock();
        let parts = &all[graph.at];
        let edges = parts.edges(after, &[])?;
        let raw = edges
            .iter()
            .filter_map(|(from, kind)| Some((parts.nodes.get(*from as usize)?.raw.0, kind.raw())));
        let (nodes, data): (Vec<_>, Vec<_>) = raw.unzip();
        let _current = context.enter()?;
        // SAFETY: stream, graph and nodes must be alive, the pointers valid ← the stream is
        // borrowed; the graph is locked, and has the nodes; they are to locals.
        unsafe {
            call!(
                context.driver(),
                cuStreamBeginCaptureToGraph(
                    origin.as_raw(),
                    parts.raw.0,
                    nodes.as_ptr(),
                    data.as_ptr(),
                    nodes.len(),
                    RELAXED
                )
            )
        }?;
        all[graph.at].is_reshaped = true;
        // Before it is unlocked: a graph that is captured must not go.
        let capture = Self::new(graph, origin, event, capturing);
        drop(all);
        Ok(capture)
    }

    fn prepare(context: &Context) -> Result<(Stream, Handle<RawEvent>, Capturing)> {
        let origin = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        let event = RawEvent::create(context, EventFlags::DISABLE_TIMING)?;
        Ok((origin, event, Capturing::new(context)))
    }

    fn new(graph: &Graph, origin: Stream, event: Handle<RawEvent>, capturing: Capturing) -> Self {
        graph.root.begin_capture();
        let session = Session {
            root: Arc::clone(&graph.root),
            at: graph.at,
            origin,
            forks: Mutex::default(),
            event,
            capturing,
        };
        Self {
            session: ManuallyDrop::new(session),
        }
    }

    /// What is called on it is captured, each call behind the one before.
    pub fn scope(&mut self) -> CaptureScope<'_> {
        CaptureScope::new(&self.session, self.session.origin.clone())
    }

    /// The context in which it is.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.session.root.context()
    }

    /// `cuStreamEndCapture()`—Ends the capture; branches that were not joined are.
    ///
    /// What was deferred as it would have broken the capture, such as the unloading of modules, is
    /// done now if there is no other capture in the context.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture, or what the
    /// calls answer. There is no graph then.
    #[doc(alias = "cuStreamEndCapture")]
    pub fn end(self) -> Result<Graph> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it must not be used again ← this is its end, and it is not dropped.
        unsafe { ManuallyDrop::take(&mut this.session) }.finish()
    }
}

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// `cuStreamEndCapture()`.
fn end(origin: &Stream) -> Result<CUgraph, DriverError> {
    let mut raw = ptr::null_mut();
    // SAFETY: the stream must be alive, the pointer writable ← it is borrowed; a local.
    unsafe {
        call!(
            origin.driver(),
            cuStreamEndCapture(origin.as_raw(), &raw mut raw)
        )
    }?;
    Ok(raw)
}

impl Session {
    fn finish(self) -> Result<Graph> {
        let Self {
            root,
            at,
            origin,
            forks,
            event,
            capturing,
        } = self;
        let forks = forks.into_inner();
        let context = root.context();
        let current = context.enter();
        let mut all = root.lock();
        let mut known = Ok(());
        for fork in &forks {
            let joined = join(&event, &origin, fork);
            known = known.and(joined.map_err(Into::into));
        }
        // Nodes that other code has captured.
        known = known.and_then(|()| {
            let seen = seen::look(&origin)?;
            seen.edges(&mut all[at], context.driver()).map(drop)
        });
        let ended = end(&origin);
        let gone = ended.is_err().then(|| {
            // The driver has destroyed it; what it makes of one that was there before is not said.
            root.abandon(&mut all)
        });
        root.end_capture();
        drop(all);
        drop(gone);
        drop(current);
        drop((forks, origin, event));
        drop(capturing);
        ended?;
        known?;
        Ok(Graph { root, at })
    }
}

/// Makes what is captured on `to` from now on wait for what was captured on `from`. Nobody else
/// uses the event meanwhile.
pub(super) fn join(
    event: &Handle<RawEvent>,
    to: &Stream,
    from: &Stream,
) -> Result<(), DriverError> {
    let driver = to.driver();
    let event = event.raw().0;
    // SAFETY: event and stream must be alive ← both are borrowed.
    unsafe { call!(driver, cuEventRecord(event, from.as_raw())) }?;
    // SAFETY: as above.
    unsafe { call!(driver, cuStreamWaitEvent(to.as_raw(), event, 0)) }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: it must not be used again ← this is its end.
        let session = unsafe { ManuallyDrop::take(&mut self.session) };
        let driver = session.root.context().driver().clone();
        let finish = move || {
            // A drop has nobody to tell; `end` does.
            let _ = session.finish();
        };
        pending::outside(&driver, finish);
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({:?})", self.session.origin)
    }
}

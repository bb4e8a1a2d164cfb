//! Capture: a graph is built from calls, in the order in which a stream would run them.
//!
//! In C, a stream of the program becomes the recorder. Here a capture has streams of its own that
//! only its scopes use, so the streams of the program are unaffected by its outcome. Captures are
//! relaxed, so calls that this crate makes internally do not break them. Waiting for the whole
//! context would break them; it is deferred or refused while a capture is under way.

mod calls;
mod eager;
mod queue;
mod scope;
mod seen;

pub use eager::EagerCapture;
pub use scope::CaptureScope;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUgraph, CUstreamCaptureMode};

use super::{Graph, Root};
use crate::context::{Capturing, Context};
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::fence::{RawEvent, UNTIMED};
use crate::handle::Handle;
use crate::lock::{Mutex, rank};
use crate::stream::{Stream, StreamFlags};
use crate::stream_state::StreamState;
use crate::types::node::Edge;

/// A capture under way, for programs that cannot put the captured calls into a closure; others use
/// [`Graph::capture`].
///
/// Dropping it ends the capture and drops the captured graph.
pub struct Capture {
    session: ManuallyDrop<Session>,
}

/// The state that all scopes of a capture share.
pub(super) struct Session {
    pub(super) root: Arc<Root>,
    /// The index of the graph in `root`.
    pub(super) at: usize,
    /// The number of nodes of the graph when the capture began.
    nodes_before: usize,
    /// The stream on which the capture began.
    origin: Stream,
    /// The streams of the other branches, all of which are part of the capture. Locked after the
    /// graph.
    pub(super) forks: Mutex<Vec<Stream>, { rank::CAPTURE_FORKS }>,
    /// The event by which one stream of the capture waits for another. Used only while `forks` is
    /// locked.
    pub(super) event: Handle<RawEvent>,
    /// The last field: it is dropped when the capture has ended.
    capturing: Capturing,
}

/// Captures of the work that streams queue.
impl Graph {
    /// `cuStreamBeginCapture(RELAXED)`, `cuStreamEndCapture()`—Creates a graph from the calls that
    /// `calls` makes on its scope.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, Graph};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
    /// let mut y = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
    /// let graph = Graph::capture(&context, |scope| {
    ///     scope.fill(&mut x, 3_u32)?;
    ///     scope.copy(&mut y, &x)?;
    ///     Ok(())
    /// })?;
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(y.to_vec()?, [3; 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Nothing runs before the graph is launched. A captured call is not a use of its buffers; each
    /// launch of the graph is. The graph keeps buffers and kernels alive as if its nodes had been
    /// added one by one. If `calls` returns an error or panics, the capture ends without a graph.
    ///
    /// Calls that `calls` makes outside of its scope are not captured: it may allocate memory, load
    /// modules and use streams as usual. Waiting for the whole context is an error; a drop defers
    /// this wait.
    ///
    /// The error type of `calls` is [`Error`], so that `Ok(())` needs no type annotation.
    /// [`try_capture`](Self::try_capture) accepts other error types.
    ///
    /// # Errors
    ///
    /// The error that `calls` returns, `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has
    /// broken the capture, or [`Error::EmptyCapture`] if `calls` makes no call on its scope, for
    /// example because it launches on a stream instead. [`Graph::new`] makes an empty graph.
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cudaStreamBeginCapture")]
    pub fn capture(
        context: &Context,
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<()>,
    ) -> Result<Self> {
        Ok(Self::try_capture(context, calls)?.0)
    }

    /// `cuStreamBeginCapture(RELAXED)`, `cuStreamEndCapture()`—Creates a graph from the calls that
    /// `calls` makes on its scope, and also returns the value of `calls`, such as nodes to update
    /// later.
    ///
    /// # Errors
    ///
    /// The errors of [`capture`](Self::capture).
    pub fn capture_with<R>(
        context: &Context,
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<R>,
    ) -> Result<(Self, R)> {
        Self::try_capture(context, calls)
    }

    /// Does the same as [`capture_with`](Self::capture_with) for a closure that fails with an error
    /// of the caller.
    ///
    /// The error type must be known: from a function that `calls` calls last, from the type of the
    /// result, or written as `Ok::<(), MyError>(())`.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, Error, Graph};
    ///
    /// /// An error of the program.
    /// #[derive(Debug)]
    /// enum BuildError {
    ///     Cuda(Error),
    ///     NoLayers,
    /// }
    ///
    /// impl From<Error> for BuildError {
    ///     fn from(error: Error) -> Self {
    ///         Self::Cuda(error)
    ///     }
    /// }
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 16)?;
    /// let mut build = |layers: &[u32]| {
    ///     Graph::try_capture(&context, |scope| {
    ///         let last = *layers.last().ok_or(BuildError::NoLayers)?;
    ///         let node = scope.fill(&mut x, last)?;
    ///         Ok::<_, BuildError>(node)
    ///     })
    /// };
    /// assert!(matches!(build(&[]), Err(BuildError::NoLayers)));
    /// let (graph, node) = build(&[1, 2]).expect("there are two layers");
    /// let exec = graph.instantiate()?;
    /// exec.launch(&stream)?;
    /// assert_eq!(x.to_vec()?, [2; 16]);
    /// // The node can be changed later.
    /// exec.set_fill(node, &mut x, 7_u32)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`capture`](Self::capture).
    pub fn try_capture<R, E: From<Error>>(
        context: &Context,
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<R, E>,
    ) -> Result<(Self, R), E> {
        let mut capture = Capture::begin(context)?;
        let result = calls(&mut capture.scope())?;
        Ok((capture.end()?, result))
    }

    /// `cuStreamBeginCaptureToGraph(RELAXED)`, `cuStreamEndCapture()`—Adds the calls that `calls`
    /// makes on its scope to this graph. The first call depends on `after`. The graph may be the
    /// body of a conditional node.
    ///
    /// If `calls` returns an error or panics, the calls that were captured before stay in the
    /// graph. If other code breaks the capture the driver destroys the graph: every later call on
    /// it fails, but its executables can still be launched.
    ///
    /// # Errors
    ///
    /// The errors of [`capture`](Self::capture), [`Error::OtherGraph`] or [`Error::NodeGone`] if an
    /// edge does not come from a node of this graph, and [`Error::Driver`] with
    /// `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than CUDA 12.3.
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    #[doc(alias = "cudaStreamBeginCaptureToGraph")]
    pub fn capture_into<R>(
        &mut self,
        after: &[Edge],
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<R>,
    ) -> Result<R> {
        self.try_capture_into(after, calls)
    }

    /// Does the same as [`capture_into`](Self::capture_into) for a closure that fails with an error
    /// of the caller.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, Error, Graph};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 16)?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_fill(&[], &mut x, 1_u32)?;
    /// let result = graph.try_capture_into(&[first.edge()], |scope| {
    ///     let value: u32 = "two".parse()?;
    ///     scope.fill(&mut x, value)?;
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// });
    /// assert!(result.unwrap_err().is::<std::num::ParseIntError>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`capture_into`](Self::capture_into).
    pub fn try_capture_into<R, E: From<Error>>(
        &mut self,
        after: &[Edge],
        calls: impl FnOnce(&mut CaptureScope<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut capture = Capture::begin_into(self, after)?;
        let result = calls(&mut capture.scope())?;
        capture.end()?;
        Ok(result)
    }
}

impl Capture {
    /// `cuStreamBeginCapture(RELAXED)`—Begins a capture.
    ///
    /// Blocks while other threads wait for the whole context or drop a module, because both would
    /// break the capture.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the driver cannot create the streams or begin the
    /// capture.
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cudaStreamBeginCapture")]
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
                    // SAFETY: the graph must be alive, of this context and without another owner ←
                    // the end of the capture has returned it.
                    drop(unsafe { Graph::of_raw(context, raw) });
                }
                return Err(error.into());
            }
        };
        // SAFETY: the graph must be alive, of this context and without another owner ← the capture
        // has created it and returns it at its end; if the capture fails, `finish` gives up this
        // ownership.
        let graph = unsafe { Graph::of_raw(context, graph) };
        graph.root.lock()[graph.at].is_reshaped = true;
        Ok(Self::new(&graph, 0, origin, event, capturing))
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
        // SAFETY: stream, graph and nodes must be alive and the pointers valid ← the stream is
        // borrowed; the graph is locked and has the nodes; the pointers are to locals.
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
        let nodes_before = all[graph.at].nodes.len();
        // Registered before the graph is unlocked, because nodes of a graph that is being captured
        // must not be removed.
        let capture = Self::new(graph, nodes_before, origin, event, capturing);
        drop(all);
        Ok(capture)
    }

    fn prepare(context: &Context) -> Result<(Stream, Handle<RawEvent>, Capturing)> {
        // Not `Stream::new`: no observer must see the calls on this stream.
        let state = StreamState::create(context, StreamFlags::NON_BLOCKING.bits(), 0)?;
        let origin = Stream::of_state(context, state);
        let event = context.create_event(UNTIMED)?;
        Ok((origin, event, Capturing::new(context)))
    }

    fn new(
        graph: &Graph,
        nodes_before: usize,
        origin: Stream,
        event: Handle<RawEvent>,
        capturing: Capturing,
    ) -> Self {
        graph.root.begin_capture();
        let session = Session {
            root: Arc::clone(&graph.root),
            at: graph.at,
            nodes_before,
            origin,
            forks: Mutex::default(),
            event,
            capturing,
        };
        Self {
            session: ManuallyDrop::new(session),
        }
    }

    /// Returns a scope. Calls on it are captured, each of them after the one before.
    pub fn scope(&mut self) -> CaptureScope<'_> {
        CaptureScope::new(&self.session, self.session.origin.clone())
    }

    /// Returns the context of the capture.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.session.root.context()
    }

    /// `cuStreamEndCapture()`—Ends the capture. Branches that were not joined are joined first.
    ///
    /// Work that was deferred because it would have broken the capture, such as unloading modules,
    /// is done now unless another capture in the context is under way.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture, and
    /// [`Error::EmptyCapture`] if nothing was captured. The graph is lost after an error.
    #[doc(alias = "cuStreamEndCapture")]
    #[doc(alias = "cudaStreamEndCapture")]
    pub fn end(self) -> Result<Graph> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `session` must not be used again ← `self` is consumed, and `this` is never
        // dropped.
        unsafe { ManuallyDrop::take(&mut this.session) }.finish()
    }
}

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// Calls `cuStreamEndCapture()`.
fn end(origin: &Stream) -> Result<CUgraph, DriverError> {
    let mut raw = ptr::null_mut();
    // SAFETY: the stream must be alive and the pointer writable ← it is borrowed; `raw` is a local.
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
            nodes_before,
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
        // Tracks the nodes that other code has captured.
        known = known.and_then(|()| {
            let seen = seen::look(&origin)?;
            seen.edges(&mut all[at], context.driver()).map(drop)
        });
        let is_empty = all[at].nodes.len() == nodes_before;
        let ended = end(&origin);
        let gone = ended.is_err().then(|| {
            // The driver has destroyed a graph that the capture created. CUDA does not document
            // what becomes of a graph that existed before, so that is abandoned as well.
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
        if is_empty {
            return Err(Error::EmptyCapture { is_eager: false });
        }
        Ok(Graph { root, at })
    }
}

/// Makes later calls captured on `to` wait for the calls captured on `from`. The caller has
/// exclusive use of the event.
pub(super) fn join(
    event: &Handle<RawEvent>,
    to: &Stream,
    from: &Stream,
) -> Result<(), DriverError> {
    let driver = to.driver();
    let event = event.raw().0;
    // SAFETY: event and stream must be alive ← both are borrowed.
    unsafe { call!(driver, cuEventRecord(event, from.as_raw())) }?;
    // SAFETY: event and stream must be alive ← both are borrowed.
    unsafe { call!(driver, cuStreamWaitEvent(to.as_raw(), event, 0)) }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: `session` must not be used again ← the value is being dropped.
        let session = unsafe { ManuallyDrop::take(&mut self.session) };
        let driver = session.root.context().driver().clone();
        let finish = move || {
            // A drop cannot return the error; `end` does.
            let _ = session.finish();
        };
        driver.run_or_defer(finish);
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({:?})", self.session.origin)
    }
}

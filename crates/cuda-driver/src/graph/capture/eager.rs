//! Capture of calls on a stream of the program.
//!
//! In C, the stream of the program is put into capture. Here it is not: while an eager capture is
//! active, the calls of its thread on the stream are made on a stream of the capture instead. So
//! no call of other code can get into the graph by accident, and no event of the stream, no free
//! and no other thread can break the capture.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use cuda_sys::CUstream;

use super::{Capture, CaptureScope};
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::function::Function;
use crate::graph::{Graph, GraphAllocation, Owners};
use crate::lock::{Mutex, rank};
use crate::memory::{Block, Memory, Reclaim, RecordedUse, Recorder, Registered, recorder_of};
use crate::stream::{Recording, Stream};

/// A capture of the calls that this thread makes on a stream, in code that does not know about it;
/// [`Graph::capture_eager`] makes one for a closure.
///
/// While it exists, these calls on the stream are captured instead of run:
///
/// - launches of kernels, also typed, prepared, checked and raw ones;
/// - fills, and copies between device memory, linear or pitched;
/// - allocations of [`DeviceBuffer`](crate::DeviceBuffer)s by the stream itself;
/// - work of other code in [`Stream::using`];
/// - [`Queue::host`](crate::launch::Queue::host).
///
/// Every other call on the stream is an error that names the call, [`Error::EagerCapture`], and so
/// is every call of another thread. The capture stays intact. Calls on other streams run at once.
/// A captured call is not a use of its buffers; each launch of the graph is. The
/// [per-thread stream](Context::per_thread_stream) counts as one stream for all threads.
///
/// **Buffers.** The graph leases the memory of a buffer that a captured call uses. If the buffer is
/// dropped, its memory is freed after the graph releases it. A buffer that is created in the
/// capture is memory that a node of the graph allocates in each launch. Only captured calls can use
/// it ([`Error::MemoryOfCapture`]), and dropping it captures a node that frees the memory. It must
/// be dropped before the end of the capture. A buffer that outlives the capture, such as a result,
/// is created before the capture or in [`outputs`](Self::outputs). The nodes contain the addresses
/// of their buffers, which nothing can change later, so a buffer gets the one or the other kind of
/// memory when it is created.
///
/// The driver allows only one executable at a time of a graph that allocates memory: a second
/// [`instantiate`](Graph::instantiate) is an error.
///
/// Dropping the value ends the capture and drops the graph. If it is lost instead, for example in
/// [`std::mem::forget`], the capture never ends, and the stream refuses calls for ever. Use another
/// stream then. The buffers of the lost stream can be used there: launches take them, and copies
/// have methods that take the stream, such as
/// [`copy_to_host_on`](crate::DeviceSlice::copy_to_host_on).
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::graph::EagerCapture;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
/// let capture = EagerCapture::begin(&stream)?;
/// // Captured, and not run.
/// x.fill(7)?;
/// let graph = capture.end()?;
/// assert_eq!(x.to_vec()?, [0; 100]);
///
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(x.to_vec()?, [7; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EagerCapture {
    /// The first field: the calls on the stream are no longer captured when the capture ends.
    recording: Recording,
    recorder: Rc<EagerRecorder>,
}

/// Captures of the calls on a stream of the program.
impl Graph {
    /// `cuStreamBeginCapture()`, `cuStreamEndCapture()`—Creates a graph from the calls that `calls`
    /// makes on `stream`, in code that was written to run at once.
    ///
    /// [`EagerCapture`] says which calls are captured, and which rules apply to buffers. If `calls`
    /// returns an error or panics, the capture ends without a graph.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, Graph, Stream};
    ///
    /// /// Code that knows nothing about graphs: `x = 7`, through a temporary buffer.
    /// fn step(stream: &Stream, x: &mut DeviceBuffer<u32>) -> cuda_driver::Result<()> {
    ///     let seven = DeviceBuffer::filled(stream, x.len(), 7_u32)?;
    ///     x.copy_from(&seven)
    /// }
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    /// let graph = Graph::capture_eager(&stream, |_| step(&stream, &mut x))?;
    /// assert_eq!(x.to_vec()?, [0; 100]);
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(x.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of `calls`, of [`EagerCapture::begin`] and of [`EagerCapture::end`].
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cudaStreamBeginCapture")]
    pub fn capture_eager(
        stream: &Stream,
        calls: impl FnOnce(&EagerCapture) -> Result<()>,
    ) -> Result<Self> {
        Ok(Self::capture_eager_with(stream, calls)?.0)
    }

    /// `cuStreamBeginCapture()`, `cuStreamEndCapture()`—Creates a graph from the calls that `calls`
    /// makes on `stream`, and also returns the value of `calls`, such as a buffer that was created
    /// in [`EagerCapture::outputs`].
    ///
    /// # Errors
    ///
    /// The errors of [`capture_eager`](Self::capture_eager).
    pub fn capture_eager_with<R>(
        stream: &Stream,
        calls: impl FnOnce(&EagerCapture) -> Result<R>,
    ) -> Result<(Self, R)> {
        let capture = EagerCapture::begin(stream)?;
        let result = calls(&capture)?;
        Ok((capture.end()?, result))
    }
}

impl EagerCapture {
    /// `cuStreamBeginCapture()`—Begins to capture the calls of this thread on `stream`, which may
    /// be any stream, also a default stream of C or a borrowed one.
    ///
    /// # Errors
    ///
    /// [`Error::EagerCapture`] if the calls on `stream` are being captured already, and the errors
    /// of [`Capture::begin`].
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cudaStreamBeginCapture")]
    pub fn begin(stream: &Stream) -> Result<Self> {
        let mut recorder = None;
        let recording = Recording::begin(stream, "EagerCapture::begin", || {
            let new = Rc::new(EagerRecorder {
                capture: Capture::begin(stream.context())?,
                temporaries: Arc::default(),
                makes_outputs: Cell::new(false),
            });
            let registered = Registered(Rc::clone(&new) as Rc<dyn Recorder>);
            recorder = Some(new);
            Ok(Rc::new(registered) as Rc<dyn Any>)
        })?;
        // Set by the closure, which has succeeded.
        let recorder = recorder.ok_or(Error::Internal {
            what: "the capture did not begin",
        })?;
        Ok(Self {
            recording,
            recorder,
        })
    }

    /// Calls `calls`, whose calls on the stream are captured, and in which every new
    /// [`DeviceBuffer`](crate::DeviceBuffer) can outlive the capture.
    ///
    /// The memory of these buffers is ordinary memory: it is allocated at once, before the calls
    /// that use it are captured, and the graph leases it. The buffer counts as unwritten until the
    /// first launch of the graph: only captured calls of the same graph can use it, and all other
    /// calls fail with [`Error::NotYetWritten`]. After a launch it is a buffer like any other, and
    /// each launch writes it again. A launch through the raw handle of an executable does not
    /// count.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, Graph, Stream};
    ///
    /// /// Code that knows nothing about graphs: returns a copy of `x` with twos at its start.
    /// fn step(stream: &Stream, x: &DeviceBuffer<u32>) -> cuda_driver::Result<DeviceBuffer<u32>> {
    ///     let twos = DeviceBuffer::filled(stream, 2, 2_u32)?;
    ///     let mut result = x.try_clone()?;
    ///     result.slice_mut(..2)?.copy_from(&twos)?;
    ///     Ok(result)
    /// }
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 4)?;
    /// let (graph, result) = Graph::capture_eager_with(&stream, |capture| {
    ///     capture.outputs(|| step(&stream, &x))
    /// })?;
    /// let exec = graph.instantiate()?;
    /// assert!(result.to_vec().is_err());
    /// exec.launch(&stream)?;
    /// assert_eq!(result.to_vec()?, [2, 2, 0, 0]);
    /// x.fill(5)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(result.to_vec()?, [2, 2, 5, 5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A buffer that is dropped in `calls`, such as `twos`, adds no allocation node either: the
    /// graph keeps its memory. Create only the results in `outputs` if that matters.
    pub fn outputs<R>(&self, calls: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Cell<bool>, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let makes_outputs = &self.recorder.makes_outputs;
        let _restore = Restore(makes_outputs, makes_outputs.replace(true));
        calls()
    }

    /// Returns the stream whose calls are captured.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.recording.stream()
    }

    /// Returns the context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.stream().context()
    }

    /// Calls `calls`, whose calls on the stream run at once, for example to create a buffer that
    /// outlives the capture. Other threads can use the stream meanwhile.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, Graph};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut result = None;
    /// let graph = Graph::capture_eager(&stream, |capture| {
    ///     let mut buffer = capture.outside(|| DeviceBuffer::<u32>::zeroed(&stream, 4))?;
    ///     buffer.fill(7)?;
    ///     result = Some(buffer);
    ///     Ok(())
    /// })?;
    /// let result = result.expect("the closure has set it");
    /// assert_eq!(result.to_vec()?, [0; 4]);
    /// graph.instantiate()?.launch(&stream)?;
    /// assert_eq!(result.to_vec()?, [7; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outside<R>(&self, calls: impl FnOnce() -> R) -> R {
        self.recording.suspended(calls)
    }

    /// Calls `calls` with the branch on which the calls are captured, to add nodes for which
    /// streams have no call: child graphs, copies from and to
    /// [host buffers](crate::graph::GraphHostBuffer), or closures.
    pub fn with_scope<R>(&self, calls: impl FnOnce(&CaptureScope<'_>) -> R) -> R {
        calls(&self.recorder.scope())
    }

    /// Calls `queue` with the raw stream of the capture, for work of other code whose memory is not
    /// declared. [`Stream::using`] captures work whose memory is declared.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if the capture is broken, before or by `queue`.
    ///
    /// # Safety
    ///
    /// - All work is queued on the stream that `queue` receives, or on streams that are joined to
    ///   it, before `queue` returns. `queue` does not end the capture, and the stream is not used
    ///   afterwards.
    /// - As long as the graph, a clone of it or one of their executables exists, and until its last
    ///   launch is complete, the memory of this work stays allocated, and is used by no other work
    ///   that is not ordered with the launches.
    pub unsafe fn foreign<R>(&self, queue: impl FnOnce(CUstream) -> R) -> Result<R> {
        let mut result = None;
        let scope = self.recorder.scope();
        scope.capture_foreign(Owners::default(), |raw| result = Some(queue(raw)))?;
        result.ok_or(Error::Internal {
            what: "the capture did not call the closure of `EagerCapture::foreign`",
        })
    }

    /// `cuStreamEndCapture()`—Ends the capture.
    ///
    /// # Errors
    ///
    /// - [`Error::OutlivesCapture`] if a buffer that was created in the capture still exists. Every
    ///   later use of the buffer is an error, and dropping it does nothing.
    /// - The error of a free that a drop of one of its buffers should have captured.
    /// - [`Error::StillInUse`] if this is called in a closure of [`Stream::using`] on the stream.
    /// - `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture.
    ///
    /// The graph is lost after an error.
    #[doc(alias = "cuStreamEndCapture")]
    #[doc(alias = "cudaStreamEndCapture")]
    pub fn end(self) -> Result<Graph> {
        let Self {
            recording,
            recorder,
        } = self;
        drop(recording);
        let recorder = Rc::try_unwrap(recorder).map_err(|_| Error::StillInUse {
            what: "the eager capture",
            by: "calls that it captures",
        })?;
        let freed = recorder.close_temporaries();
        let graph = recorder.capture.end().map_err(|error| match error {
            Error::EmptyCapture { .. } => Error::EmptyCapture { is_eager: true },
            other => other,
        })?;
        freed?;
        Ok(graph)
    }
}

impl fmt::Debug for EagerCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EagerCapture({:?})", self.stream())
    }
}

/// Captures calls, each after the one before.
struct EagerRecorder {
    capture: Capture,
    temporaries: Arc<Temporaries>,
    /// Whether a new buffer gets ordinary memory, in a closure of [`EagerCapture::outputs`].
    makes_outputs: Cell<bool>,
}

/// The buffers that were created in a capture.
#[derive(Default)]
struct Temporaries {
    state: Mutex<State, { rank::CAPTURE_TEMPORARIES }>,
}

#[derive(Default)]
struct State {
    /// The number of buffers.
    live: usize,
    /// Their size in bytes.
    bytes: usize,
    /// The memory of buffers that were dropped where no node could be captured: on another thread,
    /// or in [`EagerCapture::outside`].
    dropped: Vec<GraphAllocation<u8>>,
    /// The first error of a free that was captured by a drop.
    failed: Option<Error>,
}

/// The owner of the memory of one buffer.
struct Temporary {
    all: Arc<Temporaries>,
    allocation: GraphAllocation<u8>,
}

impl EagerRecorder {
    fn scope(&self) -> CaptureScope<'_> {
        let session = &*self.capture.session;
        CaptureScope::new(session, session.origin.clone())
    }

    /// Returns the number of the graph.
    fn number(&self) -> u64 {
        self.capture.session.root.lock()[self.capture.session.at].id
    }

    fn owners(&self, uses: Vec<RecordedUse>) -> Result<Owners> {
        let context = self.capture.session.root.context();
        Owners::of_recorded(context, self.number(), uses)
    }

    /// Captures a node that frees memory, after all nodes that use it.
    fn add_free(&self, allocation: GraphAllocation<u8>) -> Result<()> {
        let scope = self.scope();
        scope.add_node(|graph, after| graph.add_free(after, allocation))?;
        Ok(())
    }

    /// Frees the memory of dropped buffers.
    ///
    /// # Errors
    ///
    /// [`Error::OutlivesCapture`] if a buffer exists, and the error of a free that failed.
    fn close_temporaries(&self) -> Result<()> {
        loop {
            let mut state = self.temporaries.state.lock();
            let dropped = std::mem::take(&mut state.dropped);
            if dropped.is_empty() {
                // A buffer that is dropped from now on is one of these.
                let (buffers, bytes) = (state.live, state.bytes);
                return match state.failed.take() {
                    Some(error) => Err(error),
                    None if buffers > 0 => Err(Error::OutlivesCapture { buffers, bytes }),
                    None => Ok(()),
                };
            }
            drop(state);
            dropped.into_iter().try_for_each(|it| self.add_free(it))?;
        }
    }
}

impl Recorder for EagerRecorder {
    fn call(
        &self,
        uses: Vec<RecordedUse>,
        kernel: Option<&dyn Any>,
        queue: &mut dyn FnMut(&Stream) -> Result<(), DriverError>,
    ) -> Result<()> {
        let mut owners = self.owners(uses)?;
        if let Some(kernel) = kernel.and_then(<dyn Any>::downcast_ref::<Function>) {
            owners.set_kernel(kernel, None);
        }
        self.scope().capture_nodes(owners, queue)
    }

    fn foreign(&self, uses: Vec<RecordedUse>, queue: &mut dyn FnMut(CUstream)) -> Result<()> {
        let owners = self.owners(uses)?;
        self.scope().capture_foreign(owners, queue)
    }

    fn allocate(&self, owner: &Stream, bytes: usize) -> Result<Memory> {
        if self.makes_outputs.get() {
            return Memory::allocate_output(owner, bytes, self.number());
        }
        let mut allocation = None;
        self.scope().add_node(|graph, after| {
            // SAFETY: the elements must be written before they are read ← the program creates a
            // buffer, which is written at once, or whose creator guarantees it.
            let new = unsafe { graph.add_alloc::<u8>(after, bytes) }?;
            let node = new.node();
            allocation = Some(new);
            Ok(node)
        })?;
        // Set by the closure, which has succeeded.
        let allocation = allocation.ok_or(Error::Internal {
            what: "a captured allocation has no node",
        })?;
        let (address, graph) = (allocation.as_raw(), allocation.graph());
        let mut state = self.temporaries.state.lock();
        state.live += 1;
        state.bytes += bytes;
        drop(state);
        let temporary = Temporary {
            all: Arc::clone(&self.temporaries),
            allocation,
        };
        let temporary = Arc::new(temporary);
        Ok(Memory::of_graph(owner, (address, bytes), graph, temporary))
    }

    fn host(&self, function: Box<dyn Fn() + Send + Sync>) -> Result<()> {
        self.scope().host(function).map(drop)
    }

    fn free(&self, temporary: &dyn Any) -> Option<Result<()>> {
        let temporary: &Temporary = temporary.downcast_ref()?;
        let is_own = Arc::ptr_eq(&temporary.all, &self.temporaries);
        is_own.then(|| self.add_free(temporary.allocation.second_handle()))
    }
}

/// Dropping a buffer captures the free of its memory.
impl Reclaim for Temporary {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        let stream = block.tracker.owning_stream();
        let recorder = recorder_of(stream, "the drop of a buffer").ok().flatten();
        let freed = recorder.and_then(|recorder| recorder.free(&*self));
        let mut state = self.all.state.lock();
        state.live -= 1;
        state.bytes -= block.bytes;
        match freed {
            Some(Ok(())) => {}
            // A drop cannot report the error; the end of the capture does. The node may exist.
            Some(Err(error)) => state.failed = state.failed.take().or(Some(error)),
            None => state.dropped.push(self.allocation.second_handle()),
        }
        Ok(())
    }

    fn disown(self: Arc<Self>, _: &Block) {
        // Not reached: the address of such memory is never given away.
    }
}

//! The calls that can be captured.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_sys::{CUgraphNode, CUstream, CUstreamUpdateCaptureDependencies_flags as Update};

use super::{Session, join, seen};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::event::Event;
use crate::external_semaphore::ExternalSemaphore;
use crate::function::Function;
use crate::graph::build::propagate;
use crate::graph::conflicts::NodeAccess;
use crate::graph::kernel::kernel_owners;
use crate::graph::parts::Parts;
use crate::graph::{CopySource, CopyTarget, Graph, Owners};
use crate::launch::{KernelArgs, LaunchAttributes, Values};
use crate::memop::ValueBatch;
use crate::memory::DeviceRepr;
use crate::stream::{Stream, StreamFlags};
use crate::types::LaunchConfig;
use crate::types::node::{Edge, Node, NodeId, node_kind};

/// A branch of captured calls, each of which runs after the one before, like the calls on a stream.
///
/// [`fork`](Self::fork) begins another branch. Calls on two branches with conflicting accesses to
/// the same memory are ordered automatically: the later one waits for the earlier one, as between
/// streams.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Graph, LaunchConfig, Module, Ptx};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
/// let mut y = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
/// let graph = Graph::capture(&context, |scope| {
///     let branch = scope.fork()?;
///     scope.fill(&mut x, 1_u32)?;
///     // Runs at the same time as the first fill.
///     branch.fill(&mut y, 5_u32)?;
///     scope.join(&branch)?;
///     // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 64 words.
///     unsafe { scope.launch(&mix, LaunchConfig::new(1, 64), (&mut x, &y, 64_u32)) }?;
///     Ok(())
/// })?;
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(x.to_vec()?, [7; 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CaptureScope<'c> {
    pub(super) session: &'c Session,
    pub(super) stream: Stream,
    /// The order of the calls on a branch is that of one thread, so a scope is not `Sync`.
    one_thread: PhantomData<Cell<()>>,
}

impl<'c> CaptureScope<'c> {
    pub(super) fn new(session: &'c Session, stream: Stream) -> Self {
        Self {
            session,
            stream,
            one_thread: PhantomData,
        }
    }

    /// Returns the context in which the graph will run.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.session.root.context()
    }

    /// `cuLaunchKernel(function, config, args)`—Captures a kernel launch, which
    /// [`Stream::launch`](crate::Stream::launch) would queue directly.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::launch`](crate::Stream::launch), [`Error::Unsupported`] for managed
    /// memory, and [`Error::OtherGraph`] for an argument that another graph allocates.
    ///
    /// # Safety
    ///
    /// The contract of [`Graph::add_kernel`] holds.
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: the contract of `launch` must hold ← the caller upholds it.
        unsafe { self.capture_launch(function, &config, None, &args) }
    }

    /// `cuLaunchKernelEx(function, config, attributes, args)`—Captures a kernel launch with
    /// attributes.
    ///
    /// # Errors
    ///
    /// The errors of [`launch`](Self::launch) and of
    /// [`Stream::launch_with`](crate::Stream::launch_with), and [`Error::Unsupported`] for events
    /// in the attributes.
    ///
    /// # Safety
    ///
    /// The contracts of [`launch`](Self::launch) and of
    /// [`Stream::launch_with`](crate::Stream::launch_with) hold.
    pub unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: the contract of `launch_with` must hold ← the caller upholds it.
        unsafe { self.capture_launch(function, &config, Some(attributes), &args) }
    }

    /// Captures a kernel launch.
    ///
    /// # Safety
    ///
    /// The contract of [`launch`](Self::launch) holds, or that of
    /// [`launch_with`](Self::launch_with) if there are attributes.
    pub(super) unsafe fn capture_launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: &A,
    ) -> Result<Node<node_kind::Kernel>> {
        let owners = kernel_owners(self.context(), self.graph().id(), function, config, args)?;
        let cluster = attributes.and_then(LaunchAttributes::cluster_blocks);
        let attributes = match attributes {
            Some(attributes) => {
                function.check_cluster(config, attributes.cluster_blocks())?;
                Some(attributes.for_capture(self.context())?)
            }
            None => None,
        };
        let captured = self.captured(owners, |stream| {
            args.with_pointers(|pointers| match attributes {
                None => {
                    // SAFETY: there must be a pointer to a value of each parameter's size, and the
                    // kernel must use only its memory ← `kernel_owners` has checked the sizes; the
                    // caller guarantees the latter.
                    unsafe { stream.call_launch(function, config, Values::pointers(pointers)) }
                }
                Some(attributes) => {
                    // SAFETY: the same requirements hold as in the other branch, for the same
                    // reasons.
                    unsafe {
                        stream.call_launch_ex(
                            function,
                            config,
                            attributes,
                            Values::pointers(pointers),
                        )
                    }
                }
            })
        });
        let node = captured.map_err(|error| function.node_error(error, config, cluster))?;
        Ok(Node::new(node))
    }

    /// `cuGraphAddMemcpyNode()`—Captures a copy. See [`Graph::add_copy`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_copy`] and of [`add_node`](Self::add_node).
    pub fn copy<'a, T: DeviceRepr>(
        &self,
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<Node<node_kind::Memcpy>> {
        self.add_node(|graph, after| graph.add_copy(after, to, from))
    }

    /// `cuGraphAddMemsetNode()`—Captures a fill. See [`Graph::add_fill`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_fill`] and of [`add_node`](Self::add_node).
    pub fn fill<'a, T: DeviceRepr>(
        &self,
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<Node<node_kind::Memset>> {
        self.add_node(|graph, after| graph.add_fill(after, to, value))
    }

    /// `cuGraphAddHostNode(function)`—Captures a call of a closure, once in each launch. See
    /// [`Graph::add_host`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_host`] and of [`add_node`](Self::add_node).
    pub fn host(
        &self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Node<node_kind::Host>> {
        self.add_node(|graph, after| graph.add_host(after, function))
    }

    /// `cuGraphAddChildGraphNode(child)`—Captures a run of another graph in its present state. See
    /// [`Graph::add_child`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_child`] and of [`add_node`](Self::add_node).
    pub fn child(&self, child: &Graph) -> Result<Node<node_kind::Child>> {
        self.add_node(|graph, after| graph.add_child(after, child))
    }

    /// `cuGraphAddEventRecordNode(event)`—Captures the recording of an event in each launch. See
    /// [`Graph::add_event_record`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_event_record`] and of [`add_node`](Self::add_node).
    pub fn event_record(&self, event: &Arc<Event>) -> Result<Node<node_kind::EventRecord>> {
        self.add_node(|graph, after| graph.add_event_record(after, event))
    }

    /// `cuGraphAddEventWaitNode(event)`—Captures a wait for the work that an event represents at
    /// the time of the launch. See [`Graph::add_event_wait`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_event_wait`] and of [`add_node`](Self::add_node).
    pub fn event_wait(&self, event: &Arc<Event>) -> Result<Node<node_kind::EventWait>> {
        self.add_node(|graph, after| graph.add_event_wait(after, event))
    }

    /// `cuGraphAddExternalSemaphoresSignalNode()`—Captures a signal of a semaphore of another API.
    /// See [`Graph::add_external_signal`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_external_signal`] and of [`add_node`](Self::add_node).
    pub fn external_signal(
        &self,
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<Node<node_kind::ExternalSignal>> {
        self.add_node(|graph, after| graph.add_external_signal(after, semaphore, value))
    }

    /// `cuGraphAddExternalSemaphoresWaitNode()`—Captures a wait for a semaphore of another API. See
    /// [`Graph::add_external_wait`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_external_wait`] and of [`add_node`](Self::add_node).
    pub fn external_wait(
        &self,
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<Node<node_kind::ExternalWait>> {
        self.add_node(|graph, after| graph.add_external_wait(after, semaphore, value))
    }

    /// `cuGraphAddBatchMemOpNode(batch)`—Captures waits for values and writes of values. See
    /// [`Graph::add_batch`].
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_batch`] and of [`add_node`](Self::add_node).
    pub fn batch(&self, batch: ValueBatch<'_>) -> Result<Node<node_kind::BatchMemOp>> {
        self.add_node(|graph, after| graph.add_batch(after, batch))
    }

    /// `cuStreamUpdateCaptureDependencies()`—Appends a node of any kind to this branch. `add`
    /// receives the graph and the edges after which it adds the node.
    ///
    /// The graph is the one that is being captured: instantiating it fails until the capture ends.
    ///
    /// # Errors
    ///
    /// The error that `add` returns, [`Error::OtherGraph`] if its node is in another graph, and
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture.
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    #[doc(alias = "cudaStreamUpdateCaptureDependencies")]
    pub fn add_node<N: Into<NodeId> + Copy>(
        &self,
        add: impl FnOnce(&mut Graph, &[Edge]) -> Result<N>,
    ) -> Result<N> {
        let after = self.after()?;
        let node = add(&mut self.graph(), &after)?;
        let _current = self.context().enter()?;
        let mut all = self.session.root.lock();
        let parts = &mut all[self.session.at];
        // Not `after`: `add` may have captured other calls on this scope.
        let pending = self.pending(parts)?;
        let index = parts.index_of(node.into())?;
        let info = parts.nodes.get(index as usize).ok_or(Error::OtherGraph)?;
        let follows = |edge: &Edge| info.after.iter().any(|(from, _)| *from == edge.from.index);
        // If the node does not depend on all of them, the next one must still wait for the rest.
        let update = if pending.iter().all(follows) {
            Update::CU_STREAM_SET_CAPTURE_DEPENDENCIES
        } else {
            Update::CU_STREAM_ADD_CAPTURE_DEPENDENCIES
        };
        self.update(&mut [info.raw.0], update)?;
        Ok(node)
    }

    /// `cuStreamGetCaptureInfo()`—Returns the edges of the next call on this branch: from the last
    /// node, and from the branches that were joined since.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture.
    #[doc(alias = "cuStreamGetCaptureInfo")]
    #[doc(alias = "cudaStreamGetCaptureInfo")]
    pub fn after(&self) -> Result<Vec<Edge>> {
        let _current = self.context().enter()?;
        let mut all = self.session.root.lock();
        self.pending(&mut all[self.session.at])
    }

    /// `cuStreamIsCapturing()`—Returns whether the capture is valid, that is, not broken by other
    /// code.
    #[doc(alias = "cuStreamIsCapturing")]
    #[doc(alias = "cudaStreamIsCapturing")]
    pub fn is_capturing(&self) -> Result<bool> {
        Ok(self.stream.capture_status()? == crate::stream::CaptureStatus::Active)
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—Begins another branch, which runs after the calls
    /// captured on this one so far.
    ///
    /// The branch can be sent to another thread. All branches are joined at the end of the capture.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture.
    pub fn fork(&self) -> Result<Self> {
        let stream = Stream::new(self.context(), StreamFlags::NON_BLOCKING, 0)?;
        self.with_event(&stream, &self.stream, Some(&stream))?;
        Ok(Self::new(self.session, stream))
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—Makes later calls on this branch wait for all calls
    /// captured on `other`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if `other` belongs to another capture.
    pub fn join(&self, other: &CaptureScope<'_>) -> Result<()> {
        if !Arc::ptr_eq(&self.session.root, &other.session.root)
            || !std::ptr::eq(self.session, other.session)
        {
            return Err(Error::OtherGraph);
        }
        Ok(self.with_event(&self.stream, &other.stream, None)?)
    }

    /// Returns the raw stream, for other code whose calls are to be captured.
    ///
    /// That code must make only calls that are legal during a capture, and only while this scope is
    /// not used; it must not destroy the stream or end the capture. Its nodes are not tracked: the
    /// caller keeps alive what they use, and orders them with other branches.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.stream.as_raw()
    }

    /// Returns a handle to the graph that is being captured.
    fn graph(&self) -> Graph {
        Graph {
            root: Arc::clone(&self.session.root),
            at: self.session.at,
        }
    }

    fn with_event(
        &self,
        to: &Stream,
        from: &Stream,
        new: Option<&Stream>,
    ) -> Result<(), DriverError> {
        let _current = self.context().enter()?;
        // Locked because a captured call changes the graph.
        let _graph = self.session.root.lock();
        let mut forks = self.session.forks.lock();
        join(&self.session.event, to, from)?;
        forks.extend(new.cloned());
        Ok(())
    }

    /// Captures the single node that `call` makes. The node uses what `owners` lists.
    fn captured(
        &self,
        owners: Owners,
        call: impl FnOnce(&Stream) -> Result<(), DriverError>,
    ) -> Result<NodeId> {
        let Session { root, at, .. } = self.session;
        let context = root.context();
        let driver = context.driver();
        let accesses = owners.accesses();
        // Declared before the lock, so that unused owners are dropped after the unlock.
        let mut owners = Some(owners);
        let _current = context.enter()?;
        let mut all = root.lock();
        self.order(&mut all, &accesses)?;
        let parts = &mut all[*at];
        let called = call(&self.stream);
        // A call that failed may still have captured a node.
        let added = match seen::look(&self.stream) {
            Ok(seen) => seen.added(parts, driver, &mut owners),
            Err(error) => Err(error.into()),
        };
        // If the owners were not taken, the graph may have a node that is not tracked yet.
        parts.others.extend(owners.take().map(Arc::new));
        called?;
        let index = added?.ok_or(Error::Unsupported {
            what: "a captured call that adds no node",
        })?;
        let id = NodeId {
            graph: parts.id,
            index,
        };
        Ok(id)
    }

    /// Makes the next node on the branch depend on the nodes that conflict with these accesses. The
    /// graph is locked, and the context is current.
    pub(super) fn order(&self, all: &mut [Parts], accesses: &[NodeAccess]) -> Result<()> {
        let at = self.session.at;
        let pending = self.pending(&mut all[at])?;
        propagate(all, at, self.stream.driver(), accesses)?;
        let parts = &mut all[at];
        let edges = parts.edges(&pending, accesses)?;
        let is_missing = |from: &u32| !pending.iter().any(|edge| edge.from.index == *from);
        let missing = edges.iter().map(|(from, _)| *from).filter(is_missing);
        let mut missing: Vec<CUgraphNode> = missing
            .filter_map(|from| Some(parts.nodes.get(from as usize)?.raw.0))
            .collect();
        if !missing.is_empty() {
            self.update(&mut missing, Update::CU_STREAM_ADD_CAPTURE_DEPENDENCIES)?;
        }
        Ok(())
    }

    /// Returns the edges of the next node. The graph is locked.
    fn pending(&self, parts: &mut Parts) -> Result<Vec<Edge>> {
        let seen = seen::look(&self.stream)?;
        seen.edges(parts, self.stream.driver())
    }

    /// Changes the dependencies of the next node. The graph is locked and has the nodes.
    fn update(&self, nodes: &mut [CUgraphNode], how: Update) -> Result<(), DriverError> {
        // SAFETY: stream and nodes must be alive and the pointer valid ← the stream and the slice
        // are borrowed; the caller guarantees that the graph has the nodes and is locked.
        unsafe {
            call!(
                self.stream.driver(),
                cuStreamUpdateCaptureDependencies(
                    self.stream.as_raw(),
                    nodes.as_mut_ptr(),
                    nodes.len(),
                    how.0
                )
            )
        }
    }
}

impl fmt::Debug for CaptureScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaptureScope({:?})", self.stream)
    }
}

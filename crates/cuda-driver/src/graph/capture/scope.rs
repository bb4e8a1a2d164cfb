//! What can be called while a graph is captured.

use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUgraphNode, CUstream, CUstreamUpdateCaptureDependencies_flags as Update};

use super::{Session, join, seen};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::event::Event;
use crate::function::Function;
use crate::graph::build::propagate;
use crate::graph::kernel::kernel_owners;
use crate::graph::node::{Edge, Node, NodeId, node_kind};
use crate::graph::parts::Parts;
use crate::graph::{CopySource, CopyTarget, Graph, Owners};
use crate::launch::{
    Accepts, Kernel, KernelArgs, KernelParams, LaunchAttributes, LaunchConfig, Values,
};
use crate::memory::DeviceRepr;
use crate::stream::{Stream, StreamFlags, ValueBatch};

/// A line of captured calls, each behind the one before: what a stream is to calls that run.
///
/// [`fork`](Self::fork) begins another line. Calls on two lines that use the same memory, one of
/// them to write, are ordered all the same: the later waits for the earlier, as between streams.
pub struct CaptureScope<'c> {
    session: &'c Session,
    stream: Stream,
}

impl<'c> CaptureScope<'c> {
    pub(super) fn new(session: &'c Session, stream: Stream) -> Self {
        Self { session, stream }
    }

    /// The context in which the graph will run.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.session.root.context()
    }

    /// `cuLaunchKernel(function, config, args)`—Captures a launch:
    /// [`Stream::launch`](crate::Stream::launch) when the graph runs.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::launch`](crate::Stream::launch), [`Error::Unsupported`] for managed
    /// memory, or what the calls answer.
    ///
    /// # Safety
    ///
    /// As [`Graph::kernel`].
    pub unsafe fn launch<A: KernelArgs>(
        &mut self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: as the caller says.
        unsafe { self.queue(function, &config, None, &args) }
    }

    /// `cuLaunchKernelEx(function, config, attributes, args)`—The same with attributes.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch) and [`Stream::launch_with`](crate::Stream::launch_with);
    /// [`Error::Unsupported`] for events in the attributes.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch) and [`Stream::launch_with`](crate::Stream::launch_with).
    pub unsafe fn launch_with<A: KernelArgs>(
        &mut self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: as the caller says.
        unsafe { self.queue(function, &config, Some(attributes), &args) }
    }

    /// `cuLaunchKernel(kernel, config, args)`—Captures a launch of a kernel whose signature was
    /// checked.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch), but for arguments of a wrong number or size: those do not
    /// compile.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch).
    pub unsafe fn launch_kernel<P: KernelParams + Accepts<A>, A: KernelArgs>(
        &mut self,
        kernel: &Kernel<P>,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: as the caller says.
        unsafe { self.queue(kernel.function(), &config, None, &args) }
    }

    /// # Safety
    ///
    /// As [`launch`](Self::launch), with attributes as [`launch_with`](Self::launch_with).
    unsafe fn queue<A: KernelArgs>(
        &mut self,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: &A,
    ) -> Result<Node<node_kind::Kernel>> {
        self.stream
            .expect_context(function.context(), "the kernel")?;
        let owners = kernel_owners(self.graph().id(), function, config, args)?;
        let attributes = match attributes {
            Some(attributes) => {
                function.check_cluster(config, attributes.cluster_blocks())?;
                Some(attributes.for_capture(self.context())?)
            }
            None => None,
        };
        let node = self.captured(owners, |stream| {
            args.with_pointers(|pointers| match attributes {
                None => {
                    // SAFETY: there must be a pointer to a value of each size, and the kernel keep
                    // to its memory ← `kernel_owners` has checked the sizes; the caller says so.
                    unsafe { stream.call_launch(function, config, Values::pointers(pointers)) }
                }
                Some(attributes) => {
                    // SAFETY: as above.
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
        })?;
        Ok(Node::new(node))
    }

    /// `cuGraphAddMemcpyNode()`—Captures a copy: see [`Graph::copy`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn copy<'a, T: DeviceRepr>(
        &mut self,
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<Node<node_kind::Memcpy>> {
        self.node(|graph, after| graph.copy(after, to, from))
    }

    /// `cuGraphAddMemsetNode()`—Captures a fill: see [`Graph::fill`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn fill<'a, T: DeviceRepr>(
        &mut self,
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<Node<node_kind::Memset>> {
        self.node(|graph, after| graph.fill(after, to, value))
    }

    /// `cuGraphAddHostNode(function)`—Captures a call of a closure, once in each launch: see
    /// [`Graph::host`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn host(
        &mut self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Node<node_kind::Host>> {
        self.node(|graph, after| graph.host(after, function))
    }

    /// `cuGraphAddChildGraphNode(child)`—Captures a run of another graph, as it is now: see
    /// [`Graph::child`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn child(&mut self, child: &Graph) -> Result<Node<node_kind::Child>> {
        self.node(|graph, after| graph.child(after, child))
    }

    /// `cuGraphAddEventRecordNode(event)`—Captures that an event is recorded, in each launch: see
    /// [`Graph::event_record`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn event_record(&mut self, event: &Arc<Event>) -> Result<Node<node_kind::EventRecord>> {
        self.node(|graph, after| graph.event_record(after, event))
    }

    /// `cuGraphAddEventWaitNode(event)`—Captures a wait for what an event stands for when the graph
    /// is launched: see [`Graph::event_wait`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn event_wait(&mut self, event: &Arc<Event>) -> Result<Node<node_kind::EventWait>> {
        self.node(|graph, after| graph.event_wait(after, event))
    }

    /// `cuGraphAddBatchMemOpNode(batch)`—Captures waits for values and writes of values: see
    /// [`Graph::batch`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn batch(&mut self, batch: ValueBatch<'_>) -> Result<Node<node_kind::BatchMemOp>> {
        self.node(|graph, after| graph.batch(after, batch))
    }

    /// `cuStreamUpdateCaptureDependencies()`—Puts a node of any kind at the end of this line. `add`
    /// adds it to the graph, behind the edges that it gets.
    ///
    /// The graph is that which is captured; no executable can be made of it before the capture has
    /// ended.
    ///
    /// # Errors
    ///
    /// What `add` answers, [`Error::OtherGraph`] if its node is of another graph, or what the calls
    /// answer.
    #[doc(alias = "cuStreamUpdateCaptureDependencies")]
    pub fn node<N: Into<NodeId> + Copy>(
        &mut self,
        add: impl FnOnce(&mut Graph, &[Edge]) -> Result<N>,
    ) -> Result<N> {
        let after = self.after()?;
        let node = add(&mut self.graph(), &after)?;
        let _current = self.context().enter()?;
        let all = self.session.root.lock();
        let parts = &all[self.session.at];
        let place = parts.place(node.into())?;
        let info = parts.nodes.get(place as usize).ok_or(Error::OtherGraph)?;
        let follows = |edge: &Edge| info.after.iter().any(|(from, _)| *from == edge.from.index);
        // What it does not wait for, the next one still has to.
        let update = if after.iter().all(follows) {
            Update::CU_STREAM_SET_CAPTURE_DEPENDENCIES
        } else {
            Update::CU_STREAM_ADD_CAPTURE_DEPENDENCIES
        };
        self.update(&mut [info.raw.0], update)?;
        Ok(node)
    }

    /// `cuStreamGetCaptureInfo()`—What the next call on this line waits for: the node of the last
    /// one, and those of lines that were joined since.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if other code has broken the capture, or what the
    /// calls answer.
    #[doc(alias = "cuStreamGetCaptureInfo")]
    pub fn after(&self) -> Result<Vec<Edge>> {
        let _current = self.context().enter()?;
        let mut all = self.session.root.lock();
        self.pending(&mut all[self.session.at])
    }

    /// `cuStreamIsCapturing()`—Whether the capture is still good: not broken by other code.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn is_capturing(&self) -> Result<bool> {
        Ok(self.stream.capture_status()? == crate::CaptureStatus::Active)
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—Another line of calls, which begins behind what was
    /// captured on this one so far.
    ///
    /// It may go to another thread. At the end of the capture all lines are joined.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn fork(&mut self) -> Result<Self> {
        let stream = Stream::new(self.context(), StreamFlags::NON_BLOCKING, 0)?;
        self.with_event(&stream, &self.stream, Some(&stream))?;
        Ok(Self::new(self.session, stream))
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—What is captured on this line from now on waits for
    /// all that was captured on `other`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if it is of another capture, or what the calls answer.
    pub fn join(&mut self, other: &CaptureScope<'_>) -> Result<()> {
        if !Arc::ptr_eq(&self.session.root, &other.session.root)
            || !std::ptr::eq(self.session, other.session)
        {
            return Err(Error::OtherGraph);
        }
        Ok(self.with_event(&self.stream, &other.stream, None)?)
    }

    /// The raw stream, for other code whose calls are to be captured. It must be used in ways only
    /// that are legal under capture, and only while this scope is not used; it must not be
    /// destroyed, nor the capture ended. What is captured so is not known here: the caller keeps
    /// what it uses, and orders it with other lines.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.stream.as_raw()
    }

    /// A handle of the graph that is captured.
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
        // What captures into a graph changes it.
        let _graph = self.session.root.lock();
        let mut forks = self.session.forks.lock();
        join(&self.session.event, to, from)?;
        forks.extend(new.cloned());
        Ok(())
    }

    /// Captures what `call` does: one node, which uses what `owners` says.
    fn captured(
        &mut self,
        owners: Owners,
        call: impl FnOnce(&Stream) -> Result<(), DriverError>,
    ) -> Result<NodeId> {
        let Session { root, at, .. } = self.session;
        let context = root.context();
        let driver = context.driver();
        let reaches = owners.reaches();
        // Before the lock, behind which it goes if it is not kept.
        let mut owners = Some(owners);
        let _current = context.enter()?;
        let mut all = root.lock();
        let pending = self.pending(&mut all[*at])?;
        propagate(&mut all, *at, driver, &reaches)?;
        let parts = &mut all[*at];
        let edges = parts.edges(&pending, &reaches)?;
        let is_missing = |from: &u32| !pending.iter().any(|edge| edge.from.index == *from);
        let missing = edges.iter().map(|(from, _)| *from).filter(is_missing);
        let mut missing: Vec<CUgraphNode> = missing
            .filter_map(|from| Some(parts.nodes.get(from as usize)?.raw.0))
            .collect();
        if !missing.is_empty() {
            self.update(&mut missing, Update::CU_STREAM_ADD_CAPTURE_DEPENDENCIES)?;
        }
        let called = call(&self.stream);
        // What has failed may have been captured.
        let added = match seen::look(&self.stream) {
            Ok(seen) => seen.added(parts, driver, &mut owners),
            Err(error) => Err(error.into()),
        };
        // The graph may have a node that is not known here yet.
        parts.others.extend(owners.take().map(Arc::new));
        called?;
        let index = added?.ok_or(Error::Unsupported {
            what: "a captured call that makes no node",
        })?;
        let id = NodeId {
            graph: parts.id,
            index,
        };
        Ok(id)
    }

    /// What the next node waits for. The graph is locked.
    fn pending(&self, parts: &mut Parts) -> Result<Vec<Edge>> {
        let seen = seen::look(&self.stream)?;
        seen.edges(parts, self.stream.driver())
    }

    /// Changes what the next node waits for. The graph is locked, and has the nodes.
    fn update(&self, nodes: &mut [CUgraphNode], how: Update) -> Result<(), DriverError> {
        // SAFETY: stream and nodes must be alive, the pointer valid ← borrowed; the caller says so.
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

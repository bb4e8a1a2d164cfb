//! Executable graphs.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraphExec, CUgraphExec_st, CUgraphInstantiateResult,
};

use super::limits::Refused;
use super::owners::InFlightResources;
use super::parts::{self, Parts, Root};
use super::state::{CheckedNodes, State};
use super::{Graph, NodeId, NodeKind, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, InstantiateError, Result};
use crate::handle::{Destroy, Handle};
use crate::launch_log::{LaunchName, NameId};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::observer::Work;
use crate::pending::{self, Entry, LateFence};
use crate::safe::SafeLaunch;
use crate::stream::Stream;
use crate::tracking::ReplayRecord;
use crate::types::SendPtr;

bitflags::bitflags! {
    /// The options of [`Graph::instantiate_with`]. Bits without a name are kept, and refused by
    /// `instantiate_with`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InstantiateFlags: u64 {
        /// Each launch first frees the memory that the previous launch left allocated. The flag has
        /// no effect on memory that this crate tracks, because a graph that does not free its
        /// memory cannot be instantiated.
        const AUTO_FREE_ON_LAUNCH = 1;
        /// Kernels run with the priority of their node instead of that of the stream.
        const USE_NODE_PRIORITY = 8;
        const _ = !0;
    }
}

impl InstantiateFlags {
    /// No options, as [`Graph::instantiate`] uses.
    pub const DEFAULT: Self = Self::empty();
}

/// An executable graph. It can be launched any number of times, on any stream of its context.
///
/// An executable is a snapshot of its graph: it does not contain nodes that are added later. Its
/// launches run one after the other, even on different streams. It keeps alive what its nodes use
/// until the last launch is done.
///
/// All methods take `&self` and can be called from any thread; a lock serializes the driver calls.
///
/// Every method that calls the driver can fail with [`Error::Driver`], in addition to the errors
/// that it lists.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Graph};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
/// let mut graph = Graph::new(&context)?;
/// let fill = graph.add_fill(&[], &mut buffer, 1_u32)?;
/// let exec = graph.instantiate()?;
/// exec.launch(&stream)?;
/// assert_eq!(buffer.to_vec()?, [1; 100]);
///
/// // From the next launch on, the node fills one half with another value.
/// let half = buffer.slice_mut(..50)?;
/// exec.set_fill(fill, half, 2_u32)?;
/// exec.launch(&stream)?;
/// assert_eq!(buffer.to_vec()?, [[2; 50], [1; 50]].concat());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphExec {
    inner: ManuallyDrop<Inner>,
}

/// The state of an executable.
pub(super) struct Inner {
    pub(super) handle: Handle<RawExec>,
    pub(super) record: Arc<ReplayRecord>,
    /// Whether a node can wait for the host program. Once set, it stays set.
    may_wait_for_host: AtomicBool,
    /// Whether the executable must be uploaded before the next launch. Changes only while `record`
    /// is locked.
    pub(super) needs_upload: AtomicBool,
    /// The description of the executable in the list of recent launches.
    launch_name: LaunchName,
    /// The nodes that launch checked copies of kernels.
    pub(super) checked: CheckedNodes,
    state: Mutex<State, { rank::EXECUTABLE }>,
    /// The graph that the executable was made from: the driver identifies the nodes of the
    /// executable by the nodes of that graph.
    pub(super) root: Arc<Root>,
}

pub(crate) struct RawExec;

impl Destroy for RawExec {
    type Raw = SendPtr<CUgraphExec_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the executable must be alive and not in use by another thread ← the handle is its
        // only owner and destroys it here. The driver completes launches in flight.
        unsafe { call!(driver, cuGraphExecDestroy(raw.0)) }
    }
}

/// Instantiation.
impl Graph {
    /// `cuGraphInstantiateWithParams()`—Creates an executable of the graph in its present state.
    ///
    /// # Errors
    ///
    /// - [`Error::LaunchLimit`] if the driver refuses the number of blocks of a kernel node.
    /// - [`Error::Instantiate`] if it refuses the graph otherwise, with the reason and the node. The
    ///   driver also refuses a second executable of a graph with [device-updatable
    ///   nodes](Self::set_device_updatable) while the first one exists.
    /// - [`Error::GraphMemoryKept`] if no node frees the memory that a node allocates.
    /// - [`Error::Capturing`] if a capture into the graph is under way.
    /// - [`Error::Unsupported`] if the graph is the body of a conditional node.
    #[doc(alias = "cuGraphInstantiate")]
    #[doc(alias = "cudaGraphInstantiate")]
    #[doc(alias = "cuGraphInstantiateWithParams")]
    #[doc(alias = "cudaGraphInstantiateWithParams")]
    pub fn instantiate(&self) -> Result<GraphExec> {
        self.instantiate_with(InstantiateFlags::empty())
    }

    /// `cuGraphInstantiateWithParams(flags)`—Creates an executable with `flags`.
    ///
    /// # Errors
    ///
    /// The errors of [`instantiate`](Self::instantiate), and [`Error::UnsafeFlags`] for flags
    /// without a name in [`InstantiateFlags`].
    #[doc(alias = "cuGraphInstantiateWithFlags")]
    #[doc(alias = "cudaGraphInstantiateWithFlags")]
    pub fn instantiate_with(&self, flags: InstantiateFlags) -> Result<GraphExec> {
        let known = InstantiateFlags::AUTO_FREE_ON_LAUNCH | InstantiateFlags::USE_NODE_PRIORITY;
        let unknown = flags.difference(known).bits();
        if unknown != 0 {
            return Err(Error::UnsafeFlags {
                call: cuda_sys::calls::cuGraphInstantiateWithParams,
                bits: u32::try_from(unknown).unwrap_or(u32::MAX),
            });
        }
        if self.at != 0 {
            return Err(Error::Unsupported {
                what: "instantiating the body of a conditional node; instantiate the whole graph",
            });
        }
        let context = self.context();
        let driver = context.driver();
        let all = self.root.lock();
        if self.root.is_capturing() {
            return Err(Error::Capturing {
                what: "instantiating the graph",
            });
        }
        let parts = &all[0];
        Parts::expect_all_freed(&all)?;
        let mut raw: CUgraphExec = ptr::null_mut();
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: flags.bits(),
            hUploadStream: ptr::null_mut(),
            hErrNode_out: ptr::null_mut(),
            result_out: CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
        };
        let current = context.enter()?;
        // SAFETY: the pointers must be valid, and the graph alive and not in use by another thread
        // ← the pointers are to locals; the graph is locked.
        let result = unsafe {
            call!(
                driver,
                cuGraphInstantiateWithParams(&raw mut raw, parts.raw.0, &raw mut params)
            )
        };
        drop(current);
        if let Err(source) = result {
            let error = InstantiateError {
                source,
                reason: params.result_out,
                node: Parts::find(&all, params.hErrNode_out),
            };
            let kernels = Refused::list(driver, &all, params.hErrNode_out, source);
            drop(all);
            return Err(Refused::limit(kernels, source)
                .unwrap_or_else(|| Error::Instantiate(Box::new(error))));
        }
        // SAFETY: the executable must have no other owner ← it was created just above.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let state = State::new(&all);
        drop(all);
        let record = Arc::new(ReplayRecord::default());
        let checked = CheckedNodes::default();
        checked.set(&state);
        let replay_guard = context.replay_lock().lock();
        state.each(|owners| owners.attach(&record));
        drop(replay_guard);
        let may_wait_for_host = AtomicBool::new(state.any(|owners| owners.may_wait_for_host()));
        let inner = Inner {
            handle,
            record,
            may_wait_for_host,
            needs_upload: AtomicBool::new(state.has_device_nodes()),
            launch_name: LaunchName::new(name_of(context, &state)),
            checked,
            state: Mutex::new(state),
            root: Arc::clone(&self.root),
        };
        Ok(GraphExec {
            inner: ManuallyDrop::new(inner),
        })
    }
}

impl GraphExec {
    /// `cuGraphLaunch()`—Queues the graph on `stream`. It runs after the work that was queued there
    /// before, after earlier launches of this executable, and after conflicting uses of its
    /// buffers.
    ///
    /// This takes a single driver call, however many nodes there are, unless something else has
    /// used the buffers since the last launch. If the graph has checked launches of kernels, it
    /// takes an allocation and two more calls for each of them; the next
    /// [`Stream::synchronize`] of `stream` returns their violations.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherContext`] if the stream is of another context.
    /// - [`Error::HostGuardExists`] while the host holds a guard of a host buffer that conflicts
    ///   with an access of the graph.
    /// - [`Error::UsedByOtherCode`] inside a closure of [`Stream::using`] whose memory conflicts
    ///   with that of the graph. On another thread the launch waits for the closure.
    /// - [`Error::NotUploaded`] if the graph has [device-updatable
    ///   nodes](Graph::set_device_updatable) and was not [uploaded](Self::upload) since the last
    ///   change.
    #[doc(alias = "cuGraphLaunch")]
    #[doc(alias = "cudaGraphLaunch")]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.queue(stream).map(drop)
    }

    /// Queues the graph. Returns `None` if no node has checks.
    pub(super) fn queue<'a>(&self, stream: &'a Stream) -> Result<Option<SafeLaunch<'a>>> {
        stream.expect_context(self.context(), "the graph")?;
        stream.expect_direct("GraphExec::launch")?;
        let inner = &*self.inner;
        if inner.needs_upload.load(Ordering::Acquire) {
            return Err(Error::NotUploaded);
        }
        let may_wait_for_host = inner.may_wait_for_host.load(Ordering::Acquire);
        let name = inner.launch_name.get();
        let text = stream
            .state()
            .observer()
            .is_set()
            .then(|| stream.context().launches().text(name));
        let work = || {
            Work::graph(
                text.as_ref()
                    .and_then(Option::as_deref)
                    .unwrap_or("a graph"),
            )
        };
        let launch = || {
            stream.observed(work(), || {
                // SAFETY: executable and stream must be alive, what the nodes use must stay until
                // the launch is done, and no other thread may use the executable ← both are
                // borrowed; the owners are released only after the last launch; the record is
                // locked.
                unsafe {
                    call!(
                        inner.handle.driver(),
                        cuGraphLaunch(self.as_raw(), stream.as_raw())
                    )
                }
            })
        };
        let reported = if inner.checked.any() {
            inner.replay_checked(stream, may_wait_for_host, launch)?
        } else {
            let replayed = inner
                .record
                .replay(stream, may_wait_for_host, false, launch);
            replayed.map(|()| None)?
        };
        stream.state().launches().record(name);
        Ok(reported)
    }

    /// `cuGraphUpload()`—Queues on `stream` the transfers that the driver would otherwise make at
    /// the first launch.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the stream is of another context.
    #[doc(alias = "cuGraphUpload")]
    #[doc(alias = "cudaGraphUpload")]
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        stream.expect_context(self.context(), "the graph")?;
        stream.expect_direct("GraphExec::upload")?;
        let queueing = stream.queueing()?;
        let inner = &*self.inner;
        let upload = || -> Result<(), DriverError> {
            // SAFETY: executable and stream must be alive, and no other thread may use the
            // executable ← both are borrowed; the record is locked.
            unsafe {
                call!(
                    inner.handle.driver(),
                    cuGraphUpload(self.as_raw(), queueing.raw())
                )
            }?;
            inner.needs_upload.store(false, Ordering::Release);
            Ok(())
        };
        Ok(inner.record.alone(upload)?)
    }

    /// Returns the context in which the executable runs.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.inner.root.context()
    }

    /// `cuGraphExecGetFlags()`—Returns the flags with which the executable was created.
    #[doc(alias = "cuGraphExecGetFlags")]
    #[doc(alias = "cudaGraphExecGetFlags")]
    pub fn flags(&self) -> Result<InstantiateFlags> {
        let mut flags = 0;
        // The lock keeps other threads from changing the executable during the call.
        let state = self.inner.lock();
        // SAFETY: the executable must be alive and `flags` writable ← `self` owns the executable,
        // and `flags` is a local.
        unsafe {
            call!(
                self.context().driver(),
                cuGraphExecGetFlags(self.as_raw(), &raw mut flags)
            )
        }?;
        drop(state);
        Ok(InstantiateFlags::from_bits_retain(flags))
    }

    /// Returns the raw executable, which stays alive as long as this value.
    ///
    /// Launches through the raw executable are not tracked: they are not ordered with other uses of
    /// the buffers, and the buffers can be freed before such launches are done.
    #[must_use]
    pub fn as_raw(&self) -> CUgraphExec {
        self.inner.handle.raw().0
    }

    /// `cuGraphExecDestroy()`—Destroys the executable and returns the result of the call, which a
    /// drop ignores. Launches in flight run to completion; what they use is released after them.
    #[doc(alias = "cuGraphExecDestroy")]
    #[doc(alias = "cudaGraphExecDestroy")]
    pub fn close(self) -> Result<()> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `inner` must not be used again ← `self` is consumed, and `this` is never dropped.
        Ok(unsafe { ManuallyDrop::take(&mut this.inner) }.end()?)
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Recomputes what depends on all nodes after a change.
    pub(super) fn refresh(&self, state: &State) {
        self.launch_name.set(name_of(self.root.context(), state));
        if !self.may_wait_for_host.load(Ordering::Acquire)
            && state.any(|owners| owners.may_wait_for_host())
        {
            self.handle.driver().note_host_wait();
            self.may_wait_for_host.store(true, Ordering::Release);
        }
    }

    fn end(self) -> Result<(), DriverError> {
        let Self {
            handle,
            record,
            state,
            root,
            ..
        } = self;
        let context = root.context();
        let state = state.into_inner();
        let replay_guard = context.replay_lock().lock();
        state.each(|owners| owners.detach(&record));
        drop(replay_guard);
        let closed = handle.close();
        let mut owners: Vec<Arc<Owners>> = Vec::new();
        state.each(|it| owners.push(Arc::clone(it)));
        drop(state);
        release(context, &record, &owners);
        drop(owners);
        // Once the launches are complete, owners that earlier changes of the executable replaced
        // can be released too. Releasing them here ensures that they do not keep the context alive
        // longer than the executable.
        pending::sweep(context);
        // The stream and event of the record are dropped before the context, which `root` keeps
        // alive.
        drop(record);
        closed
    }
}

/// Releases what an executable used: memory in stream order after its last launch, everything else
/// when that launch is done.
pub(super) fn release(context: &Context, record: &Arc<ReplayRecord>, owners: &[Arc<Owners>]) {
    let Some(left) = InFlightResources::of(owners) else {
        return;
    };
    if !record.may_run(context) {
        return;
    }
    let mut entry = Entry::new(context);
    match record.fence(context) {
        Ok(None) => return,
        Ok(fence) => entry.fence = fence,
        Err(_) => {
            let (record, context) = (Arc::clone(record), context.clone());
            entry.late = Some(Arc::new(move || match record.try_fence(&context) {
                Ok(None) => LateFence::Complete,
                Ok(Some(fence)) => LateFence::Recorded(fence),
                Err(_) => LateFence::NotYet,
            }));
        }
    }
    entry.memory = Some(Box::new(left));
    pending::add(entry);
}

impl Parts {
    /// Returns the node with this handle, in the graph or in one of its bodies.
    pub(super) fn find(all: &[Self], raw: cuda_sys::CUgraphNode) -> Option<(NodeId, NodeKind)> {
        if raw.is_null() {
            // Removed nodes have a null handle, so a null `raw` would match them.
            return None;
        }
        all.iter().find_map(|parts| {
            let index = parts.nodes.iter().position(|node| node.raw.0 == raw)?;
            let id = NodeId {
                graph: parts.id,
                index: parts::index(index),
            };
            Some((id, parts.nodes.get(index)?.kind))
        })
    }

    /// Returns the owners that belong to no node of the top-level graph: those of nodes in bodies,
    /// and those of nodes that are not tracked.
    pub(super) fn others(all: &[Self]) -> Vec<Arc<Owners>> {
        let bodies = all.iter().skip(1).flat_map(|body| &body.nodes);
        let inside = bodies.map(|node| &node.owners);
        let others = all.iter().flat_map(|parts| &parts.others);
        inside.chain(others).cloned().collect()
    }
}

/// Returns the id of the description of an executable.
fn name_of(context: &Context, state: &State) -> NameId {
    context.launches().name(&state.described())
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: `inner` must not be used again ← the value is being dropped.
        let inner = unsafe { ManuallyDrop::take(&mut self.inner) };
        let driver = inner.handle.driver().clone();
        let end = move || {
            // A drop cannot return the error; `close` does.
            let _ = inner.end();
        };
        driver.run_or_defer(end);
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphExec({:?})", self.as_raw())
    }
}

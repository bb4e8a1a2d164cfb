//! Executable graphs.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraphExec, CUgraphExec_st, CUgraphInstantiateResult,
};

use super::owners::Leftover;
use super::parts::{Parts, Root};
use super::state::State;
use super::{Graph, NodeId, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, InstantiateError, Result};
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::order::Record;
use crate::pending::{self, Entry};
use crate::stream::{SendPtr, Stream};

bitflags::bitflags! {
    /// How a graph is made an executable. Bits that are not named here are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InstantiateFlags: u64 {
        /// Memory that a launch has left allocated is freed by the next.
        const AUTO_FREE_ON_LAUNCH = 1;
        /// Kernels run with the priority of their node, not of the stream.
        const USE_NODE_PRIORITY = 8;
        const _ = !0;
    }
}

/// A graph that can be launched, any number of times, on any stream of its context.
///
/// It is a copy of its graph: nodes that are added later are not in it. Its launches run one after
/// the other, whatever streams they are on. It keeps what its nodes use until the last launch is
/// done.
///
/// All its methods take a shared reference, and any thread may call them; the driver is called by
/// one at a time.
pub struct GraphExec {
    inner: ManuallyDrop<Inner>,
}

/// All of an executable.
pub(super) struct Inner {
    pub(super) handle: Handle<RawExec>,
    pub(super) record: Arc<Record>,
    /// Whether it can wait for the program. Never goes back.
    may_block: AtomicBool,
    /// Whether it must be uploaded before it is launched. Changes only while `record` is locked.
    pub(super) needs_upload: AtomicBool,
    state: Mutex<State, { rank::EXECUTABLE }>,
    /// The graph that it was made of: the driver knows the executable's nodes by those of the
    /// graph.
    pub(super) root: Arc<Root>,
}

pub(crate) struct RawExec;

impl Destroy for RawExec {
    type Raw = SendPtr<CUgraphExec_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: it must be alive and used by no other thread ← the handle owns it, and this is
        // its end. Launches under way run to their end.
        unsafe { call!(driver, cuGraphExecDestroy(raw.0)) }
    }
}

impl Graph {
    /// `cuGraphInstantiateWithParams()`—An executable of the graph as it is now.
    ///
    /// # Errors
    ///
    /// [`Error::Instantiate`] with the reason and the node if the driver refuses the graph,
    /// [`Error::GraphMemoryKept`] if a node allocates memory that no node frees,
    /// [`Error::Unsupported`] for the body of a conditional node. A graph in which [kernels change
    /// nodes](Self::set_device_updatable) is refused while there is another executable of it.
    #[doc(alias = "cuGraphInstantiate")]
    #[doc(alias = "cuGraphInstantiateWithParams")]
    pub fn instantiate(&self) -> Result<GraphExec> {
        self.instantiate_with(InstantiateFlags::empty())
    }

    /// `cuGraphInstantiateWithParams(flags)`—The same with flags.
    ///
    /// # Errors
    ///
    /// As [`instantiate`](Self::instantiate); [`Error::UnsafeFlags`] for flags that have no name
    /// here.
    #[doc(alias = "cuGraphInstantiateWithFlags")]
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
                what: "an executable of the body of a node",
            });
        }
        let context = self.context();
        let driver = context.driver();
        let all = self.root.lock();
        if self.root.is_capturing() {
            return Err(Error::Capturing {
                what: "an executable of a graph that is captured",
            });
        }
        let parts = &all[0];
        if all.iter().any(|parts| parts.unfreed > 0) {
            return Err(Error::GraphMemoryKept);
        }
        let mut raw: CUgraphExec = ptr::null_mut();
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: flags.bits(),
            hUploadStream: ptr::null_mut(),
            hErrNode_out: ptr::null_mut(),
            result_out: CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
        };
        let current = context.enter()?;
        // SAFETY: the pointers must be valid, the graph alive and used by no other thread ← locals;
        // it is locked.
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
            return Err(Error::Instantiate(Box::new(error)));
        }
        // SAFETY: nobody else must destroy it ← it was made just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let state = State::new(&all);
        drop(all);
        let record = Arc::new(Record::default());
        let entered = context.gate().enter();
        state.each(|owners| owners.attach(&record));
        drop(entered);
        let may_block = AtomicBool::new(state.any(|owners| owners.may_block()));
        let inner = Inner {
            handle,
            record,
            may_block,
            needs_upload: AtomicBool::new(state.has_device_nodes()),
            state: Mutex::new(state),
            root: Arc::clone(&self.root),
        };
        Ok(GraphExec {
            inner: ManuallyDrop::new(inner),
        })
    }
}

impl GraphExec {
    /// `cuGraphLaunch()`—Queues the graph on `stream`: behind what was queued there before, behind
    /// its own earlier launches, and behind other uses of its buffers that matter.
    ///
    /// As long as nothing else uses its buffers this is one call, however many nodes there are.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the stream is of another context, [`Error::Borrowed`] if the host
    /// has a buffer that the graph uses, [`Error::NotUploaded`] if [kernels change
    /// nodes](Graph::set_device_updatable) of it, or what the calls answer.
    #[doc(alias = "cuGraphLaunch")]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        stream.expect_context(self.context(), "the graph")?;
        let inner = &*self.inner;
        if inner.needs_upload.load(Ordering::Acquire) {
            return Err(Error::NotUploaded);
        }
        let may_block = inner.may_block.load(Ordering::Acquire);
        inner.record.replay(stream, may_block, || {
            // SAFETY: executable and stream must be alive, what the nodes use must be there until
            // the launch is done, and no other thread use the executable ← both are borrowed; the
            // owners go only behind the last launch; the record is locked.
            unsafe {
                call!(
                    inner.handle.driver(),
                    cuGraphLaunch(self.as_raw(), stream.as_raw())
                )
            }
        })
    }

    /// `cuGraphUpload()`—Queues on `stream` what the driver has to bring to the device before the
    /// first launch, so that it is there by then.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the stream is of another context, or what the call answers.
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        stream.expect_context(self.context(), "the graph")?;
        let queueing = stream.queueing()?;
        let inner = &*self.inner;
        let upload = || -> Result<(), DriverError> {
            // SAFETY: executable and stream must be alive, and no other thread use the executable ←
            // both are borrowed; the record is locked.
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

    /// The context in which it runs.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.inner.root.context()
    }

    /// The raw executable. It stays alive as long as this. What is launched through it is not
    /// ordered with other uses of its buffers, nor waited for when they go.
    #[must_use]
    pub fn as_raw(&self) -> CUgraphExec {
        self.inner.handle.raw().0
    }

    /// `cuGraphExecDestroy()`—Destroys it, and answers what the driver says. Launches under way run
    /// to their end; what they use goes behind them.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuGraphExecDestroy")]
    pub fn close(self) -> Result<()> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it must not be used again ← this is its end, and it is not dropped.
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

    /// After a change.
    pub(super) fn note_blocking(&self, state: &State) {
        if !self.may_block.load(Ordering::Acquire) && state.any(|owners| owners.may_block()) {
            self.handle.driver().note_blocking();
            self.may_block.store(true, Ordering::Release);
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
        let entered = context.gate().enter();
        state.each(|owners| owners.detach(&record));
        drop(entered);
        let closed = handle.close();
        let mut owners: Vec<Arc<Owners>> = Vec::new();
        state.each(|it| owners.push(Arc::clone(it)));
        drop(state);
        release(context, &record, &owners);
        drop(owners);
        // What changes of it have left is done if its launches are: then nothing keeps the context
        // longer than it.
        pending::sweep(context);
        // Its stream and event go before the context, which `root` keeps.
        drop(record);
        closed
    }
}

/// Drops what an executable used: memory behind its last launch on the device, all else when that
/// is done.
pub(super) fn release(context: &Context, record: &Arc<Record>, owners: &[Arc<Owners>]) {
    let Some(left) = Leftover::of(owners) else {
        return;
    };
    if !record.may_run(context) {
        return;
    }
    let mut entry = Entry::new(context);
    match record.settle(context).and_then(|()| record.event(context)) {
        Ok(None) => return,
        Ok(event) => entry.event = event,
        Err(_) => {
            let (record, context) = (Arc::clone(record), context.clone());
            entry.late = Some(Arc::new(move || record.event(&context)));
        }
    }
    entry.keep = Some(Box::new(left));
    pending::add(entry);
}

impl Parts {
    /// The node of this handle, wherever it is.
    pub(super) fn find(
        all: &[Self],
        raw: cuda_sys::CUgraphNode,
    ) -> Option<(NodeId, super::NodeKind)> {
        if raw.is_null() {
            // So are those of nodes that are gone.
            return None;
        }
        all.iter().find_map(|parts| {
            let index = parts.nodes.iter().position(|node| node.raw.0 == raw)?;
            let id = NodeId {
                graph: parts.id,
                // No truncation: each takes more than a byte.
                index: index as u32,
            };
            Some((id, parts.nodes.get(index)?.kind))
        })
    }

    /// What belongs to no node of the whole: that of bodies, and of nodes that are not known.
    pub(super) fn others(all: &[Self]) -> Vec<Arc<Owners>> {
        let bodies = all.iter().skip(1).flat_map(|body| &body.nodes);
        let inside = bodies.map(|node| &node.owners);
        let others = all.iter().flat_map(|parts| &parts.others);
        inside.chain(others).cloned().collect()
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: it must not be used again ← this is its end.
        let inner = unsafe { ManuallyDrop::take(&mut self.inner) };
        let driver = inner.handle.driver().clone();
        let end = move || {
            // A drop has nobody to tell; `close` does.
            let _ = inner.end();
        };
        pending::outside(&driver, end);
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphExec({:?})", self.as_raw())
    }
}

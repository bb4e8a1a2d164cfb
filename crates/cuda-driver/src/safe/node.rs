//! Checked launches in graphs: the record of a node, and how a replay takes it.
//!
//! A node has the address of its record among its arguments, so all replays of the node write the
//! same record. After each replay, two calls on the same stream copy it to memory of that replay
//! and clear it. Thus each replay has a report of its own.

use std::any::Any;
use std::sync::Arc;

use cuda_ptx::instrument::RECORD_WORDS;
use cuda_sys::CUdeviceptr;

use super::kernel::{SafeKernel, Unproven, refused};
use super::launch::not_proven;
use super::memories;
use super::record::{LaunchRecords, Origin};
use super::variant::{CheckedArgs, RecordMemory};
use super::with_attributes;
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::function::Function;
use crate::launch::{Keep, KernelArgs, LaunchAttributes};
use crate::memory::DeviceBuffer;
use crate::stream::Stream;
use crate::tracking::{Access, Scope};
use crate::types::LaunchConfig;

/// A node that launches the checked copy of a kernel. The owners of the node keep it.
pub(crate) struct CheckedNode {
    /// Written by replays, which are ordered as uses of this memory.
    record: DeviceBuffer<u32>,
    origin: Arc<Origin>,
}

impl CheckedNode {
    fn new(context: &Context, origin: Origin) -> Result<Self> {
        // Not a stream of the program: its calls may be captured.
        let _relaxed = context.driver().relaxed();
        let state = context.take_internal_stream()?;
        let stream = Stream::of_state(context, Arc::clone(&state));
        let record = DeviceBuffer::zeroed(&stream, RECORD_WORDS);
        context.keep_internal_stream(state);
        Ok(Self {
            record: record?,
            origin: Arc::new(origin),
        })
    }

    pub(super) fn record(&self) -> &DeviceBuffer<u32> {
        &self.record
    }

    /// Queues a copy of the record to `to`, and clears it.
    ///
    /// # Safety
    ///
    /// The [`RECORD_WORDS`] words at `to` may be written. The stream has queued a replay of the
    /// node, and the next replay waits for these calls.
    unsafe fn queue_take(&self, stream: &Stream, to: CUdeviceptr) -> Result<(), DriverError> {
        let (driver, raw, from) = (stream.driver(), stream.as_raw(), self.record.as_raw());
        let bytes = RECORD_WORDS * size_of::<u32>();
        // SAFETY: both ranges must be allocated, and not in use elsewhere ← `self` owns the record,
        // which only replays use; the caller guarantees the rest.
        unsafe { call!(driver, cuMemcpyDtoDAsync_v2(to, from, bytes, raw)) }?;
        // SAFETY: as above.
        unsafe { call!(driver, cuMemsetD32Async(from, 0, RECORD_WORDS, raw)) }
    }
}

/// The owners of a node keep what its arguments name.
impl Keep for Arc<CheckedNode> {
    fn keep(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::<CheckedNode>::clone(self)
    }
}

/// Memory for the records of one replay.
pub(crate) struct ReplayRecords(DeviceBuffer<u32>);

impl ReplayRecords {
    /// Allocates memory for the records of these nodes, for a replay on `stream`.
    pub(crate) fn new(stream: &Stream, nodes: &[Arc<CheckedNode>]) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← `queue` writes them, and
        // without it they are not read.
        let buffer =
            unsafe { DeviceBuffer::uninit(&stream.detached(), nodes.len() * RECORD_WORDS) };
        Ok(Self(buffer?))
    }

    /// Queues the calls that take the records of all nodes.
    ///
    /// # Safety
    ///
    /// The records were allocated for a replay of these nodes on this stream, which was just
    /// queued. The next replay waits for these calls, and [`commit`](Self::commit) is called after
    /// them.
    pub(crate) unsafe fn queue(
        &self,
        stream: &Stream,
        nodes: &[Arc<CheckedNode>],
    ) -> Result<(), DriverError> {
        let _current = stream.bind_for_copy()?;
        let bytes = RECORD_WORDS * size_of::<u32>();
        let places = (self.0.as_raw()..).step_by(bytes);
        // SAFETY: the words must be writable, and the replay queued ← the buffer has the words for
        // all nodes, was allocated on this stream, and is not used before `commit`; the caller
        // guarantees the rest.
        let take = |(node, to): (&Arc<CheckedNode>, _)| unsafe { node.queue_take(stream, to) };
        nodes.iter().zip(places).try_for_each(take)
    }

    /// Records the calls of [`queue`](Self::queue) as a use of the memory.
    pub(crate) fn commit(&self, stream: &Stream) {
        let mut scope = Scope::new(stream);
        self.0.memory.tracker.commit(&mut scope, Access::WRITE);
    }

    /// Returns the report of the replay, after its records were queued.
    pub(crate) fn into_report(self, nodes: &[Arc<CheckedNode>]) -> LaunchRecords {
        let origins = nodes.iter().map(|node| Arc::clone(&node.origin));
        LaunchRecords::new(self.0, origins.collect())
    }
}

impl SafeKernel {
    /// Returns the function and the arguments with which a node of a graph launches this kernel:
    /// the original kernel if the launch is proven, and otherwise a checked copy. Fails if a safe
    /// launch cannot have the attributes.
    pub(crate) fn for_graph<A: KernelArgs>(
        &self,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
    ) -> Result<(Function, CheckedArgs<'static, A>)> {
        self.check_sizes(&args)?;
        self.function.check_config(config)?;
        let memories = memories::collect(&args);
        let mut cluster = None;
        if let Some(attributes) = attributes {
            with_attributes::check(attributes, &memories)?;
            cluster = attributes.cluster_blocks();
        }
        let plan = self.inner.plan(config, cluster, &args, &memories)?;
        self.check_variables(&plan, &memories)?;
        let is_all = self.unproven == Unproven::CheckAll;
        if plan.is_met(&memories) && !self.inner.has_traps && !is_all {
            let args = CheckedArgs::new(args, &[], &memories, config, RecordMemory::None);
            return Ok((self.function.clone(), args));
        }
        if self.unproven == Unproven::Reject && !plan.is_met(&memories) {
            return Err(refused(not_proven(&plan, &memories)));
        }
        let variant = self.variant(&plan, &memories, is_all)?;
        let origin = Origin::new(plan, &variant, memories.clone(), &args);
        let node = Arc::new(CheckedNode::new(self.function.context(), origin)?);
        let record = RecordMemory::Node(node);
        let args = CheckedArgs::new(args, &variant.parameters, &memories, config, record);
        Ok((variant.function.clone(), args))
    }
}

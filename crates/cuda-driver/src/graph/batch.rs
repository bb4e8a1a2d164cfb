//! Nodes that wait for values in memory and write values.

use cuda_sys::{CUDA_BATCH_MEM_OP_NODE_PARAMS, CUcontext, CUgraphNode, CUstreamBatchMemOpParams};

use super::change::ChangeNode;
use super::params::{Adding, Changing, NO_GRAPH, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::memop::ValueBatch;
use crate::types::node::{Edge, Node, node_kind};

/// Waits for values in memory, and writes of values.
impl Graph {
    /// `cuGraphAddBatchMemOpNode(batch)`—Adds a node that waits for values and writes values, as
    /// [`ValueBatch::queue`] does.
    ///
    /// As a rule, a write of a value is not ordered with waits for a value in the same buffer,
    /// either between nodes or between streams. There is one exception: if nodes of this graph also
    /// use the buffer in another way, [`Stream::write_value`](crate::Stream::write_value) waits for
    /// the launches of the graph, and deadlocks if a launch waits for that value. Values should
    /// therefore have a buffer of their own.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OtherContext`] for memory of another context.
    /// - [`Error::OutOfRange`] for more than [`ValueBatch::MAX_OPERATIONS`] operations.
    /// - [`Error::Unsupported`] for an empty batch.
    /// - The errors of [`Stream::wait_value`](crate::Stream::wait_value).
    #[doc(alias = "cuGraphAddBatchMemOpNode")]
    pub fn add_batch(
        &mut self,
        after: &[Edge],
        batch: ValueBatch<'_>,
    ) -> Result<Node<node_kind::BatchMemOp>> {
        let (mut params, owners) = batch_node(self.context(), batch)?;
        // SAFETY: the node must use only what `owners` keeps ← it holds the memory of all
        // operations.
        unsafe { self.add(after, owners, &mut params) }
    }
}

/// New parameters of waits for values and writes of values.
impl GraphExec {
    /// `cuGraphExecBatchMemOpNodeSetParams(node)`—Changes the values that a batch node waits for
    /// and writes, from the next launch on. The number of operations and their kinds must stay the
    /// same.
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_batch`], and those of [`set_copy`](Self::set_copy).
    #[doc(alias = "cuGraphExecBatchMemOpNodeSetParams")]
    pub fn set_batch(
        &self,
        node: Node<node_kind::BatchMemOp>,
        batch: ValueBatch<'_>,
    ) -> Result<()> {
        let (mut params, owners) = batch_node(self.context(), batch)?;
        // SAFETY: the node must use only what `owners` keeps ← it holds the memory of all
        // operations.
        unsafe { self.set(node, owners, &mut params) }
    }
}

/// Changes of waits for values and writes of values.
impl Graph {
    /// `cuGraphBatchMemOpNodeSetParams(node)`—Changes what a batch node of this graph waits for and
    /// writes. See [`set_kernel`](Self::set_kernel) for the edges and for executables.
    ///
    /// # Errors
    ///
    /// The errors of [`add_batch`](Self::add_batch) that are not about edges, and those of
    /// [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphBatchMemOpNodeSetParams")]
    pub fn set_batch(
        &mut self,
        node: Node<node_kind::BatchMemOp>,
        batch: ValueBatch<'_>,
    ) -> Result<()> {
        let (mut params, owners) = batch_node(self.context(), batch)?;
        // SAFETY: the node must use only what `owners` keeps ← it holds the memory of all
        // operations.
        unsafe { self.change(node, owners, &mut params) }
    }
}

/// The parameters of a batch node.
struct BatchNode {
    ops: Vec<CUstreamBatchMemOpParams>,
    context: CUcontext,
}

impl BatchNode {
    fn params(&mut self) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: self.context,
            // No truncation: there are at most `ValueBatch::MAX_OPERATIONS`.
            count: self.ops.len() as u32,
            paramArray: self.ops.as_mut_ptr(),
            flags: 0,
        }
    }
}

impl NodeParams for BatchNode {
    type Kind = node_kind::BatchMemOp;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let params = self.params();
        // SAFETY: pointers and graph must be valid, and `params` must describe as many operations
        // as it counts ← the caller guarantees the former for those of `it`; the operations are in
        // the vector `ops`, which the driver copies.
        unsafe { call_add!(it, cuGraphAddBatchMemOpNode, &raw const params) }
    }
}

impl ChangeNode for BatchNode {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        let params = self.params();
        // SAFETY: the node must be valid, and `params` must describe as many operations as it
        // counts ← the caller guarantees the former; the operations are in the vector `ops`, which
        // the driver copies.
        unsafe {
            call!(
                driver,
                cuGraphBatchMemOpNodeSetParams(node, &raw const params)
            )
        }
    }
}

impl SetNodeParams for BatchNode {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        let params = self.params();
        // SAFETY: executable and node must be valid, and `params` must describe as many operations
        // as it counts ← the caller guarantees the former for those of `it`; the operations are in
        // the vector `ops`, which the driver copies.
        unsafe { call_set!(it, cuGraphExecBatchMemOpNodeSetParams, &raw const params) }
    }
}

/// Returns the parameters of a batch, and what it uses.
fn batch_node(context: &Context, batch: ValueBatch<'_>) -> Result<(BatchNode, Owners)> {
    batch.count()?;
    let mut owners = Owners::default();
    let ops = batch.into_parts(|memory, access, address, bytes| {
        owners.add((context, NO_GRAPH), memory, access, address, bytes)
    })?;
    if ops.is_empty() {
        return Err(Error::Unsupported {
            what: "a batch node without operations; add an operation, or use `add_empty`",
        });
    }
    owners.note_host_wait();
    let context = context.as_raw();
    Ok((BatchNode { ops, context }, owners))
}

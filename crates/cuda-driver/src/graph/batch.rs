//! Nodes that wait for values in memory and write values.

use cuda_sys::{CUDA_BATCH_MEM_OP_NODE_PARAMS, CUstreamBatchMemOpParams};

use super::build::Adding;
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memop::ValueBatch;
use crate::types::node::{Edge, Node, NodeKind, node_kind};

impl Graph {
    /// `cuGraphAddBatchMemOpNode(batch)`—Adds a node that waits for values and writes values, as
    /// [`ValueBatch::queue`] does.
    ///
    /// A write of a value is not ordered with waits for a value in the same buffer, neither between
    /// nodes nor between streams. It is ordered with them if other nodes of this graph use that
    /// buffer: [`Stream::write_value`](crate::Stream::write_value) then waits for the launches of
    /// the graph, and deadlocks if a launch waits for that value. Values should therefore have a
    /// buffer of their own.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OtherContext`] for memory of another context.
    /// - [`Error::OutOfRange`] for more than [`ValueBatch::MOST`] operations.
    /// - [`Error::Unsupported`] for an empty batch.
    /// - The errors of [`Stream::wait_value`](crate::Stream::wait_value).
    #[doc(alias = "cuGraphAddBatchMemOpNode")]
    pub fn batch(
        &mut self,
        after: &[Edge],
        batch: ValueBatch<'_>,
    ) -> Result<Node<node_kind::BatchMemOp>> {
        let context = self.context().clone();
        let (mut ops, owners) = batch_of(&context, batch)?;
        let params = params(&context, &mut ops);
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid, and `params` must describe as many
            // operations as it counts ← those of `it` are; the operations are in the vector `ops`,
            // which the driver copies.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddBatchMemOpNode(
                        it.node,
                        it.graph,
                        it.after,
                        it.count,
                        &raw const params
                    )
                )
            }
        };
        // SAFETY: the call must add a batch node with these edges that uses only what `owners`
        // keeps ← it does; `owners` holds the memory of all operations.
        let id = unsafe { self.add(NodeKind::BatchMemOp, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// Returns the operations of a batch, and what they use.
pub(super) fn batch_of(
    context: &Context,
    batch: ValueBatch<'_>,
) -> Result<(Vec<CUstreamBatchMemOpParams>, Owners)> {
    let mut owners = Owners::default();
    let ops = batch.into_parts(|memory, access, address, bytes| {
        owners.add(context, memory, access, address, bytes)
    })?;
    if ops.is_empty() {
        return Err(Error::Unsupported {
            what: "a batch node without operations",
        });
    }
    if ops.len() > ValueBatch::MOST {
        return Err(Error::OutOfRange {
            len: ValueBatch::MOST,
        });
    }
    owners.note_blocking();
    Ok((ops, owners))
}

/// Returns the parameters of a batch node for the driver.
pub(super) fn params(
    context: &Context,
    ops: &mut [CUstreamBatchMemOpParams],
) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: context.as_raw(),
        // No truncation: there are at most `ValueBatch::MOST`.
        count: ops.len() as u32,
        paramArray: ops.as_mut_ptr(),
        flags: 0,
    }
}

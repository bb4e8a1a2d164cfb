//! Nodes that wait for values and set them.

use cuda_sys::{CUDA_BATCH_MEM_OP_NODE_PARAMS, CUstreamBatchMemOpParams};

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::stream::ValueBatch;

impl Graph {
    /// `cuGraphAddBatchMemOpNode(batch)`—A node that waits for values and sets them, as
    /// [`ValueBatch::queue`] does.
    ///
    /// Nodes and streams that set a value are not ordered with those that wait for one in the same
    /// buffer. If other nodes of this graph use that buffer they are: then
    /// [`Stream::write_value`](crate::Stream::write_value) waits for its launches, which must not
    /// wait for it. So values belong in a buffer of their own.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::OtherContext`], [`Error::OutOfRange`] for more than
    /// [`ValueBatch::MOST`], [`Error::Unsupported`] for none, or as
    /// [`Stream::wait_value`](crate::Stream::wait_value).
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
            // SAFETY: pointers and graph must be valid, and there be as many operations ← those of
            // `it` are, and they are in the vector, of which the driver makes a copy.
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
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does.
        let id = unsafe { self.add(NodeKind::BatchMemOp, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// The operations, and what they use.
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
            what: "a node that waits for nothing",
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

/// As the driver takes them.
pub(super) fn params(
    context: &Context,
    ops: &mut [CUstreamBatchMemOpParams],
) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: context.as_raw(),
        // No truncation: at most `ValueBatch::MOST`.
        count: ops.len() as u32,
        paramArray: ops.as_mut_ptr(),
        flags: 0,
    }
}

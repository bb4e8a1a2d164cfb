//! Fill nodes.

use cuda_sys::CUDA_MEMSET_NODE_PARAMS;

use super::build::Adding;
use super::copy::CopyTarget;
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::pitched::Side;
use crate::memory::{DeviceRepr, repeated};
use crate::types::node::{Edge, Node, NodeKind, node_kind};

impl Graph {
    /// `cuGraphAddMemsetNode()`—Adds a node that fills memory with `value`. The bytes of `value`
    /// must repeat every 1, 2 or 4 bytes, which is true of every number of up to 32 bits.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`] if the bytes of `value` do not repeat in this way, for managed
    ///   memory, host memory and several planes, and for a fill of no bytes.
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph, and [`Error::OtherGraph`] for memory that another graph allocates.
    /// - [`Error::OtherContext`] for memory of another context.
    #[doc(alias = "cuGraphAddMemsetNode")]
    pub fn fill<'a, T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<Node<node_kind::Memset>> {
        let (params, owners) = fill_of(self.context(), self.id(), to.into(), value)?;
        let context = self.context().clone();
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid ← those of `it` are.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddMemsetNode(
                        it.node,
                        it.graph,
                        it.after,
                        it.count,
                        &raw const params,
                        context.as_raw()
                    )
                )
            }
        };
        // SAFETY: the call must add a fill node with these edges that uses only what `owners` keeps
        // ← it does; the range is that of the view, whose memory `owners` holds.
        let id = unsafe { self.add(NodeKind::Memset, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// Returns the parameters of a fill for the driver, and what the fill uses.
pub(super) fn fill_of<T: DeviceRepr>(
    context: &Context,
    graph: u64,
    to: CopyTarget<'_, T>,
    value: T,
) -> Result<(CUDA_MEMSET_NODE_PARAMS, Owners)> {
    let mut owners = Owners::default();
    let Side::Device(rows) = to.into_end().side(context, graph, &mut owners)? else {
        return Err(Error::Unsupported {
            what: "a fill node for host memory",
        });
    };
    let value = bytemuck::bytes_of(&value);
    if value.is_empty() || rows.bytes() == 0 {
        return Err(Error::Unsupported {
            what: "a fill node of zero bytes",
        });
    }
    if rows.depth != 1 {
        return Err(Error::Unsupported {
            what: "a fill node of more than one plane",
        });
    }
    // A row starts at an address that is aligned for `T`, and the size of `T` is a multiple of the
    // unit.
    let unit = repeated(value, rows.address).ok_or(Error::Unsupported {
        what: "a fill node with a value whose bytes do not repeat every 1, 2 or 4 bytes",
    })?;
    let word = match *unit {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        _ => unit.first().copied().unwrap_or_default().into(),
    };
    let is_row = rows.height == 1;
    let params = CUDA_MEMSET_NODE_PARAMS {
        dst: rows.address,
        pitch: if is_row { 0 } else { rows.pitch },
        value: word,
        // No truncation: the length is 1, 2 or 4.
        elementSize: unit.len() as u32,
        width: rows.width / unit.len(),
        height: rows.height,
    };
    Ok((params, owners))
}

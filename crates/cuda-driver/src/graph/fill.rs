//! Fill nodes.

use cuda_sys::{CUDA_MEMSET_NODE_PARAMS, CUcontext, CUgraphNode};

use super::change::ChangeNode;
use super::copy::CopyTarget;
use super::params::{Adding, Changing, NO_GRAPH, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::memory::pitched::Side;
use crate::memory::{DeviceRepr, repeated};
use crate::types::node::{Edge, Node, node_kind};

/// Fills.
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
    #[doc(alias = "cudaGraphAddMemsetNode")]
    pub fn add_fill<'a, T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<Node<node_kind::Memset>> {
        let (mut params, owners) = fill_node(self.context(), self.id(), to.into(), value)?;
        // SAFETY: the node must use only what `owners` keeps ← the range is that of the view, whose
        // memory `owners` holds.
        unsafe { self.add(after, owners, &mut params) }
    }
}

/// New parameters of fills.
impl GraphExec {
    /// `cuGraphExecMemsetNodeSetParams(node)`—Changes what a fill node fills, from the next launch
    /// on.
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::add_fill`], and those of [`set_copy`](Self::set_copy).
    #[doc(alias = "cuGraphExecMemsetNodeSetParams")]
    #[doc(alias = "cudaGraphExecMemsetNodeSetParams")]
    pub fn set_fill<'a, T: DeviceRepr>(
        &self,
        node: Node<node_kind::Memset>,
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<()> {
        let (mut params, owners) = fill_node(self.context(), NO_GRAPH, to.into(), value)?;
        // SAFETY: the node must use only what `owners` keeps ← the range is that of the view, whose
        // memory `owners` holds.
        unsafe { self.set(node, owners, &mut params) }
    }
}

/// The parameters of a fill node.
struct FillNode {
    params: CUDA_MEMSET_NODE_PARAMS,
    context: CUcontext,
}

impl NodeParams for FillNode {
    type Kind = node_kind::Memset;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        // SAFETY: pointers and graph must be valid ← the caller guarantees it for those of `it`.
        unsafe {
            call_add!(
                it,
                cuGraphAddMemsetNode,
                &raw const self.params,
                self.context
            )
        }
    }
}

/// Changes of fills.
impl Graph {
    /// `cuGraphMemsetNodeSetParams(node)`—Changes what a fill node of this graph fills. See
    /// [`set_kernel`](Self::set_kernel) for the edges and for executables.
    ///
    /// # Errors
    ///
    /// The errors of [`add_fill`](Self::add_fill) that are not about edges, and those of
    /// [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphMemsetNodeSetParams")]
    #[doc(alias = "cudaGraphMemsetNodeSetParams")]
    pub fn set_fill<'a, T: DeviceRepr>(
        &mut self,
        node: Node<node_kind::Memset>,
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<()> {
        let (mut params, owners) = fill_node(self.context(), NO_GRAPH, to.into(), value)?;
        // SAFETY: the node must use only what `owners` keeps ← the range is that of the view, whose
        // memory `owners` holds.
        unsafe { self.change(node, owners, &mut params) }
    }
}

impl ChangeNode for FillNode {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        // The context of the node stays that of the graph.
        // SAFETY: the node must be valid ← the caller guarantees it.
        unsafe {
            call!(
                driver,
                cuGraphMemsetNodeSetParams(node, &raw const self.params)
            )
        }
    }
}

impl SetNodeParams for FillNode {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        // SAFETY: executable and node must be valid ← the caller guarantees it for those of `it`.
        unsafe {
            call_set!(
                it,
                cuGraphExecMemsetNodeSetParams,
                &raw const self.params,
                self.context
            )
        }
    }
}

/// Returns the parameters of a fill, and what the fill uses.
fn fill_node<T: DeviceRepr>(
    context: &Context,
    graph: u64,
    to: CopyTarget<'_, T>,
    value: T,
) -> Result<(FillNode, Owners)> {
    let mut owners = Owners::default();
    let rows = match to.into_end().side(context, graph, &mut owners)? {
        Side::Device(rows) => rows,
        Side::Host(_) => {
            return Err(Error::Unsupported {
                what: "a fill node for host memory; fill it in a host node, or add a copy of a \
                       filled buffer",
            });
        }
        Side::Array(_) => {
            return Err(Error::Unsupported {
                what: "a fill node for an array; add a copy of a filled buffer",
            });
        }
    };
    let value = bytemuck::bytes_of(&value);
    if value.is_empty() || rows.bytes() == 0 {
        return Err(Error::Unsupported {
            what: "a fill node of zero bytes; leave the node out, or use `add_empty`",
        });
    }
    if rows.depth != 1 {
        return Err(Error::Unsupported {
            what: "a fill node of more than one plane; add a node for each plane",
        });
    }
    // A row starts at an address that is aligned for `T`, and the size of `T` is a multiple of the
    // unit.
    let unit = repeated(value, rows.address).ok_or(Error::Unsupported {
        what: "a fill node with a value whose bytes do not repeat every 1, 2 or 4 bytes; add a \
               copy of a filled buffer",
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
    let context = context.as_raw();
    Ok((FillNode { params, context }, owners))
}

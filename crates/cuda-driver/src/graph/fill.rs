//! Fill nodes.

use cuda_sys::CUDA_MEMSET_NODE_PARAMS;

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::{DeviceBuffer, DeviceRepr, DeviceSliceMut, repeated};

impl Graph {
    /// `cuGraphAddMemsetNode()`—A node that fills memory with `value`, whose bytes must repeat after 1, 2 or 4 bytes, as those of
    /// any number of up to 32 bits do.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for another value, for managed memory, and for no bytes, which would be no node;
    /// [`Error::OtherGraph`], [`Error::OtherContext`], or what the calls answer.
    #[doc(alias = "cuGraphAddMemsetNode")]
    pub fn fill<'a, T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        to: impl Into<DeviceSliceMut<'a, T>>,
        value: T,
    ) -> Result<Node<node_kind::Memset>> {
        let (params, owners) = fill_of(self.context(), &to.into(), value)?;
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
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does; the range is that of
        // the view, whose memory `owners` holds.
        let id = unsafe { self.add(NodeKind::Memset, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// A fill as the driver takes it, and what it uses.
pub(super) fn fill_of<T: DeviceRepr>(
    context: &Context,
    to: &DeviceSliceMut<'_, T>,
    value: T,
) -> Result<(CUDA_MEMSET_NODE_PARAMS, Owners)> {
    let params = fill_params(to.as_raw(), to.len(), &value)?;
    let mut owners = Owners::default();
    owners.add(context, to.memory, to.access, to.as_raw(), to.bytes())?;
    Ok((params, owners))
}

/// A fill of `len` elements.
pub(super) fn fill_params<T: DeviceRepr>(
    address: u64,
    len: usize,
    value: &T,
) -> Result<CUDA_MEMSET_NODE_PARAMS> {
    let value = bytemuck::bytes_of(value);
    if value.is_empty() || len == 0 {
        return Err(Error::Unsupported {
            what: "a node that fills nothing",
        });
    }
    let unit = repeated(value, address).ok_or(Error::Unsupported {
        what: "a fill node with a value whose bytes do not repeat after 1, 2 or 4",
    })?;
    let word = match *unit {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        _ => unit.first().copied().unwrap_or_default().into(),
    };
    let size = unit.len();
    // No overflow: the view is of memory.
    let width = value.len() * len / size;
    Ok(CUDA_MEMSET_NODE_PARAMS {
        dst: address,
        pitch: 0,
        value: word,
        // No truncation: 1, 2 or 4.
        elementSize: size as u32,
        width,
        height: 1,
    })
}

impl<'a, T: DeviceRepr> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_mut_slice()
    }
}

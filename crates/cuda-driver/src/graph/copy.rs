//! Copy nodes.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::CUDA_MEMCPY3D;

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::pitched::{Rows, Side, copy_of};
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Extent, Memory, PitchedBuffer,
    PitchedSlice, PitchedSliceMut, expect_len,
};
use crate::order::Access;

/// What a copy node reads: a buffer or a view of one.
pub struct CopySource<'a, T: DeviceRepr> {
    end: End<'a>,
    elements: PhantomData<&'a [T]>,
}

/// What a copy node writes: a buffer or a view of one.
pub struct CopyTarget<'a, T: DeviceRepr> {
    end: End<'a>,
    elements: PhantomData<&'a mut [T]>,
}

/// One end of a copy.
pub(super) struct End<'a> {
    pub(super) place: Place<'a>,
    pub(super) access: Access,
    pub(super) extent: Extent,
}

pub(super) enum Place<'a> {
    Device(&'a Memory, Rows),
}

impl<T: DeviceRepr> fmt::Debug for CopySource<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopySource({})", self.end.extent)
    }
}

impl<T: DeviceRepr> fmt::Debug for CopyTarget<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyTarget({})", self.end.extent)
    }
}

impl Graph {
    /// `cuGraphAddMemcpyNode()`—A node that copies memory.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] or [`Error::ExtentMismatch`] unless both are of one length and shape,
    /// [`Error::OtherGraph`], [`Error::OtherContext`], [`Error::Unsupported`] for managed memory and for a copy of no bytes,
    /// which would be no node, or what the calls answer.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy<'a, T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<Node<node_kind::Memcpy>> {
        let (params, owners) = copy_of_ends(self.context(), to.into(), from.into())?;
        let context = self.context().clone();
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid ← those of `it` are.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddMemcpyNode(
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
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does; both ends are within
        // their memory, which `owners` holds.
        let id = unsafe { self.add(NodeKind::Memcpy, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// A copy as the driver takes it, and what it uses.
pub(super) fn copy_of_ends<T: DeviceRepr>(
    context: &Context,
    to: CopyTarget<'_, T>,
    from: CopySource<'_, T>,
) -> Result<(CUDA_MEMCPY3D, Owners)> {
    let (to, from) = (to.end, from.end);
    if to.is_row() && from.is_row() {
        expect_len(from.extent.width, to.extent.width)?;
    } else {
        to.extent.expect(from.extent)?;
    }
    let width = to.extent.width * size_of::<T>();
    let (height, depth) = (to.extent.height, to.extent.depth);
    if width == 0 || height == 0 || depth == 0 {
        return Err(Error::Unsupported {
            what: "a node that copies nothing",
        });
    }
    let shape = Rows {
        address: 0,
        pitch: width,
        plane: height,
        width,
        height,
        depth,
    };
    let mut owners = Owners::default();
    let to = to.side(context, &mut owners)?;
    let from = from.side(context, &mut owners)?;
    Ok((copy_of(to, from, &shape), owners))
}

impl End<'_> {
    fn is_row(&self) -> bool {
        self.extent.height == 1 && self.extent.depth == 1
    }

    /// As a side of the copy; `owners` gets what is used.
    fn side(self, context: &Context, owners: &mut Owners) -> Result<Side> {
        match self.place {
            Place::Device(memory, rows) => {
                owners.add(context, memory, self.access, rows.address, rows.reach())?;
                Ok(Side::Device(rows))
            }
        }
    }
}

/// Elements in one row.
pub(super) fn row(len: usize) -> Extent {
    Extent {
        width: len,
        height: 1,
        depth: 1,
    }
}

fn linear<T: DeviceRepr>(address: u64, len: usize) -> Rows {
    // No overflow: the view is of memory.
    let width = len * size_of::<T>();
    Rows {
        address,
        pitch: width,
        plane: 1,
        width,
        height: 1,
        depth: 1,
    }
}

impl<'a, T: DeviceRepr> From<DeviceSlice<'a, T>> for CopySource<'a, T> {
    fn from(view: DeviceSlice<'a, T>) -> Self {
        Self {
            end: End {
                place: Place::Device(view.memory, linear::<T>(view.as_raw(), view.len())),
                access: view.access,
                extent: row(view.len()),
            },
            elements: PhantomData,
        }
    }
}

impl<'a, T: DeviceRepr> From<DeviceSliceMut<'a, T>> for CopyTarget<'a, T> {
    fn from(view: DeviceSliceMut<'a, T>) -> Self {
        Self {
            end: End {
                place: Place::Device(view.memory, linear::<T>(view.as_raw(), view.len())),
                access: view.access,
                extent: row(view.len()),
            },
            elements: PhantomData,
        }
    }
}

impl<'a, T: DeviceRepr> From<PitchedSlice<'a, T>> for CopySource<'a, T> {
    fn from(view: PitchedSlice<'a, T>) -> Self {
        Self {
            end: End {
                place: Place::Device(view.memory, view.rows),
                access: view.access,
                extent: view.extent(),
            },
            elements: PhantomData,
        }
    }
}

impl<'a, T: DeviceRepr> From<PitchedSliceMut<'a, T>> for CopyTarget<'a, T> {
    fn from(view: PitchedSliceMut<'a, T>) -> Self {
        Self {
            end: End {
                place: Place::Device(view.memory, view.rows),
                access: view.access,
                extent: view.extent(),
            },
            elements: PhantomData,
        }
    }
}

impl<'a, T: DeviceRepr> From<&'a DeviceBuffer<T>> for CopySource<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut DeviceBuffer<T>> for CopyTarget<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_mut_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a PitchedBuffer<T>> for CopySource<'a, T> {
    fn from(buffer: &'a PitchedBuffer<T>) -> Self {
        buffer.as_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut PitchedBuffer<T>> for CopyTarget<'a, T> {
    fn from(buffer: &'a mut PitchedBuffer<T>) -> Self {
        buffer.as_mut_slice().into()
    }
}

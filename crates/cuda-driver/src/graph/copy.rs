//! Copy nodes.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_sys::{CUDA_MEMCPY3D, CUcontext, CUgraphNode};

use super::change::ChangeNode;
use super::owners::OnFailure;
use super::params::{Adding, Changing, NO_GRAPH, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::memory::pitched::{ArrayBox, Rows, Side, copy_of};
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, GrowableBuffer, Memory, Part,
    PitchedBuffer, PitchedSlice, PitchedSliceMut, SharedSlice, expect_len,
};
use crate::tracking::{Access, Tracker};
use crate::types::Extent;
use crate::types::node::{Edge, Node, node_kind};

/// The source of a copy node: a buffer or a view of one.
pub struct CopySource<'a, T: DeviceRepr> {
    pub(super) end: End<'a>,
    elements: PhantomData<&'a [T]>,
}

/// The destination of a copy node: a buffer or a view of one.
pub struct CopyTarget<'a, T: DeviceRepr> {
    pub(super) end: End<'a>,
    elements: PhantomData<&'a mut [T]>,
}

/// One side of a copy.
pub(super) struct End<'a> {
    pub(super) memory: CopyMemory<'a>,
    pub(super) access: Access,
    pub(super) extent: Extent,
    /// The size of the elements in bytes.
    pub(super) bytes: usize,
}

pub(super) enum CopyMemory<'a> {
    Device(&'a Memory, Rows),
    Array(Part<'a>, ArrayBox),
    /// Contiguous rows, one or more.
    Host(HostSide<'a>),
    /// Memory that the graph with this number allocates.
    Own(u64, Rows),
}

/// Host memory that a copy reads or writes.
pub(super) struct HostSide<'a> {
    pub(super) start: *mut c_void,
    pub(super) context: &'a Context,
    pub(super) tracker: &'a Arc<Tracker>,
    pub(super) memory: Box<dyn OnFailure>,
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

/// Copies.
impl Graph {
    /// `cuGraphAddMemcpyNode()`—Adds a node that copies memory.
    ///
    /// # Errors
    ///
    /// - [`Error::LengthMismatch`] or [`Error::ExtentMismatch`] if source and destination differ in
    ///   length or shape.
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph, and [`Error::OtherGraph`] for memory that another graph allocates.
    /// - [`Error::OtherContext`] for memory of another context.
    /// - [`Error::Unsupported`] for managed memory, for a copy of no bytes, and for a copy from a
    ///   host buffer to itself.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    #[doc(alias = "cudaGraphAddMemcpyNode")]
    pub fn add_copy<'a, T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<Node<node_kind::Memcpy>> {
        let (mut params, owners) = copy_node(self.context(), self.id(), to.into(), from.into())?;
        // SAFETY: the node must use only what `owners` keeps ← both sides are within their memory,
        // which `owners` holds.
        unsafe { self.add(after, owners, &mut params) }
    }
}

/// New parameters of copies.
impl GraphExec {
    /// `cuGraphExecMemcpyNodeSetParams(node)`—Changes what a copy node copies, from the next launch
    /// on.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - The errors of [`Graph::add_copy`], and those of [`set_kernel`](Self::set_kernel) that
    ///   concern the node.
    /// - [`Error::GraphOrder`] if another node has a conflicting access to the same memory and
    ///   neither node depends on the other.
    /// - `CUDA_ERROR_INVALID_VALUE` for copies that the driver cannot change in this way, such as
    ///   copies of several rows.
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    #[doc(alias = "cudaGraphExecMemcpyNodeSetParams")]
    pub fn set_copy<'a, T: DeviceRepr>(
        &self,
        node: Node<node_kind::Memcpy>,
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<()> {
        let (mut params, owners) = copy_node(self.context(), NO_GRAPH, to.into(), from.into())?;
        // SAFETY: the node must use only what `owners` keeps ← both sides are within their memory,
        // which `owners` holds.
        unsafe { self.set(node, owners, &mut params) }
    }
}

/// The parameters of a copy node.
struct CopyNode {
    params: CUDA_MEMCPY3D,
    context: CUcontext,
}

impl NodeParams for CopyNode {
    type Kind = node_kind::Memcpy;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        // SAFETY: pointers and graph must be valid ← the caller guarantees it for those of `it`.
        unsafe {
            call_add!(
                it,
                cuGraphAddMemcpyNode,
                &raw const self.params,
                self.context
            )
        }
    }
}

/// Changes of copies.
impl Graph {
    /// `cuGraphMemcpyNodeSetParams(node)`—Changes what a copy node of this graph copies. See
    /// [`set_kernel`](Self::set_kernel) for the edges and for executables.
    ///
    /// # Errors
    ///
    /// The errors of [`add_copy`](Self::add_copy) that are not about edges, and those of
    /// [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    #[doc(alias = "cudaGraphMemcpyNodeSetParams")]
    pub fn set_copy<'a, T: DeviceRepr>(
        &mut self,
        node: Node<node_kind::Memcpy>,
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<()> {
        let (mut params, owners) = copy_node(self.context(), NO_GRAPH, to.into(), from.into())?;
        // SAFETY: the node must use only what `owners` keeps ← the ranges are those of the views,
        // whose memory `owners` holds.
        unsafe { self.change(node, owners, &mut params) }
    }
}

impl ChangeNode for CopyNode {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        // The context of the node stays that of the graph.
        // SAFETY: the node must be valid ← the caller guarantees it.
        unsafe {
            call!(
                driver,
                cuGraphMemcpyNodeSetParams(node, &raw const self.params)
            )
        }
    }
}

impl SetNodeParams for CopyNode {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        // SAFETY: executable and node must be valid ← the caller guarantees it for those of `it`.
        unsafe {
            call_set!(
                it,
                cuGraphExecMemcpyNodeSetParams,
                &raw const self.params,
                self.context
            )
        }
    }
}

/// Returns the parameters of a copy, and what the copy uses.
fn copy_node<T: DeviceRepr>(
    context: &Context,
    graph: u64,
    to: CopyTarget<'_, T>,
    from: CopySource<'_, T>,
) -> Result<(CopyNode, Owners)> {
    let (to, from) = (to.end, from.end);
    if let (CopyMemory::Host(to), CopyMemory::Host(from)) = (&to.memory, &from.memory)
        && Arc::ptr_eq(to.tracker, from.tracker)
    {
        // Both sides are shared borrows of one buffer. CUDA does not document what this copy does.
        return Err(Error::Unsupported {
            what: "a copy of host memory to itself; copy to another buffer",
        });
    }
    if to.is_row() && from.is_row() {
        expect_len(from.extent.width, to.extent.width)?;
    } else if to.is_host() || from.is_host() {
        // Host memory is contiguous and takes the shape of the other side.
        expect_len(
            from.bytes / size_of::<T>().max(1),
            to.bytes / size_of::<T>().max(1),
        )?;
    } else {
        to.extent.expect(from.extent)?;
    }
    let shape = if to.is_host() { from.extent } else { to.extent };
    let width = shape.width * size_of::<T>();
    let (height, depth) = (shape.height, shape.depth);
    if width == 0 || height == 0 || depth == 0 {
        return Err(Error::Unsupported {
            what: "a copy node of zero bytes; leave the node out, or use `add_empty`",
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
    let to = to.side(context, graph, &mut owners)?;
    let from = from.side(context, graph, &mut owners)?;
    let params = copy_of(to, from, &shape);
    let context = context.as_raw();
    Ok((CopyNode { params, context }, owners))
}

impl End<'_> {
    fn is_host(&self) -> bool {
        matches!(self.memory, CopyMemory::Host(_))
    }

    fn is_row(&self) -> bool {
        self.extent.height == 1 && self.extent.depth == 1
    }

    /// Returns this side as the driver's copy takes it, and adds what it uses to `owners`.
    pub(super) fn side(self, context: &Context, graph: u64, owners: &mut Owners) -> Result<Side> {
        let bytes = self.bytes;
        match self.memory {
            CopyMemory::Device(memory, rows) => {
                owners.add(
                    (context, graph),
                    memory,
                    self.access,
                    rows.address,
                    rows.span_bytes(),
                )?;
                Ok(Side::Device(rows))
            }
            CopyMemory::Array(part, place) => {
                owners.add(
                    (context, graph),
                    part.memory,
                    self.access,
                    part.address,
                    part.bytes,
                )?;
                Ok(Side::Array(place))
            }
            CopyMemory::Host(host) => {
                if host.context != context {
                    return Err(Error::other_context("a host buffer", host.context, context));
                }
                owners.add_host(host.tracker, self.access, host.start.addr() as u64, bytes);
                owners.retain_boxed(host.memory);
                Ok(Side::Host(host.start))
            }
            CopyMemory::Own(own, rows) => {
                if own != graph {
                    return Err(Error::OtherGraph);
                }
                owners.add_own(self.access, rows.address, rows.span_bytes());
                Ok(Side::Device(rows))
            }
        }
    }
}

impl<'a, T: DeviceRepr> CopySource<'a, T> {
    pub(super) fn new(end: End<'a>) -> Self {
        Self {
            end,
            elements: PhantomData,
        }
    }

    pub(super) fn of_host(host: HostSide<'a>, len: usize) -> Self {
        Self::new(End::new::<T>(CopyMemory::Host(host), Access::READ, len))
    }

    /// A source in memory that the graph allocates.
    pub(super) fn of_own(graph: u64, address: u64, len: usize) -> Self {
        let memory = CopyMemory::Own(graph, linear::<T>(address, len));
        Self::new(End::new::<T>(memory, Access::READ, len))
    }
}

impl<'a, T: DeviceRepr> CopyTarget<'a, T> {
    pub(super) fn new(end: End<'a>) -> Self {
        Self {
            end,
            elements: PhantomData,
        }
    }

    pub(super) fn of_host(host: HostSide<'a>, len: usize) -> Self {
        Self::new(End::new::<T>(CopyMemory::Host(host), Access::WRITE, len))
    }

    /// A destination in memory that the graph allocates.
    pub(super) fn of_own(graph: u64, address: u64, len: usize) -> Self {
        let memory = CopyMemory::Own(graph, linear::<T>(address, len));
        Self::new(End::new::<T>(memory, Access::WRITE, len))
    }

    pub(super) fn into_end(self) -> End<'a> {
        self.end
    }
}

impl<'a> End<'a> {
    fn new<T>(memory: CopyMemory<'a>, access: Access, len: usize) -> Self {
        Self {
            memory,
            access,
            extent: row(len),
            // No overflow: memory of that length exists.
            bytes: len * size_of::<T>(),
        }
    }
}

/// Returns the extent of `len` elements in one row.
pub(super) fn row(len: usize) -> Extent {
    Extent {
        width: len,
        height: 1,
        depth: 1,
    }
}

fn linear<T: DeviceRepr>(address: u64, len: usize) -> Rows {
    // No overflow: the view is within existing memory.
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
        let memory = CopyMemory::Device(view.memory, linear::<T>(view.as_raw(), view.len()));
        Self::new(End::new::<T>(memory, view.access, view.len()))
    }
}

impl<'a, T: DeviceRepr> From<DeviceSliceMut<'a, T>> for CopyTarget<'a, T> {
    fn from(view: DeviceSliceMut<'a, T>) -> Self {
        let memory = CopyMemory::Device(view.memory, linear::<T>(view.as_raw(), view.len()));
        Self::new(End::new::<T>(memory, view.access, view.len()))
    }
}

impl<'a, T: DeviceRepr> From<PitchedSlice<'a, T>> for CopySource<'a, T> {
    fn from(view: PitchedSlice<'a, T>) -> Self {
        Self::new(End {
            memory: CopyMemory::Device(view.memory, view.rows),
            access: view.access,
            extent: view.extent(),
            bytes: view.rows.bytes(),
        })
    }
}

impl<'a, T: DeviceRepr> From<PitchedSliceMut<'a, T>> for CopyTarget<'a, T> {
    fn from(view: PitchedSliceMut<'a, T>) -> Self {
        Self::new(End {
            memory: CopyMemory::Device(view.memory, view.rows),
            access: view.access,
            extent: view.extent(),
            bytes: view.rows.bytes(),
        })
    }
}

impl<'a, T: DeviceRepr> From<&'a DeviceBuffer<T>> for CopySource<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a SharedSlice<T>> for CopySource<'a, T> {
    fn from(view: &'a SharedSlice<T>) -> Self {
        view.as_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut DeviceBuffer<T>> for CopyTarget<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_mut_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a GrowableBuffer<T>> for CopySource<'a, T> {
    fn from(buffer: &'a GrowableBuffer<T>) -> Self {
        buffer.as_slice().into()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut GrowableBuffer<T>> for CopyTarget<'a, T> {
    fn from(buffer: &'a mut GrowableBuffer<T>) -> Self {
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

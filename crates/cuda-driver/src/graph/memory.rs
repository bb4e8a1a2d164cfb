//! Memory that graphs allocate and free as they run.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::{CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraphMem_attribute};

use super::build::Adding;
use super::copy::{CopySource, CopyTarget};
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::device::Device;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::{DeviceRepr, bytes_of, props_of};
use crate::order::Access;

/// `len` elements of `T` that a node of a graph allocates in each launch, for nodes of that graph.
///
/// It is what they read and write as `&` and `&mut`, kernels too. [`Graph::free`] takes it; a graph
/// in which one is not freed cannot be made an executable.
pub struct GraphAllocation<T: DeviceRepr> {
    address: CUdeviceptr,
    len: usize,
    node: Node<node_kind::Alloc>,
    elements: PhantomData<T>,
}

impl Graph {
    /// `cuGraphAddMemAllocNode()`, `cuGraphAddMemsetNode(0)`—Nodes that allocate `len` elements in
    /// each launch, and fill them with zero bits.
    ///
    /// # Errors
    ///
    /// As [`alloc`](Self::alloc).
    pub fn alloc_zeroed<T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        len: usize,
    ) -> Result<GraphAllocation<T>> {
        // SAFETY: it must be written before it is read ← nodes that use it wait for the fill, which
        // is the first.
        let mut allocation = unsafe { self.alloc(after, len) }?;
        let (address, bytes) = (allocation.address, allocation.reach());
        let bytes_of_it: CopyTarget<'_, u8> = CopyTarget::of_own(self.id(), address, bytes);
        match self.fill(&[], bytes_of_it, 0_u8) {
            Ok(_) => Ok(allocation),
            Err(error) => {
                allocation.len = 0;
                // The graph stays one that can be run.
                self.free(&[], allocation)?;
                Err(error)
            }
        }
    }

    /// `cuGraphAddMemAllocNode()`—A node that allocates `len` elements in each launch, with
    /// whatever was in that memory. All launches have it at the same address.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::OutOfMemory`] with the bytes asked for,
    /// [`Error::SizeOverflow`], [`Error::Unsupported`] for no bytes, or what the call answers.
    ///
    /// # Safety
    ///
    /// In each launch nothing reads an element before something has written it.
    #[doc(alias = "cuGraphAddMemAllocNode")]
    pub unsafe fn alloc<T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        len: usize,
    ) -> Result<GraphAllocation<T>> {
        let bytes = bytes_of::<T>(len)?;
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "a node that allocates nothing",
            });
        }
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
            poolProps: props_of(self.context().device(), 0),
            accessDescs: std::ptr::null(),
            accessDescCount: 0,
            bytesize: bytes,
            dptr: 0,
        };
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid ← those of `it` are; the parameters are a
            // local.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddMemAllocNode(it.node, it.graph, it.after, it.count, &raw mut params)
                )
            }
        };
        // SAFETY: the call must add such a node with these edges ← it does; it uses nothing.
        let added = unsafe { self.add(NodeKind::Alloc, after, Owners::default(), add) };
        let id = added.map_err(|error| match error {
            Error::Driver(error) => Error::of_allocation(error, bytes),
            error => error,
        })?;
        let address = params.dptr;
        self.note_allocation(id, address, bytes);
        Ok(GraphAllocation {
            address,
            len,
            node: Node::new(id),
            elements: PhantomData,
        })
    }

    /// `cuGraphAddMemFreeNode()`—A node that frees memory in each launch, behind all nodes that use
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], or what the call answers. The memory then is not freed.
    #[doc(alias = "cuGraphAddMemFreeNode")]
    pub fn free<T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        allocation: GraphAllocation<T>,
    ) -> Result<Node<node_kind::Free>> {
        if allocation.graph() != self.id() {
            return Err(Error::OtherGraph);
        }
        let address = allocation.address;
        let bytes = self.allocated(&allocation);
        let mut owners = Owners::default();
        owners.add_own(Access::WRITE, address, bytes);
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid, the memory the graph's ← those of `it` are;
            // a node allocates it.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddMemFreeNode(it.node, it.graph, it.after, it.count, address)
                )
            }
        };
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does,
        // and no later node can use the memory: its only owner ends here.
        let id = unsafe { self.add(NodeKind::Free, after, owners, add) }?;
        self.root.lock()[self.at].unfreed -= 1;
        Ok(Node::new(id))
    }
}

impl<T: DeviceRepr> GraphAllocation<T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address on the device, which is memory while a launch is between the nodes that allocate
    /// and free it.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// The node that allocates it.
    #[must_use]
    pub fn node(&self) -> Node<node_kind::Alloc> {
        self.node
    }

    pub(crate) fn reach(&self) -> usize {
        // No overflow: it was allocated.
        self.len * size_of::<T>()
    }

    pub(crate) fn graph(&self) -> u64 {
        self.node.id().graph
    }
}

impl<'a, T: DeviceRepr> From<&'a GraphAllocation<T>> for CopySource<'a, T> {
    fn from(allocation: &'a GraphAllocation<T>) -> Self {
        Self::of_own(allocation.graph(), allocation.address, allocation.len)
    }
}

impl<'a, T: DeviceRepr> From<&'a mut GraphAllocation<T>> for CopyTarget<'a, T> {
    fn from(allocation: &'a mut GraphAllocation<T>) -> Self {
        Self::of_own(allocation.graph(), allocation.address, allocation.len)
    }
}

impl<T: DeviceRepr> fmt::Debug for GraphAllocation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GraphAllocation({:#x}, {} x {})",
            self.address,
            self.len,
            size_of::<T>()
        )
    }
}

/// The memory of a device that graphs have, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMemoryStatistics {
    /// What launches use now.
    pub used: u64,
    /// The most that it was since it was [reset](Device::reset_graph_memory_peaks).
    pub most_used: u64,
    /// What is kept for launches.
    pub reserved: u64,
    /// The most that it was since it was reset.
    pub most_reserved: u64,
}

impl Device {
    /// `cuDeviceGetGraphMemAttribute()`—The memory that graphs have on the device.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGetGraphMemAttribute")]
    pub fn graph_memory(&self) -> Result<GraphMemoryStatistics> {
        use CUgraphMem_attribute as Attribute;
        let read = |attribute| -> Result<u64> {
            let mut value = 0_u64;
            // SAFETY: there must be room for the attribute's value ← each is 64 bits.
            unsafe {
                call!(
                    self.driver(),
                    cuDeviceGetGraphMemAttribute(self.as_raw(), attribute, (&raw mut value).cast())
                )
            }?;
            Ok(value)
        };
        Ok(GraphMemoryStatistics {
            used: read(Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?,
            most_used: read(Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)?,
            reserved: read(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?,
            most_reserved: read(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)?,
        })
    }

    /// `cuDeviceSetGraphMemAttribute(0)`—Begins the two highest values anew.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    #[doc(alias = "cuDeviceSetGraphMemAttribute")]
    pub fn reset_graph_memory_peaks(&self) -> Result<()> {
        for attribute in [
            CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
            CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
        ] {
            let mut value = 0_u64;
            // SAFETY: there must be a value of the attribute's ← each is 64 bits.
            unsafe {
                call!(
                    self.driver(),
                    cuDeviceSetGraphMemAttribute(self.as_raw(), attribute, (&raw mut value).cast())
                )
            }?;
        }
        Ok(())
    }

    /// `cuDeviceGraphMemTrim()`—Gives back what is kept for launches and not used.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGraphMemTrim")]
    pub fn trim_graph_memory(&self) -> Result<()> {
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuDeviceGraphMemTrim(self.as_raw())) }?)
    }
}

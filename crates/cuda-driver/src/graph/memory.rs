//! Memory that graphs allocate and free when they run.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::{CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraphMem_attribute};

use super::copy::{CopySource, CopyTarget};
use super::params::{Adding, NodeParams, call_add};
use super::{Graph, Owners};
use crate::device::Device;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::launch::{KernelArg, Tracked};
use crate::memory::{DeviceRepr, bytes_of, props_of};
use crate::tracking::Access;
use crate::types::ArgType;
use crate::types::node::{Edge, Node, node_kind};

/// `len` elements of `T` that a node of a graph allocates in each launch, for use by nodes of that
/// graph.
///
/// Copy, fill and kernel nodes take it by `&` to read and by `&mut` to write. [`Graph::add_free`]
/// consumes it. A graph in which an allocation is not freed cannot be instantiated.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Graph};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let source = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let mut target = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// let mut graph = Graph::new(&context)?;
/// let mut temporary = graph.add_alloc_zeroed::<u32>(&[], 3)?;
/// graph.add_copy(&[], &mut temporary, &source)?;
/// graph.add_copy(&[], &mut target, &temporary)?;
/// graph.add_free(&[], temporary)?;
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(target.to_vec()?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphAllocation<T: DeviceRepr> {
    address: CUdeviceptr,
    len: usize,
    node: Node<node_kind::Alloc>,
    elements: PhantomData<T>,
}

/// Memory that the graph allocates.
impl Graph {
    /// `cuGraphAddMemAllocNode()`, `cuGraphAddMemsetNode(0)`—Adds nodes that allocate `len`
    /// elements in each launch and fill them with zero bits.
    ///
    /// # Errors
    ///
    /// The errors of [`add_alloc`](Self::add_alloc).
    pub fn add_alloc_zeroed<T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        len: usize,
    ) -> Result<GraphAllocation<T>> {
        // SAFETY: the elements must be written before they are read ← the fill is the first node
        // that uses them, and later ones depend on it.
        let mut allocation = unsafe { self.add_alloc(after, len) }?;
        let (address, bytes) = (allocation.address, allocation.span_bytes());
        let bytes_of_it: CopyTarget<'_, u8> = CopyTarget::of_own(self.id(), address, bytes);
        match self.add_fill(&[], bytes_of_it, 0_u8) {
            Ok(_) => Ok(allocation),
            Err(error) => {
                allocation.len = 0;
                // Frees the allocation again, so that the graph can still be instantiated.
                self.add_free(&[], allocation)?;
                Err(error)
            }
        }
    }

    /// `cuGraphAddMemAllocNode()`—Adds a node that allocates `len` uninitialized elements in each
    /// launch. The address is the same in all launches.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OutOfMemory`] if the driver cannot allocate the memory, with the number of bytes.
    /// - [`Error::SizeOverflow`] if the size in bytes exceeds `usize`.
    /// - [`Error::Unsupported`] for an allocation of no bytes.
    ///
    /// # Safety
    ///
    /// In each launch, every element is written before it is read.
    #[doc(alias = "cuGraphAddMemAllocNode")]
    #[doc(alias = "cudaGraphAddMemAllocNode")]
    pub unsafe fn add_alloc<T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        len: usize,
    ) -> Result<GraphAllocation<T>> {
        let bytes = bytes_of::<T>(len)?;
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "a node that allocates zero bytes; allocate at least one element",
            });
        }
        let mut params = AllocNode(CUDA_MEM_ALLOC_NODE_PARAMS {
            poolProps: props_of(self.context().device(), 0),
            accessDescs: std::ptr::null(),
            accessDescCount: 0,
            bytesize: bytes,
            dptr: 0,
        });
        // SAFETY: the node must use only what the owners keep ← it uses no other memory.
        let added = unsafe { self.add(after, Owners::default(), &mut params) };
        let node = added.map_err(|error| match error {
            Error::Driver(error) => self.context().allocation_error(error, bytes),
            error => error,
        })?;
        let address = params.0.dptr;
        self.note_allocation(node.id(), address, bytes);
        Ok(GraphAllocation {
            address,
            len,
            node,
            elements: PhantomData,
        })
    }

    /// `cuGraphAddMemFreeNode()`—Adds a node that frees the memory in each launch, after all nodes
    /// that use it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if the allocation or an edge belongs to another graph,
    /// [`Error::NodeGone`] for an edge of a removed node. The allocation is then lost: no node can
    /// free it any more, so the graph cannot be instantiated.
    #[doc(alias = "cuGraphAddMemFreeNode")]
    #[doc(alias = "cudaGraphAddMemFreeNode")]
    pub fn add_free<T: DeviceRepr>(
        &mut self,
        after: &[Edge],
        allocation: GraphAllocation<T>,
    ) -> Result<Node<node_kind::Free>> {
        if allocation.graph() != self.id() {
            return Err(Error::OtherGraph);
        }
        let address = allocation.address;
        let bytes = self.allocated(&allocation);
        let allocating = allocation.node.id().index;
        let mut owners = Owners::default();
        owners.add_own(Access::WRITE, address, bytes);
        // SAFETY: the node must use only what `owners` keeps ← it frees memory of this graph, and
        // no later node can use that memory, because its only handle is consumed here.
        let node = unsafe { self.add(after, owners, &mut FreeNode(address)) }?;
        self.root.lock()[self.at].unfreed.remove(&allocating);
        Ok(node)
    }

    /// Returns the number of bytes that a node of this graph allocates.
    fn allocated<T: DeviceRepr>(&self, allocation: &GraphAllocation<T>) -> usize {
        let all = self.root.lock();
        let info = all[self.at]
            .nodes
            .get(allocation.node().id().index as usize);
        let accesses = info.map(|info| info.owners.accesses()).unwrap_or_default();
        let bytes = accesses
            .first()
            .map_or(0, |it| it.bytes.end - it.bytes.start);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// The parameters of a node that allocates memory. The driver writes the address into them.
struct AllocNode(CUDA_MEM_ALLOC_NODE_PARAMS);

impl NodeParams for AllocNode {
    type Kind = node_kind::Alloc;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let params = &raw mut self.0;
        // SAFETY: pointers and graph must be valid ← the caller guarantees it for those of `it`.
        unsafe { call_add!(it, cuGraphAddMemAllocNode, params) }
    }
}

/// The parameters of a node that frees memory: its address.
struct FreeNode(CUdeviceptr);

impl NodeParams for FreeNode {
    type Kind = node_kind::Free;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        // SAFETY: pointers and graph must be valid, and the memory allocated by this graph ← the
        // caller guarantees the former for those of `it`; `add_free` has checked that a node of
        // this graph allocates the memory.
        unsafe { call_add!(it, cuGraphAddMemFreeNode, self.0) }
    }
}

impl<T: DeviceRepr> GraphAllocation<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the allocation has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address on the device. It is valid only within a launch, after the node that
    /// allocates the memory and before the one that frees it.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// Returns the node that allocates the memory.
    #[must_use]
    pub fn node(&self) -> Node<node_kind::Alloc> {
        self.node
    }

    pub(crate) fn span_bytes(&self) -> usize {
        // No overflow: memory of this size was allocated.
        self.len * size_of::<T>()
    }

    fn use_in_graph(&self, access: Access) -> Tracked<'_> {
        Tracked {
            memory: None,
            access,
            address: self.as_raw(),
            bytes: self.span_bytes(),
            graph: self.graph(),
            argument: 0,
            peer: None,
            kept: None,
            object: None,
        }
    }

    pub(crate) fn graph(&self) -> u64 {
        self.node.id().graph
    }

    /// Returns a second handle. The caller makes sure that only one of them is freed.
    pub(super) fn second_handle(&self) -> Self {
        Self {
            address: self.address,
            len: self.len,
            node: self.node,
            elements: PhantomData,
        }
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

/// The memory that graphs occupy on a device, in bytes. [`Device::graph_memory`] returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMemoryStatistics {
    /// The memory that is in use for launches.
    pub used: u64,
    /// The maximum of `used` since the last [reset](Device::reset_graph_memory_peaks).
    pub most_used: u64,
    /// The memory that is reserved for launches.
    pub reserved: u64,
    /// The maximum of `reserved` since the last reset.
    pub most_reserved: u64,
}

/// The memory that the device holds for graphs.
impl Device {
    /// `cuDeviceGetGraphMemAttribute()`—Returns the memory that graphs occupy on the device.
    ///
    /// The driver takes memory from the device when a graph is launched, and keeps it for later
    /// launches until [`trim_graph_memory`](Self::trim_graph_memory) is called, even if all graphs
    /// are dropped. Driver 580 takes it in chunks of 32 MiB, and reports all of it as used, whether
    /// or not a graph uses it at that time.
    #[doc(alias = "cuDeviceGetGraphMemAttribute")]
    #[doc(alias = "cudaDeviceGetGraphMemAttribute")]
    pub fn graph_memory(&self) -> Result<GraphMemoryStatistics> {
        use CUgraphMem_attribute as Attribute;
        let read = |attribute| -> Result<u64> {
            let mut value = 0_u64;
            // SAFETY: there must be room for the value of the attribute ← each attribute is a
            // 64-bit number.
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

    /// `cuDeviceSetGraphMemAttribute(0)`—Resets both maxima,
    /// [`most_used`](GraphMemoryStatistics::most_used) and
    /// [`most_reserved`](GraphMemoryStatistics::most_reserved), to the current amounts.
    #[doc(alias = "cuDeviceSetGraphMemAttribute")]
    #[doc(alias = "cudaDeviceSetGraphMemAttribute")]
    pub fn reset_graph_memory_peaks(&self) -> Result<()> {
        for attribute in [
            CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
            CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
        ] {
            let mut value = 0_u64;
            // SAFETY: the pointer must be to a value of the attribute ← each attribute is a 64-bit
            // number.
            unsafe {
                call!(
                    self.driver(),
                    cuDeviceSetGraphMemAttribute(self.as_raw(), attribute, (&raw mut value).cast())
                )
            }?;
        }
        Ok(())
    }

    /// `cuDeviceGraphMemTrim()`—Returns memory that is reserved for graphs, but not allocated, to
    /// the device.
    #[doc(alias = "cuDeviceGraphMemTrim")]
    #[doc(alias = "cudaDeviceGraphMemTrim")]
    pub fn trim_graph_memory(&self) -> Result<()> {
        // SAFETY: nothing is required ← the call takes no pointers.
        Ok(unsafe { call!(self.driver(), cuDeviceGraphMemTrim(self.as_raw())) }?)
    }
}

// SAFETY: `Value` must be what the kernel expects ← the kernel takes the address; launches outside
// of the graph fail.
unsafe impl<T: DeviceRepr> KernelArg for &GraphAllocation<T> {
    type Value = CUdeviceptr;

    const ARG_TYPE: ArgType = ArgType::address_of(T::ARG_TYPE);

    #[inline]
    fn value(&self) -> CUdeviceptr {
        self.as_raw()
    }

    #[inline]
    fn tracked(&self) -> Option<Tracked<'_>> {
        Some(self.use_in_graph(Access::READ))
    }
}

// SAFETY: `Value` must be what the kernel expects ← the kernel takes the address; launches outside
// of the graph fail.
unsafe impl<T: DeviceRepr> KernelArg for &mut GraphAllocation<T> {
    type Value = CUdeviceptr;

    const ARG_TYPE: ArgType = ArgType::address_of(T::ARG_TYPE);

    #[inline]
    fn value(&self) -> CUdeviceptr {
        self.as_raw()
    }

    #[inline]
    fn tracked(&self) -> Option<Tracked<'_>> {
        Some(self.use_in_graph(Access::WRITE))
    }
}

//! Kernel nodes that kernels change, on the device.
//!
//! In C an attribute makes a node one, the handle comes back in the attribute's value, and what may
//! not be done with the graph from then on is left to the manual. Here it is refused by name.

use cuda_sys::{CUgraphDeviceNode, CUlaunchAttributeID, CUlaunchAttributeValue};

use super::Graph;
use super::build::Place;
use super::node::{Node, node_kind};
use super::parts::Parts;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::DeviceRepr;

/// A kernel node as kernels know it: an argument `cudaGraphDeviceNode_t` of those that change it.
/// See [`Graph::set_device_updatable`].
///
/// It is a number, and keeps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DeviceNode(u64);

// SAFETY: zero must be a value ← it is an integer.
unsafe impl bytemuck::Zeroable for DeviceNode {}
// SAFETY: any bits must be a value, without padding ← it is an integer.
unsafe impl bytemuck::Pod for DeviceNode {}
// SAFETY: layouts must agree ← the handle is a pointer of 64 bits.
unsafe impl DeviceRepr for DeviceNode {}

const _: () = assert!(size_of::<CUgraphDeviceNode>() == size_of::<DeviceNode>());

impl DeviceNode {
    /// The raw handle.
    #[must_use]
    pub fn as_raw(self) -> CUgraphDeviceNode {
        std::ptr::without_provenance_mut(self.0 as usize)
    }
}

const UPDATABLE: CUlaunchAttributeID =
    CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;

/// The value of the attribute as words: whether it is set, in the lower half of the first, and then
/// the handle. Which fields have names depends on the header.
type Words = [u64; 8];

impl Graph {
    /// `cuGraphKernelNodeSetAttribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)`—Lets
    /// kernels change what a node launches, and answers what they know it by. CUDA 12.4 on.
    ///
    /// Kernels change arguments and grid of the node, and whether it does anything
    /// (`cudaGraphKernelNodeSetParam` and its kin, of the library `cudadevrt`, with which such a
    /// kernel is linked). The node keeps what it was added with; memory to which only a change
    /// leads is named when it is added, by [`Using`](crate::Using).
    ///
    /// There is no way back, and such a graph is one of its kind: the node is not taken out, the
    /// graph has one executable at a time, it is not cloned and in no other graph, and its
    /// executables do not become like other graphs, nor others like it. An executable is launched
    /// once it was [uploaded](crate::GraphExec::upload), and again after
    /// [`set_kernel`](crate::GraphExec::set_kernel) of such a node, which undoes what kernels have
    /// changed.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::NodeGone`], [`Error::Unsupported`] if the driver gives no
    /// handle, or what the calls answer: `CUDA_ERROR_INVALID_VALUE` from a driver that does not
    /// know the attribute.
    ///
    /// # Safety
    ///
    /// A kernel with the handle can make the node launch anything. As long as an executable of the
    /// graph is there:
    ///
    /// - Whatever the node launches does what was promised when it was added, and uses only memory
    ///   that it was added with or that `set_kernel` named last.
    /// - A kernel changes the node only between the end of an upload and the end of the executable;
    ///   and it is done before the node begins: the node waits for it, or the launch of the graph
    ///   is queued behind it.
    /// - Nothing is launched, uploaded or changed by the host through the executable at a time when
    ///   a kernel changes the node, but the launch that this kernel is a part of.
    #[doc(alias = "CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE")]
    pub unsafe fn set_device_updatable(
        &mut self,
        node: Node<node_kind::Kernel>,
    ) -> Result<DeviceNode> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        let place = parts.place(node.id())?;
        if let Some(known) = parts.device_node(place) {
            return known.checked();
        }
        let raw = parts.raw_of(place);
        let words: Words = [1, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: any bytes must be a value ← the union has a field of so many plain bytes, and is
        // as long.
        let mut value = unsafe { std::mem::transmute::<Words, CUlaunchAttributeValue>(words) };
        let place_of_handle = (&raw mut value).cast_const();
        // SAFETY: the node must be a kernel's, and alive, the value that of the id, which the
        // driver may write ← by its type; the graph is locked, and has it; it is a local of ours.
        unsafe {
            call!(
                driver,
                cuGraphKernelNodeSetAttribute(raw, UPDATABLE, place_of_handle)
            )
        }?;
        let mut handle = DeviceNode::of(value);
        if handle.0 == 0 {
            // A driver that takes the value for a constant.
            // SAFETY: as above, and the pointer must be writable ← a local.
            let told = unsafe {
                call!(
                    driver,
                    cuGraphKernelNodeGetAttribute(raw, UPDATABLE, &raw mut value)
                )
            };
            if told.is_ok() {
                handle = DeviceNode::of(value);
            }
        }
        // Even if it has no handle it is one now.
        parts.device_nodes.push((place, handle));
        handle.checked()
    }
}

impl DeviceNode {
    fn of(value: CUlaunchAttributeValue) -> Self {
        // SAFETY: any bytes must be a value ← they are integers, and as long as the union, all of
        // whose bytes were set.
        let words = unsafe { std::mem::transmute::<CUlaunchAttributeValue, Words>(value) };
        Self(words[1])
    }

    fn checked(self) -> Result<Self> {
        if self.0 != 0 {
            return Ok(self);
        }
        Err(Error::Unsupported {
            what: "the handle of a node that kernels change",
        })
    }
}

impl Parts {
    fn device_node(&self, node: Place) -> Option<DeviceNode> {
        let mut all = self.device_nodes.iter();
        all.find(|(known, _)| *known == node).map(|(_, it)| *it)
    }

    /// An error if kernels change one of the nodes.
    pub(super) fn without_device_nodes(all: &[Self], what: &'static str) -> Result<()> {
        if all.iter().all(|parts| parts.device_nodes.is_empty()) {
            return Ok(());
        }
        Err(Error::Unsupported { what })
    }

    /// Whether kernels change a node, or one in its bodies.
    pub(super) fn is_device_updatable(all: &[Self], at: usize, node: Place) -> bool {
        let own = all.get(at).and_then(|parts| parts.device_node(node));
        let mut bodies = all.iter().enumerate();
        own.is_some()
            || bodies.any(|(body, parts)| {
                // No truncation: each takes more than a byte.
                let mut nodes = 0..parts.nodes.len() as u32;
                parts.parent == Some((at, node))
                    && nodes.any(|inner| Self::is_device_updatable(all, body, inner))
            })
    }
}

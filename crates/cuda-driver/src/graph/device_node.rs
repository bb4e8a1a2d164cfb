//! Kernel nodes that kernels update on the device.
//!
//! In C, an attribute makes a node device-updatable, the handle is returned in the value of the
//! attribute, and the manual lists what the program must no longer do with the graph. This module
//! rejects these uses with errors.

use cuda_sys::{CUgraphDeviceNode, CUlaunchAttributeID, CUlaunchAttributeValue};

use super::Graph;
use super::parts::{NodeIndex, Parts};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::DeviceRepr;
use crate::types::node::{Node, node_kind};

/// The handle by which kernels update a kernel node: the argument `cudaGraphDeviceNode_t` of such
/// kernels. See [`Graph::set_device_updatable`].
///
/// The handle is a plain number. It keeps nothing alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DeviceNode(u64);

// SAFETY: zero must be a valid value ← the type is an integer.
unsafe impl bytemuck::Zeroable for DeviceNode {}
// SAFETY: every bit pattern must be valid, and there must be no padding ← the type is an integer.
unsafe impl bytemuck::Pod for DeviceNode {}
// SAFETY: host and device layout must agree ← the handle is a 64-bit pointer on both.
unsafe impl DeviceRepr for DeviceNode {}

const _: () = assert!(size_of::<CUgraphDeviceNode>() == size_of::<DeviceNode>());

impl DeviceNode {
    /// Returns the raw handle.
    #[must_use]
    pub fn as_raw(self) -> CUgraphDeviceNode {
        std::ptr::without_provenance_mut(self.0 as usize)
    }
}

const UPDATABLE: CUlaunchAttributeID =
    CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;

/// The value of the attribute as words. The lower half of the first word is the flag, the second
/// word the handle. Which of these fields have names depends on the version of the header.
type Words = [u64; 8];

/// Nodes that kernels update.
impl Graph {
    /// `cuGraphKernelNodeSetAttribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)`—Makes a
    /// node device-updatable: kernels can change what it launches. Returns the handle that these
    /// kernels take.
    ///
    /// Kernels can change the arguments and the grid of the node, and enable or disable it, with
    /// `cudaGraphKernelNodeSetParam` and its siblings from the library `cudadevrt`, which the
    /// kernels are linked with. The node keeps alive what it was added with. If a change makes the
    /// node use further memory, name that memory when the node is added, with
    /// [`Using`](crate::launch::Using).
    ///
    /// This cannot be undone, and it restricts the graph:
    ///
    /// - The node cannot be removed.
    /// - The graph has at most one executable at a time, cannot be cloned and cannot be a child
    ///   graph.
    /// - Its executables cannot be updated from another graph, and other executables cannot be
    ///   updated from it.
    /// - An executable must be [uploaded](crate::GraphExec::upload) before its first launch, and
    ///   again after [`set_kernel`](crate::GraphExec::set_kernel) of the node. `set_kernel` undoes
    ///   the changes made by kernels.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] if the node is in another graph, [`Error::NodeGone`] if it was
    ///   removed.
    /// - [`Error::Unsupported`] if the driver returns no handle.
    /// - [`Error::Driver`] with `CUDA_ERROR_INVALID_VALUE` if the driver is older than CUDA 12.4,
    ///   which does not know the attribute.
    ///
    /// # Safety
    ///
    /// A kernel with the handle can make the node launch anything. As long as an executable of the
    /// graph exists:
    ///
    /// - Every launch of the node keeps the promises made when the node was added, and uses only
    ///   memory that it was added with or that the last `set_kernel` named.
    /// - A kernel changes the node only after an upload has ended and before the executable is
    ///   destroyed. The change is complete before the node begins: the node depends on that kernel,
    ///   or the launch of the graph is queued after it.
    /// - While a kernel changes the node, the host does not launch, upload or change the
    ///   executable, except for the launch that this kernel is part of.
    #[doc(alias = "CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE")]
    pub unsafe fn set_device_updatable(
        &mut self,
        node: Node<node_kind::Kernel>,
    ) -> Result<DeviceNode> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        let index = parts.index_of(node.id())?;
        if let Some(known) = parts.device_node(index) {
            return known.checked();
        }
        let raw = parts.raw_of(index);
        let words: Words = [1, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: every bit pattern must be a valid value, and the sizes must agree ← the union has
        // a field of plain bytes, as long as the array.
        let mut value = unsafe { std::mem::transmute::<Words, CUlaunchAttributeValue>(words) };
        let place_of_handle = (&raw mut value).cast_const();
        // SAFETY: the node must be a live kernel node, and the value must belong to the attribute
        // and be writable ← the type of the node says that it is a kernel node, and the graph,
        // which is locked, has it; `value` is set for this attribute and is a mutable local.
        unsafe {
            call!(
                driver,
                cuGraphKernelNodeSetAttribute(raw, UPDATABLE, place_of_handle)
            )
        }?;
        let mut handle = DeviceNode::of(value);
        if handle.0 == 0 {
            // The driver did not write the handle to the value, because the parameter is a pointer
            // to const. So the handle is queried. SAFETY: as for the call above, and the pointer
            // must be writable ← `value` is a local.
            let result = unsafe {
                call!(
                    driver,
                    cuGraphKernelNodeGetAttribute(raw, UPDATABLE, &raw mut value)
                )
            };
            if result.is_ok() {
                handle = DeviceNode::of(value);
            }
        }
        // The node is device-updatable now, even if the driver returned no handle.
        parts.device_nodes.push((index, handle.0));
        handle.checked()
    }
}

impl DeviceNode {
    fn of(value: CUlaunchAttributeValue) -> Self {
        // SAFETY: every bit pattern must be valid, and all bytes initialized ← the words are
        // integers, as long as the union, all bytes of which were set.
        let words = unsafe { std::mem::transmute::<CUlaunchAttributeValue, Words>(value) };
        Self(words[1])
    }

    fn checked(self) -> Result<Self> {
        if self.0 != 0 {
            return Ok(self);
        }
        Err(Error::Unsupported {
            what: "changing this node from kernels (the driver returned no handle for it)",
        })
    }
}

impl Parts {
    fn device_node(&self, node: NodeIndex) -> Option<DeviceNode> {
        let mut all = self.device_nodes.iter();
        all.find(|(known, _)| *known == node)
            .map(|(_, handle)| DeviceNode(*handle))
    }

    /// Returns an error if a node of these graphs is device-updatable.
    pub(super) fn without_device_nodes(all: &[Self], what: &'static str) -> Result<()> {
        if all.iter().all(|parts| parts.device_nodes.is_empty()) {
            return Ok(());
        }
        Err(Error::Unsupported { what })
    }

    /// Returns whether the node, or a node in its bodies, is device-updatable.
    pub(super) fn is_device_updatable(all: &[Self], at: usize, node: NodeIndex) -> bool {
        let own = all.get(at).and_then(|parts| parts.device_node(node));
        let mut bodies = all.iter().enumerate();
        own.is_some()
            || bodies.any(|(body, parts)| {
                let mut nodes = parts.indices();
                parts.parent == Some((at, node))
                    && nodes.any(|inner| Self::is_device_updatable(all, body, inner))
            })
    }
}

//! Kernel nodes.

use std::ptr;

use cuda_sys::{
    CUDA_KERNEL_NODE_PARAMS, CUgraphNode, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue,
};

use super::build::{Adding, Finish};
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::function::Function;
use crate::launch::{Dim3, KernelArgs, LaunchAttributes, LaunchConfig};

impl Graph {
    /// `cuGraphAddKernelNode(function, config, args)`—A node that launches a kernel.
    ///
    /// `args` is what [`Stream::launch`](crate::Stream::launch) takes; numbers are copied now. The
    /// node keeps kernel and buffers.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::launch`](crate::Stream::launch), [`Error::OtherGraph`],
    /// [`Error::Unsupported`] for managed memory, [`Error::Capturing`] for edges that are not full
    /// while the graph is captured, or what the calls answer.
    ///
    /// # Safety
    ///
    /// What [`Stream::launch`](crate::Stream::launch) asks for holds for each launch of the graph,
    /// its clones and executables: whatever was written to the buffers since, and with edges that
    /// are not full.
    #[doc(alias = "cuGraphAddKernelNode")]
    pub unsafe fn kernel<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: as the caller says.
        unsafe { self.add_kernel(after, function, &config, &[], &args) }
    }

    /// `cuGraphAddKernelNode(function, config, args)`, `cuGraphKernelNodeSetAttribute()`—The same
    /// with attributes.
    ///
    /// # Errors
    ///
    /// As [`kernel`](Self::kernel) and [`Stream::launch_with`](crate::Stream::launch_with);
    /// [`Error::Unsupported`] for attributes that are nodes or edges in a graph: events and
    /// programmatic serialization; [`Error::Capturing`] while the graph is captured, where
    /// [`CaptureScope::launch_with`](crate::CaptureScope::launch_with) takes attributes.
    ///
    /// # Safety
    ///
    /// As [`kernel`](Self::kernel).
    pub unsafe fn kernel_with<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        function.check_cluster(&config, attributes.cluster_blocks())?;
        let attributes = attributes.for_node(self.context())?;
        // SAFETY: as the caller says.
        unsafe { self.add_kernel(after, function, &config, attributes, &args) }
    }

    /// # Safety
    ///
    /// As [`kernel`](Self::kernel).
    unsafe fn add_kernel<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: &LaunchConfig,
        attributes: &[CUlaunchAttribute],
        args: &A,
    ) -> Result<Node<node_kind::Kernel>> {
        let owners = self.kernel_owners(function, config, args)?;
        let add = |it: &Adding<'_>| {
            args.with_pointers(|pointers| {
                let params = params(function, config, pointers.as_mut_ptr());
                // SAFETY: pointers and graph must be valid ← those of `it` are; the driver copies
                // the parameters.
                unsafe {
                    call!(
                        it.driver,
                        cuGraphAddKernelNode_v2(
                            it.node,
                            it.graph,
                            it.after,
                            it.count,
                            &raw const params
                        )
                    )
                }
            })
        };
        let finish = |driver: &Driver, node| {
            let mut all = attributes.iter();
            // SAFETY: the node must be a kernel's, and alive ← it was added just now, and its graph
            // is locked.
            all.try_for_each(|attribute| unsafe { set(driver, node, attribute) })
        };
        let finish = (!attributes.is_empty()).then_some(&finish as Finish<'_>);
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does,
        // and the caller says so of the kernel.
        let id = unsafe { self.add_with(NodeKind::Kernel, after, owners, None, add, finish) }?;
        Ok(Node::new(id))
    }

    /// `cuGraphKernelNodeSetAttribute()`—Changes attributes of a kernel node, for executables that
    /// are made from now on. Those that are not named stay.
    ///
    /// # Errors
    ///
    /// As [`kernel_with`](Self::kernel_with), [`Error::NodeGone`], or what the calls answer.
    /// Attributes before the one that was refused are changed.
    ///
    /// # Safety
    ///
    /// What was promised of the kernel holds with these attributes.
    #[doc(alias = "cuGraphKernelNodeSetAttribute")]
    pub unsafe fn set_kernel_attributes(
        &mut self,
        node: Node<node_kind::Kernel>,
        attributes: &LaunchAttributes<'_>,
    ) -> Result<()> {
        let attributes = attributes.for_node(self.context())?;
        let driver = self.context().driver();
        let all = self.root.lock();
        let parts = &all[self.at];
        let raw = parts.raw_of(parts.place(node.id())?);
        for attribute in attributes {
            // SAFETY: the node must be a kernel's, and alive ← by its type; the graph is locked,
            // and has it.
            unsafe { set(driver, raw, attribute) }?;
        }
        Ok(())
    }

    /// `cuGraphKernelNodeGetAttribute()`—Attributes of a kernel node.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::NodeGone`], or what the calls answer.
    #[doc(alias = "cuGraphKernelNodeGetAttribute")]
    pub fn kernel_attributes(&self, node: Node<node_kind::Kernel>) -> Result<KernelAttributes> {
        let all = self.root.lock();
        let parts = &all[self.at];
        let raw = parts.raw_of(parts.place(node.id())?);
        let get = |id: CUlaunchAttributeID| -> Result<[u32; 16]> {
            let mut value = CUlaunchAttributeValue { pad: [0; 64] };
            // SAFETY: the node must be a kernel's, and alive, the pointer writable ← by its type;
            // the graph is locked, and has it; a local.
            unsafe {
                call!(
                    self.context().driver(),
                    cuGraphKernelNodeGetAttribute(raw, id, &raw mut value)
                )
            }?;
            // SAFETY: any bytes must be a value ← they are integers, and as long as the union, all
            // of which was set above.
            Ok(unsafe { std::mem::transmute::<CUlaunchAttributeValue, [u32; 16]>(value) })
        };
        let [cooperative, ..] = get(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE)?;
        let [x, y, z, ..] = get(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)?;
        let [priority, ..] = get(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY)?;
        Ok(KernelAttributes {
            is_cooperative: cooperative != 0,
            cluster: (x > 0).then_some(Dim3 { x, y, z }),
            priority: priority.cast_signed(),
        })
    }

    fn kernel_owners(
        &self,
        function: &Function,
        config: &LaunchConfig,
        args: &impl KernelArgs,
    ) -> Result<Owners> {
        if function.context() != self.context() {
            return Err(Error::OtherContext { what: "the kernel" });
        }
        kernel_owners(self.id(), function, config, args)
    }
}

/// Attributes of a kernel node, as the driver tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Whether all blocks run at the same time.
    pub is_cooperative: bool,
    /// The blocks of a cluster, if there are clusters.
    pub cluster: Option<Dim3>,
    /// Lower is more urgent. Counts with
    /// [`USE_NODE_PRIORITY`](super::InstantiateFlags::USE_NODE_PRIORITY).
    pub priority: i32,
}

/// # Safety
///
/// The node is a kernel's, and alive; its graph is locked.
unsafe fn set(
    driver: &Driver,
    node: CUgraphNode,
    attribute: &CUlaunchAttribute,
) -> Result<(), DriverError> {
    let value = &raw const attribute.value;
    // SAFETY: as the caller says, and the value must be that of the id ← `LaunchAttributes` pairs
    // them.
    unsafe {
        call!(
            driver,
            cuGraphKernelNodeSetAttribute(node, attribute.id, value)
        )
    }
}

/// What a kernel uses, once it is known that it can be launched so.
pub(super) fn kernel_owners(
    graph: u64,
    function: &Function,
    config: &LaunchConfig,
    args: &impl KernelArgs,
) -> Result<Owners> {
    function.check_arguments(args.sizes())?;
    function.check_config(config)?;
    let mut owners = Owners::of_args(function.context(), graph, args)?;
    owners.keep(function.clone());
    Ok(owners)
}

/// A launch as the driver takes it. There must be a pointer to a value for each parameter as long
/// as it is used.
pub(super) fn params(
    function: &Function,
    config: &LaunchConfig,
    pointers: *mut *mut std::ffi::c_void,
) -> CUDA_KERNEL_NODE_PARAMS {
    let LaunchConfig {
        grid,
        block,
        shared_bytes,
    } = *config;
    CUDA_KERNEL_NODE_PARAMS {
        func: function.as_raw(),
        gridDimX: grid.x,
        gridDimY: grid.y,
        gridDimZ: grid.z,
        blockDimX: block.x,
        blockDimY: block.y,
        blockDimZ: block.z,
        sharedMemBytes: shared_bytes,
        kernelParams: pointers,
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    }
}

//! Kernel nodes.

use std::ptr;

use cuda_sys::{CUDA_KERNEL_NODE_PARAMS, CUgraphNode, CUlaunchAttribute};

use super::change::ChangeNode;
use super::kernel_attributes::KernelAttributes;
use super::params::{Adding, Changing, NO_GRAPH, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::function::Function;
use crate::launch::{KernelArgs, LaunchAttributes};
use crate::types::LaunchConfig;
use crate::types::node::{Edge, Node, node_kind};

/// Kernels.
impl Graph {
    /// `cuGraphAddKernelNode(function, config, args)`—Adds a node that launches a kernel.
    ///
    /// `args` takes the same arguments as [`Stream::launch`](crate::Stream::launch). Scalars are
    /// copied now; the node keeps the kernel and the buffers alive.
    ///
    /// # Errors
    ///
    /// - The errors of [`Stream::launch`](crate::Stream::launch).
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph, and [`Error::OtherGraph`] if an argument was allocated by another graph.
    /// - [`Error::Unsupported`] for managed memory.
    /// - [`Error::Capturing`] for edges other than full ones while the graph is being captured.
    ///
    /// # Safety
    ///
    /// The contract of [`Stream::launch`](crate::Stream::launch) holds for every launch of the
    /// graph, of its clones and of their executables. It holds whatever has been written to the
    /// buffers by then, and for every overlap that edges other than full ones allow.
    #[doc(alias = "cuGraphAddKernelNode")]
    #[doc(alias = "cudaGraphAddKernelNode")]
    pub unsafe fn add_kernel<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        // SAFETY: the contract of `add_kernel` must hold ← the caller upholds it.
        unsafe { self.add_kernel_node(after, function, config, &[], &args) }
            .map_err(|error| function.node_error(error, &config, None))
    }

    /// `cuGraphAddKernelNode(function, config, args)`, `cuGraphKernelNodeSetAttribute()`—Adds a
    /// node that launches a kernel with launch attributes.
    ///
    /// # Errors
    ///
    /// - The errors of [`add_kernel`](Self::add_kernel) and of
    ///   [`Stream::launch_with`](crate::Stream::launch_with).
    /// - [`Error::Unsupported`] for attributes that a graph expresses as nodes or edges: events and
    ///   programmatic serialization.
    /// - [`Error::Capturing`] while the graph is being captured. Use
    ///   [`CaptureScope::launch_with`](crate::graph::CaptureScope::launch_with) there.
    ///
    /// # Safety
    ///
    /// The contract of [`add_kernel`](Self::add_kernel) holds for launches with these attributes.
    pub unsafe fn add_kernel_with<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        function.check_cluster(&config, attributes.cluster_blocks())?;
        let raw = attributes.for_node(self.context())?;
        // SAFETY: the contract of `add_kernel` must hold with these attributes ← the caller upholds
        // it.
        unsafe { self.add_kernel_node(after, function, config, raw, &args) }
            .map_err(|error| function.node_error(error, &config, attributes.cluster_blocks()))
    }

    /// Adds a kernel node whose attributes were checked.
    ///
    /// # Safety
    ///
    /// The contract of [`add_kernel`](Self::add_kernel) holds for launches with these attributes.
    unsafe fn add_kernel_node<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: LaunchConfig,
        attributes: &[CUlaunchAttribute],
        args: &A,
    ) -> Result<Node<node_kind::Kernel>> {
        let owners = kernel_owners(self.context(), self.id(), function, &config, args)?;
        let mut params = KernelNode {
            function,
            config,
            attributes,
            args,
        };
        // SAFETY: the node must use only what `owners` keeps ← it does, by the caller's promise
        // about the kernel.
        unsafe { self.add(after, owners, &mut params) }
    }

    /// `cuGraphKernelNodeSetAttribute()`—Changes attributes of a kernel node, for executables that
    /// are created later. Attributes that `attributes` does not set keep their values.
    ///
    /// # Errors
    ///
    /// The errors of [`add_kernel_with`](Self::add_kernel_with), and [`Error::NodeGone`] if the
    /// node was removed. If the driver refuses one attribute, those before it have already been
    /// changed.
    ///
    /// # Safety
    ///
    /// The promises made when the node was added hold with these attributes.
    #[doc(alias = "cuGraphKernelNodeSetAttribute")]
    #[doc(alias = "cudaGraphKernelNodeSetAttribute")]
    pub unsafe fn set_kernel_attributes(
        &mut self,
        node: Node<node_kind::Kernel>,
        attributes: &LaunchAttributes<'_>,
    ) -> Result<()> {
        let raw_attributes = attributes.for_node(self.context())?;
        let driver = self.context().driver();
        let all = self.root.lock();
        let parts = &all[self.at];
        let index = parts.index_of(node.id())?;
        let raw = parts.raw_of(index);
        let mut each = raw_attributes.iter();
        // SAFETY: the node must be a live kernel node ← it is one by its type; the graph is locked
        // and has it.
        let set = each.try_for_each(|attribute| unsafe { set_attribute(driver, raw, attribute) });
        let Err(error) = set else {
            return Ok(());
        };
        let known = parts.nodes[index as usize].owners.kernel();
        drop(all);
        let cluster = attributes.cluster_blocks();
        Err(known.map_or_else(
            || error.into(),
            |(function, config)| function.node_error(error.into(), &config, cluster),
        ))
    }

    /// `cuGraphKernelNodeGetAttribute()`—Returns the attributes of a kernel node.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if the node is in another graph, [`Error::NodeGone`] if it was
    /// removed.
    #[doc(alias = "cuGraphKernelNodeGetAttribute")]
    #[doc(alias = "cudaGraphKernelNodeGetAttribute")]
    pub fn kernel_attributes(&self, node: Node<node_kind::Kernel>) -> Result<KernelAttributes> {
        let all = self.root.lock();
        let parts = &all[self.at];
        let raw = parts.raw_of(parts.index_of(node.id())?);
        // SAFETY: the node must be a live kernel node of a locked graph ← it is one by its type,
        // and the graph is locked and has it.
        unsafe { KernelAttributes::of_node(self.context().driver(), raw) }
    }
}

/// New parameters of kernels.
impl GraphExec {
    /// `cuGraphExecKernelNodeSetParams(node, function, config, args)`—Changes what a kernel node
    /// launches, from the next launch of the executable on.
    ///
    /// The executable takes the new kernel and buffers before it releases the old ones. Launches in
    /// flight keep using the old ones.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - The errors of [`Graph::add_kernel`].
    /// - [`Error::OtherGraph`] if the node was not in the graph, or in a body of one of its
    ///   conditional nodes, when the executable was made.
    /// - [`Error::OtherGraph`] if an argument is memory that a graph allocates, even this one.
    /// - [`Error::NodeGone`] if the node was [removed](Graph::remove) since.
    ///
    /// # Safety
    ///
    /// The contract of [`Graph::add_kernel`] holds. Every node with a conflicting access to the
    /// same memory depends on this node, or this node depends on it. If the node is
    /// [device-updatable](Graph::set_device_updatable), no kernel changes it during the call, and
    /// no other thread launches the executable.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub unsafe fn set_kernel<A: KernelArgs>(
        &self,
        node: Node<node_kind::Kernel>,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let owners = kernel_owners(self.context(), NO_GRAPH, function, &config, &args)?;
        let mut params = KernelNode::new(function, config, &args);
        // SAFETY: the node must use only what `owners` keeps, and must be ordered with conflicting
        // nodes ← the caller guarantees both.
        unsafe { self.set(node, owners, &mut params) }
            .map_err(|error| function.node_error(error, &config, None))
    }
}

/// Changes of kernels.
impl Graph {
    /// `cuGraphKernelNodeSetParams(node)`—Changes the kernel, the configuration and the arguments
    /// of a kernel node of this graph. Its attributes stay the same.
    ///
    /// Executables that were made from the graph do not change;
    /// [`GraphExec::update`](crate::GraphExec::update) applies the change to them, and
    /// [`GraphExec::set_kernel`](crate::GraphExec::set_kernel) changes a node of one executable.
    /// Edges are added between this node and the nodes with conflicting accesses to the memory of
    /// the new arguments; no edge is removed.
    ///
    /// # Errors
    ///
    /// The node is unchanged after an error.
    ///
    /// - The errors of [`add_kernel`](Self::add_kernel), except those about edges.
    /// - [`Error::OtherGraph`] if the node is not in this graph, or if an argument is memory that a
    ///   graph allocates, and [`Error::NodeGone`] if the node was removed.
    /// - [`Error::Capturing`] while the graph is being captured.
    /// - [`Error::Unsupported`] for a [device-updatable](Self::set_device_updatable) node.
    /// - [`Error::GraphOrderReversed`] if this node now conflicts with a node that was added
    ///   earlier but depends on it, or that was added later but on which it depends.
    ///
    /// # Safety
    ///
    /// The contract of [`add_kernel`](Self::add_kernel) holds.
    #[doc(alias = "cuGraphKernelNodeSetParams")]
    #[doc(alias = "cudaGraphKernelNodeSetParams")]
    #[doc(alias = "cudaGraphNodeSetParams")]
    pub unsafe fn set_kernel<A: KernelArgs>(
        &mut self,
        node: Node<node_kind::Kernel>,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let owners = kernel_owners(self.context(), NO_GRAPH, function, &config, &args)?;
        let mut params = KernelNode::new(function, config, &args);
        // SAFETY: the node must use only what `owners` keeps ← the caller guarantees it.
        let changed = unsafe { self.change(node, owners, &mut params) };
        changed.map_err(|error| {
            let attributes = self.kernel_attributes(node).ok();
            let cluster = attributes.and_then(|attributes| attributes.cluster);
            function.node_error(error, &config, cluster)
        })
    }
}

/// The parameters of a kernel node.
pub(super) struct KernelNode<'a, A> {
    function: &'a Function,
    config: LaunchConfig,
    /// Set when the node is added. A change of the node does not affect them.
    attributes: &'a [CUlaunchAttribute],
    args: &'a A,
}

impl<A: KernelArgs> NodeParams for KernelNode<'_, A> {
    type Kind = node_kind::Kernel;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        self.args.with_pointers(|pointers| {
            let params = self.params(pointers.as_mut_ptr());
            // SAFETY: pointers and graph must be valid ← the caller guarantees it for those of
            // `it`; the driver copies the parameters.
            unsafe { call_add!(it, cuGraphAddKernelNode_v2, &raw const params) }
        })
    }

    fn needs_finish(&self) -> bool {
        !self.attributes.is_empty()
    }

    unsafe fn finish(&self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        let mut all = self.attributes.iter();
        // SAFETY: the node must be a live kernel node, and its graph locked ← `add` has added it,
        // and the caller guarantees the latter.
        all.try_for_each(|attribute| unsafe { set_attribute(driver, node, attribute) })
    }
}

impl<A: KernelArgs> SetNodeParams for KernelNode<'_, A> {
    /// The kernel may use memory in ways that the arguments do not show, so `set_kernel` is unsafe
    /// and the program guarantees the order.
    const CHECKS_ORDER: bool = false;

    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        self.args.with_pointers(|pointers| {
            let params = self.params(pointers.as_mut_ptr());
            // SAFETY: executable, node and pointers must be valid ← the caller guarantees it for
            // those of `it`; the driver copies the parameters.
            unsafe { call_set!(it, cuGraphExecKernelNodeSetParams_v2, &raw const params) }
        })
    }
}

impl<A: KernelArgs> ChangeNode for KernelNode<'_, A> {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        self.args.with_pointers(|pointers| {
            let params = self.params(pointers.as_mut_ptr());
            // SAFETY: node and pointers must be valid ← the caller guarantees it for the node; the
            // driver copies the parameters.
            unsafe {
                call!(
                    driver,
                    cuGraphKernelNodeSetParams_v2(node, &raw const params)
                )
            }
        })
    }
}

/// The parameters of a kernel node whose kernel uses only what the arguments show.
pub(super) struct OrderedKernel<'a, A>(pub(super) KernelNode<'a, A>);

impl<A: KernelArgs> NodeParams for OrderedKernel<'_, A> {
    type Kind = node_kind::Kernel;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        // SAFETY: the contract of `add` must hold ← the caller upholds it.
        unsafe { self.0.add(it) }
    }
}

impl<A: KernelArgs> SetNodeParams for OrderedKernel<'_, A> {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        // SAFETY: the contract of `set` must hold ← the caller upholds it.
        unsafe { self.0.set(it) }
    }
}

impl<'a, A> KernelNode<'a, A> {
    /// A kernel without attributes of its own.
    pub(super) fn new(function: &'a Function, config: LaunchConfig, args: &'a A) -> Self {
        Self {
            function,
            config,
            attributes: &[],
            args,
        }
    }

    /// Returns the parameters for the driver. `pointers` must point to one pointer to a value for
    /// each kernel parameter as long as the result is in use.
    fn params(&self, pointers: *mut *mut std::ffi::c_void) -> CUDA_KERNEL_NODE_PARAMS {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = self.config;
        CUDA_KERNEL_NODE_PARAMS {
            func: self.function.as_raw(),
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
}

/// Sets an attribute of a kernel node.
///
/// # Safety
///
/// The node is a live kernel node, and its graph is locked.
unsafe fn set_attribute(
    driver: &Driver,
    node: CUgraphNode,
    attribute: &CUlaunchAttribute,
) -> Result<(), DriverError> {
    let value = &raw const attribute.value;
    // SAFETY: the node must be a live kernel node, and the value must belong to the id ← the caller
    // guarantees the former; `LaunchAttributes` pairs value and id.
    unsafe {
        call!(
            driver,
            cuGraphKernelNodeSetAttribute(node, attribute.id, value)
        )
    }
}

/// Checks that a graph of `context` can launch the kernel with this configuration and these
/// arguments, and returns what the launch uses.
pub(super) fn kernel_owners(
    context: &Context,
    graph: u64,
    function: &Function,
    config: &LaunchConfig,
    args: &impl KernelArgs,
) -> Result<Owners> {
    if function.context() != context {
        return Err(Error::other_context(
            "the kernel",
            function.context(),
            context,
        ));
    }
    function.check_arguments(args.sizes(), args.types())?;
    function.check_config(config)?;
    let mut owners = Owners::of_args(context, graph, args)?;
    owners.set_kernel(function, Some(config));
    Ok(owners)
}

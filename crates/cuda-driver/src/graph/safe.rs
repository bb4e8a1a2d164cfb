//! Kernel nodes without `unsafe`: launches that are proven to stay in their arguments, or checked.

use super::capture::CaptureScope;
use super::kernel::{KernelNode, OrderedKernel, kernel_owners};
use super::params::NO_GRAPH;
use super::{Graph, GraphExec};
use crate::error::{Error, Result};
use crate::launch::{Accepts, KernelArgs, KernelParams, LaunchAttributes};
use crate::safe::{ContractKernel, SafeKernel};
use crate::types::LaunchConfig;
use crate::types::node::{Edge, EdgeKind, Node, node_kind};

/// Safe launches.
impl Graph {
    /// `cuGraphAddKernelNode(kernel, config, args)`—Adds a node that launches a kernel as
    /// [`Stream::launch_safe`](crate::Stream::launch_safe) does.
    ///
    /// If not every access is proven, the node launches the checked copy of the kernel. Each launch
    /// of the graph then has a report of its own, which
    /// [`GraphExec::launch_reported`](crate::GraphExec::launch_reported) or the next
    /// [`Stream::synchronize`](crate::Stream::synchronize) of its stream returns.
    ///
    /// ```
    /// use cuda_driver::prelude::*;
    /// use cuda_driver::safe::SafeModule;
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
    /// // The kernel computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
    /// let mix = SafeModule::load(&context, &ptx)?.kernel("mix")?;
    /// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    /// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
    /// let config = LaunchConfig::for_num_elems(101)?;
    /// let mut graph = Graph::new(&context)?;
    /// // `n` is larger than the buffers.
    /// graph.add_kernel_safe(&[], &mix, config, (&mut x, &y, 101_u32))?;
    /// let exec = graph.instantiate()?;
    /// for expected in [7, 19] {
    ///     let violation = exec.launch_reported(&stream)?.wait().unwrap_err();
    ///     assert!(violation.to_string().contains("which has 400 bytes"));
    ///     assert_eq!(x.to_vec()?, [expected; 100]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] if the kernel can be neither proven nor checked, or if it is not
    /// proven and [`Unproven::Reject`](crate::safe::Unproven::Reject) was set,
    /// [`Error::Unsupported`] for edges other than full ones, and the errors of
    /// [`add_kernel`](Self::add_kernel).
    #[doc(alias = "cuGraphAddKernelNode")]
    #[doc(alias = "cudaGraphAddKernelNode")]
    pub fn add_kernel_safe<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        check_edges(after)?;
        let (function, args) = kernel.for_graph(&config, None, args)?;
        // SAFETY: the kernel must use only what the arguments permit, at every replay, whatever is
        // in the buffers ← `for_graph`: a proof relies on no contents of memory, checks compare
        // with the arguments, and those of the node stay the same. Edges must not allow overlaps ←
        // checked above.
        unsafe { self.add_kernel(after, &function, config, args) }
    }

    /// `cuGraphAddKernelNode(kernel, config, args)`, `cuGraphKernelNodeSetAttribute()`—Adds a node
    /// that launches a kernel with launch attributes, as
    /// [`Stream::launch_safe_with`](crate::Stream::launch_safe_with) does.
    ///
    /// # Errors
    ///
    /// Fails as [`add_kernel_safe`](Self::add_kernel_safe) and
    /// [`add_kernel_with`](Self::add_kernel_with) do, and with [`Error::SafeLaunch`] for an
    /// attribute that a safe launch cannot have.
    #[doc(alias = "cuGraphAddKernelNode")]
    #[doc(alias = "cudaGraphAddKernelNode")]
    pub fn add_kernel_safe_with<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        kernel: &SafeKernel,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        check_edges(after)?;
        let (function, args) = kernel.for_graph(&config, Some(attributes), args)?;
        // SAFETY: as in `add_kernel_safe`; `for_graph` has checked the attributes.
        unsafe { self.add_kernel_with(after, &function, config, attributes, args) }
    }

    /// `cuGraphAddKernelNode(kernel, config, args)`—Adds a node that launches a kernel with a
    /// contract, as [`ContractKernel::launch`] does. The conditions are checked once, here.
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] with the condition that does not hold, [`Error::Unsupported`] for
    /// edges other than full ones, and the errors of [`add_kernel`](Self::add_kernel).
    #[doc(alias = "cuGraphAddKernelNode")]
    #[doc(alias = "cudaGraphAddKernelNode")]
    pub fn add_kernel_with_contract<P, A>(
        &mut self,
        after: &[Edge],
        kernel: &ContractKernel<P>,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>>
    where
        P: KernelParams + Accepts<A>,
        A: KernelArgs,
    {
        check_edges(after)?;
        kernel.check(&config, &args)?;
        // SAFETY: the kernel must use only what the arguments permit, at every replay, whatever is
        // in the buffers ← the author of the contract guarantees it for captured launches that
        // fulfil the conditions, as this one does, and those of the node stay the same. Edges must
        // not allow overlaps ← checked above.
        unsafe { self.add_kernel(after, kernel.kernel().function(), config, args) }
    }

    /// `cuGraphKernelNodeSetParams(node)`—Changes the kernel, the configuration and the arguments
    /// of a kernel node, as [`set_kernel`](Self::set_kernel) does. The new launch is proven or
    /// checked as that of a new node.
    ///
    /// # Errors
    ///
    /// The errors of [`add_kernel_safe`](Self::add_kernel_safe) and of
    /// [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphKernelNodeSetParams")]
    #[doc(alias = "cudaGraphKernelNodeSetParams")]
    pub fn set_kernel_safe<A: KernelArgs>(
        &mut self,
        node: Node<node_kind::Kernel>,
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let (function, args) = kernel.for_graph(&config, None, args)?;
        // SAFETY: as in `add_kernel_safe`. Between this node and each node with a conflicting
        // access that is not done before it, or after which it is not done, a full edge is added.
        unsafe { self.set_kernel(node, &function, config, args) }
    }
}

/// Fails unless the edges wait until the earlier nodes have ended.
fn check_edges(after: &[Edge]) -> Result<()> {
    match after.iter().all(|edge| edge.kind == EdgeKind::Full) {
        true => Ok(()),
        false => Err(Error::Unsupported {
            what: "a programmatic or launch-order edge to a safe launch; use `Node::edge`, or the \
                   unsafe `add_kernel`",
        }),
    }
}

/// Safe launches.
impl GraphExec {
    /// `cuGraphExecKernelNodeSetParams(node, kernel, config, args)`—Changes what a kernel node
    /// launches, from the next launch of the executable on, as [`set_kernel`](Self::set_kernel)
    /// does. The new launch is proven or checked as that of a new node.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - The errors of [`Graph::add_kernel_safe`] and of [`set_kernel`](Self::set_kernel).
    /// - [`Error::GraphOrder`] if a node that is not ordered with this one uses the same memory,
    ///   and one of them writes.
    /// - [`Error::Unsupported`] for a [device-updatable](Graph::set_device_updatable) node.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    #[doc(alias = "cudaGraphExecKernelNodeSetParams")]
    pub fn set_kernel_safe<A: KernelArgs>(
        &self,
        node: Node<node_kind::Kernel>,
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let (function, args) = kernel.for_graph(&config, None, args)?;
        let owners = kernel_owners(self.context(), NO_GRAPH, &function, &config, &args)?;
        let mut params = OrderedKernel(KernelNode::new(&function, config, &args));
        // SAFETY: the node must use only what `owners` keeps ← `for_graph`, as in
        // `add_kernel_safe`. Conflicting nodes must be ordered ← `OrderedKernel` has the order
        // checked.
        unsafe { self.set(node, owners, &mut params) }
            .map_err(|error| function.node_error(error, &config, None))
    }
}

/// Safe launches.
impl CaptureScope<'_> {
    /// `cuLaunchKernel(kernel, config, args)`—Captures a launch as
    /// [`Graph::add_kernel_safe`] adds one.
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] if the kernel can be neither proven nor checked, or if it is not
    /// proven and [`Unproven::Reject`](crate::safe::Unproven::Reject) was set, and the errors of
    /// [`launch`](Self::launch).
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch_safe<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        let (function, args) = kernel.for_graph(&config, None, args)?;
        // SAFETY: as in `add_kernel_safe`. A capture adds full edges only.
        unsafe { self.launch(&function, config, args) }
    }

    /// `cuLaunchKernelEx(kernel, config, attributes, args)`—Captures a launch with launch
    /// attributes as [`Graph::add_kernel_safe_with`] adds one.
    ///
    /// # Errors
    ///
    /// Fails as [`launch_safe`](Self::launch_safe) and [`launch_with`](Self::launch_with) do, and
    /// with [`Error::SafeLaunch`] for an attribute that a safe launch cannot have.
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelExC")]
    pub fn launch_safe_with<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        let (function, args) = kernel.for_graph(&config, Some(attributes), args)?;
        // SAFETY: as above; `for_graph` has checked the attributes.
        unsafe { self.launch_with(&function, config, attributes, args) }
    }
}

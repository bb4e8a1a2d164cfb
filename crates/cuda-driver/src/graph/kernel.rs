//! Kernel nodes.

use std::ptr;

use cuda_sys::CUDA_KERNEL_NODE_PARAMS;

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::launch::{KernelArgs, LaunchConfig};

impl Graph {
    /// `cuGraphAddKernelNode(function, config, args)`—A node that launches a kernel.
    ///
    /// `args` is what [`Stream::launch`](crate::Stream::launch) takes; numbers are copied now. The node keeps kernel and
    /// buffers.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::launch`](crate::Stream::launch), [`Error::OtherGraph`], [`Error::Unsupported`] for
    /// managed memory, or what the calls answer.
    ///
    /// # Safety
    ///
    /// What [`Stream::launch`](crate::Stream::launch) asks for holds for each launch of the graph, its clones and
    /// executables: whatever was written to the buffers since, and with edges that are not full.
    #[doc(alias = "cuGraphAddKernelNode")]
    pub unsafe fn kernel<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        let owners = self.kernel_owners(function, &config, &args)?;
        let add = |it: &Adding<'_>| {
            args.with_pointers(|pointers| {
                let params = params(function, &config, pointers.as_mut_ptr());
                // SAFETY: pointers and graph must be valid ← those of `it` are; the driver copies the parameters.
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
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does, and the caller says
        // so of the kernel.
        let id = unsafe { self.add(NodeKind::Kernel, after, owners, add) }?;
        Ok(Node::new(id))
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

/// A launch as the driver takes it. There must be a pointer to a value for each parameter as long as it is used.
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

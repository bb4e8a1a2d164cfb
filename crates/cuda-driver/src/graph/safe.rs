//! Kernel nodes without `unsafe`: launches that are proven to stay in their arguments.

use super::Graph;
use super::capture::CaptureScope;
use crate::error::{Error, Result};
use crate::launch::KernelArgs;
use crate::safe::SafeKernel;
use crate::types::LaunchConfig;
use crate::types::node::{Edge, EdgeKind, Node, node_kind};

/// Safe launches.
impl Graph {
    /// `cuGraphAddKernelNode(kernel, config, args)`—Adds a node that launches a kernel, which is
    /// proven to stay in its arguments.
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] if not every access is proven, [`Error::Unsupported`] for edges other
    /// than full ones, and the errors of [`add_kernel`](Self::add_kernel).
    #[doc(alias = "cuGraphAddKernelNode")]
    #[doc(alias = "cudaGraphAddKernelNode")]
    pub fn add_kernel_safe<A: KernelArgs>(
        &mut self,
        after: &[Edge],
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        if after.iter().any(|edge| edge.kind != EdgeKind::Full) {
            return Err(Error::Unsupported {
                what: "a programmatic or launch-order edge to a safe launch",
            });
        }
        let function = kernel.proven(&config, &args)?;
        // SAFETY: the kernel must use only what the arguments permit, at every replay, whatever is
        // in the buffers ← `proven`: the proof relies on no contents of memory, and the arguments
        // of the node stay the same. Edges must not allow overlaps ← checked above.
        unsafe { self.add_kernel(after, function, config, args) }
    }
}

/// Safe launches.
impl CaptureScope<'_> {
    /// `cuLaunchKernel(kernel, config, args)`—Captures a launch that is proven to stay in its
    /// arguments.
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] if not every access is proven, and the errors of
    /// [`launch`](Self::launch).
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch_safe<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node<node_kind::Kernel>> {
        let function = kernel.proven(&config, &args)?;
        // SAFETY: as in `add_kernel_safe`. A capture adds full edges only.
        unsafe { self.launch(function, config, args) }
    }
}

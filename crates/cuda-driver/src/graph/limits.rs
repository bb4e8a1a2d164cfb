//! The kernel nodes whose number of blocks the driver refuses when it instantiates a graph.

use cuda_sys::{CUgraphNode, CUresult};

use super::kernel_attributes::KernelAttributes;
use super::parts::Parts;
use crate::driver::Driver;
use crate::error::{DriverError, Error};
use crate::function::Function;
use crate::types::node::NodeKind;
use crate::types::{Dim3, LaunchConfig};

/// What a kernel node launches.
pub(super) struct Refused {
    function: Function,
    config: LaunchConfig,
    cluster: Option<Dim3>,
}

impl Refused {
    /// Returns what the node `raw` launches, or what all kernel nodes of `all` launch if it is null,
    /// if `error` can be about the number of their blocks. `all` must be locked.
    #[cold]
    pub(super) fn list(
        driver: &Driver,
        all: &[Parts],
        raw: CUgraphNode,
        error: DriverError,
    ) -> Vec<Self> {
        let is_cooperative = match error.status() {
            CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE => true,
            CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE => false,
            _ => return Vec::new(),
        };
        let nodes = all.iter().flat_map(|parts| &parts.nodes);
        let wanted = nodes.filter(|node| raw.is_null() || node.raw.0 == raw);
        let kernels = wanted.filter(|node| node.kind == NodeKind::Kernel && !node.raw.0.is_null());
        let known = kernels.filter_map(|node| {
            let (function, config) = node.owners.kernel()?;
            // SAFETY: the node must be a live kernel node of a locked graph ← it is one by its
            // kind; the caller has locked the graph, which has it.
            let attributes = unsafe { KernelAttributes::of_node(driver, node.raw.0) }.ok()?;
            (attributes.is_cooperative || !is_cooperative).then(|| Self {
                function,
                config,
                cluster: attributes.cluster,
            })
        });
        known.collect()
    }

    /// Returns the error with the numbers of the first kernel with too many blocks, if that is why
    /// the driver has refused the graph. No lock of a graph may be held.
    #[cold]
    pub(super) fn limit(kernels: Vec<Self>, error: DriverError) -> Option<Error> {
        kernels.into_iter().find_map(|kernel| {
            let cause = Error::Driver(error);
            let found = kernel
                .function
                .node_error(cause, &kernel.config, kernel.cluster);
            (!matches!(found, Error::Driver(_))).then_some(found)
        })
    }
}

//! Cluster occupancy: the largest cluster size and the number of clusters that are resident at
//! once.

use std::ffi::c_int;
use std::sync::Arc;

use cuda_sys::{CUfunc_st, CUlaunchConfig};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::objects::context::Context;
use crate::driver::objects::function::Function;
use crate::driver::objects::launch::attributes_of;
use crate::driver::objects::occupancy::blocks_per_sm;
use crate::driver::status::{INVALID_CLUSTER_SIZE, INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::vm::product;

exports! {
    cuOccupancyMaxActiveClusters => occupancy_active_clusters;
    cuOccupancyMaxPotentialClusterSize => occupancy_cluster_size;
}

/// Returns how many blocks of a launch with clusters are resident in a context at once. All
/// multiprocessors count as one group.
fn resident(function: &Function, config: &CUlaunchConfig, context: &Context) -> Status<u64> {
    let device = &function.module.context.device;
    if device.capability.0 < 9 {
        return Err(NOT_SUPPORTED);
    }
    let block = [config.blockDimX, config.blockDimY, config.blockDimZ];
    let threads = product(block);
    let threads = u32::try_from(threads).map_err(|_| INVALID_VALUE)?;
    if threads == 0 {
        return Err(INVALID_VALUE);
    }
    let each = blocks_per_sm(function, threads, config.sharedMemBytes as usize)?.reported;
    Ok(u64::from(each) * u64::from(context.sms().len()))
}

impl Call {
    /// Returns the current context if kernels of `function` can run in it, and otherwise that of
    /// the function.
    fn context_of(&self, function: &Function) -> Arc<Context> {
        let own = &function.module.context;
        let current = self.current().ok();
        let current = current.filter(|context| context.home_handle() == own.handle);
        current.unwrap_or_else(|| Arc::clone(own))
    }

    fn occupancy_active_clusters(
        &self,
        clusters: Out<c_int>,
        function: Out<CUfunc_st>,
        config: In<CUlaunchConfig>,
    ) -> Status {
        clusters.required()?;
        let config = config.get()?;
        let function = self.function(function.handle())?;
        let resident = resident(&function, &config, &self.context_of(&function))?;
        let kernel = function.kernel()?;
        let cluster = attributes_of(&config, self.config.version)?
            .cluster
            .or(kernel.cluster);
        let cluster = cluster.unwrap_or([1; 3]);
        let size = product(cluster);
        let most = function.on_device()?.max_cluster();
        if size == 0 || size > most || !kernel.takes_cluster(cluster) {
            return Err(INVALID_CLUSTER_SIZE);
        }
        clusters.set((resident / size) as c_int)
    }

    fn occupancy_cluster_size(
        &self,
        size: Out<c_int>,
        function: Out<CUfunc_st>,
        config: In<CUlaunchConfig>,
    ) -> Status {
        size.required()?;
        let config = config.get()?;
        let function = self.function(function.handle())?;
        let most = resident(&function, &config, &self.context_of(&function))?
            .min(function.on_device()?.max_cluster());
        let allowed = function.kernel()?.max_cluster.map_or(most, u64::from);
        size.set(most.min(allowed) as c_int)
    }
}

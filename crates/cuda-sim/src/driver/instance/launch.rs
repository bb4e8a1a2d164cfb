//! Queueing kernel launches.

use std::cell::RefCell;
use std::sync::Arc;

use cuda_sys::LaunchUse;

use crate::driver::instance::Instance;
use crate::driver::objects::context::Context;
use crate::driver::objects::function::Function;
use crate::driver::objects::launch::{Job, Reachable, Shape};
use crate::driver::objects::occupancy::blocks_per_sm;
use crate::vm::product;

thread_local! {
    /// The memory of the next launch of this thread.
    static STATED: RefCell<Vec<LaunchUse>> = const { RefCell::new(Vec::new()) };
}

/// Stores what a program states about the memory of the next launch of this thread.
pub(crate) fn state_uses(uses: &[LaunchUse]) {
    // The thread-local storage is gone while the thread ends. In that case the launch is not
    // checked.
    let _ = STATED.try_with(|stated| stated.replace(uses.to_vec()));
}

/// Returns and removes the statements about the next launch of this thread.
pub(in crate::driver) fn take_stated_uses() -> Vec<LaunchUse> {
    STATED.try_with(RefCell::take).unwrap_or_default()
}

/// Returns the multiprocessors of a green context, and the number of clusters of a launch that fit
/// on them at once.
fn partition(function: &Function, shape: Shape, context: &Context) -> Option<(Vec<u32>, u64)> {
    context.green.as_ref()?;
    let threads = u32::try_from(product(shape.block)).ok()?;
    let fit = blocks_per_sm(function, threads, shape.shared as usize).ok()?;
    let cluster = shape.cluster.or(function.kernel().ok()?.cluster);
    let sms: Vec<u32> = context.sms().ids().collect();
    let blocks = u64::from(fit.certain) * sms.len() as u64;
    let clusters = blocks / product(cluster.unwrap_or([1; 3])).max(1);
    Some((sms, clusters.max(1)))
}

impl Instance {
    /// Creates a job that runs the launch in the context `run_in`, which shares the memory of the
    /// function's context.
    pub(in crate::driver) fn job(
        &self,
        function: &Function,
        shape: Shape,
        params: Vec<u8>,
        run_in: &Context,
    ) -> Job {
        let context = &function.module.context;
        Job {
            image: Arc::clone(&function.module.image),
            kernel: function.index,
            shape,
            params,
            stack: context.stack_bytes(),
            reachable: self.reachable(context),
            print: Box::new(self.printer()),
            limit: self.config.instruction_limit,
            host_threads: self.config.host_threads,
            device: Arc::clone(&context.device),
            partition: partition(function, shape, run_in),
            heap: (Arc::clone(&context.heap), context.heap_bytes()),
            conditionals: self.graphs.conditionals(),
            textures: Arc::clone(&self.textures),
            surfaces: Arc::clone(&self.surfaces),
            checks: self.config.checks,
            uses: Vec::new(),
        }
    }

    /// Returns the memory of other devices that kernels in this context may access.
    fn reachable(&self, context: &Context) -> Reachable {
        let (peers, own) = (context.peers(), context.device.ordinal);
        let others = self.devices.iter().filter_map(|device| {
            let is_peer = peers.contains(&device.ordinal);
            let is_shared = device.ordinal != own && (is_peer || device.shares_pools_with(own));
            is_shared.then(|| (Arc::clone(device), is_peer))
        });
        Reachable {
            others: others.collect(),
        }
    }
}

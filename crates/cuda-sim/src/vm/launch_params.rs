//! The parameters of a launch.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cuda_sys::LaunchUse;

use super::check::Checks;
use super::texture::{Elements, Texture};
use crate::memory::MemoryMap;
use crate::report::Report;

/// The parameters of a launch.
pub struct LaunchParams<'a> {
    /// Blocks in the grid.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
    /// The blocks in a cluster, if the launch specifies them;
    /// [`Kernel::cluster`](super::Kernel::cluster) may specify them instead.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Whether this is a cooperative launch: all blocks are resident at once and may wait for each
    /// other.
    pub cooperative: bool,
    /// The parameter buffer: each parameter at the offset that
    /// [`Kernel::params`](super::Kernel::params) lists.
    pub params: &'a [u8],
    /// The memory that the kernel may access.
    pub map: &'a Arc<MemoryMap>,
    /// Returns a newer map; called for an address that `map` does not contain.
    pub newer: &'a (dyn Fn() -> Option<Arc<MemoryMap>> + Sync),
    /// Receives the output of `printf`, one call per `printf`.
    pub output: &'a (dyn Fn(&[u8]) + Sync),
    /// The number of host threads that may work at once; 0 means as many as the pool has.
    pub threads: usize,
    /// The size of each thread's stack in bytes.
    pub stack_limit: u32,
    /// The number of warp instructions of one cluster after which the launch fails with a timeout.
    /// Without clusters, each block is a cluster.
    pub instruction_limit: Option<u64>,
    /// The launch fails with a timeout soon after this becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// The value of `%nsmid`.
    pub multiprocessors: u32,
    /// The numbers of the multiprocessors that run the blocks, which are the values of `%smid`. If
    /// the list is empty, all multiprocessors run blocks.
    pub sms: &'a [u32],
    /// The number of clusters that may be resident at once; `None` for no limit. A cluster that has
    /// not started when this number is reached starts when another one has ended.
    pub resident_clusters: Option<u64>,
    /// Allocates memory of this size in the device heap; `None` if it does not fit.
    pub malloc: &'a (dyn Fn(u64) -> Option<u64> + Sync),
    /// Frees a block of the device heap; returns whether one starts at the address.
    pub free: &'a (dyn Fn(u64) -> bool + Sync),
    /// Sets the value of the conditional node with this handle; returns whether the node exists.
    pub set_conditional: &'a (dyn Fn(u64, u32) -> bool + Sync),
    /// Returns the live texture of a handle.
    pub textures: &'a (dyn Fn(u64) -> Option<Arc<Texture>> + Sync),
    /// Returns the elements of the live surface of a handle.
    pub surfaces: &'a (dyn Fn(u64) -> Option<Arc<Elements>> + Sync),
    /// The enabled checks. Checks of accesses work only in code that was loaded for them.
    pub checks: Checks,
    /// The memory of the arguments, as the program states it.
    pub uses: &'a [LaunchUse],
    /// Receives the findings when the launch is over.
    pub report: &'a (dyn Fn(Report) + Sync),
}

impl<'a> LaunchParams<'a> {
    /// A launch of `grid` × `block` threads with defaults for all other parameters.
    pub fn new(grid: [u32; 3], block: [u32; 3], params: &'a [u8], map: &'a Arc<MemoryMap>) -> Self {
        Self {
            grid,
            block,
            cluster: None,
            dynamic_shared: 0,
            cooperative: false,
            params,
            map,
            newer: &|| None,
            output: &|_| {},
            threads: 0,
            stack_limit: 16 << 10,
            instruction_limit: None,
            cancel: None,
            multiprocessors: 16,
            sms: &[],
            resident_clusters: None,
            malloc: &|_| None,
            free: &|_| false,
            set_conditional: &|_, _| false,
            textures: &|_| None,
            surfaces: &|_| None,
            checks: Checks::default(),
            uses: &[],
            report: &|_| {},
        }
    }
}

impl fmt::Debug for LaunchParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchParams")
            .field("grid", &self.grid)
            .field("block", &self.block)
            .field("dynamic_shared", &self.dynamic_shared)
            .field("cooperative", &self.cooperative)
            .finish_non_exhaustive()
    }
}

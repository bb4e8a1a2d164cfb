//! Running a grid.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::fault::{Fault, FaultKind};
use super::image::Image;
use crate::memory::MemoryMap;

/// How a kernel is to run.
pub struct LaunchParams<'a> {
    /// Blocks in the grid.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// All blocks are resident at once and may wait for each other.
    pub cooperative: bool,
    /// The parameter buffer: each parameter at the offset that [`Kernel::params`](super::Kernel::params) says.
    pub params: &'a [u8],
    /// The memory that the kernel may touch.
    pub map: &'a Arc<MemoryMap>,
    /// Takes what `printf` writes, one call per `printf`.
    pub output: &'a (dyn Fn(&[u8]) + Sync),
    /// Threads of the host that may work at once, 0 for as many as the pool has.
    pub threads: usize,
    /// Bytes of stack per thread.
    pub stack_limit: u32,
    /// The launch fails with a timeout after so many instructions of a warp.
    pub instruction_limit: Option<u64>,
    /// The launch fails with a timeout soon after this becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// What `%nsmid` says.
    pub multiprocessors: u32,
}

impl<'a> LaunchParams<'a> {
    /// A launch of `grid` × `block` threads with all else at its default.
    pub fn new(grid: [u32; 3], block: [u32; 3], params: &'a [u8], map: &'a Arc<MemoryMap>) -> Self {
        Self {
            grid,
            block,
            dynamic_shared: 0,
            cooperative: false,
            params,
            map,
            output: &|_| {},
            threads: 0,
            stack_limit: 16 << 10,
            instruction_limit: None,
            cancel: None,
            multiprocessors: 16,
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

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchStats {
    /// Instructions, each counted once for a warp.
    pub warp_instructions: u64,
    /// Instructions, each counted once for every lane that took part.
    pub lane_instructions: u64,
}

/// Runs kernel number `kernel` of `image` to its end.
///
/// # Errors
///
/// The first [`Fault`] of any thread. Other blocks stop soon after it; what they wrote stays written.
pub fn launch(
    image: &Image,
    kernel: usize,
    _params: &LaunchParams<'_>,
) -> Result<LaunchStats, Fault> {
    let name = image.program().kernels().get(kernel);
    let name = name.map_or("?", |kernel| kernel.name.as_str());
    Err(Fault::before_start(
        FaultKind::InvalidValue,
        name,
        String::from("the interpreter is not implemented yet"),
    ))
}

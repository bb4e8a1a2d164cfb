//! How much of the device a kernel can keep busy.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use cuda_sys::CUlaunchConfig;

use super::Function;
use crate::driver::call;
use crate::error::Result;
use crate::launch::{LaunchAttributes, LaunchConfig};
use crate::stream::Stream;

/// What [`Function::max_potential_block_size`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// The blocks that fill the device.
    pub min_grid: u32,
    /// Threads in each.
    pub block: u32,
}

impl Function {
    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor()`—How many blocks of `threads` threads, each
    /// with `shared_bytes` of dynamic shared memory, run on one multiprocessor at a time.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for a block that the kernel cannot have.
    #[doc(alias = "cuOccupancyMaxActiveBlocksPerMultiprocessor")]
    pub fn max_active_blocks(&self, threads: u32, shared_bytes: usize) -> Result<u32> {
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let _current = self.context().enter()?;
        // SAFETY: the pointer must be writable and the function alive ← a local, and `self` keeps
        // its module.
        unsafe {
            call!(
                self.driver(),
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut blocks,
                    self.as_raw(),
                    threads,
                    shared_bytes
                )
            )
        }?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// `cuOccupancyMaxPotentialBlockSize()`—The threads of a block that keep most of the device
    /// busy.
    ///
    /// `shared_bytes` answers how much dynamic shared memory a block of so many threads has;
    /// `most_threads` is the most that a block may have, 0 for as many as the kernel can.
    ///
    /// # Errors
    ///
    /// What the call answers.
    ///
    /// # Panics
    ///
    /// If `shared_bytes` does.
    #[doc(alias = "cuOccupancyMaxPotentialBlockSize")]
    pub fn max_potential_block_size(
        &self,
        shared_bytes: impl Fn(u32) -> usize,
        most_threads: u32,
    ) -> Result<BlockSize> {
        let ask = AskShared {
            shared_bytes: &shared_bytes,
            panic: Cell::new(None),
        };
        let (mut grid, mut block) = (0, 0);
        let most_threads = c_int::try_from(most_threads).unwrap_or(c_int::MAX);
        let current = self.context().enter()?;
        let before = ASKED.replace(ptr::from_ref(&ask).cast());
        // SAFETY: the pointers must be writable and the function alive ← locals, and `self` keeps
        // its module. The driver asks only during the call, on this thread, where `ASKED` points to
        // `ask`.
        let result = unsafe {
            call!(
                self.driver(),
                cuOccupancyMaxPotentialBlockSize(
                    &raw mut grid,
                    &raw mut block,
                    self.as_raw(),
                    Some(ask_shared),
                    0,
                    most_threads
                )
            )
        };
        ASKED.set(before);
        drop(current);
        if let Some(panic) = ask.panic.take() {
            std::panic::resume_unwind(panic);
        }
        result?;
        Ok(BlockSize {
            min_grid: u32::try_from(grid).unwrap_or(0),
            block: u32::try_from(block).unwrap_or(0),
        })
    }

    /// A launch with a thread for each of `n` elements, in blocks that keep most of the device
    /// busy.
    ///
    /// # Errors
    ///
    /// As [`max_potential_block_size`](Self::max_potential_block_size).
    pub fn config_for_num_elems(&self, n: u32) -> Result<LaunchConfig> {
        let BlockSize { block, .. } = self.max_potential_block_size(|_| 0, 0)?;
        let block = block.max(1);
        Ok(LaunchConfig::new(n.div_ceil(block).max(1), block))
    }

    /// `cuOccupancyAvailableDynamicSMemPerBlock()`—The dynamic shared memory that each block can
    /// have, so that `blocks` of `threads` threads run on one multiprocessor at a time, in bytes.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuOccupancyAvailableDynamicSMemPerBlock")]
    pub fn available_shared_bytes(&self, blocks: u32, threads: u32) -> Result<usize> {
        let mut bytes = 0;
        let blocks = c_int::try_from(blocks).unwrap_or(c_int::MAX);
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let _current = self.context().enter()?;
        // SAFETY: the pointer must be writable and the function alive ← a local, and `self` keeps
        // its module.
        unsafe {
            call!(
                self.driver(),
                cuOccupancyAvailableDynamicSMemPerBlock(
                    &raw mut bytes,
                    self.as_raw(),
                    blocks,
                    threads
                )
            )
        }?;
        Ok(bytes)
    }

    /// `cuOccupancyMaxPotentialClusterSize()`—The most blocks of a cluster in such a launch on
    /// `stream`.
    ///
    /// # Errors
    ///
    /// What the call answers; `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_SUPPORTED` where there
    /// are no clusters.
    #[doc(alias = "cuOccupancyMaxPotentialClusterSize")]
    pub fn max_cluster_size(&self, stream: &Stream, config: LaunchConfig) -> Result<u32> {
        let mut blocks = 0;
        self.with_config(stream, config, &LaunchAttributes::new(), |config| {
            // SAFETY: the pointers must be valid and the function alive ← locals, and `self` keeps
            // its module.
            unsafe {
                call!(
                    self.driver(),
                    cuOccupancyMaxPotentialClusterSize(&raw mut blocks, self.as_raw(), config)
                )
            }
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// `cuOccupancyMaxActiveClusters()`—How many clusters of such a launch run on the device at a
    /// time.
    ///
    /// # Errors
    ///
    /// What the call answers; `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_SUPPORTED` where there
    /// are no clusters.
    #[doc(alias = "cuOccupancyMaxActiveClusters")]
    pub fn max_active_clusters(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
    ) -> Result<u32> {
        let mut clusters = 0;
        self.with_config(stream, config, attributes, |config| {
            // SAFETY: the pointers must be valid and the function alive ← locals, and `self` keeps
            // its module.
            unsafe {
                call!(
                    self.driver(),
                    cuOccupancyMaxActiveClusters(&raw mut clusters, self.as_raw(), config)
                )
            }
        })?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    fn with_config(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        ask: impl FnOnce(*const CUlaunchConfig) -> Result<(), crate::DriverError>,
    ) -> Result<()> {
        stream.expect_context(self.context(), "the kernel")?;
        self.check_config(&config)?;
        let attributes = attributes.for_launch(self.context())?;
        let _current = self.context().enter()?;
        let config = config.raw(stream, attributes);
        Ok(ask(&raw const config)?)
    }
}

/// A question that the driver has while it looks for a block size.
struct AskShared<'a> {
    shared_bytes: &'a dyn Fn(u32) -> usize,
    panic: Cell<Option<Box<dyn std::any::Any + Send>>>,
}

thread_local! {
    /// The question of the call that runs on this thread: the driver hands nothing of ours to its
    /// callback.
    static ASKED: Cell<*const AskShared<'static>> = const { Cell::new(ptr::null()) };
}

unsafe extern "C" fn ask_shared(threads: c_int) -> usize {
    // SAFETY: it must point to a question that is alive ← the driver asks only during the call that
    // set it, on the same thread.
    let Some(ask) = (unsafe { ASKED.get().as_ref() }) else {
        return 0;
    };
    // One panic is enough: dropping the first for another could panic here, under C.
    if let Some(panic) = ask.panic.take() {
        ask.panic.set(Some(panic));
        return 0;
    }
    let threads = u32::try_from(threads).unwrap_or(0);
    match catch_unwind(AssertUnwindSafe(|| (ask.shared_bytes)(threads))) {
        Ok(bytes) => bytes,
        Err(panic) => {
            ask.panic.set(Some(panic));
            0
        }
    }
}

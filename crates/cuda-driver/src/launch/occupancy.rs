//! Occupancy: how many blocks of a kernel the device can run at a time (`cuOccupancy*`).

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use cuda_sys::CUlaunchConfig;

use super::LaunchAttributes;
use crate::driver::call;
use crate::error::Result;
use crate::function::Function;
use crate::observer::KernelResources;
use crate::stream::Stream;
use crate::types::LaunchConfig;

/// The number of threads in a warp.
const WARP: u32 = 32;

/// The result of [`Function::max_potential_block_size`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// The minimum number of blocks that fills the device.
    pub min_grid: u32,
    /// The number of threads in a block.
    pub block: u32,
}

/// Occupancy: how many blocks and clusters run at the same time.
impl Function {
    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor()`—Returns how many blocks of `threads`
    /// threads, each with `shared_bytes` of dynamic shared memory, one multiprocessor can run at a
    /// time.
    ///
    /// Raises the kernel's limit of dynamic shared memory to `shared_bytes` if the device allows
    /// that much, as a launch does. Otherwise no block can run, and the result is 0.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the kernel cannot be launched with such blocks.
    #[doc(alias = "cuOccupancyMaxActiveBlocksPerMultiprocessor")]
    #[doc(alias = "cudaOccupancyMaxActiveBlocksPerMultiprocessor")]
    pub fn max_active_blocks(&self, threads: u32, shared_bytes: usize) -> Result<u32> {
        // The driver looks at the lower 32 bits of the size only.
        if u32::try_from(shared_bytes).is_err() {
            return Ok(0);
        }
        self.allow_shared_for([shared_bytes])?;
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let _current = self.context().enter()?;
        // SAFETY: the pointer must be writable and the function alive ← `blocks` is a local, and
        // `self` keeps the module loaded.
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

    /// `cuOccupancyMaxPotentialBlockSize()`—Returns the block size that gives the highest
    /// occupancy.
    ///
    /// `shared_bytes` returns the dynamic shared memory, in bytes, of a block with the given number
    /// of threads. `most_threads` limits the block size; 0 means no limit beyond that of the
    /// kernel.
    ///
    /// Raises the kernel's limit of dynamic shared memory to the largest amount that a block needs,
    /// as a launch does. Block sizes that need more than the device allows are not considered.
    ///
    /// `shared_bytes` is called several times for each block size. It must not use the device: the
    /// driver can call it while it holds its own locks. Driver 580 never returns if the callback
    /// copies memory.
    ///
    /// # Panics
    ///
    /// Panics if `shared_bytes` panics.
    #[doc(alias = "cuOccupancyMaxPotentialBlockSize")]
    #[doc(alias = "cudaOccupancyMaxPotentialBlockSize")]
    pub fn max_potential_block_size(
        &self,
        shared_bytes: impl Fn(u32) -> usize,
        most_threads: u32,
    ) -> Result<BlockSize> {
        let most = match most_threads {
            0 => self.max_threads_per_block(),
            threads => threads.min(self.max_threads_per_block()),
        };
        // The driver tries every multiple of the warp size, and the limit itself.
        let sizes = (WARP..most).step_by(WARP as usize).chain([most]);
        self.allow_shared_for(sizes.map(&shared_bytes))?;
        let ask = AskShared {
            shared_bytes: &shared_bytes,
            panic: Cell::new(None),
        };
        let (mut grid, mut block) = (0, 0);
        let most_threads = c_int::try_from(most_threads).unwrap_or(c_int::MAX);
        let current = self.context().enter()?;
        let before = ASKED.replace(ptr::from_ref(&ask).cast());
        // SAFETY: the pointers must be writable and the function alive ← they point to locals, and
        // `self` keeps the module loaded. The driver uses the callback only during the call and on
        // this thread, where `ASKED` points to `ask`.
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

    /// Returns a configuration with at least one thread for each of `n` elements, and the block
    /// size of [`max_potential_block_size`](Self::max_potential_block_size).
    ///
    /// # Errors
    ///
    /// Fails as [`max_potential_block_size`](Self::max_potential_block_size) and
    /// [`LaunchConfig::for_num_elems`] do.
    pub fn config_for_num_elems(&self, n: impl TryInto<i128>) -> Result<LaunchConfig> {
        let BlockSize { block, .. } = self.max_potential_block_size(|_| 0, 0)?;
        LaunchConfig::for_num_elems_with(n, block.max(1))
    }

    /// `cuOccupancyAvailableDynamicSMemPerBlock()`—Returns the dynamic shared memory, in bytes,
    /// that each block can use while `blocks` blocks of `threads` threads run on one multiprocessor
    /// at a time.
    ///
    /// The result does not exceed the kernel's limit of dynamic shared memory, which is 48 KiB
    /// less its static shared memory until
    /// [`allow_shared_bytes`](Self::allow_shared_bytes) or a launch raises it.
    #[doc(alias = "cuOccupancyAvailableDynamicSMemPerBlock")]
    #[doc(alias = "cudaOccupancyAvailableDynamicSMemPerBlock")]
    pub fn available_shared_bytes(&self, blocks: u32, threads: u32) -> Result<usize> {
        let mut bytes = 0;
        let blocks = c_int::try_from(blocks).unwrap_or(c_int::MAX);
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let _current = self.context().enter()?;
        // SAFETY: the pointer must be writable and the function alive ← `bytes` is a local, and
        // `self` keeps the module loaded.
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

    /// `cuOccupancyMaxPotentialClusterSize()`—Returns the maximum number of blocks in a cluster,
    /// for a launch with this configuration on `stream`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_SUPPORTED` if the device has no clusters.
    #[doc(alias = "cuOccupancyMaxPotentialClusterSize")]
    #[doc(alias = "cudaOccupancyMaxPotentialClusterSize")]
    pub fn max_cluster_size(&self, stream: &Stream, config: LaunchConfig) -> Result<u32> {
        let mut blocks = 0;
        self.with_config(stream, config, &LaunchAttributes::new(), |config| {
            // SAFETY: the pointers must be valid and the function alive ← they point to locals, and
            // `self` keeps the module loaded.
            unsafe {
                call!(
                    self.driver(),
                    cuOccupancyMaxPotentialClusterSize(&raw mut blocks, self.as_raw(), config)
                )
            }
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// `cuOccupancyMaxActiveClusters()`—Returns how many clusters of a launch with this
    /// configuration and these attributes the device can run at a time.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_SUPPORTED` if the device has no clusters.
    #[doc(alias = "cuOccupancyMaxActiveClusters")]
    #[doc(alias = "cudaOccupancyMaxActiveClusters")]
    pub fn max_active_clusters(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
    ) -> Result<u32> {
        let mut clusters = 0;
        self.with_config(stream, config, attributes, |config| {
            // SAFETY: the pointers must be valid and the function alive ← they point to locals, and
            // `self` keeps the module loaded.
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
        ask: impl FnOnce(*const CUlaunchConfig) -> Result<(), crate::error::DriverError>,
    ) -> Result<()> {
        stream.expect_context(self.context(), "the kernel")?;
        self.check_config(&config)?;
        let attributes = attributes.for_launch(self.context())?;
        let _current = self.context().enter()?;
        let config = config.raw(stream.as_raw(), attributes);
        Ok(ask(&raw const config)?)
    }
}

/// The state of the callback that the driver calls while it searches for a block size.
struct AskShared<'a> {
    shared_bytes: &'a dyn Fn(u32) -> usize,
    panic: Cell<Option<Box<dyn std::any::Any + Send>>>,
}

thread_local! {
    /// The state of the call that runs on this thread. A thread-local is needed because the driver
    /// passes no user data to the callback.
    static ASKED: Cell<*const AskShared<'static>> = const { Cell::new(ptr::null()) };
}

unsafe extern "C" fn ask_shared(threads: c_int) -> usize {
    // SAFETY: the pointer must be null or point to a live value ← the driver calls back only during
    // the call that set it, on the same thread.
    let Some(ask) = (unsafe { ASKED.get().as_ref() }) else {
        return 0;
    };
    // Keep only the first panic: dropping one for another could itself panic, which must not unwind
    // into C.
    if let Some(panic) = ask.panic.take() {
        ask.panic.set(Some(panic));
        return 0;
    }
    let threads = u32::try_from(threads).unwrap_or(0);
    match catch_unwind(AssertUnwindSafe(|| (ask.shared_bytes)(threads))) {
        // The driver looks at the lower 32 bits only.
        Ok(bytes) => bytes.min(c_int::MAX as usize),
        Err(panic) => {
            ask.panic.set(Some(panic));
            0
        }
    }
}

impl Function {
    /// Returns the resources of the kernel, and its occupancy if it is launched with `config`. What
    /// the driver does not report is 0.
    pub(crate) fn resources(&self, config: &LaunchConfig) -> KernelResources {
        let threads = u32::try_from(config.block.count()).unwrap_or(u32::MAX);
        let blocks = self
            .max_active_blocks(threads, config.shared_bytes as usize)
            .unwrap_or(0);
        let device = self.context().device();
        let most = device.max_threads_per_multiprocessor().unwrap_or(0).max(1);
        let active = u64::from(blocks) * u64::from(threads.div_ceil(WARP)) * u64::from(WARP);
        KernelResources {
            registers: self.registers().unwrap_or(0),
            static_shared: self.static_shared_bytes().unwrap_or(0),
            local: self.local_bytes().unwrap_or(0),
            occupancy: active as f32 / most as f32,
        }
    }
}

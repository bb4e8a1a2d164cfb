//! How many blocks fit on a multiprocessor.
//!
//! The least of what its threads, its blocks, its registers and its shared memory allow, each
//! rounded as the CUDA programming guide says: warps of 32 threads, registers in units of 256 per
//! warp, shared memory in units of 128 bytes beside what the system takes per block. What else
//! counts is as in NVIDIA's `cuda_occupancy.h`: the registers of a warp are on one of the four
//! parts of a multiprocessor, a launch may not have more dynamic shared memory than the function is
//! allowed, and the carve-out is all the shared memory that there is, unless no block fits then.
//!
//! The number of registers is an estimate, which may be too high. So it lowers the figures that are
//! reported, and refuses nothing:
//!
//! - A block that may be launched counts as at least one that fits, if its shared memory does.
//! - Cooperative launches and `cuOccupancyAvailableDynamicSMemPerBlock` are refused by the other
//!   limits only, which are certain: a grid of as many blocks as the figures say is always
//!   launched.
//! - `cuOccupancyMaxPotentialBlockSize` returns a size that may be launched: that of `.reqntid` if
//!   the kernel has one.

use std::ffi::{c_int, c_uint};

use cuda_sys::{CUfunc_st, CUfunction, CUoccupancyB2DSize};

use super::arg::Out;
use super::export::{Call, exports};
use super::function::Function;
use super::kernel::OnDevice;
use super::status::{INVALID_VALUE, Status};

exports! {
    cuOccupancyMaxActiveBlocksPerMultiprocessor => occupancy_blocks(
        blocks: *mut c_int, function: CUfunction, size: c_int, shared: usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => occupancy_blocks_with_flags(
        blocks: *mut c_int, function: CUfunction, size: c_int, shared: usize, flags: c_uint);
    cuOccupancyMaxPotentialBlockSize => occupancy_block_size(
        grid: *mut c_int, block: *mut c_int, function: CUfunction, shared_of: CUoccupancyB2DSize,
        shared: usize, limit: c_int);
    cuOccupancyMaxPotentialBlockSizeWithFlags => occupancy_block_size_with_flags(
        grid: *mut c_int, block: *mut c_int, function: CUfunction, shared_of: CUoccupancyB2DSize,
        shared: usize, limit: c_int, flags: c_uint);
    cuOccupancyAvailableDynamicSMemPerBlock => occupancy_available_shared(
        shared: *mut usize, function: CUfunction, blocks: c_int, size: c_int);
}

/// The threads of the largest block.
const MOST_THREADS: u32 = 1024;
/// In what units a block takes shared memory.
const SHARED_UNIT: u64 = 128;

/// How many KiB of shared memory a multiprocessor can be set to have, the others being its cache.
fn shared_steps(capability: (u32, u32)) -> &'static [u64] {
    match capability {
        (7, 5) => &[32, 64],
        (7, _) => &[0, 8, 16, 32, 64, 96],
        _ => &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228],
    }
}

impl OnDevice<'_> {
    /// What a block with so much dynamic shared memory takes of a multiprocessor.
    fn shared_bytes(self, dynamic: u64) -> u64 {
        u64::from(self.kernel.static_shared)
            .saturating_add(dynamic)
            .saturating_add(self.device.limits.shared_reserved as u64)
            .checked_next_multiple_of(SHARED_UNIT)
            .unwrap_or(u64::MAX)
    }

    /// The least shared memory that a multiprocessor can be set to have of those that are at least
    /// `bytes`.
    fn shared_step(self, bytes: u64) -> u64 {
        let all = self.device.limits.shared_per_sm as u64;
        let steps = shared_steps(self.device.capability).iter();
        let mut steps = steps.map(|step| step << 10);
        steps.find(|&step| step >= bytes).unwrap_or(all).min(all)
    }

    /// The shared memory of a multiprocessor as the carve-out asks for it.
    fn shared_wanted(self) -> u64 {
        let all = self.device.limits.shared_per_sm as u64;
        let percent = u64::try_from(self.carveout());
        percent.map_or(all, |percent| self.shared_step(all * percent / 100))
    }

    /// The shared memory of a multiprocessor that runs blocks which take `used` bytes: what the
    /// carve-out asks for, and if that is too little for one block, what is enough for one.
    fn shared_capacity(self, used: u64) -> u64 {
        let wanted = self.shared_wanted();
        if wanted >= used {
            wanted
        } else {
            self.shared_step(used)
        }
    }
}

/// How many blocks run on a multiprocessor at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    /// By all limits, with the estimate of registers: what the program is told. At most `certain`,
    /// and 0 only if that is.
    pub(super) reported: u32,
    /// By the limits that are known exactly: threads, blocks and shared memory.
    pub(super) certain: u32,
}

/// How many blocks of `threads` threads with so much dynamic shared memory run on a multiprocessor
/// at once.
pub(super) fn blocks_per_sm(function: &Function, threads: u32, dynamic: usize) -> Status<Fit> {
    let function = function.on_device()?;
    let limits = &function.device.limits;
    let warps = u64::from(threads.div_ceil(32));
    // That the kernel is compiled for fewer threads does not count.
    if threads == 0 || threads > MOST_THREADS {
        return Ok(Fit::default());
    }
    let most = function.dynamic_shared_limit();
    if i64::try_from(dynamic).map_or(true, |dynamic| dynamic > most.into()) {
        return Ok(Fit::default());
    }
    let by_threads = limits.threads_per_sm as u64 / (32 * warps);
    let by_registers = u64::from(function.kernel.warps_by_registers()) / warps;
    // The estimate may be too high, and the block can be launched.
    let by_registers = by_registers.max(1);
    let used = function.shared_bytes(dynamic as u64);
    let by_shared = function
        .shared_capacity(used)
        .checked_div(used)
        .unwrap_or(u64::MAX);
    let certain = by_threads.min(by_shared).min(limits.blocks_per_sm as u64) as u32;
    Ok(Fit {
        reported: by_registers.min(certain.into()) as u32,
        certain,
    })
}

impl Call {
    fn occupancy_blocks(
        &self,
        blocks: Out<c_int>,
        function: Out<CUfunc_st>,
        size: c_int,
        shared: usize,
    ) -> Status {
        self.occupancy_blocks_with_flags(blocks, function, size, shared, 0)
    }

    fn occupancy_blocks_with_flags(
        &self,
        blocks: Out<c_int>,
        function: Out<CUfunc_st>,
        size: c_int,
        shared: usize,
        flags: c_uint,
    ) -> Status {
        blocks.required()?;
        self.current()?;
        let function = self.function(function.handle())?;
        let size = u32::try_from(size)
            .ok()
            .filter(|&size| size > 0)
            .ok_or(INVALID_VALUE)?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        blocks.set(blocks_per_sm(&function, size, shared)?.reported as c_int)
    }

    fn occupancy_block_size(
        &self,
        grid: Out<c_int>,
        block: Out<c_int>,
        function: Out<CUfunc_st>,
        shared_of: CUoccupancyB2DSize,
        shared: usize,
        limit: c_int,
    ) -> Status {
        self.occupancy_block_size_with_flags(grid, block, function, shared_of, shared, limit, 0)
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn occupancy_block_size_with_flags(
        &self,
        grid: Out<c_int>,
        block: Out<c_int>,
        function: Out<CUfunc_st>,
        shared_of: CUoccupancyB2DSize,
        shared: usize,
        limit: c_int,
        flags: c_uint,
    ) -> Status {
        grid.required()?;
        block.required()?;
        self.current()?;
        let function = self.function(function.handle())?;
        if limit < 0 || flags > 1 {
            return Err(INVALID_VALUE);
        }
        let limit = if limit == 0 {
            MOST_THREADS
        } else {
            limit as u32
        };
        let most = function.on_device()?.max_threads();
        let sizes: Vec<u32> = match function.kernel()?.required_threads {
            // Blocks of another size cannot be launched.
            Some(_) => Some(most)
                .filter(|&most| most <= limit)
                .into_iter()
                .collect(),
            None => {
                let most = most.min(limit);
                let warps = (1..=most.div_ceil(32)).rev();
                warps.map(|warps| (32 * warps).min(most)).collect()
            }
        };
        let mut best = (0, 0, 0);
        for size in sizes {
            let dynamic = match shared_of {
                // SAFETY: the function must be callable with any block size ← the contract of
                // cuOccupancyMaxPotentialBlockSize.
                Some(shared_of) => unsafe { shared_of(size as c_int) },
                None => shared,
            };
            let blocks = blocks_per_sm(&function, size, dynamic)?.reported;
            if blocks * size > best.0 {
                best = (blocks * size, blocks, size);
            }
        }
        let (_, blocks, size) = best;
        let sms = function.module.context.device.limits.multiprocessors;
        grid.set(blocks as c_int * sms)?;
        block.set(size as c_int)
    }

    fn occupancy_available_shared(
        &self,
        shared: Out<usize>,
        function: Out<CUfunc_st>,
        blocks: c_int,
        size: c_int,
    ) -> Status {
        shared.required()?;
        self.current()?;
        let function = self.function(function.handle())?;
        let positive = |value: c_int| u32::try_from(value).ok().filter(|&value| value > 0);
        let (blocks, size) = positive(blocks).zip(positive(size)).ok_or(INVALID_VALUE)?;
        if blocks_per_sm(&function, size, 0)?.certain < blocks {
            return Err(INVALID_VALUE);
        }
        let function = function.on_device()?;
        // One block has what it needs, whatever the carve-out.
        let capacity = match blocks {
            1 => function.device.limits.shared_per_sm as u64,
            _ => function.shared_step(function.shared_wanted().max(1)),
        };
        let each = capacity / u64::from(blocks) / SHARED_UNIT * SHARED_UNIT;
        // As an H200 answers it, without what is reserved for each block.
        let fixed = u64::from(function.kernel.static_shared);
        let most = u64::try_from(function.dynamic_shared_limit()).unwrap_or(0);
        shared.set(each.saturating_sub(fixed).min(most) as usize)
    }
}

//! How many blocks fit on a multiprocessor.
//!
//! The least of what its threads, its blocks, its registers and its shared memory allow, each rounded as the CUDA
//! programming guide says: warps of 32 threads, registers in units of 256 per warp, shared memory in units of 128
//! bytes beside what the system takes per block.

use std::ffi::{c_int, c_uint};

use cuda_sys::{CUfunc_st, CUfunction, CUoccupancyB2DSize};

use super::arg::Out;
use super::export::{Call, exports};
use super::function::Function;
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

/// In what units a block takes shared memory.
const SHARED_UNIT: u64 = 128;

/// How many blocks of `threads` threads with so much dynamic shared memory run on a multiprocessor at once.
pub(super) fn blocks_per_sm(function: &Function, threads: u32, dynamic: usize) -> Status<u32> {
    let kernel = function.kernel()?;
    let limits = &function.module.context.device.limits;
    let warps = u64::from(threads.div_ceil(32));
    if threads == 0 || threads > function.on_device()?.max_threads() {
        return Ok(0);
    }
    let by_threads = limits.threads_per_sm as u64 / (32 * warps);
    let by_registers = u64::from(kernel.warps_by_registers()) / warps;
    let used = u64::from(kernel.static_shared)
        .saturating_add(dynamic as u64)
        .saturating_add(limits.shared_reserved as u64)
        .checked_next_multiple_of(SHARED_UNIT)
        .unwrap_or(u64::MAX);
    if used > (limits.shared_optin + limits.shared_reserved) as u64 {
        return Ok(0);
    }
    let by_shared = (limits.shared_per_sm as u64)
        .checked_div(used)
        .unwrap_or(u64::MAX);
    let blocks = by_threads.min(by_registers).min(by_shared);
    Ok(blocks.min(limits.blocks_per_sm as u64) as u32)
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
        blocks.set(blocks_per_sm(&function, size, shared)? as c_int)
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
        let most = function.on_device()?.max_threads();
        let most = if limit == 0 {
            most
        } else {
            most.min(limit as u32)
        };
        let mut best = (0, 0, 0);
        for size in (1..=most.div_ceil(32))
            .rev()
            .map(|warps| (32 * warps).min(most))
        {
            let dynamic = match shared_of {
                // SAFETY: the function must be callable with any block size ← the contract of
                // cuOccupancyMaxPotentialBlockSize.
                Some(shared_of) => unsafe { shared_of(size as c_int) },
                None => shared,
            };
            let blocks = blocks_per_sm(&function, size, dynamic)?;
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
        let limits = &function.module.context.device.limits;
        if blocks_per_sm(&function, size, 0)? < blocks {
            return Err(INVALID_VALUE);
        }
        let each = limits.shared_per_sm as u64 / u64::from(blocks) / SHARED_UNIT * SHARED_UNIT;
        let fixed = u64::from(function.kernel()?.static_shared) + limits.shared_reserved as u64;
        let most = limits.shared_optin as u64 + limits.shared_reserved as u64;
        shared.set(each.min(most).saturating_sub(fixed) as usize)
    }
}

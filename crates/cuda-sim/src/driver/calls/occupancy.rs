//! Occupancy: how many blocks fit on a multiprocessor.
//!
//! The result is the minimum of the limits by threads, blocks, registers and shared memory, each
//! rounded as the CUDA programming guide says: warps of 32 threads, registers in units of 256 per
//! warp, shared memory in units of 128 bytes in addition to what the system reserves per block. The
//! other rules follow NVIDIA's `cuda_occupancy.h`: the registers of a warp are in one of the four
//! partitions of a multiprocessor, the dynamic shared memory of a launch may not exceed the limit
//! of the function, and the carve-out is all the available shared memory, unless no block fits into
//! it.
//!
//! The number of registers is an estimate that may be too high. It therefore lowers the reported
//! figures but does not reject a launch:
//!
//! - A block that can be launched counts as at least one resident block if its shared memory fits.
//! - Cooperative launches and `cuOccupancyAvailableDynamicSMemPerBlock` are rejected only because
//!   of the other limits, which are exact: a grid with as many blocks as reported can always be
//!   launched.
//! - `cuOccupancyMaxPotentialBlockSize` returns a size that can be launched: that of `.reqntid` if
//!   the kernel has one.

use std::ffi::{c_int, c_uint};

use cuda_sys::{CUfunc_st, CUoccupancyB2DSize};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::occupancy::{MOST_THREADS, SHARED_UNIT, blocks_per_sm};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuOccupancyMaxActiveBlocksPerMultiprocessor => occupancy_blocks;
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => occupancy_blocks_with_flags;
    cuOccupancyMaxPotentialBlockSize => occupancy_block_size;
    cuOccupancyMaxPotentialBlockSizeWithFlags => occupancy_block_size_with_flags;
    cuOccupancyAvailableDynamicSMemPerBlock => occupancy_available_shared;
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
        let context = self.current()?;
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
            // A block of another size cannot be launched.
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
        grid.set(blocks as c_int * context.sms().len() as c_int)?;
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
        // A single block gets the memory that it needs, whatever the carve-out.
        let capacity = match blocks {
            1 => function.device.limits.shared_per_sm as u64,
            _ => function.shared_step(function.shared_wanted().max(1)),
        };
        let each = capacity / u64::from(blocks) / SHARED_UNIT * SHARED_UNIT;
        // An H200 does not subtract what is reserved for each block.
        let fixed = u64::from(function.kernel.static_shared);
        let most = u64::try_from(function.dynamic_shared_limit()).unwrap_or(0);
        shared.set(each.saturating_sub(fixed).min(most) as usize)
    }
}

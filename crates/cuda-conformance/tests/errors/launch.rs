//! Launches, and the limits of a device.

use std::ptr::{null, null_mut};

use cuda_sys::{CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig, CUresult};

use crate::fixture::{Fixture, cases, made};

/// Launches `function` with a grid, a block and dynamic shared memory.
fn launch(
    g: &Fixture<'_>,
    kernel: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
) -> CUresult {
    let mut parameters = [g.host, g.host];
    unsafe {
        g.d.cuLaunchKernel(
            kernel,
            grid[0],
            grid[1],
            grid[2],
            block[0],
            block[1],
            block[2],
            shared,
            g.stream,
            parameters.as_mut_ptr(),
            null_mut(),
        )
    }
}

/// Launches through `cuLaunchKernelEx` with one attribute.
fn configured(g: &Fixture<'_>, id: u32, words: [u32; 3], grid: u32, block: u32) -> CUresult {
    let mut attribute = made(|attribute: &mut CUlaunchAttribute| {
        attribute.id = CUlaunchAttributeID(id);
        unsafe { (&raw mut attribute.value).cast::<[u32; 3]>().write(words) };
    });
    let config = made(|config: &mut CUlaunchConfig| {
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (grid, 1, 1);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (block, 1, 1);
        config.hStream = g.stream;
        (config.attrs, config.numAttrs) = (&raw mut attribute, 1);
    });
    let mut parameters = [g.host, g.host];
    unsafe {
        g.d.cuLaunchKernelEx(
            &raw const config,
            g.plain,
            parameters.as_mut_ptr(),
            null_mut(),
        )
    }
}

cases! { g:
    "launched_no_kernel" => launch(g, null_mut(), [1; 3], [1; 3], 0);
    "launched_no_blocks_in_x" => launch(g, g.plain, [0, 1, 1], [1; 3], 0);
    "launched_no_blocks_in_y" => launch(g, g.plain, [1, 0, 1], [1; 3], 0);
    "launched_no_blocks_in_z" => launch(g, g.plain, [1, 1, 0], [1; 3], 0);
    "launched_no_threads_in_x" => launch(g, g.plain, [1; 3], [0, 1, 1], 0);
    "launched_no_threads_in_z" => launch(g, g.plain, [1; 3], [1, 1, 0], 0);
    "launched_too_many_blocks_in_x" => launch(g, g.plain, [0x8000_0000, 1, 1], [1; 3], 0);
    "launched_too_many_blocks_in_y" => launch(g, g.plain, [1, 65_536, 1], [1; 3], 0);
    "launched_too_many_blocks_in_z" => launch(g, g.plain, [1, 1, 65_536], [1; 3], 0);
    "launched_too_many_threads" => launch(g, g.plain, [1; 3], [1025, 1, 1], 0);
    "launched_too_many_threads_in_all" => launch(g, g.plain, [1; 3], [32, 33, 1], 0);
    "launched_too_many_threads_in_z" => launch(g, g.plain, [1; 3], [1, 1, 65], 0);
    "launched_more_threads_than_the_kernel_takes" => launch(g, g.large, [1; 3], [129, 1, 1], 0);
    "launched_with_too_much_shared_memory" => launch(g, g.plain, [1; 3], [1; 3], 49_153);
    "launched_with_far_too_much_shared_memory" => launch(g, g.plain, [1; 3], [1; 3], 1 << 30);
    "launched_with_too_much_shared_memory_in_all" => launch(g, g.large, [1; 3], [1; 3], 10_000);
    "launched_without_parameters" => g.d.cuLaunchKernel(g.plain, 1, 1, 1, 1, 1, 1, 0, g.stream, null_mut(), null_mut());
    "launched_on_the_null_stream_without_context" => g.without_context(|| {
        let mut parameters = [g.host, g.host];
        g.d.cuLaunchKernel(g.plain, 1, 1, 1, 1, 1, 1, 0, null_mut(), parameters.as_mut_ptr(), null_mut())
    });
    "launched_with_both_kinds_of_parameters" => {
        let mut parameters = [g.host, g.host];
        let mut extra = [null_mut()];
        g.d.cuLaunchKernel(g.plain, 1, 1, 1, 1, 1, 1, 0, g.stream, parameters.as_mut_ptr(), extra.as_mut_ptr())
    };
    "launched_with_an_unknown_extra" => {
        let mut extra = [null_mut::<std::ffi::c_void>().wrapping_byte_add(77), null_mut(), null_mut()];
        g.d.cuLaunchKernel(g.plain, 1, 1, 1, 1, 1, 1, 0, g.stream, null_mut(), extra.as_mut_ptr())
    };
    "launched_together_too_many_blocks" => {
        let mut parameters = [g.host, g.host];
        g.d.cuLaunchCooperativeKernel(g.plain, 1_000_000, 1, 1, 1024, 1, 1, 0, g.stream, parameters.as_mut_ptr())
    };
    "launched_together_no_blocks" => {
        let mut parameters = [g.host, g.host];
        g.d.cuLaunchCooperativeKernel(g.plain, 0, 1, 1, 32, 1, 1, 0, g.stream, parameters.as_mut_ptr())
    };
    "launched_without_a_config" => {
        let mut parameters = [g.host, g.host];
        g.d.cuLaunchKernelEx(null(), g.plain, parameters.as_mut_ptr(), null_mut())
    };
    "launched_with_an_unknown_attribute" => configured(g, 99, [0; 3], 1, 1);
    "launched_for_kernels_to_change" => configured(g, 13, [1, 0, 0], 1, 1);
    "launched_in_clusters_that_do_not_divide" => configured(g, 4, [2, 1, 1], 3, 32);
    "launched_in_clusters_of_nothing" => configured(g, 4, [0, 1, 1], 4, 32);
    "launched_in_clusters_of_17" => configured(g, 4, [17, 1, 1], 17, 32);
    "launched_in_clusters_of_9" => configured(g, 4, [9, 1, 1], 9, 32);
    "launched_in_clusters_of_an_unknown_order" => configured(g, 5, [77, 0, 0], 4, 32);
    "launched_together_too_many_blocks_by_attribute" => configured(g, 2, [1, 0, 0], 1_000_000, 1024);
    "occupancy_of_no_kernel" => g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(g.out(), null_mut(), 128, 0);
    "occupancy_to_nowhere" => g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(null_mut(), g.plain, 128, 0);
    "occupancy_of_no_threads" => g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(g.out(), g.plain, 0, 0);
    "occupancy_of_negative_threads" => g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(g.out(), g.plain, -1, 0);
    "occupancy_of_2000_threads" => g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(g.out(), g.plain, 2000, 0);
    "occupancy_with_unknown_flags" => g.d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(g.out(), g.plain, 128, 0, 0x10);
    "best_block_to_nowhere" => g.d.cuOccupancyMaxPotentialBlockSize(null_mut(), null_mut(), g.plain, None, 0, 0);
    "best_block_of_no_kernel" => g.d.cuOccupancyMaxPotentialBlockSize(g.out(), g.also(), null_mut(), None, 0, 0);
    "shared_memory_left_to_nowhere" => g.d.cuOccupancyAvailableDynamicSMemPerBlock(null_mut(), g.plain, 1, 128);
    "shared_memory_left_for_no_blocks" => g.d.cuOccupancyAvailableDynamicSMemPerBlock(g.out(), g.plain, 0, 128);
    "shared_memory_left_for_1000_blocks" => g.d.cuOccupancyAvailableDynamicSMemPerBlock(g.out(), g.plain, 1000, 128);
    "clusters_of_no_config" => g.d.cuOccupancyMaxActiveClusters(g.out(), g.plain, null());
}

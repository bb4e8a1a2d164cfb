//! Copies and fills.

use std::ptr::{null, null_mut};

use cuda_sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUmemorytype};

use crate::fixture::{Fixture, SIZE, cases, made};

const HOST: CUmemorytype = CUmemorytype(1);
const DEVICE: CUmemorytype = CUmemorytype(2);

/// A copy of 16 rows of 16 bytes from pageable to device memory, changed by `set`.
fn plane(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_MEMCPY2D)) -> CUDA_MEMCPY2D {
    made(|copy: &mut CUDA_MEMCPY2D| {
        (copy.srcMemoryType, copy.dstMemoryType) = (HOST, DEVICE);
        (copy.srcHost, copy.dstDevice) = (g.host, g.memory);
        (copy.srcPitch, copy.dstPitch) = (64, 64);
        (copy.WidthInBytes, copy.Height) = (16, 16);
        set(copy);
    })
}

fn solid(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_MEMCPY3D)) -> CUDA_MEMCPY3D {
    made(|copy: &mut CUDA_MEMCPY3D| {
        (copy.srcMemoryType, copy.dstMemoryType) = (HOST, DEVICE);
        (copy.srcHost, copy.dstDevice) = (g.host, g.memory);
        (copy.srcPitch, copy.dstPitch) = (64, 64);
        (copy.srcHeight, copy.dstHeight) = (4, 4);
        (copy.WidthInBytes, copy.Height, copy.Depth) = (16, 4, 4);
        set(copy);
    })
}

cases! { g:
    "copied_to_device_null" => g.d.cuMemcpyHtoD_v2(0, g.host, 16);
    "copied_from_host_null" => g.d.cuMemcpyHtoD_v2(g.memory, null(), 16);
    "copied_to_host_null" => g.d.cuMemcpyDtoH_v2(null_mut(), g.memory, 16);
    "copied_from_device_null" => g.d.cuMemcpyDtoH_v2(g.host, 0, 16);
    "copied_between_nulls" => g.d.cuMemcpyDtoD_v2(0, 0, 16);
    "copied_0_bytes_to_null" => g.d.cuMemcpyHtoD_v2(0, g.host, 0);
    "copied_far_beyond" => g.d.cuMemcpyDtoD_v2(g.memory, g.memory, 1 << 44);
    "copied_far_beyond_to_the_device" => g.d.cuMemcpyDtoD_v2(g.memory + (1 << 45), g.memory, 16);
    "copied_plainly_between_nulls" => g.d.cuMemcpy(0, 0, 16);
    "copied_later_to_null" => g.d.cuMemcpyHtoDAsync_v2(0, g.host, 16, g.stream);
    "copied_later_on_the_null_stream_to_null" => g.d.cuMemcpyHtoDAsync_v2(0, g.host, 16, null_mut());
    "filled_null" => g.d.cuMemsetD8_v2(0, 1, 16);
    "filled_0_bytes_of_null" => g.d.cuMemsetD8_v2(0, 1, 0);
    "filled_far_beyond" => g.d.cuMemsetD8_v2(g.memory, 1, 1 << 44);
    "filled_halves_at_an_odd_address" => g.d.cuMemsetD16_v2(g.memory + 1, 1, 4);
    "filled_words_at_an_odd_address" => g.d.cuMemsetD32_v2(g.memory + 2, 1, 4);
    "filled_pageable_memory" => g.d.cuMemsetD32_v2(g.host.addr() as u64, 1, 4);
    "filled_later_at_an_odd_address" => g.d.cuMemsetD32Async(g.memory + 1, 1, 4, g.stream);
    "filled_rows_of_a_short_pitch" => g.d.cuMemsetD2D32_v2(g.memory, 8, 1, 4, 4);
    "filled_rows_of_an_odd_pitch" => g.d.cuMemsetD2D32_v2(g.memory, 18, 1, 4, 4);
    "filled_rows_of_null" => g.d.cuMemsetD2D32_v2(0, 64, 1, 4, 4);
    "plane_of_no_parameters" => g.d.cuMemcpy2D_v2(null());
    "plane_from_an_unknown_type" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.srcMemoryType = CUmemorytype(9)));
    "plane_to_an_unknown_type" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.dstMemoryType = CUmemorytype(0)));
    "plane_of_a_short_source_pitch" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.srcPitch = 8));
    "plane_of_a_short_target_pitch" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.dstPitch = 8));
    "plane_of_a_huge_pitch" => g.d.cuMemcpy2D_v2(&plane(g, |copy| {
        (copy.srcMemoryType, copy.srcDevice, copy.srcPitch) = (DEVICE, g.memory, 1 << 40);
        copy.Height = 1;
    }));
    "plane_from_null" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.srcHost = null()));
    "plane_to_null" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.dstDevice = 0));
    "plane_from_no_array" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.srcMemoryType = CUmemorytype(3)));
    "plane_of_no_width" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.WidthInBytes = 0));
    "plane_that_starts_beyond_its_pitch" => g.d.cuMemcpy2D_v2(&plane(g, |copy| copy.dstXInBytes = 56));
    "solid_of_no_parameters" => g.d.cuMemcpy3D_v2(null());
    "solid_of_a_short_pitch" => g.d.cuMemcpy3D_v2(&solid(g, |copy| copy.dstPitch = 8));
    "solid_of_a_short_height" => g.d.cuMemcpy3D_v2(&solid(g, |copy| copy.srcHeight = 2));
    "solid_with_a_level" => g.d.cuMemcpy3D_v2(&solid(g, |copy| copy.srcLOD = 1));
    "solid_to_null" => g.d.cuMemcpy3D_v2(&solid(g, |copy| copy.dstDevice = 0));
    "copied_to_no_peer" => g.d.cuMemcpyPeer(g.memory, null_mut(), g.memory, g.context, 16);
    "an_asynchronous_allocation_of_0_bytes" => g.d.cuMemAllocAsync(g.out(), 0, g.stream);
    "an_asynchronous_allocation_to_nowhere" => g.d.cuMemAllocAsync(null_mut(), SIZE, g.stream);
    "an_asynchronous_allocation_too_large" => g.d.cuMemAllocAsync(g.out(), 1 << 50, g.stream);
    "freed_null_on_a_stream" => g.d.cuMemFreeAsync(0, g.stream);
    "freed_an_unknown_address_on_a_stream" => g.d.cuMemFreeAsync(0x1000, g.stream);
    "freed_the_middle_on_a_stream" => g.d.cuMemFreeAsync(g.memory + 256, g.stream);
}

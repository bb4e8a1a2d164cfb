//! Allocations, and queries about addresses.

use std::ptr::null_mut;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUarray_format, CUmem_advise,
    CUmem_range_attribute, CUpointer_attribute,
};

use crate::fixture::{Fixture, SIZE, cases, made};

fn shape(channels: u32, format: u32, width: usize) -> CUDA_ARRAY_DESCRIPTOR {
    made(|shape: &mut CUDA_ARRAY_DESCRIPTOR| {
        shape.Width = width;
        shape.NumChannels = channels;
        shape.Format = CUarray_format(format);
    })
}

/// The address of pageable memory.
fn own(g: &Fixture<'_>) -> u64 {
    g.host.addr() as u64
}

cases! { g:
    "allocated_0_bytes" => g.d.cuMemAlloc_v2(g.out(), 0);
    "allocated_to_nowhere" => g.d.cuMemAlloc_v2(null_mut(), SIZE);
    "allocated_more_than_there_is" => g.d.cuMemAlloc_v2(g.out(), 1 << 50);
    "allocated_all_addresses" => g.d.cuMemAlloc_v2(g.out(), usize::MAX);
    "freed_null" => g.d.cuMemFree_v2(0);
    "freed_an_unknown_address" => g.d.cuMemFree_v2(0x1000);
    "freed_the_middle" => g.d.cuMemFree_v2(g.memory + 256);
    "freed_pinned_memory_as_device_memory" => g.d.cuMemFree_v2(g.pinned.addr() as u64);
    "pitched_of_no_width" => g.d.cuMemAllocPitch_v2(g.out(), g.also(), 0, 16, 4);
    "pitched_of_no_height" => g.d.cuMemAllocPitch_v2(g.out(), g.also(), 16, 0, 4);
    "pitched_of_elements_of_3" => g.d.cuMemAllocPitch_v2(g.out(), g.also(), 16, 16, 3);
    "pitched_of_elements_of_0" => g.d.cuMemAllocPitch_v2(g.out(), g.also(), 16, 16, 0);
    "pitched_to_nowhere" => g.d.cuMemAllocPitch_v2(null_mut(), g.out(), 16, 16, 4);
    "free_memory_to_nowhere" => g.d.cuMemGetInfo_v2(null_mut(), null_mut());
    "range_of_an_unknown_address" => g.d.cuMemGetAddressRange_v2(g.out(), g.also(), 0x1000);
    "range_of_null" => g.d.cuMemGetAddressRange_v2(g.out(), g.also(), 0);
    "pinned_0_bytes" => g.d.cuMemHostAlloc(g.out(), 0, 0);
    "pinned_with_unknown_flags" => g.d.cuMemHostAlloc(g.out(), SIZE, 0x100);
    "pinned_to_nowhere" => g.d.cuMemHostAlloc(null_mut(), SIZE, 0);
    "pinned_v2_0_bytes" => g.d.cuMemAllocHost_v2(g.out(), 0);
    "pinned_freed_null" => g.d.cuMemFreeHost(null_mut());
    "pinned_freed_pageable" => g.d.cuMemFreeHost(g.host);
    "pinned_freed_the_middle" => g.d.cuMemFreeHost(g.pinned.wrapping_byte_add(64));
    "device_pointer_of_pageable_memory" => g.d.cuMemHostGetDevicePointer_v2(g.out(), g.host, 0);
    "device_pointer_with_flags" => g.d.cuMemHostGetDevicePointer_v2(g.out(), g.pinned, 1);
    "device_pointer_to_nowhere" => g.d.cuMemHostGetDevicePointer_v2(null_mut(), g.pinned, 0);
    "pinned_flags_of_pageable_memory" => g.d.cuMemHostGetFlags(g.out(), g.host);
    "pinned_flags_to_nowhere" => g.d.cuMemHostGetFlags(null_mut(), g.pinned);
    "registered_0_bytes" => g.d.cuMemHostRegister_v2(g.host, 0, 0);
    "registered_null" => g.d.cuMemHostRegister_v2(null_mut(), SIZE, 0);
    "registered_with_unknown_flags" => g.d.cuMemHostRegister_v2(g.host, SIZE, 0x100);
    "registered_what_is_pinned" => g.d.cuMemHostRegister_v2(g.pinned, SIZE, 0);
    "unregistered_pageable_memory" => g.d.cuMemHostUnregister(g.host);
    "unregistered_null" => g.d.cuMemHostUnregister(null_mut());
    "unregistered_what_was_allocated_pinned" => g.d.cuMemHostUnregister(g.pinned);
    "managed_0_bytes" => g.d.cuMemAllocManaged(g.out(), 0, 1);
    "managed_without_flags" => g.d.cuMemAllocManaged(g.out(), SIZE, 0);
    "managed_with_both_flags" => g.d.cuMemAllocManaged(g.out(), SIZE, 3);
    "managed_of_a_single_stream" => g.d.cuMemAllocManaged(g.out(), SIZE, 4);
    "managed_to_nowhere" => g.d.cuMemAllocManaged(null_mut(), SIZE, 1);
    "attached_device_memory" => g.d.cuStreamAttachMemAsync(g.stream, g.memory, 0, 1);
    "attached_with_unknown_flags" => g.d.cuStreamAttachMemAsync(g.stream, g.managed, 0, 8);
    "attached_to_the_null_stream_alone" => g.d.cuStreamAttachMemAsync(null_mut(), g.managed, 0, 4);
    "advised_device_memory" => g.d.cuMemAdvise(g.memory, SIZE, CUmem_advise(1), 0);
    "advised_0_bytes" => g.d.cuMemAdvise(g.managed, 0, CUmem_advise(1), 0);
    "advice_unknown" => g.d.cuMemAdvise(g.managed, SIZE, CUmem_advise(99), 0);
    "advice_for_no_device" => g.d.cuMemAdvise(g.managed, SIZE, CUmem_advise(3), 1000);
    "advice_for_an_unknown_address" => g.d.cuMemAdvise(0x1000, SIZE, CUmem_advise(1), 0);
    "prefetched_device_memory" => g.d.cuMemPrefetchAsync(g.memory, SIZE, 0, g.stream);
    "prefetched_0_bytes" => g.d.cuMemPrefetchAsync(g.managed, 0, 0, g.stream);
    "prefetched_to_no_device" => g.d.cuMemPrefetchAsync(g.managed, SIZE, 1000, g.stream);
    "range_attribute_unknown" => g.d.cuMemRangeGetAttribute(g.out(), 4, CUmem_range_attribute(99), g.managed, SIZE);
    "range_attribute_of_3_bytes" => g.d.cuMemRangeGetAttribute(g.out(), 3, CUmem_range_attribute(1), g.managed, SIZE);
    "range_attribute_of_0_bytes" => g.d.cuMemRangeGetAttribute(g.out(), 4, CUmem_range_attribute(1), g.managed, 0);
    "range_attribute_of_device_memory" => g.d.cuMemRangeGetAttribute(g.out(), 4, CUmem_range_attribute(1), g.memory, SIZE);
    "range_attribute_to_nowhere" => g.d.cuMemRangeGetAttribute(null_mut(), 4, CUmem_range_attribute(1), g.managed, SIZE);
    "pointer_attribute_0" => g.d.cuPointerGetAttribute(g.out(), CUpointer_attribute(0), g.memory);
    "pointer_attribute_beyond" => g.d.cuPointerGetAttribute(g.out(), CUpointer_attribute(99), g.memory);
    "pointer_attribute_to_nowhere" => g.d.cuPointerGetAttribute(null_mut(), CUpointer_attribute(2), g.memory);
    "pointer_attribute_of_null" => g.d.cuPointerGetAttribute(g.out(), CUpointer_attribute(2), 0);
    "memory_type_of_pageable_memory" => g.d.cuPointerGetAttribute(g.out(), CUpointer_attribute(2), own(g));
    "context_of_pageable_memory" => g.d.cuPointerGetAttribute(g.out(), CUpointer_attribute(1), own(g));
    "host_pointer_of_device_memory" => g.d.cuPointerGetAttribute(g.out(), CUpointer_attribute(4), g.memory);
    "pointer_attribute_that_cannot_be_set" => g.d.cuPointerSetAttribute(g.out(), CUpointer_attribute(2), g.memory);
    "pointer_attribute_set_of_pageable_memory" => g.d.cuPointerSetAttribute(g.out(), CUpointer_attribute(6), own(g));
    "no_pointer_attributes" => g.d.cuPointerGetAttributes(0, g.out(), g.also(), g.memory);
    "addresses_reserved_0_bytes" => g.d.cuMemAddressReserve(g.out(), 0, 0, 0, 0);
    "addresses_reserved_odd_size" => g.d.cuMemAddressReserve(g.out(), 1000, 0, 0, 0);
    "addresses_reserved_odd_alignment" => g.d.cuMemAddressReserve(g.out(), 2 << 20, 3, 0, 0);
    "addresses_reserved_with_flags" => g.d.cuMemAddressReserve(g.out(), 2 << 20, 0, 0, 1);
    "addresses_freed_unknown" => g.d.cuMemAddressFree(0x1000, 2 << 20);
    "unmapped_unknown_addresses" => g.d.cuMemUnmap(0x20_0000, 2 << 20);
    "mapped_no_memory" => g.d.cuMemMap(0x20_0000, 2 << 20, 0, 0, 0);
    "released_no_memory" => g.d.cuMemRelease(0);
    "an_array_to_nowhere" => g.d.cuArrayCreate_v2(null_mut(), &shape(1, 0x20, 16));
    "an_array_of_no_shape" => g.d.cuArrayCreate_v2(g.out(), std::ptr::null());
    "an_array_of_no_width" => g.d.cuArrayCreate_v2(g.out(), &shape(1, 0x20, 0));
    "an_array_of_3_channels" => g.d.cuArrayCreate_v2(g.out(), &shape(3, 0x20, 16));
    "an_array_of_no_channels" => g.d.cuArrayCreate_v2(g.out(), &shape(0, 0x20, 16));
    "an_array_of_an_unknown_format" => g.d.cuArrayCreate_v2(g.out(), &shape(1, 0x77, 16));
    "an_array_too_wide" => g.d.cuArrayCreate_v2(g.out(), &shape(1, 0x20, 1 << 30));
    "a_layered_array_of_no_layers" => {
        let layers = made(|shape: &mut CUDA_ARRAY3D_DESCRIPTOR| {
            shape.Width = 16;
            shape.NumChannels = 1;
            shape.Format = CUarray_format(0x20);
            shape.Flags = 1;
        });
        g.d.cuArray3DCreate_v2(g.out(), &raw const layers)
    };
    "a_cube_that_is_not_square" => {
        let cube = made(|shape: &mut CUDA_ARRAY3D_DESCRIPTOR| {
            (shape.Width, shape.Height, shape.Depth) = (16, 8, 6);
            shape.NumChannels = 1;
            shape.Format = CUarray_format(0x20);
            shape.Flags = 4;
        });
        g.d.cuArray3DCreate_v2(g.out(), &raw const cube)
    };
}

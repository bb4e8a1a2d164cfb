//! Memory pools, and memory that is mapped.

use std::ptr::{null, null_mut};

use cuda_sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemLocation,
    CUmemLocation_st__bindgen_ty_1, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps,
};

use crate::fixture::{SIZE, cases, made};

fn place(kind: u32, id: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType(kind),
        __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id },
    }
}

/// The properties of a pool of pinned memory on device 0, changed by `set`.
fn pool(set: impl FnOnce(&mut CUmemPoolProps)) -> CUmemPoolProps {
    made(|props: &mut CUmemPoolProps| {
        props.allocType = CUmemAllocationType(1);
        props.location = place(1, 0);
        set(props);
    })
}

fn memory(set: impl FnOnce(&mut CUmemAllocationProp)) -> CUmemAllocationProp {
    made(|props: &mut CUmemAllocationProp| {
        props.type_ = CUmemAllocationType(1);
        props.location = place(1, 0);
        set(props);
    })
}

fn access(kind: u32, id: i32, flags: u32) -> CUmemAccessDesc {
    made(|access: &mut CUmemAccessDesc| {
        access.location = place(kind, id);
        access.flags = CUmemAccess_flags(flags);
    })
}

cases! { g:
    "pool_of_no_properties" => g.d.cuMemPoolCreate(g.out(), null());
    "pool_to_nowhere" => g.d.cuMemPoolCreate(null_mut(), &pool(|_| ()));
    "pool_of_no_type" => g.d.cuMemPoolCreate(g.out(), &pool(|props| props.allocType = CUmemAllocationType(0)));
    "pool_of_an_unknown_type" => g.d.cuMemPoolCreate(g.out(), &pool(|props| props.allocType = CUmemAllocationType(77)));
    "pool_nowhere" => g.d.cuMemPoolCreate(g.out(), &pool(|props| props.location = place(0, 0)));
    "pool_on_no_device" => g.d.cuMemPoolCreate(g.out(), &pool(|props| props.location = place(1, 1000)));
    "pool_at_an_unknown_place" => g.d.cuMemPoolCreate(g.out(), &pool(|props| props.location = place(77, 0)));
    "pool_of_unknown_handles" => g.d.cuMemPoolCreate(g.out(), &pool(|props| props.handleTypes = CUmemAllocationHandleType(0x4000)));
    "no_pool_destroyed" => g.d.cuMemPoolDestroy(null_mut());
    "default_pool_destroyed" => g.d.cuMemPoolDestroy(g.pool);
    "pool_attribute_0" => g.d.cuMemPoolGetAttribute(g.pool, CUmemPool_attribute(0), g.out());
    "pool_attribute_beyond" => g.d.cuMemPoolGetAttribute(g.pool, CUmemPool_attribute(99), g.out());
    "pool_attribute_to_nowhere" => g.d.cuMemPoolGetAttribute(g.pool, CUmemPool_attribute(4), null_mut());
    "pool_attribute_of_no_pool" => g.d.cuMemPoolGetAttribute(null_mut(), CUmemPool_attribute(4), g.out());
    "pool_attribute_from_nowhere" => g.d.cuMemPoolSetAttribute(g.pool, CUmemPool_attribute(4), null_mut());
    "pool_attribute_beyond_set" => g.d.cuMemPoolSetAttribute(g.pool, CUmemPool_attribute(99), g.out());
    "pool_memory_in_use_set" => {
        g.out::<u64>().write(0);
        g.d.cuMemPoolSetAttribute(g.pool, CUmemPool_attribute(7), g.out())
    };
    "pool_high_mark_set_to_5" => {
        g.out::<u64>().write(5);
        g.d.cuMemPoolSetAttribute(g.pool, CUmemPool_attribute(8), g.out())
    };
    "no_pool_trimmed" => g.d.cuMemPoolTrimTo(null_mut(), 0);
    "pool_access_of_no_device" => g.d.cuMemPoolSetAccess(g.pool, &access(1, 1000, 3), 1);
    "pool_access_of_no_place" => g.d.cuMemPoolSetAccess(g.pool, &access(0, 0, 3), 1);
    "pool_access_taken_from_its_own_device" => g.d.cuMemPoolSetAccess(g.pool, &access(1, 0, 0), 1);
    "pool_access_read_only" => g.d.cuMemPoolSetAccess(g.pool, &access(1, 0, 1), 1);
    "pool_access_unknown" => g.d.cuMemPoolSetAccess(g.pool, &access(1, 0, 77), 1);
    "pool_access_from_nowhere" => g.d.cuMemPoolSetAccess(g.pool, null(), 1);
    "pool_access_asked_of_no_device" => {
        g.also::<CUmemLocation>().write(place(1, 1000));
        g.d.cuMemPoolGetAccess(g.out(), g.pool, g.also())
    };
    "pool_access_to_nowhere" => {
        g.also::<CUmemLocation>().write(place(1, 0));
        g.d.cuMemPoolGetAccess(null_mut(), g.pool, g.also())
    };
    "default_pool_exported" => g.d.cuMemPoolExportToShareableHandle(g.out(), g.pool, CUmemAllocationHandleType(1), 0);
    "allocated_from_no_pool" => g.d.cuMemAllocFromPoolAsync(g.out(), SIZE, null_mut(), g.stream);
    "allocated_0_bytes_from_a_pool" => g.d.cuMemAllocFromPoolAsync(g.out(), 0, g.pool, g.stream);
    "allocated_too_much_from_a_pool" => g.d.cuMemAllocFromPoolAsync(g.out(), 1 << 50, g.pool, g.stream);
    "granularity_of_no_properties" => g.d.cuMemGetAllocationGranularity(g.out(), null(), CUmemAllocationGranularity_flags(0));
    "granularity_to_nowhere" => g.d.cuMemGetAllocationGranularity(null_mut(), &memory(|_| ()), CUmemAllocationGranularity_flags(0));
    "granularity_of_an_unknown_kind" => g.d.cuMemGetAllocationGranularity(g.out(), &memory(|_| ()), CUmemAllocationGranularity_flags(9));
    "granularity_of_no_type" => g.d.cuMemGetAllocationGranularity(g.out(), &memory(|props| props.type_ = CUmemAllocationType(0)), CUmemAllocationGranularity_flags(0));
    "granularity_on_no_device" => g.d.cuMemGetAllocationGranularity(g.out(), &memory(|props| props.location = place(1, 1000)), CUmemAllocationGranularity_flags(0));
    "memory_of_no_properties" => g.d.cuMemCreate(g.out(), 2 << 20, null(), 0);
    "memory_of_0_bytes" => g.d.cuMemCreate(g.out(), 0, &memory(|_| ()), 0);
    "memory_of_an_odd_size" => g.d.cuMemCreate(g.out(), 1000, &memory(|_| ()), 0);
    "memory_with_flags" => g.d.cuMemCreate(g.out(), 2 << 20, &memory(|_| ()), 1);
    "memory_on_no_device" => g.d.cuMemCreate(g.out(), 2 << 20, &memory(|props| props.location = place(1, 1000)), 0);
    "memory_more_than_there_is" => g.d.cuMemCreate(g.out(), 1 << 50, &memory(|_| ()), 0);
    "access_to_unknown_addresses" => g.d.cuMemSetAccess(0x20_0000, 2 << 20, &access(1, 0, 3), 1);
    "access_asked_of_unknown_addresses" => g.d.cuMemGetAccess(g.out(), &place(1, 0), 0x20_0000);
}

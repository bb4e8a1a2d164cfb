//! Pools of host and managed memory, batches of prefetches and discards, and the three kinds of
//! managed access, by raw calls.

use std::ptr;

use cuda_sim::{Builder, CUresult, Machine};
use cuda_sys::{
    CUDA_MEMCPY2D, CUdevice_attribute, CUmemAccess_flags, CUmemAllocationType, CUmemLocation,
    CUmemLocation_st__bindgen_ty_1, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps,
    CUmemoryPool, CUmemorytype as Side,
};

use crate::support::{TestDevice, late, ok, test_device};

type At = CUmemLocationType;
const PINNED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
const MANAGED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn location(type_: At, id: i32) -> CUmemLocation {
    CUmemLocation {
        type_,
        __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id },
    }
}

fn create(sim: &TestDevice, at: (At, i32), kind: CUmemAllocationType) -> (CUresult, CUmemoryPool) {
    // SAFETY: all fields are numbers or pointers.
    let mut props: CUmemPoolProps = unsafe { std::mem::zeroed() };
    props.allocType = kind;
    props.location = location(at.0, at.1);
    let mut pool = ptr::null_mut();
    let status = unsafe { sim.cuMemPoolCreate(&raw mut pool, &raw const props) };
    (status, pool)
}

fn used(sim: &TestDevice, pool: CUmemoryPool) -> u64 {
    let mut used = 0_u64;
    let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    unsafe { ok(sim.cuMemPoolGetAttribute(pool, attribute, (&raw mut used).cast())) };
    used
}

#[test]
fn host_pools_allocate_memory_in_stream_order() {
    for (at, kind) in [
        ((At::CU_MEM_LOCATION_TYPE_HOST, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_NONE, 0), MANAGED),
        ((At::CU_MEM_LOCATION_TYPE_DEVICE, 0), MANAGED),
    ] {
        let sim = test_device(late(1));
        let stream = sim.stream(1);
        let (status, pool) = create(&sim, at, kind);
        ok(status);
        let mut dptr = 0;
        unsafe { ok(sim.cuMemAllocFromPoolAsync(&raw mut dptr, 4096, pool, stream)) };
        let host: *mut u8 = ptr::with_exposed_provenance_mut(dptr as usize);
        // The allocation has not run yet, so the write of the host is lost.
        unsafe { host.write(7) };
        unsafe { ok(sim.cuStreamSynchronize(stream)) };
        assert_ne!(unsafe { host.read() }, 7);
        unsafe { host.write(8) };
        let mut copied = 0_u8;
        let to = (&raw mut copied).expose_provenance() as u64;
        unsafe { ok(sim.cuMemcpy(to, dptr, 1)) };
        assert_eq!(copied, 8);
        // Driver 580 copies page-locked memory of a pool as host memory only.
        let refused = if kind == PINNED {
            INVALID
        } else {
            CUresult::CUDA_SUCCESS
        };
        let device = sim.alloc(64);
        let place = (&raw mut copied).cast();
        // SAFETY: all fields are numbers or pointers.
        let mut rows: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
        (rows.srcMemoryType, rows.srcDevice, rows.WidthInBytes) =
            (Side::CU_MEMORYTYPE_DEVICE, dptr, 1);
        (rows.dstMemoryType, rows.dstDevice, rows.Height) = (Side::CU_MEMORYTYPE_DEVICE, device, 1);
        unsafe {
            assert_eq!(sim.cuMemcpyHtoDAsync_v2(dptr, place, 1, stream), refused);
            assert_eq!(sim.cuMemcpyDtoHAsync_v2(place, dptr, 1, stream), refused);
            assert_eq!(sim.cuMemcpyDtoDAsync_v2(dptr, device, 1, stream), refused);
            assert_eq!(sim.cuMemcpyDtoDAsync_v2(device, dptr, 1, stream), refused);
            assert_eq!(sim.cuMemcpy2DAsync_v2(&raw const rows, stream), refused);
            for side in [Side::CU_MEMORYTYPE_UNIFIED, Side::CU_MEMORYTYPE_HOST] {
                (rows.srcMemoryType, rows.srcHost) = (side, host.cast());
                ok(sim.cuMemcpy2DAsync_v2(&raw const rows, stream));
            }
            ok(sim.cuMemsetD8Async(dptr, 1, 1, stream));
            ok(sim.cuMemFree_v2(device));
        }
        assert_eq!(used(&sim, pool), 4096);
        unsafe {
            ok(sim.cuMemFreeAsync(dptr, stream));
            ok(sim.cuStreamSynchronize(stream));
        }
        assert_eq!(used(&sim, pool), 0);
        unsafe { ok(sim.cuMemPoolDestroy(pool)) };
        assert_eq!(sim.simulator.live().host_allocations, 0);
    }
}

#[test]
fn wrong_locations_of_pools_are_refused() {
    let sim = test_device(Builder::new());
    for (at, kind) in [
        ((At::CU_MEM_LOCATION_TYPE_HOST_NUMA, 1), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_NONE, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_DEVICE, 3), MANAGED),
    ] {
        assert_eq!(create(&sim, at, kind).0, INVALID, "{at:?}");
    }
    let old = test_device(Builder::new().version(12_090));
    let at = (At::CU_MEM_LOCATION_TYPE_HOST, 0);
    assert_eq!(
        create(&old, at, PINNED).0,
        CUresult::CUDA_ERROR_NOT_SUPPORTED
    );
}

#[test]
fn each_location_has_a_default_and_a_current_pool() {
    let sim = test_device(Builder::new());
    let mut defaults = Vec::new();
    for (at, kind) in [
        ((At::CU_MEM_LOCATION_TYPE_HOST, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_DEVICE, 0), PINNED),
        ((At::CU_MEM_LOCATION_TYPE_DEVICE, 0), MANAGED),
        ((At::CU_MEM_LOCATION_TYPE_HOST, 0), MANAGED),
        ((At::CU_MEM_LOCATION_TYPE_NONE, 0), MANAGED),
    ] {
        let mut location = location(at.0, at.1);
        let at_location = &raw mut location;
        let (mut default, mut current) = (ptr::null_mut(), ptr::null_mut());
        let (status, own) = create(&sim, at, kind);
        ok(status);
        unsafe {
            ok(sim.cuMemGetDefaultMemPool(&raw mut default, at_location, kind));
            ok(sim.cuMemGetMemPool(&raw mut current, at_location, kind));
            assert_eq!(current, default);
            assert_ne!(own, default);
            assert!(!defaults.contains(&default), "{at:?} {kind:?}");
            defaults.push(default);
            ok(sim.cuMemSetMemPool(at_location, kind, own));
            ok(sim.cuMemGetMemPool(&raw mut current, at_location, kind));
            assert_eq!(current, own);
            ok(sim.cuMemPoolDestroy(own));
            ok(sim.cuMemGetMemPool(&raw mut current, at_location, kind));
            assert_eq!(current, default);
            let other = if kind == PINNED { MANAGED } else { PINNED };
            assert_eq!(sim.cuMemSetMemPool(at_location, other, default), INVALID);
            assert_eq!(sim.cuMemPoolDestroy(default), INVALID);
        }
    }
}

#[test]
fn managed_pools_are_accessible_and_host_pools_are_not() {
    let sim = test_device(Builder::new());
    for (at, kind, expected) in [
        (At::CU_MEM_LOCATION_TYPE_HOST, PINNED, 0),
        (At::CU_MEM_LOCATION_TYPE_DEVICE, PINNED, 3),
        (At::CU_MEM_LOCATION_TYPE_HOST, MANAGED, 3),
    ] {
        let (status, pool) = create(&sim, (at, 0), kind);
        ok(status);
        let mut here = location(At::CU_MEM_LOCATION_TYPE_DEVICE, 0);
        let mut flags = CUmemAccess_flags(7);
        unsafe { ok(sim.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut here)) };
        assert_eq!(flags.0, expected, "{at:?} {kind:?}");
    }
}

#[test]
fn discards_take_effect_in_stream_order() {
    let sim = test_device(late(3));
    let stream = sim.stream(1);
    let mut managed = 0;
    unsafe { ok(sim.cuMemAllocManaged(&raw mut managed, 8192, 1)) };
    let host: *mut u8 = ptr::with_exposed_provenance_mut(managed as usize);
    let second = host.wrapping_add(4096);
    for byte in [host, second] {
        unsafe { byte.write(7) };
    }
    let (mut starts, mut sizes) = ([managed, managed + 4096], [4096, 4096]);
    let (starts, sizes) = (starts.as_mut_ptr(), sizes.as_mut_ptr());
    unsafe {
        ok(sim.cuMemDiscardBatchAsync(starts, sizes, 1, 0, stream));
        assert_eq!(host.read(), 7);
        ok(sim.cuStreamSynchronize(stream));
        assert_ne!(host.read(), 7);
        assert_eq!(second.read(), 7);
        let mut places = [location(At::CU_MEM_LOCATION_TYPE_DEVICE, 0)];
        let (places, mut first) = (places.as_mut_ptr(), 0);
        let first = &raw mut first;
        ok(sim.cuMemPrefetchBatchAsync(starts, sizes, 2, places, first, 1, 0, stream));
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(second.read(), 7);
        let both =
            sim.cuMemDiscardAndPrefetchBatchAsync(starts, sizes, 2, places, first, 1, 0, stream);
        ok(both);
        ok(sim.cuStreamSynchronize(stream));
        assert_ne!(second.read(), 7);
        // No range, flags, the legacy stream, no location, and a range that is not managed.
        let legacy = ptr::null_mut();
        assert_eq!(
            sim.cuMemDiscardBatchAsync(starts, sizes, 0, 0, stream),
            INVALID
        );
        assert_eq!(
            sim.cuMemDiscardBatchAsync(starts, sizes, 1, 1, stream),
            INVALID
        );
        assert_eq!(
            sim.cuMemDiscardBatchAsync(starts, sizes, 1, 0, legacy),
            INVALID
        );
        let none = sim.cuMemPrefetchBatchAsync(starts, sizes, 2, places, first, 0, 0, stream);
        assert_eq!(none, INVALID);
        sizes.write(10_000);
        assert_eq!(
            sim.cuMemDiscardBatchAsync(starts, sizes, 1, 0, stream),
            INVALID
        );
        ok(sim.cuMemFree_v2(managed));
    }
}

#[test]
fn machines_have_three_kinds_of_managed_access() {
    type A = CUdevice_attribute;
    for (name, expected) in [
        ("one-gtx1650-exclusive", [0, 0]),
        ("two-h100-nvlink", [1, 0]),
        ("one-gh200-coherent", [1, 1]),
    ] {
        let machine = Machine::named(name).unwrap();
        assert_eq!(machine.to_string().parse::<Machine>().unwrap(), machine);
        let sim = test_device(Builder::new().machine(machine));
        let attributes = [
            A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
            A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
        ];
        let values = attributes.map(|attribute| {
            let mut value = -1;
            unsafe { ok(sim.cuDeviceGetAttribute(&raw mut value, attribute, 0)) };
            value
        });
        assert_eq!(values, expected, "{name}");
        let mut managed = 0;
        unsafe {
            ok(sim.cuMemAllocManaged(&raw mut managed, 8, 1));
            let status = sim.cuMemPrefetchAsync(managed, 8, -1, sim.stream(1));
            let refused = CUresult::CUDA_ERROR_INVALID_DEVICE;
            assert_eq!(status == refused, expected[0] == 0, "{name}: {status}");
        }
    }
    assert!("device managed=sometimes".parse::<Machine>().is_err());
}

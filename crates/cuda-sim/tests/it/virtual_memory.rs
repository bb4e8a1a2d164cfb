//! Virtual memory: addresses, allocations and access rights, each managed separately.

#![cfg(target_os = "linux")]

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUDA_MEMCPY2D, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemorytype, CUpointer_attribute,
    CUresult,
};

use crate::support::{ADD, TestDevice, late, ok, test_device};

const MIB: usize = 1 << 20;
const BAD: R = R::CUDA_ERROR_INVALID_VALUE;

type F = CUmemAccess_flags;

fn location(device: i32) -> CUmemLocation {
    // Some headers put the id into a union: it is the second `int` in all of them.
    let mut location: CUmemLocation = unsafe { std::mem::zeroed() };
    location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let number = ptr::from_mut(&mut location).cast::<i32>().wrapping_add(1);
    unsafe { number.write(device) };
    location
}

fn prop(device: i32) -> CUmemAllocationProp {
    let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = location(device);
    prop
}

fn host_prop(kind: CUmemLocationType, node: i32) -> CUmemAllocationProp {
    let mut prop = prop(node);
    prop.location.type_ = kind;
    prop
}

fn desc(device: i32, flags: F) -> CUmemAccessDesc {
    CUmemAccessDesc {
        location: location(device),
        flags,
    }
}

impl TestDevice {
    fn reserve(&self, size: usize) -> CUdeviceptr {
        let mut addr = 0;
        unsafe { ok(self.cuMemAddressReserve(&raw mut addr, size, 0, 0, 0)) };
        assert_eq!(addr % (2 << 20), 0);
        addr
    }

    fn create(&self, size: usize, device: i32) -> u64 {
        let mut handle = 0;
        unsafe { ok(self.cuMemCreate(&raw mut handle, size, &prop(device), 0)) };
        handle
    }

    fn map(&self, addr: CUdeviceptr, size: usize, handle: u64) {
        unsafe { ok(self.cuMemMap(addr, size, 0, handle, 0)) };
    }

    fn access(&self, addr: CUdeviceptr, size: usize, device: i32, flags: F) -> CUresult {
        unsafe { self.cuMemSetAccess(addr, size, &desc(device, flags), 1) }
    }

    fn allow(&self, addr: CUdeviceptr, size: usize, device: i32) {
        ok(self.access(addr, size, device, F::CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    }

    fn end_of(&self, addr: CUdeviceptr, size: usize, handles: &[u64]) {
        unsafe {
            ok(self.cuMemUnmap(addr, size));
            for &handle in handles {
                ok(self.cuMemRelease(handle));
            }
            ok(self.cuMemAddressFree(addr, size));
        }
        let live = self.simulator.live();
        assert_eq!((live.physical, live.address_ranges), (0, 0), "{live}");
    }
}

#[test]
fn pieces_at_neighbouring_addresses_are_one_memory() {
    for sim in [test_device(Builder::new()), test_device(late(3))] {
        let size = 6 * MIB;
        let addr = sim.reserve(size);
        let handles = [sim.create(2 * MIB, 0), sim.create(4 * MIB, 0)];
        sim.map(addr, 2 * MIB, handles[0]);
        sim.map(addr + 2 * MIB as u64, 4 * MIB, handles[1]);
        sim.allow(addr, size, 0);
        let fresh = sim.download::<u8>(addr + size as u64 - 8, 8);
        assert_eq!(fresh, [0xCD; 8], "the memory is not cleared");

        // Accesses across the boundary of two mappings: by copies, by a kernel, by a fill.
        let count = size / 4;
        let values: Vec<f32> = (0..count).map(|index| (index % 4096) as f32).collect();
        let bytes = size_of_val(&values[..]);
        unsafe { ok(sim.cuMemcpyHtoD_v2(addr, values.as_ptr().cast(), bytes)) };
        let out = sim.alloc(size);
        let add = sim.function(sim.load(ADD), "add");
        let blocks = (count / 1024) as u32;
        let mut params = [addr, addr, out, count as u64];
        ok(sim.launch(add, [blocks, 1024], ptr::null_mut(), &mut params));
        let doubled: Vec<f32> = values.iter().map(|value| value + value).collect();
        assert_eq!(sim.download::<f32>(out, count), doubled);
        let middle = addr + 2 * MIB as u64 - 4;
        unsafe { ok(sim.cuMemsetD32_v2(middle, 7, 2)) };
        assert_eq!(sim.download::<u32>(middle, 2), [7, 7]);

        sim.end_of(addr, size, &handles);
        ok(unsafe { sim.cuMemFree_v2(out) });
    }
}

#[test]
fn memory_mapped_twice_has_the_same_bytes() {
    let sim = test_device(Builder::new());
    let addr = sim.reserve(4 * MIB);
    let (one, two) = (addr, addr + 2 * MIB as u64);
    let handle = sim.create(2 * MIB, 0);
    sim.map(one, 2 * MIB, handle);
    sim.map(two, 2 * MIB, handle);
    sim.allow(addr, 4 * MIB, 0);
    unsafe { ok(sim.cuMemsetD32_v2(one + 40, 0xABCD, 3)) };
    assert_eq!(sim.download::<u32>(two + 40, 3), [0xABCD; 3]);

    // After it is mapped elsewhere, the memory still has its bytes; the handle alone keeps it
    // alive.
    unsafe {
        ok(sim.cuMemUnmap(addr, 4 * MIB));
        assert_eq!(sim.cuMemsetD32_v2(one, 1, 1), BAD);
    }
    sim.map(two, 2 * MIB, handle);
    sim.allow(two, 2 * MIB, 0);
    assert_eq!(sim.download::<u32>(two + 40, 3), [0xABCD; 3]);

    // The mapping alone keeps it alive as well.
    let mut again = 0;
    unsafe {
        ok(sim.cuMemRelease(handle));
        assert_eq!(sim.cuMemRelease(handle), BAD);
        assert_eq!(sim.download::<u32>(two + 40, 3), [0xABCD; 3]);
        let inside = ptr::without_provenance_mut(two as usize + 100);
        ok(sim.cuMemRetainAllocationHandle(&raw mut again, inside));
        let mut asked = prop(7);
        ok(sim.cuMemGetAllocationPropertiesFromHandle(&raw mut asked, again));
        assert_eq!(
            asked.type_,
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED
        );
        ok(sim.cuMemUnmap(two, 2 * MIB));
        ok(sim.cuMemRelease(again));
        ok(sim.cuMemAddressFree(addr, 4 * MIB));
    }
    assert_eq!(sim.simulator.live().physical, 0);
}

#[test]
fn access_is_granted_per_device() {
    let sim = test_device(Builder::new().devices(2));
    let mut other = ptr::null_mut();
    unsafe { ok(sim.cuDevicePrimaryCtxRetain(&raw mut other, 1)) };
    let addr = sim.reserve(2 * MIB);
    let handle = sim.create(2 * MIB, 1);
    sim.map(addr, 2 * MIB, handle);
    let access_of = |device| {
        let mut flags = 9;
        unsafe { ok(sim.cuMemGetAccess(&raw mut flags, &location(device), addr)) };
        flags
    };
    assert_eq!((access_of(0), access_of(1)), (0, 0));
    assert_eq!(
        unsafe { sim.cuMemsetD32_v2(addr, 1, 1) },
        BAD,
        "no device has access"
    );
    sim.allow(addr, 2 * MIB, 1);
    assert_eq!((access_of(0), access_of(1)), (0, 3));
    unsafe { ok(sim.cuMemsetD32_v2(addr, 0x3F80_0000, 1)) };
    let mut used = [0_usize; 2];
    unsafe {
        ok(sim.cuMemGetInfo_v2(&raw mut used[0], &raw mut used[1]));
        assert_eq!(used[0], used[1], "the memory belongs to the other device");
        ok(sim.cuCtxSetCurrent(other));
        ok(sim.cuMemGetInfo_v2(&raw mut used[0], &raw mut used[1]));
        assert_eq!(used[1] - used[0], 2 * MIB);
        ok(sim.cuCtxSetCurrent(sim.context));
    }

    // Once the first device has access too, its kernels may use the memory.
    sim.allow(addr, 2 * MIB, 0);
    let add = sim.function(sim.load(ADD), "add");
    let out = sim.alloc(4);
    let mut params = [addr, addr, out, 1];
    ok(sim.launch(add, [1, 1], ptr::null_mut(), &mut params));
    assert_eq!(sim.download::<f32>(out, 1), [2.0]);

    // Without access they may not, although the devices are peers.
    unsafe { ok(sim.cuCtxEnablePeerAccess(other, 0)) };
    ok(sim.access(addr, 2 * MIB, 0, F::CU_MEM_ACCESS_FLAGS_PROT_NONE));
    ok(sim.launch(add, [1, 1], ptr::null_mut(), &mut params));
    assert_eq!(sim.sync(), R::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn host_memory_is_mapped_like_device_memory() {
    let sim = test_device(late(5));
    let mut before = [0_usize; 2];
    unsafe { ok(sim.cuMemGetInfo_v2(&raw mut before[0], &raw mut before[1])) };
    let addr = sim.reserve(2 * MIB);
    let (mut handle, mut flags) = (0, 9);
    let host = host_prop(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    unsafe { ok(sim.cuMemCreate(&raw mut handle, 2 * MIB, &host, 0)) };
    sim.map(addr, 2 * MIB, handle);
    unsafe { ok(sim.cuMemGetAccess(&raw mut flags, &location(0), addr)) };
    assert_eq!(flags, 0, "no device has access before it is granted");
    sim.allow(addr, 2 * MIB, 0);
    let mut now = [0_usize; 2];
    unsafe {
        ok(sim.cuMemsetD32_v2(addr, 0x3F80_0000, 4));
        ok(sim.cuMemGetInfo_v2(&raw mut now[0], &raw mut now[1]));
    }
    assert_eq!(now, before, "the memory is not taken from the device");
    let add = sim.function(sim.load(ADD), "add");
    let out = sim.alloc(16);
    let mut params = [addr, addr, out, 4];
    ok(sim.launch(add, [1, 4], ptr::null_mut(), &mut params));
    assert_eq!(sim.download::<f32>(out, 4), [2.0; 4]);
    let mut kind = 0_u32;
    let memory_type = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsafe { ok(sim.cuPointerGetAttribute((&raw mut kind).cast(), memory_type, addr)) };
    assert_eq!(kind, 1, "CU_MEMORYTYPE_HOST");
    let mut asked = prop(7);
    unsafe { ok(sim.cuMemGetAllocationPropertiesFromHandle(&raw mut asked, handle)) };
    assert_eq!(asked.location.type_, host.location.type_);
    sim.end_of(addr, 2 * MIB, &[handle]);
    ok(unsafe { sim.cuMemFree_v2(out) });
}

#[test]
fn unmapped_memory_is_no_longer_used() {
    let sim = test_device(late(11));
    let addr = sim.reserve(4 * MIB);
    let (one, two) = (addr, addr + 2 * MIB as u64);
    let handle = sim.create(2 * MIB, 0);
    for place in [one, two] {
        sim.map(place, 2 * MIB, handle);
        sim.allow(place, 2 * MIB, 0);
    }
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuMemsetD32Async(one, 0x55, 4, stream));
        // Unmapping waits for the fill, which runs late.
        ok(sim.cuMemUnmap(one, 2 * MIB));
    }
    assert_eq!(sim.simulator.pending(), 0);
    assert_eq!(sim.download::<u32>(two, 4), [0x55; 4]);
    unsafe {
        ok(sim.cuMemsetD32Async(two, 0x66, 4, stream));
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(sim.cuMemsetD32Async(one, 1, 1, stream), BAD);
    }
    sim.map(one, 2 * MIB, handle);
    sim.allow(one, 2 * MIB, 0);
    assert_eq!(sim.download::<u32>(one, 4), [0x66; 4]);
    sim.end_of(addr, 4 * MIB, &[handle]);
}

#[test]
fn work_after_an_unmap_that_does_not_wait_faults() {
    let sim = test_device(late(11).unmap_waits(false));
    let addr = sim.reserve(2 * MIB);
    let handle = sim.create(2 * MIB, 0);
    sim.map(addr, 2 * MIB, handle);
    sim.allow(addr, 2 * MIB, 0);
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuMemsetD32Async(addr, 0x55, 4, stream));
        ok(sim.cuMemUnmap(addr, 2 * MIB));
        assert_eq!(
            sim.cuStreamSynchronize(stream),
            R::CUDA_ERROR_ILLEGAL_ADDRESS
        );
    }
}

#[test]
fn pointer_attributes_describe_the_mapping() {
    type A = CUpointer_attribute;
    let sim = test_device(Builder::new());
    let addr = sim.reserve(4 * MIB);
    let handle = sim.create(2 * MIB, 0);
    let place = addr + 2 * MIB as u64;
    sim.map(place, 2 * MIB, handle);
    let ask = |attribute, ptr| {
        let mut value = 0_u64;
        let status = unsafe { sim.cuPointerGetAttribute((&raw mut value).cast(), attribute, ptr) };
        (status, value)
    };
    let mapped = A::CU_POINTER_ATTRIBUTE_MAPPED;
    assert_eq!(ask(mapped, addr), (R::CUDA_SUCCESS, 0));
    assert_eq!(ask(mapped, place + 5), (R::CUDA_SUCCESS, 1));
    let ordinal = A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    assert_eq!(ask(ordinal, place).0, R::CUDA_SUCCESS);
    assert_eq!(ask(ordinal, addr).0, BAD);
    let (mut base, mut size) = (0, 0);
    unsafe {
        ok(sim.cuMemGetAddressRange_v2(&raw mut base, &raw mut size, place + 77));
        assert_eq!((base, size), (place, 2 * MIB));
        assert_eq!(
            sim.cuMemFree_v2(place),
            BAD,
            "the memory was not allocated by cuMemCreate"
        );
        ok(sim.cuMemUnmap(place, 2 * MIB));
        ok(sim.cuMemRelease(handle));
        ok(sim.cuMemAddressFree(addr, 4 * MIB));
    }
}

#[test]
fn a_range_grows_in_place() {
    let sim = test_device(Builder::new());
    let size = 2 * MIB;
    let addr = sim.reserve(size);
    let next = addr + size as u64;
    let mut behind = 0;
    unsafe { ok(sim.cuMemAddressReserve(&raw mut behind, size, 0, next, 0)) };
    assert_eq!(behind, next);
    let mut elsewhere = 0;
    unsafe { ok(sim.cuMemAddressReserve(&raw mut elsewhere, size, 1 << 26, next, 0)) };
    assert!(elsewhere != next && elsewhere % (1 << 26) == 0);
    let handles = [sim.create(size, 0), sim.create(size, 0)];
    sim.map(addr, size, handles[0]);
    sim.map(behind, size, handles[1]);
    sim.allow(addr, 2 * size, 0);
    unsafe { ok(sim.cuMemsetD8_v2(next - 2, 9, 4)) };
    assert_eq!(sim.download::<u8>(next - 3, 6), [0xCD, 9, 9, 9, 9, 0xCD]);
}

#[test]
fn wrong_calls_are_refused() {
    let sim = test_device(Builder::new().memory(16 << 20));
    let addr = sim.reserve(6 * MIB);
    let handle = sim.create(4 * MIB, 0);
    let (mut ptr, mut made, mut flags) = (0, 0, 0);
    let both = F::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    unsafe {
        for (size, align, flags) in [(0, 0, 0), (4097, 0, 0), (2 * MIB, 3, 0), (2 * MIB, 0, 1)] {
            let status = sim.cuMemAddressReserve(&raw mut ptr, size, align, 0, flags);
            assert_eq!(status, BAD, "{size} {align} {flags}");
        }
        let huge = sim.cuMemAddressReserve(&raw mut ptr, 1 << 50, 0, 0, 0);
        assert_eq!(huge, R::CUDA_ERROR_OUT_OF_MEMORY);
        for size in [0, MIB, 3 * MIB] {
            let status = sim.cuMemCreate(&raw mut made, size, &prop(0), 0);
            assert_eq!(status, BAD, "{size}");
        }
        let status = sim.cuMemCreate(&raw mut made, 2 * MIB, &prop(1), 0);
        assert_eq!(status, R::CUDA_ERROR_INVALID_DEVICE);
        let full = sim.cuMemCreate(&raw mut made, 14 * MIB, &prop(0), 0);
        assert_eq!(full, R::CUDA_ERROR_OUT_OF_MEMORY);
        let mut shared = prop(0);
        shared.requestedHandleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;
        let status = sim.cuMemCreate(&raw mut made, 2 * MIB, &shared, 0);
        assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
        for host in [
            host_prop(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, 1),
            host_prop(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0),
            host_prop(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
        ] {
            let status = sim.cuMemCreate(&raw mut made, 2 * MIB, &host, 0);
            assert_eq!(status, BAD);
        }

        let middle = addr + MIB as u64;
        for (at, size, offset, handle) in [
            (addr, 6 * MIB, 0, handle),
            (addr, 4 * MIB, 2 * MIB, handle),
            (middle, 2 * MIB, 0, handle),
            (addr, MIB, 0, handle),
            (addr, 0, 0, handle),
            (addr, 4 * MIB, 0, handle + 1),
            (addr + 4 * MIB as u64, 4 * MIB, 0, handle),
        ] {
            let status = sim.cuMemMap(at, size, offset, handle, 0);
            assert_eq!(status, BAD, "{at:#x} {size} {offset}");
        }
        sim.map(addr, 4 * MIB, handle);
        let over = sim.cuMemMap(addr + 2 * MIB as u64, 2 * MIB, 0, handle, 0);
        assert_eq!(over, BAD, "something is there");
        assert_eq!(sim.cuMemUnmap(addr, 2 * MIB), BAD, "a part");
        assert_eq!(sim.cuMemUnmap(addr, 6 * MIB), BAD, "beyond the end");
        assert_eq!(sim.access(addr, 2 * MIB, 0, both), BAD, "a part");
        assert_eq!(sim.access(addr, 6 * MIB, 0, both), BAD, "beyond the end");
        let odd = CUmemAccess_flags(2);
        assert_eq!(sim.access(addr, 4 * MIB, 0, odd), BAD);
        let read = F::CU_MEM_ACCESS_FLAGS_PROT_READ;
        let status = sim.access(addr, 4 * MIB, 0, read);
        assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
        let unmapped = addr + 4 * MIB as u64;
        let status = sim.cuMemGetAccess(&raw mut flags, &location(0), unmapped);
        assert_eq!(status, BAD);
        let nothing = ptr::without_provenance_mut(unmapped as usize);
        let status = sim.cuMemRetainAllocationHandle(&raw mut made, nothing);
        assert_eq!(status, BAD);
        assert_eq!(
            sim.cuMemAddressFree(addr, 6 * MIB),
            BAD,
            "the address range is in use"
        );
        ok(sim.cuMemUnmap(addr, 4 * MIB));
        assert_eq!(sim.cuMemAddressFree(addr, 4 * MIB), BAD, "a part");
        ok(sim.cuMemAddressFree(addr, 6 * MIB));
        assert_eq!(sim.cuMemAddressFree(addr, 6 * MIB), BAD);
        ok(sim.cuMemRelease(handle));

        let mut granularity = 0;
        let recommended = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        ok(sim.cuMemGetAllocationGranularity(&raw mut granularity, &prop(0), recommended));
        assert_eq!(granularity, 2 * MIB);
        // The memory was not created for sharing with other processes.
        let fd = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        let mut descriptor = -1_i32;
        let place = (&raw mut descriptor).cast();
        let export = sim.cuMemExportToShareableHandle(place, handle, fd, 0);
        assert_eq!(export, BAD);
    }
}

#[test]
fn copies_across_mappings_need_a_current_context() {
    let sim = test_device(Builder::new());
    let (addr, end) = (sim.reserve(4 * MIB), 2 * MIB as u64);
    let handles = [sim.create(2 * MIB, 0), sim.create(2 * MIB, 0)];
    sim.map(addr, 2 * MIB, handles[0]);
    sim.map(addr + end, 2 * MIB, handles[1]);
    sim.allow(addr, 4 * MIB, 0);
    let other = sim.alloc(64);
    let mut host = [7_u8; 64];
    let mut stream = ptr::null_mut();
    ok(unsafe { sim.cuStreamCreate(&raw mut stream, 1) });
    // The last bytes of the first mapping; the bytes around its end.
    let ranges = [(addr + end - 64, true), (addr + end - 32, false)];
    for (has_current, context) in [(true, sim.context), (false, ptr::null_mut())] {
        ok(unsafe { sim.cuCtxSetCurrent(context) });
        for (mapped, is_within) in ranges {
            let expected = match is_within || has_current {
                true => R::CUDA_SUCCESS,
                false => BAD,
            };
            let mut rows: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
            rows.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
            rows.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
            (rows.srcDevice, rows.dstDevice) = (mapped, other);
            (rows.srcPitch, rows.dstPitch) = (16, 16);
            (rows.WidthInBytes, rows.Height) = (16, 4);
            let to = host.as_mut_ptr().cast();
            unsafe {
                let copies = [
                    sim.cuMemcpyHtoDAsync_v2(mapped, host.as_ptr().cast(), 64, stream),
                    sim.cuMemcpyDtoHAsync_v2(to, mapped, 64, stream),
                    sim.cuMemcpyDtoDAsync_v2(other, mapped, 64, stream),
                    sim.cuMemcpyAsync(mapped, other, 64, stream),
                    sim.cuMemcpy2DAsync_v2(&raw const rows, stream),
                ];
                assert_eq!(copies, [expected; 5], "{mapped:#x}, {has_current}");
                // Fills, and copies of nothing, are always accepted.
                ok(sim.cuMemsetD8Async(mapped, 1, 64, stream));
                rows.Height = 0;
                ok(sim.cuMemcpy2DAsync_v2(&raw const rows, stream));
            }
        }
    }
    unsafe {
        ok(sim.cuStreamDestroy_v2(stream));
        ok(sim.cuCtxSetCurrent(sim.context));
        ok(sim.cuCtxSynchronize());
        ok(sim.cuMemFree_v2(other));
    }
    sim.end_of(addr, 4 * MIB, &handles);
}

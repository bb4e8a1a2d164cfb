//! Copies and fills, compared with the same operations on slices.

use std::ffi::c_void;
use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUmemAccess_flags, CUmemAccessDesc, CUmemLocationType,
    CUmemorytype,
};

use crate::support::{OK, late, ok, test_device};

#[test]
fn copies_to_the_device_and_back_keep_the_bytes() {
    for sim in [test_device(Builder::new()), test_device(late(1))] {
        let values: Vec<u32> = (0..1000).map(|i| i * i).collect();
        let one = sim.upload(&values);
        let two = sim.alloc(4000);
        unsafe { ok(sim.cuMemcpyDtoD_v2(two, one, 4000)) };
        let mut three = vec![0_u32; 1000];
        unsafe { ok(sim.cuMemcpy(three.as_mut_ptr().addr() as u64, two, 4000)) };
        assert_eq!(three, values);
        assert_eq!(sim.download::<u32>(two + 400, 10), values[100..110]);
    }
}

#[test]
fn ranges_are_checked_on_demand() {
    let sim = test_device(Builder::new());
    let addr = sim.alloc(100);
    let other = sim.alloc(1000);
    let mut host = [0_u8; 200];
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    unsafe {
        let to_host = host.as_mut_ptr().cast();
        assert_eq!(
            sim.cuMemcpyHtoD_v2(addr, host.as_ptr().cast(), 101),
            invalid
        );
        assert_eq!(sim.cuMemcpyDtoH_v2(to_host, addr + 50, 51), invalid);
        assert_eq!(sim.cuMemcpyDtoD_v2(addr, other, 200), invalid);
        assert_eq!(sim.cuMemcpyHtoD_v2(0, host.as_ptr().cast(), 8), invalid);
        assert_eq!(sim.cuMemcpyHtoD_v2(addr, ptr::null(), 8), invalid);
        assert_eq!(sim.cuMemsetD8_v2(addr, 0, 101), invalid);
        assert_eq!(sim.cuMemsetD32_v2(addr + 2, 0, 1), invalid);
        assert_eq!(
            sim.cuMemsetD8_v2(host.as_ptr().addr() as u64, 0, 1),
            invalid
        );
        ok(sim.cuMemcpyHtoD_v2(addr, ptr::null(), 0));
        ok(sim.cuMemsetD8_v2(addr, 0, 0));
    }
    assert_eq!(sim.download::<u8>(addr, 100), [0xCD; 100]);
}

/// Two H200s with driver 580 return these codes.
#[test]
fn pool_memory_needs_a_current_context_of_its_device() {
    let sim = test_device(Builder::new().devices(2));
    let (stream, invalid) = (sim.stream(1), CUresult::CUDA_ERROR_INVALID_VALUE);
    let (mut other, mut second) = (ptr::null_mut(), ptr::null_mut());
    let (plain, mut pool) = (sim.alloc(64), 0);
    let mut host = [7_u8; 64];
    unsafe {
        ok(sim.cuMemAllocAsync(&raw mut pool, 64, stream));
        ok(sim.cuDevicePrimaryCtxRetain(&raw mut other, 1));
        ok(sim.cuCtxCreate_v2(&raw mut second, 0, 0));
        let from: *const c_void = host.as_ptr().cast();
        let to: *mut c_void = host.as_mut_ptr().cast();
        let (first, none) = (sim.context, ptr::null_mut());
        for (context, expected) in [(first, OK), (second, OK), (none, OK), (other, invalid)] {
            ok(sim.cuCtxSetCurrent(context));
            let copies = [
                sim.cuMemcpyHtoDAsync_v2(pool, from, 64, stream),
                sim.cuMemcpyDtoHAsync_v2(to, pool, 64, stream),
                sim.cuMemcpyDtoDAsync_v2(pool, plain, 64, stream),
                sim.cuMemcpyDtoDAsync_v2(plain, pool, 64, stream),
                sim.cuMemcpyAsync(plain, pool + 32, 32, stream),
            ];
            assert_eq!(copies, [expected; 5], "{context:?}");
            ok(sim.cuMemcpyHtoDAsync_v2(plain, from, 64, stream));
            ok(sim.cuMemcpyDtoHAsync_v2(to, plain, 64, stream));
            ok(sim.cuMemsetD8Async(pool, 1, 64, stream));
            ok(sim.cuMemcpyPeerAsync(plain, first, pool, first, 64, stream));
        }
        ok(sim.cuMemFreeAsync(pool, stream));
        ok(sim.cuStreamSynchronize(stream));
    }
}

/// NVIDIA's tests of cuda-core expect these codes.
#[test]
fn copies_follow_the_access_of_a_pool() {
    let sim = test_device(Builder::new().devices(2));
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let (mut other, mut pool, mut addr) = (ptr::null_mut(), ptr::null_mut(), 0);
    let mut access: CUmemAccessDesc = unsafe { std::mem::zeroed() };
    access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.__bindgen_anon_1.id = 1;
    unsafe {
        ok(sim.cuDeviceGetDefaultMemPool(&raw mut pool, 0));
        ok(sim.cuMemAllocAsync(&raw mut addr, 64, sim.stream(1)));
        ok(sim.cuDevicePrimaryCtxRetain(&raw mut other, 1));
        ok(sim.cuCtxSetCurrent(other));
        let (stream, plain) = (sim.stream(1), sim.upload(&[7_u8; 64]));
        let back = sim.alloc(64);
        for (flags, expected) in [(0, invalid), (3, OK), (0, invalid)] {
            access.flags = CUmemAccess_flags(flags);
            ok(sim.cuMemPoolSetAccess(pool, &raw const access, 1));
            assert_eq!(sim.cuMemcpyAsync(addr, plain, 64, stream), expected);
            assert_eq!(sim.cuMemcpyAsync(back, addr, 64, stream), expected);
        }
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(sim.download::<u8>(back, 64), [7; 64]);
    }
}

#[test]
fn fills_of_each_width() {
    let sim = test_device(Builder::new());
    let addr = sim.alloc(64);
    unsafe {
        ok(sim.cuMemsetD8_v2(addr, 0x11, 64));
        ok(sim.cuMemsetD16_v2(addr + 8, 0xABCD, 4));
        ok(sim.cuMemsetD32_v2(addr + 32, 0x0102_0304, 2));
        ok(sim.cuMemsetD2D8_v2(addr + 48, 8, 0xFF, 2, 2));
    }
    let mut expected = [0x11_u8; 64];
    for place in [8, 10, 12, 14] {
        expected[place..place + 2].copy_from_slice(&[0xCD, 0xAB]);
    }
    for place in [32, 36] {
        expected[place..place + 4].copy_from_slice(&[4, 3, 2, 1]);
    }
    for place in [48, 49, 56, 57] {
        expected[place] = 0xFF;
    }
    assert_eq!(sim.download::<u8>(addr, 64), expected);
}

fn plane() -> CUDA_MEMCPY2D {
    // SAFETY: all fields are integers or pointers.
    let mut copy: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy
}

#[test]
fn a_window_of_a_plane() {
    let sim = test_device(Builder::new());
    let source: Vec<u8> = (0..200).collect();
    let addr = sim.upload(&[0_u8; 300]);
    let mut copy = plane();
    copy.srcHost = source.as_ptr().cast();
    (copy.srcPitch, copy.srcXInBytes, copy.srcY) = (20, 3, 2);
    copy.dstDevice = addr;
    (copy.dstPitch, copy.dstXInBytes, copy.dstY) = (30, 5, 1);
    (copy.WidthInBytes, copy.Height) = (7, 4);
    unsafe { ok(sim.cuMemcpy2D_v2(&raw const copy)) };
    let mut expected = vec![0_u8; 300];
    for row in 0..4 {
        for column in 0..7 {
            expected[(row + 1) * 30 + 5 + column] = source[(row + 2) * 20 + 3 + column];
        }
    }
    assert_eq!(sim.download::<u8>(addr, 300), expected);
    copy.Height = 10;
    let status = unsafe { sim.cuMemcpy2D_v2(&raw const copy) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    (copy.Height, copy.srcPitch) = (2, 6);
    let status = unsafe { sim.cuMemcpy2D_v2(&raw const copy) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn a_box_of_a_volume() {
    let sim = test_device(Builder::new());
    let source: Vec<u8> = (0..=255).cycle().take(6 * 5 * 4).collect();
    let from = sim.upload(&source);
    let stream = sim.stream(0);
    let out = sim.pinned(3 * 2 * 2);
    // SAFETY: all fields are integers or pointers.
    let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    (copy.srcPitch, copy.srcHeight) = (6, 5);
    (copy.srcXInBytes, copy.srcY, copy.srcZ) = (2, 1, 1);
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.dstHost = out.cast();
    (copy.WidthInBytes, copy.Height, copy.Depth) = (3, 2, 2);
    unsafe {
        ok(sim.cuMemcpy3DAsync_v2(&raw const copy, stream));
        ok(sim.cuStreamSynchronize(stream));
    }
    let mut expected = Vec::new();
    for z in 1..3 {
        for y in 1..3 {
            for x in 2..5 {
                expected.push(source[(z * 5 + y) * 6 + x]);
            }
        }
    }
    assert_eq!(unsafe { std::slice::from_raw_parts(out, 12) }, expected);
}

#[test]
fn between_devices() {
    let sim = test_device(Builder::new().devices(2));
    let values: Vec<u64> = (0..64).map(|i| i << 40).collect();
    let here = sim.upload(&values);
    let mut second = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut second, 0, 1)) };
    let there = sim.alloc(512);
    unsafe { ok(sim.cuMemcpyPeer(there, second, here, sim.context, 512)) };
    assert_eq!(sim.download::<u64>(there, 64), values);
    let (mut here_device, mut there_device) = (-1, -1);
    let ordinal = cuda_sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    unsafe {
        ok(sim.cuPointerGetAttribute((&raw mut here_device).cast(), ordinal, here));
        ok(sim.cuPointerGetAttribute((&raw mut there_device).cast(), ordinal, there));
    }
    assert_eq!((here_device, there_device), (0, 1));
    unsafe {
        ok(sim.cuCtxEnablePeerAccess(sim.context, 0));
        let again = sim.cuCtxEnablePeerAccess(sim.context, 0);
        assert_eq!(again, CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        ok(sim.cuCtxDisablePeerAccess(sim.context));
        let again = sim.cuCtxDisablePeerAccess(sim.context);
        assert_eq!(again, CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    }
}

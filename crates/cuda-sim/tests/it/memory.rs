//! Memory: allocations, and rejected calls.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUmem_advise, CUmem_range_attribute, CUmemPool_attribute, CUmemorytype,
    CUpointer_attribute as P,
};

use crate::support::{OK, TestDevice, late, ok, test_device};

fn attribute<T: Default>(sim: &TestDevice, attribute: P, addr: u64) -> Result<T, CUresult> {
    let mut value = T::default();
    let place: *mut c_void = ptr::from_mut(&mut value).cast();
    let status = unsafe { sim.cuPointerGetAttribute(place, attribute, addr) };
    if status == OK { Ok(value) } else { Err(status) }
}

fn free_bytes(sim: &TestDevice) -> usize {
    let (mut free, mut total) = (0, 0);
    unsafe { ok(sim.cuMemGetInfo_v2(&raw mut free, &raw mut total)) };
    assert!(free <= total);
    free
}

#[test]
fn freed_memory_is_reused() {
    let sim = test_device(Builder::new().memory(64 << 20));
    let before = free_bytes(&sim);
    assert_eq!(before, 64 << 20);
    let addrs: Vec<u64> = (1..50).map(|size| sim.alloc(size * 1000)).collect();
    assert!(before - free_bytes(&sim) >= (1..50).map(|size| size * 1000).sum::<usize>());
    assert_eq!(
        sim.simulator.live().bytes,
        (1..50).map(|size| size * 1000).sum::<u64>()
    );
    for addr in addrs {
        unsafe { ok(sim.cuMemFree_v2(addr)) };
    }
    assert_eq!(free_bytes(&sim), before);
    assert_eq!(sim.simulator.live().allocations, 0);
}

#[test]
fn wrong_frees_are_refused() {
    let sim = test_device(Builder::new());
    let addr = sim.alloc(4096);
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    unsafe {
        ok(sim.cuMemFree_v2(0));
        assert_eq!(sim.cuMemFree_v2(addr + 16), invalid);
        assert_eq!(
            sim.cuMemFreeHost(ptr::without_provenance_mut(addr as usize)),
            invalid
        );
        ok(sim.cuMemFree_v2(addr));
        assert_eq!(sim.cuMemFree_v2(addr), invalid);
        let mut zero = 0;
        assert_eq!(sim.cuMemAlloc_v2(&raw mut zero, 0), invalid);
        assert_eq!(sim.cuMemAlloc_v2(ptr::null_mut(), 16), invalid);
    }
}

#[test]
fn memory_runs_out() {
    let sim = test_device(Builder::new().memory(8 << 20));
    let mut addr = 0;
    let status = unsafe { sim.cuMemAlloc_v2(&raw mut addr, 9 << 20) };
    assert_eq!(status, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(addr, 0);
    sim.simulator.limit_memory(0, 1 << 20);
    let status = unsafe { sim.cuMemAlloc_v2(&raw mut addr, 2 << 20) };
    assert_eq!(status, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let small = sim.alloc(1 << 19);
    let status = unsafe { sim.cuMemAllocAsync(&raw mut addr, 1 << 20, ptr::null_mut()) };
    assert_eq!(status, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    sim.simulator.limit_memory(0, u64::MAX);
    unsafe { ok(sim.cuMemFree_v2(small)) };
    sim.alloc(2 << 20);
    let status = unsafe { sim.cuMemAlloc_v2(&raw mut addr, usize::MAX) };
    assert_eq!(status, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
}

#[test]
fn fresh_memory_is_poisoned() {
    let sim = test_device(Builder::new());
    let addr = sim.alloc(64);
    assert_eq!(sim.download::<u8>(addr, 64), [0xCD; 64]);
}

#[test]
fn a_kernel_sees_memory_that_is_allocated_while_it_runs() {
    let sim = test_device(Builder::new());
    // A kernel that waits for an address in the mailbox, and returns the word at that address.
    let text =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 mailbox) {
        .reg .b64 %rd<4>; .reg .b32 %r1; .reg .pred %p;
        ld.param.u64 %rd1, [mailbox];
        $wait: ld.volatile.global.u64 %rd2, [%rd1]; setp.eq.u64 %p, %rd2, 0; @%p bra $wait;
        ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1+8], %r1; ret; }";
    let kernel = sim.function(sim.load(text), "k");
    let stream = sim.stream(1);
    let mailbox = sim.pinned(16);
    unsafe { mailbox.cast::<[u64; 2]>().write([0; 2]) };
    let mut address = mailbox.addr() as u64;
    let mut params = [(&raw mut address).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    unsafe { ok(sim.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, none)) };
    std::thread::sleep(std::time::Duration::from_millis(20));
    let later = sim.upload(&[1234_u32]);
    // SAFETY: the mailbox is aligned, and the kernel only reads the word.
    let word = unsafe { AtomicU64::from_ptr(mailbox.cast()) };
    word.store(later, Ordering::SeqCst);
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    assert_eq!(unsafe { mailbox.cast::<u32>().add(2).read() }, 1234);
}

#[test]
fn memory_freed_early_is_not_poisoned_after_reuse() {
    for builder in [Builder::new(), late(1)] {
        let sim = test_device(builder);
        let (held, other) = (sim.stream(1), sim.stream(1));
        let flag = sim.upload(&[0_u32]);
        let (mut pool, mut plain) = (0, 0);
        unsafe {
            ok(sim.cuStreamWaitValue32_v2(held, flag, 1, 1));
            ok(sim.cuMemAllocAsync(&raw mut pool, 1024, held));
            ok(sim.cuMemFree_v2(pool));
            ok(sim.cuMemAlloc_v2(&raw mut plain, 1024));
            assert_eq!(plain, pool, "the memory must be reused");
            let data = [7_u8; 1024];
            ok(sim.cuMemcpyHtoDAsync_v2(plain, data.as_ptr().cast(), 1024, other));
            ok(sim.cuStreamSynchronize(other));
            ok(sim.cuStreamWriteValue32_v2(other, flag, 1, 0));
            ok(sim.cuStreamSynchronize(held));
        }
        assert_eq!(sim.download::<u8>(plain, 1024), [7; 1024]);
    }
}

#[test]
fn a_range_is_found_from_inside() {
    let sim = test_device(Builder::new());
    let addr = sim.alloc(1000);
    let (mut base, mut size) = (0, 0);
    unsafe { ok(sim.cuMemGetAddressRange_v2(&raw mut base, &raw mut size, addr + 999)) };
    assert_eq!((base, size), (addr, 1000));
    let status = unsafe { sim.cuMemGetAddressRange_v2(&raw mut base, &raw mut size, 16) };
    assert_eq!(status, CUresult::CUDA_ERROR_NOT_FOUND);
}

#[test]
fn pointer_attributes_describe_the_memory() {
    let sim = test_device(Builder::new());
    let device = sim.alloc(256);
    let pinned = sim.pinned(256).addr() as u64;
    let mut managed = 0;
    unsafe { ok(sim.cuMemAllocManaged(&raw mut managed, 256, 1)) };
    let sort = |addr| attribute::<u32>(&sim, P::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr);
    assert_eq!(sort(device), Ok(CUmemorytype::CU_MEMORYTYPE_DEVICE.0));
    assert_eq!(sort(pinned), Ok(CUmemorytype::CU_MEMORYTYPE_HOST.0));
    assert_eq!(sort(managed), Ok(CUmemorytype::CU_MEMORYTYPE_DEVICE.0));
    let on_stack = 5_u32;
    let wild = ptr::from_ref(&on_stack).addr() as u64;
    assert_eq!(sort(wild), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    let is_managed = |addr| attribute::<i32>(&sim, P::CU_POINTER_ATTRIBUTE_IS_MANAGED, addr);
    assert_eq!((is_managed(device), is_managed(managed)), (Ok(0), Ok(1)));
    let start = attribute::<u64>(&sim, P::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 77);
    assert_eq!(start, Ok(device));
    let host = attribute::<u64>(&sim, P::CU_POINTER_ATTRIBUTE_HOST_POINTER, device);
    assert_eq!(host, Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    assert_ne!(
        attribute::<u64>(&sim, P::CU_POINTER_ATTRIBUTE_BUFFER_ID, device),
        attribute::<u64>(&sim, P::CU_POINTER_ATTRIBUTE_BUFFER_ID, pinned),
    );
}

#[test]
fn sync_memops_makes_fills_blocking() {
    let sync = P::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    let not_ready = CUresult::CUDA_ERROR_NOT_READY;
    // How often a fill and a copy were pending, without and with the attribute.
    let mut pending = [[0; 2]; 2];
    for seed in 0..32 {
        let sim = test_device(late(seed));
        let [addr, other] = [256, 256].map(|size| sim.alloc(size));
        let set = |addr, on: u32| unsafe {
            sim.cuPointerSetAttribute((&raw const on).cast(), sync, addr)
        };
        for on in [0, 1, 0] {
            ok(set(addr + 8, on));
            assert_eq!(attribute::<u32>(&sim, sync, addr), Ok(on));
            assert_eq!(attribute::<u32>(&sim, sync, other), Ok(0));
            let is_pending = || unsafe {
                let status = sim.cuStreamQuery(ptr::null_mut());
                ok(sim.cuCtxSynchronize());
                u32::from(status == not_ready)
            };
            unsafe { ok(sim.cuMemsetD8_v2(addr + 16, 1, 64)) };
            pending[on as usize][0] += is_pending();
            unsafe { ok(sim.cuMemcpyDtoD_v2(other, addr + 16, 64)) };
            pending[on as usize][1] += is_pending();
        }
        assert_eq!(set(256, 1), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    assert!(pending[0].iter().all(|&count| count > 0), "{pending:?}");
    assert_eq!(pending[1], [0, 0]);
}

#[test]
fn host_memory_is_registered_once() {
    let sim = test_device(Builder::new());
    let mut values = vec![1_u8; 8192];
    let start: *mut c_void = values.as_mut_ptr().cast();
    let inside: *mut c_void = values[100..].as_mut_ptr().cast();
    unsafe {
        assert_eq!(
            sim.cuMemHostUnregister(start),
            CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
        );
        ok(sim.cuMemHostRegister_v2(start, 8192, 2));
        assert_eq!(
            sim.cuMemHostRegister_v2(inside, 10, 0),
            CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
        );
        let mut addr = 0;
        ok(sim.cuMemHostGetDevicePointer_v2(&raw mut addr, inside, 0));
        assert_eq!(addr, inside.addr() as u64);
        ok(sim.cuMemsetD8_v2(addr, 9, 4));
        assert_eq!(
            sim.cuMemHostUnregister(inside),
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
        ok(sim.cuMemHostUnregister(start));
    }
    assert_eq!(values[98..106], [1, 1, 9, 9, 9, 9, 1, 1]);
    assert_eq!(sim.simulator.live().host_allocations, 0);
}

#[test]
fn attributes_of_a_range_list_the_host_last() {
    let sim = test_device(Builder::new().devices(2));
    let mut managed = 0;
    let mut locations = [7_i32; 4];
    unsafe {
        ok(sim.cuMemAllocManaged(&raw mut managed, 4096, 1));
        for device in [-1, 1, 0] {
            let advice = CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY;
            ok(sim.cuMemAdvise(managed, 4096, advice, device));
        }
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
        let data = locations.as_mut_ptr().cast();
        ok(sim.cuMemRangeGetAttribute(data, 16, attribute, managed, 4096));
    }
    // The value after the last location is CU_DEVICE_INVALID.
    assert_eq!(locations, [0, 1, -1, -2]);

    // The same and another attribute in one call.
    let (mut again, mut read_mostly) = ([7_i32; 4], 7_i32);
    let mut data: [*mut c_void; 2] = [
        again.as_mut_ptr().cast(),
        ptr::from_mut(&mut read_mostly).cast(),
    ];
    let mut attributes = [
        CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
        CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
    ];
    let mut get = |mut sizes: [usize; 2], count| unsafe {
        let (data, sizes) = (data.as_mut_ptr(), sizes.as_mut_ptr());
        sim.cuMemRangeGetAttributes(data, sizes, attributes.as_mut_ptr(), count, managed, 4096)
    };
    ok(get([16, 4], 2));
    assert_eq!(get([16, 8], 2), CUresult::CUDA_ERROR_INVALID_VALUE, "size");
    assert_eq!(get([16, 4], 0), CUresult::CUDA_ERROR_INVALID_VALUE, "none");
    assert_eq!((again, read_mostly), (locations, 0));
    unsafe { ok(sim.cuMemFree_v2(managed)) };
}

#[test]
fn stream_ordered_memory_is_valid_in_its_order() {
    for sim in [test_device(Builder::new()), test_device(late(3))] {
        let stream = sim.stream(1);
        let before = free_bytes(&sim);
        let mut addr = 0;
        unsafe {
            ok(sim.cuMemAllocAsync(&raw mut addr, 4096, stream));
            ok(sim.cuMemsetD8Async(addr, 3, 4096, stream));
        }
        let out = sim.pinned(4096);
        unsafe {
            ok(sim.cuMemcpyDtoHAsync_v2(out.cast(), addr, 4096, stream));
            ok(sim.cuMemFreeAsync(addr, stream));
            let again = sim.cuMemFreeAsync(addr, stream);
            assert_eq!(again, CUresult::CUDA_ERROR_INVALID_VALUE);
            ok(sim.cuStreamSynchronize(stream));
        }
        let bytes = unsafe { std::slice::from_raw_parts(out, 4096) };
        assert!(bytes.iter().all(|&byte| byte == 3));
        assert_eq!(free_bytes(&sim), before);
        let status = unsafe { sim.cuMemsetD8Async(addr, 3, 4096, stream) };
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn pools_count_used_memory() {
    let sim = test_device(Builder::new());
    let mut pool = ptr::null_mut();
    unsafe { ok(sim.cuDeviceGetDefaultMemPool(&raw mut pool, 0)) };
    let read = |attribute| {
        let mut value = 0_u64;
        unsafe {
            ok(sim.cuMemPoolGetAttribute(pool, attribute, ptr::from_mut(&mut value).cast()));
        }
        value
    };
    let stream = sim.stream(0);
    let (mut one, mut two) = (0, 0);
    unsafe {
        ok(sim.cuMemAllocAsync(&raw mut one, 1000, stream));
        ok(sim.cuMemAllocFromPoolAsync(&raw mut two, 500, pool, stream));
    }
    assert_eq!(
        read(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
        1500
    );
    unsafe {
        ok(sim.cuMemFreeAsync(one, stream));
        ok(sim.cuStreamSynchronize(stream));
    }
    assert_eq!(
        read(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
        500
    );
    assert_eq!(
        read(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH),
        1500
    );
    let status = unsafe { sim.cuMemPoolDestroy(pool) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
}

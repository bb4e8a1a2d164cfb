//! Host memory that devices can access: rejected calls, and memory that is freed too early.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sim::{Builder, CUresult};

use crate::support::{OK, ok, test_device};

/// A kernel that sets a flag, waits for another one, then writes.
const LATE: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry late(.param .u64 flags, .param .u64 target) {
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %a<3>;
    ld.param.u64 %a1, [flags];
    ld.param.u64 %a2, [target];
    mov.u32 %r1, 7;
    st.volatile.global.u32 [%a1], %r1;
again:
    ld.volatile.global.u32 %r2, [%a1+4];
    setp.eq.u32 %p, %r2, 0;
    @%p bra again;
    st.global.u32 [%a2], %r1;
    ret;
}
";

/// The size of each allocation in bytes.
const SIZE: usize = 8192;

#[test]
fn device_memory_cannot_be_registered() {
    let sim = test_device(Builder::new());
    let device = sim.alloc(SIZE);
    let mut reserved = 0;
    let refused = |addr: u64| {
        let start: *mut c_void = ptr::without_provenance_mut(addr as usize);
        let status = unsafe { sim.cuMemHostRegister_v2(start, SIZE, 0) };
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    refused(device);
    refused(device - SIZE as u64 / 2);
    if cfg!(target_os = "linux") {
        unsafe { ok(sim.cuMemAddressReserve(&raw mut reserved, 2 << 20, 0, 0, 0)) };
        refused(reserved);
    }
    assert_eq!(sim.simulator.live().host_allocations, 0);
    // The memory is still accessible to the device.
    unsafe { ok(sim.cuMemsetD8_v2(device, 9, SIZE)) };
    assert_eq!(sim.download::<u8>(device, SIZE), [9; SIZE]);
}

/// Freeing memory under a running kernel is an error of the program, and a GPU would stop the
/// kernel; but here the kernel must not overwrite other memory of the program.
#[test]
fn memory_freed_under_a_kernel_is_not_reused() {
    let sim = test_device(Builder::new());
    let flags: *mut AtomicU32 = sim.pinned(8).cast();
    // Page-locked memory is aligned, and lives for the whole test.
    let (runs, go) = unsafe { (&*flags, &*flags.wrapping_add(1)) };
    runs.store(0, Ordering::Release);
    go.store(0, Ordering::Release);
    let function = sim.function(sim.load(LATE), "late");
    let stream = sim.stream(1);

    let mut other = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    let target = sim.pinned(SIZE);
    let mut params = [flags.addr() as u64, target.addr() as u64];
    assert_eq!(sim.launch(function, [1, 1], stream, &mut params), OK);
    let start = Instant::now();
    while runs.load(Ordering::Acquire) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        thread::yield_now();
    }
    unsafe { ok(sim.cuCtxDestroy_v2(other)) };
    assert_eq!(sim.simulator.live().contexts, 1);

    // A later allocation of the same size may reuse the freed memory.
    let layout = Layout::from_size_align(SIZE, 4096).unwrap();
    let blocks: Vec<*mut u8> = (0..64)
        .map(|_| unsafe { alloc::alloc_zeroed(layout) })
        .collect();
    go.store(1, Ordering::Release);
    assert_eq!(unsafe { sim.cuStreamSynchronize(stream) }, OK);
    for block in blocks {
        let bytes = unsafe { std::slice::from_raw_parts(block, SIZE) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        unsafe { alloc::dealloc(block, layout) };
    }
    unsafe { ok(sim.cuMemFreeHost(flags.cast())) };
    assert_eq!(sim.simulator.live().host_allocations, 0);
}

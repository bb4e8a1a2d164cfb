//! Kernels that fail, and the device that is lost as a result.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cuda_sim::{Builder, CUresult as R};

use crate::support::{TROUBLE, bench, late, ok};

#[test]
fn a_fault_is_told_late_and_for_ever() {
    for (kernel, code) in [
        ("trapped", R::CUDA_ERROR_LAUNCH_FAILED),
        ("null_store", R::CUDA_ERROR_ILLEGAL_ADDRESS),
        ("misaligned", R::CUDA_ERROR_MISALIGNED_ADDRESS),
    ] {
        let bench = bench(late(1));
        let function = bench.function(bench.load(TROUBLE), kernel);
        let (one, two) = (bench.stream(1), bench.stream(1));
        let data = bench.upload(&[0_u32]);
        ok(bench.launch(function, [1, 1], one, &mut [data]));
        // The failure is not known yet.
        let event = bench.event(2);
        unsafe { assert_eq!(bench.cuStreamSynchronize(one), code, "{kernel}") };
        let fault = bench.simulator.fault(0).unwrap();
        assert!(
            fault.contains(kernel) && fault.contains("PTX line"),
            "{fault}"
        );
        let (mut addr, mut stream) = (0, ptr::null_mut());
        unsafe {
            assert_eq!(bench.cuStreamSynchronize(two), code);
            assert_eq!(bench.sync(), code);
            assert_eq!(bench.cuMemAlloc_v2(&raw mut addr, 16), code);
            assert_eq!(bench.cuStreamCreate(&raw mut stream, 0), code);
            assert_eq!(bench.cuEventQuery(event), code);
            // Destroying objects fails too, yet frees them.
            assert_eq!(bench.cuEventDestroy_v2(event), code);
            assert_eq!(bench.cuMemFree_v2(data), code);
            assert_eq!(bench.cuStreamDestroy_v2(one), code);
            assert_eq!(bench.cuStreamDestroy_v2(two), code);
            let mut context = ptr::null_mut();
            assert_eq!(bench.cuCtxCreate_v2(&raw mut context, 0, 0), code);
            assert_eq!(bench.cuDevicePrimaryCtxRelease_v2(0), code);
            let again = bench.cuDevicePrimaryCtxRetain(&raw mut context, 0);
            assert_eq!(again, code, "a new context must not revive the device");
            let mut count = 0;
            ok(bench.cuDeviceGetCount(&raw mut count));
        }
        assert!(
            bench.simulator.live().is_empty(),
            "{}",
            bench.simulator.live()
        );
    }
}

#[test]
fn the_host_learns_of_a_fault_some_time_later() {
    let bench = bench(Builder::new());
    let function = bench.function(bench.load(TROUBLE), "trapped");
    let event = bench.event(2);
    let start = Instant::now();
    ok(bench.launch(function, [1, 1], ptr::null_mut(), &mut []));
    // This gives time to queue more work behind the kernel.
    while unsafe { bench.cuEventRecord(event, ptr::null_mut()) } == R::CUDA_SUCCESS {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    assert!(start.elapsed() >= Duration::from_millis(5));
    assert_eq!(bench.sync(), R::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn the_other_device_goes_on() {
    let bench = bench(Builder::new().devices(2));
    let function = bench.function(bench.load(TROUBLE), "trapped");
    ok(bench.launch(function, [1, 1], ptr::null_mut(), &mut []));
    assert_eq!(bench.sync(), R::CUDA_ERROR_LAUNCH_FAILED);
    let mut second = ptr::null_mut();
    unsafe { ok(bench.cuCtxCreate_v2(&raw mut second, 0, 1)) };
    let increment = bench.function(bench.load(TROUBLE), "increment");
    let data = bench.upload(&[41_u32]);
    ok(bench.launch(increment, [1, 1], ptr::null_mut(), &mut [data]));
    assert_eq!(bench.download::<u32>(data, 1), [42]);
}

#[test]
fn host_functions_are_not_called_after_a_fault() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn called(_: *mut std::ffi::c_void) {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    let bench = bench(Builder::new());
    let function = bench.function(bench.load(TROUBLE), "trapped");
    let stream = bench.stream(1);
    unsafe {
        ok(bench.cuLaunchHostFunc(stream, Some(called), ptr::null_mut()));
        ok(bench.cuStreamSynchronize(stream));
    }
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
    ok(bench.launch(function, [1, 1], stream, &mut []));
    unsafe {
        // Both results are right, because the kernel may have failed by now.
        let _ = bench.cuLaunchHostFunc(stream, Some(called), ptr::null_mut());
        assert_eq!(
            bench.cuStreamSynchronize(stream),
            R::CUDA_ERROR_LAUNCH_FAILED
        );
    }
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
}

#[test]
fn memory_that_was_freed_is_caught() {
    let bench = bench(late(6));
    let stream = bench.stream(1);
    let mut addr = 0;
    unsafe { ok(bench.cuMemAllocAsync(&raw mut addr, 64, stream)) };
    let increment = bench.function(bench.load(TROUBLE), "increment");
    let other = bench.stream(1);
    unsafe { ok(bench.cuStreamSynchronize(stream)) };
    // The free is not ordered after the launch: here it comes first.
    ok(bench.launch(increment, [1, 1], other, &mut [addr]));
    unsafe {
        ok(bench.cuMemFreeAsync(addr, stream));
        ok(bench.cuMemFree_v2(0));
        let _ = bench.cuStreamSynchronize(stream);
        let status = bench.cuStreamSynchronize(other);
        let fault = bench.simulator.fault(0);
        // If the launch ran before the free, there is no fault.
        assert_eq!(status.is_success(), fault.is_none());
        if let Some(fault) = fault {
            assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS);
            assert!(fault.contains("freed"), "{fault}");
        }
    }
}

#[test]
fn a_kernel_without_end_is_ended_with_its_driver() {
    let bench = bench(Builder::new());
    let flag = bench.upload(&[0_u32]);
    let spin = bench.function(bench.load(TROUBLE), "spin");
    ok(bench.launch(spin, [1, 1], bench.stream(1), &mut [flag]));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(bench.simulator.pending(), 1);
    // The drop returns.
    drop(bench);
}

#[test]
fn a_kernel_without_end_runs_into_its_limit() {
    let bench = bench(Builder::new().instruction_limit(100_000));
    let flag = bench.upload(&[0_u32]);
    let spin = bench.function(bench.load(TROUBLE), "spin");
    ok(bench.launch(spin, [1, 1], ptr::null_mut(), &mut [flag]));
    assert_eq!(bench.sync(), R::CUDA_ERROR_LAUNCH_TIMEOUT);
}

/// Two frames of this many registers are 400,000 words for each thread.
#[test]
fn registers_of_frames_that_no_stack_holds_are_a_fault() {
    let bench = bench(Builder::new());
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n\
                .func deep() { .reg .b64 %rd<100000>; mov.u64 %rd1, 1; ret; }\n\
                .visible .entry k() { .reg .b64 %rd<100000>; mov.u64 %rd1, 1; call deep; ret; }";
    let kernel = bench.function(bench.load(text), "k");
    ok(bench.launch(kernel, [1, 1], ptr::null_mut(), &mut []));
    assert_eq!(bench.sync(), R::CUDA_ERROR_HARDWARE_STACK_ERROR);
}

#[test]
fn kernel_with_too_many_registers_is_not_loaded() {
    let bench = bench(Builder::new());
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n\
                .visible .entry k() { .reg .b64 %rd<1000000>; mov.u64 %rd1, 1; ret; }\0";
    let mut module = ptr::null_mut();
    let status = unsafe { bench.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_PTX);
}

//! Kernels that fail, and the device that is lost as a result.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cuda_sim::{Builder, CUresult as R};

use crate::support::{FAULT_KERNELS, late, ok, test_device};

#[test]
fn a_fault_is_reported_late_and_forever() {
    for (kernel, code) in [
        ("trapped", R::CUDA_ERROR_LAUNCH_FAILED),
        ("null_store", R::CUDA_ERROR_ILLEGAL_ADDRESS),
        ("misaligned", R::CUDA_ERROR_MISALIGNED_ADDRESS),
    ] {
        let sim = test_device(late(1));
        let function = sim.function(sim.load(FAULT_KERNELS), kernel);
        let (one, two) = (sim.stream(1), sim.stream(1));
        let data = sim.upload(&[0_u32]);
        ok(sim.launch(function, [1, 1], one, &mut [data]));
        // The failure is not known yet.
        let event = sim.event(2);
        unsafe { assert_eq!(sim.cuStreamSynchronize(one), code, "{kernel}") };
        let fault = sim.simulator.fault(0).unwrap();
        assert!(
            fault.contains(kernel) && fault.contains("PTX line"),
            "{fault}"
        );
        let (mut addr, mut stream) = (0, ptr::null_mut());
        unsafe {
            assert_eq!(sim.cuStreamSynchronize(two), code);
            assert_eq!(sim.sync(), code);
            assert_eq!(sim.cuMemAlloc_v2(&raw mut addr, 16), code);
            assert_eq!(sim.cuStreamCreate(&raw mut stream, 0), code);
            assert_eq!(sim.cuEventQuery(event), code);
            // Destroying objects fails too, yet frees them.
            assert_eq!(sim.cuEventDestroy_v2(event), code);
            assert_eq!(sim.cuMemFree_v2(data), code);
            assert_eq!(sim.cuStreamDestroy_v2(one), code);
            assert_eq!(sim.cuStreamDestroy_v2(two), code);
            let mut context = ptr::null_mut();
            assert_eq!(sim.cuCtxCreate_v2(&raw mut context, 0, 0), code);
            assert_eq!(sim.cuDevicePrimaryCtxRelease_v2(0), code);
            let again = sim.cuDevicePrimaryCtxRetain(&raw mut context, 0);
            assert_eq!(again, code, "a new context must not revive the device");
            let mut count = 0;
            ok(sim.cuDeviceGetCount(&raw mut count));
        }
        assert!(sim.simulator.live().is_empty(), "{}", sim.simulator.live());
    }
}

#[test]
fn the_host_learns_of_a_fault_some_time_later() {
    let sim = test_device(Builder::new());
    let function = sim.function(sim.load(FAULT_KERNELS), "trapped");
    let event = sim.event(2);
    let start = Instant::now();
    ok(sim.launch(function, [1, 1], ptr::null_mut(), &mut []));
    // This gives time to queue more work behind the kernel.
    while unsafe { sim.cuEventRecord(event, ptr::null_mut()) } == R::CUDA_SUCCESS {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    assert!(start.elapsed() >= Duration::from_millis(5));
    assert_eq!(sim.sync(), R::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn the_other_device_still_works() {
    let sim = test_device(Builder::new().devices(2));
    let function = sim.function(sim.load(FAULT_KERNELS), "trapped");
    ok(sim.launch(function, [1, 1], ptr::null_mut(), &mut []));
    assert_eq!(sim.sync(), R::CUDA_ERROR_LAUNCH_FAILED);
    let mut second = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut second, 0, 1)) };
    let increment = sim.function(sim.load(FAULT_KERNELS), "increment");
    let data = sim.upload(&[41_u32]);
    ok(sim.launch(increment, [1, 1], ptr::null_mut(), &mut [data]));
    assert_eq!(sim.download::<u32>(data, 1), [42]);
}

#[test]
fn host_functions_are_not_called_after_a_fault() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn called(_: *mut std::ffi::c_void) {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    let sim = test_device(Builder::new());
    let function = sim.function(sim.load(FAULT_KERNELS), "trapped");
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuLaunchHostFunc(stream, Some(called), ptr::null_mut()));
        ok(sim.cuStreamSynchronize(stream));
    }
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
    ok(sim.launch(function, [1, 1], stream, &mut []));
    unsafe {
        // Both results are right, because the kernel may have failed by now.
        let _ = sim.cuLaunchHostFunc(stream, Some(called), ptr::null_mut());
        assert_eq!(sim.cuStreamSynchronize(stream), R::CUDA_ERROR_LAUNCH_FAILED);
    }
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
}

#[test]
fn memory_that_was_freed_is_caught() {
    let sim = test_device(late(6));
    let stream = sim.stream(1);
    let mut addr = 0;
    unsafe { ok(sim.cuMemAllocAsync(&raw mut addr, 64, stream)) };
    let increment = sim.function(sim.load(FAULT_KERNELS), "increment");
    let other = sim.stream(1);
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    // The free is not ordered after the launch: here it comes first.
    ok(sim.launch(increment, [1, 1], other, &mut [addr]));
    unsafe {
        ok(sim.cuMemFreeAsync(addr, stream));
        ok(sim.cuMemFree_v2(0));
        let _ = sim.cuStreamSynchronize(stream);
        let status = sim.cuStreamSynchronize(other);
        let fault = sim.simulator.fault(0);
        // The launch faults unless it ran before the free.
        assert_eq!(status.is_success(), fault.is_none());
        if let Some(fault) = fault {
            assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS);
            assert!(fault.contains("freed"), "{fault}");
        }
    }
}

#[test]
fn a_kernel_without_end_is_ended_with_its_driver() {
    let sim = test_device(Builder::new());
    let flag = sim.upload(&[0_u32]);
    let spin = sim.function(sim.load(FAULT_KERNELS), "spin");
    ok(sim.launch(spin, [1, 1], sim.stream(1), &mut [flag]));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(sim.simulator.pending(), 1);
    // The drop returns.
    drop(sim);
}

#[test]
fn a_kernel_without_end_runs_into_its_limit() {
    let sim = test_device(Builder::new().instruction_limit(100_000));
    let flag = sim.upload(&[0_u32]);
    let spin = sim.function(sim.load(FAULT_KERNELS), "spin");
    ok(sim.launch(spin, [1, 1], ptr::null_mut(), &mut [flag]));
    assert_eq!(sim.sync(), R::CUDA_ERROR_LAUNCH_TIMEOUT);
}

/// Two frames of this many registers are 400,000 words for each thread.
#[test]
fn frames_beyond_the_stack_limit_are_a_fault() {
    let sim = test_device(Builder::new());
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n\
                .func deep() { .reg .b64 %rd<100000>; mov.u64 %rd1, 1; ret; }\n\
                .visible .entry k() { .reg .b64 %rd<100000>; mov.u64 %rd1, 1; call deep; ret; }";
    let kernel = sim.function(sim.load(text), "k");
    ok(sim.launch(kernel, [1, 1], ptr::null_mut(), &mut []));
    assert_eq!(sim.sync(), R::CUDA_ERROR_HARDWARE_STACK_ERROR);
}

#[test]
fn kernel_with_too_many_registers_is_not_loaded() {
    let sim = test_device(Builder::new());
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n\
                .visible .entry k() { .reg .b64 %rd<1000000>; mov.u64 %rd1, 1; ret; }\0";
    let mut module = ptr::null_mut();
    let status = unsafe { sim.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_PTX);
}

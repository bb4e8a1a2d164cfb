//! Calls in the legacy stream that block the streams ordered with it, and calls that do not.

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::CUstream;

use crate::support::{TestDevice, late, ok, test_device};

const LEGACY: CUstream = ptr::null_mut();

/// Returns whether work that is queued in a blocking stream after `call` runs while another
/// blocking stream waits for the host.
fn runs_beside_held_stream(sim: &TestDevice, call: impl FnOnce()) -> bool {
    let (held, other) = (sim.stream(0), sim.stream(0));
    let flag = sim.pinned(4).cast::<u32>();
    unsafe { flag.write_volatile(0) };
    let event = sim.event(0);
    unsafe { ok(sim.cuStreamWaitValue32_v2(held, flag.addr() as u64, 1, 0)) };
    call();
    unsafe { ok(sim.cuEventRecord(event, other)) };
    let mut is_done = false;
    for _ in 0..100 {
        is_done |= unsafe { sim.cuEventQuery(event) } == R::CUDA_SUCCESS;
        if is_done {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    unsafe { flag.write_volatile(1) };
    ok(sim.sync());
    is_done
}

#[test]
fn legacy_stream_allocation_blocks_nothing() {
    for sim in [test_device(Builder::new()), test_device(late(3))] {
        let mut pool = ptr::null_mut();
        unsafe { ok(sim.cuDeviceGetDefaultMemPool(&raw mut pool, 0)) };
        let mut memory = [0_u64; 2];
        let [first, second] = &mut memory;
        assert!(runs_beside_held_stream(&sim, || unsafe {
            ok(sim.cuMemAllocFromPoolAsync(first, 64, pool, LEGACY));
        }));
        assert!(runs_beside_held_stream(&sim, || unsafe {
            ok(sim.cuMemAllocAsync(second, 64, LEGACY));
        }));
        // Both can be used in a stream that is ordered with the legacy stream, too.
        let stream = sim.stream(0);
        for addr in memory {
            unsafe { ok(sim.cuMemsetD8Async(addr, 7, 64, stream)) };
            assert_eq!(sim.download::<u8>(addr, 64), [7; 64]);
            unsafe { ok(sim.cuMemFreeAsync(addr, LEGACY)) };
        }
    }
}

#[test]
fn legacy_stream_upload_blocks_nothing() {
    for sim in [test_device(Builder::new()), test_device(late(3))] {
        let graph = sim.graph();
        let exec = sim.instantiate(graph);
        assert!(runs_beside_held_stream(&sim, || unsafe {
            ok(sim.cuGraphUpload(exec, LEGACY))
        }));
    }
}

#[test]
fn an_upload_has_a_place_in_the_legacy_stream() {
    let sim = test_device(Builder::new());
    let flag = sim.pinned(4).cast::<u32>();
    unsafe { flag.write_volatile(0) };
    let graph = sim.graph();
    let exec = sim.instantiate(graph);
    let free = sim.stream(1);
    let event = sim.event(0);
    unsafe {
        ok(sim.cuStreamWaitValue32_v2(free, flag.addr() as u64, 1, 0));
        ok(sim.cuGraphLaunch(exec, free));
        // The upload runs after the launch, and later work in the stream runs after the upload.
        ok(sim.cuGraphUpload(exec, LEGACY));
        ok(sim.cuEventRecord(event, LEGACY));
        assert_eq!(sim.cuEventQuery(event), R::CUDA_ERROR_NOT_READY);
        flag.write_volatile(1);
        ok(sim.cuEventSynchronize(event));
        ok(sim.cuStreamQuery(free));
    }
}

#[test]
fn fill_in_the_legacy_stream_blocks_blocking_streams() {
    let sim = test_device(Builder::new());
    let data = sim.alloc(64);
    assert!(!runs_beside_held_stream(&sim, || unsafe {
        ok(sim.cuMemsetD8Async(data, 1, 64, LEGACY));
    }));
}

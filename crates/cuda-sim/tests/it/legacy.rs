//! Calls in the legacy stream that block the streams ordered with it, and calls that do not.

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::CUstream;

use crate::support::{Bench, bench, late, ok};

const LEGACY: CUstream = ptr::null_mut();

/// Whether work that is queued in a blocking stream after `call` runs while another blocking stream
/// waits for the host.
fn goes_on(bench: &Bench, call: impl FnOnce()) -> bool {
    let (held, other) = (bench.stream(0), bench.stream(0));
    let flag = bench.pinned(4).cast::<u32>();
    unsafe { flag.write_volatile(0) };
    let event = bench.event(0);
    unsafe { ok(bench.cuStreamWaitValue32_v2(held, flag.addr() as u64, 1, 0)) };
    call();
    unsafe { ok(bench.cuEventRecord(event, other)) };
    let mut is_done = false;
    for _ in 0..100 {
        is_done |= unsafe { bench.cuEventQuery(event) } == R::CUDA_SUCCESS;
        if is_done {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    unsafe { flag.write_volatile(1) };
    ok(bench.sync());
    is_done
}

#[test]
fn an_allocation_in_the_legacy_stream_holds_up_nothing() {
    for bench in [bench(Builder::new()), bench(late(3))] {
        let mut pool = ptr::null_mut();
        unsafe { ok(bench.cuDeviceGetDefaultMemPool(&raw mut pool, 0)) };
        let mut memory = [0_u64; 2];
        let [first, second] = &mut memory;
        assert!(goes_on(&bench, || unsafe {
            ok(bench.cuMemAllocFromPoolAsync(first, 64, pool, LEGACY));
        }));
        assert!(goes_on(&bench, || unsafe {
            ok(bench.cuMemAllocAsync(second, 64, LEGACY));
        }));
        // Both can be used in a stream that is ordered with the legacy stream, too.
        let stream = bench.stream(0);
        for addr in memory {
            unsafe { ok(bench.cuMemsetD8Async(addr, 7, 64, stream)) };
            assert_eq!(bench.download::<u8>(addr, 64), [7; 64]);
            unsafe { ok(bench.cuMemFreeAsync(addr, LEGACY)) };
        }
    }
}

#[test]
fn an_upload_in_the_legacy_stream_holds_up_nothing() {
    for bench in [bench(Builder::new()), bench(late(3))] {
        let graph = bench.graph();
        let exec = bench.instantiate(graph);
        assert!(goes_on(&bench, || unsafe {
            ok(bench.cuGraphUpload(exec, LEGACY))
        }));
    }
}

#[test]
fn an_upload_has_a_place_in_the_legacy_stream() {
    let bench = bench(Builder::new());
    let flag = bench.pinned(4).cast::<u32>();
    unsafe { flag.write_volatile(0) };
    let graph = bench.graph();
    let exec = bench.instantiate(graph);
    let free = bench.stream(1);
    let event = bench.event(0);
    unsafe {
        ok(bench.cuStreamWaitValue32_v2(free, flag.addr() as u64, 1, 0));
        ok(bench.cuGraphLaunch(exec, free));
        // The upload runs after the launch, and later work in the stream runs after the upload.
        ok(bench.cuGraphUpload(exec, LEGACY));
        ok(bench.cuEventRecord(event, LEGACY));
        assert_eq!(bench.cuEventQuery(event), R::CUDA_ERROR_NOT_READY);
        flag.write_volatile(1);
        ok(bench.cuEventSynchronize(event));
        ok(bench.cuStreamQuery(free));
    }
}

#[test]
fn a_fill_in_the_legacy_stream_holds_up_blocking_streams() {
    let bench = bench(Builder::new());
    let data = bench.alloc(64);
    assert!(!goes_on(&bench, || unsafe {
        ok(bench.cuMemsetD8Async(data, 1, 64, LEGACY));
    }));
}

//! Events.

use std::thread;
use std::time::Duration;

use cuda_sim::{Builder, CUresult};

use crate::support::{OK, bench, late, ok};

#[test]
fn an_event_that_was_never_recorded_is_done() {
    let bench = bench(late(0));
    let event = bench.event(0);
    let stream = bench.stream(0);
    unsafe {
        ok(bench.cuEventQuery(event));
        ok(bench.cuEventSynchronize(event));
        ok(bench.cuStreamWaitEvent(stream, event, 0));
    }
    assert_eq!(bench.simulator.pending(), 0);
    let mut time = 0.0;
    let status = unsafe { bench.cuEventElapsedTime(&raw mut time, event, event) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn time_passes_between_events() {
    let bench = bench(Builder::new());
    let (start, end, untimed) = (bench.event(0), bench.event(0), bench.event(2));
    let stream = bench.stream(1);
    let mut time = -1.0;
    unsafe {
        ok(bench.cuEventRecord(start, stream));
        ok(bench.cuStreamSynchronize(stream));
        thread::sleep(Duration::from_millis(30));
        ok(bench.cuEventRecord(end, stream));
        ok(bench.cuEventSynchronize(end));
        ok(bench.cuEventElapsedTime(&raw mut time, start, end));
    }
    assert!((30.0..3000.0).contains(&time), "{time} ms");
    let mut back = 0.0;
    unsafe {
        ok(bench.cuEventElapsedTime_v2(&raw mut back, end, start));
        assert_eq!(back, -time);
        ok(bench.cuEventRecord(untimed, stream));
        ok(bench.cuEventSynchronize(untimed));
        let status = bench.cuEventElapsedTime(&raw mut time, start, untimed);
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}

#[test]
fn a_late_event_is_not_ready_at_first_and_ready_in_the_end() {
    let mut waited = 0;
    for seed in 0..10 {
        let bench = bench(late(seed));
        let (event, stream) = (bench.event(0), bench.stream(1));
        let addr = bench.alloc(16);
        unsafe {
            ok(bench.cuMemsetD8Async(addr, 1, 16, stream));
            ok(bench.cuEventRecord(event, stream));
        }
        let mut tries = 0;
        loop {
            match unsafe { bench.cuEventQuery(event) } {
                OK => break,
                status => assert_eq!(status, CUresult::CUDA_ERROR_NOT_READY),
            }
            tries += 1;
            assert!(tries < 1_000_000);
            thread::yield_now();
        }
        assert!(tries > 0);
        waited += tries;
        assert_eq!(bench.download::<u8>(addr, 16), [1; 16]);
    }
    assert!(waited >= 10);
}

#[test]
fn waiting_is_for_the_recording_of_then() {
    for seed in 0..30 {
        let bench = bench(late(seed));
        let (one, two) = (bench.stream(1), bench.stream(1));
        let event = bench.event(2);
        let data = bench.upload(&[0_u32]);
        let copy = bench.pinned(8);
        unsafe {
            ok(bench.cuMemsetD32Async(data, 1, 1, one));
            ok(bench.cuEventRecord(event, one));
            ok(bench.cuStreamWaitEvent(two, event, 0));
            ok(bench.cuMemcpyDtoHAsync_v2(copy.cast(), data, 4, two));
            let read = bench.event(2);
            ok(bench.cuEventRecord(read, two));
            ok(bench.cuStreamWaitEvent(one, read, 0));
            ok(bench.cuMemsetD32Async(data, 2, 1, one));
            // A second recording: waits that were queued before keep waiting for the first one.
            ok(bench.cuEventRecord(event, one));
            ok(bench.cuEventDestroy_v2(event));
            ok(bench.cuStreamSynchronize(one));
        }
        assert_eq!(unsafe { copy.cast::<u32>().read() }, 1, "seed {seed}");
        assert_eq!(bench.download::<u32>(data, 1), [2], "seed {seed}");
    }
}

#[test]
fn an_event_belongs_to_its_context() {
    let bench = bench(Builder::new());
    let event = bench.event(0);
    let mut other = std::ptr::null_mut();
    unsafe { ok(bench.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    let stream = bench.stream(0);
    let status = unsafe { bench.cuEventRecord(event, stream) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    // A stream may wait for an event of another context.
    unsafe { ok(bench.cuStreamWaitEvent(stream, event, 0)) };
    let mut bad = std::ptr::null_mut();
    for flags in [8, 4] {
        let status = unsafe { bench.cuEventCreate(&raw mut bad, flags) };
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

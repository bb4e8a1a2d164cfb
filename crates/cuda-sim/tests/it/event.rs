//! Events.

use std::thread;
use std::time::Duration;

use cuda_sim::{Builder, CUresult};

use crate::support::{OK, late, ok, test_device};

#[test]
fn an_event_that_was_never_recorded_is_done() {
    let sim = test_device(late(0));
    let event = sim.event(0);
    let stream = sim.stream(0);
    unsafe {
        ok(sim.cuEventQuery(event));
        ok(sim.cuEventSynchronize(event));
        ok(sim.cuStreamWaitEvent(stream, event, 0));
    }
    assert_eq!(sim.simulator.pending(), 0);
    let mut time = 0.0;
    let status = unsafe { sim.cuEventElapsedTime(&raw mut time, event, event) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn time_passes_between_events() {
    let sim = test_device(Builder::new());
    let (start, end, untimed) = (sim.event(0), sim.event(0), sim.event(2));
    let stream = sim.stream(1);
    let mut time = -1.0;
    unsafe {
        ok(sim.cuEventRecord(start, stream));
        ok(sim.cuStreamSynchronize(stream));
        thread::sleep(Duration::from_millis(30));
        ok(sim.cuEventRecord(end, stream));
        ok(sim.cuEventSynchronize(end));
        ok(sim.cuEventElapsedTime(&raw mut time, start, end));
    }
    assert!((30.0..3000.0).contains(&time), "{time} ms");
    let mut back = 0.0;
    unsafe {
        ok(sim.cuEventElapsedTime_v2(&raw mut back, end, start));
        assert_eq!(back, -time);
        ok(sim.cuEventRecord(untimed, stream));
        ok(sim.cuEventSynchronize(untimed));
        let status = sim.cuEventElapsedTime(&raw mut time, start, untimed);
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}

#[test]
fn a_late_event_is_not_ready_at_first_and_ready_in_the_end() {
    let mut waited = 0;
    for seed in 0..10 {
        let sim = test_device(late(seed));
        let (event, stream) = (sim.event(0), sim.stream(1));
        let addr = sim.alloc(16);
        unsafe {
            ok(sim.cuMemsetD8Async(addr, 1, 16, stream));
            ok(sim.cuEventRecord(event, stream));
        }
        let mut tries = 0;
        loop {
            match unsafe { sim.cuEventQuery(event) } {
                OK => break,
                status => assert_eq!(status, CUresult::CUDA_ERROR_NOT_READY),
            }
            tries += 1;
            assert!(tries < 1_000_000);
            thread::yield_now();
        }
        assert!(tries > 0);
        waited += tries;
        assert_eq!(sim.download::<u8>(addr, 16), [1; 16]);
    }
    assert!(waited >= 10);
}

#[test]
fn waiting_is_for_the_recording_of_then() {
    for seed in 0..30 {
        let sim = test_device(late(seed));
        let (one, two) = (sim.stream(1), sim.stream(1));
        let event = sim.event(2);
        let data = sim.upload(&[0_u32]);
        let copy = sim.pinned(8);
        unsafe {
            ok(sim.cuMemsetD32Async(data, 1, 1, one));
            ok(sim.cuEventRecord(event, one));
            ok(sim.cuStreamWaitEvent(two, event, 0));
            ok(sim.cuMemcpyDtoHAsync_v2(copy.cast(), data, 4, two));
            let read = sim.event(2);
            ok(sim.cuEventRecord(read, two));
            ok(sim.cuStreamWaitEvent(one, read, 0));
            ok(sim.cuMemsetD32Async(data, 2, 1, one));
            // A second recording: waits that were queued before keep waiting for the first one.
            ok(sim.cuEventRecord(event, one));
            ok(sim.cuEventDestroy_v2(event));
            ok(sim.cuStreamSynchronize(one));
        }
        assert_eq!(unsafe { copy.cast::<u32>().read() }, 1, "seed {seed}");
        assert_eq!(sim.download::<u32>(data, 1), [2], "seed {seed}");
    }
}

#[test]
fn an_event_belongs_to_its_context() {
    let sim = test_device(Builder::new());
    let event = sim.event(0);
    let mut other = std::ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    let stream = sim.stream(0);
    let status = unsafe { sim.cuEventRecord(event, stream) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    // A stream may wait for an event of another context.
    unsafe { ok(sim.cuStreamWaitEvent(stream, event, 0)) };
    let mut bad = std::ptr::null_mut();
    for flags in [8, 4] {
        let status = unsafe { sim.cuEventCreate(&raw mut bad, flags) };
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

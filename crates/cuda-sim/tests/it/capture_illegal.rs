//! Capture: calls that are illegal during a capture, and the ends of captures.

use std::ptr;
use std::thread;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{CUgraph, CUstream, CUstreamCaptureMode};

use crate::capture::status;
use crate::support::{TestDevice, ok, test_device};

type R = CUresult;
type Mode = CUstreamCaptureMode;

const UNSUPPORTED: R = R::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const INVALIDATED: R = R::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// Begins a capture, makes an illegal call and ends the capture. Returns the status of both.
fn illegal(work: impl FnOnce(&TestDevice, CUstream) -> R) -> (R, Result<CUgraph, R>) {
    let sim = test_device(Builder::new());
    let stream = sim.stream(1);
    sim.begin(stream);
    let status = work(&sim, stream);
    let ended = sim.end(stream);
    // The stream is usable again.
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    assert!(sim.simulator.live().graphs <= 1);
    (status, ended)
}

#[test]
fn prohibited_calls_invalidate_the_capture() {
    let failed = (UNSUPPORTED, Err(INVALIDATED));
    unsafe {
        assert_eq!(
            illegal(|sim, stream| sim.cuStreamSynchronize(stream)),
            failed
        );
        assert_eq!(illegal(|sim, stream| sim.cuStreamQuery(stream)), failed);
        assert_eq!(illegal(|sim, _| sim.cuCtxSynchronize()), failed);
        assert_eq!(illegal(|sim, _| sim.cuMemAlloc_v2(&mut 0, 4)), failed);
        let query = illegal(|sim, stream| {
            let event = sim.event(0);
            ok(sim.cuEventRecord(event, stream));
            sim.cuEventQuery(event)
        });
        assert_eq!(query, (R::CUDA_ERROR_CAPTURED_EVENT, Err(INVALIDATED)));
        let wait = illegal(|sim, stream| {
            let (event, other) = (sim.event(0), sim.stream(1));
            ok(sim.cuEventRecord(event, other));
            sim.cuStreamWaitEvent(stream, event, 0)
        });
        assert_eq!(
            wait,
            (R::CUDA_ERROR_STREAM_CAPTURE_ISOLATION, Err(INVALIDATED))
        );
        let launched = illegal(|sim, stream| {
            let graph = sim.graph();
            let exec = sim.instantiate(graph);
            ok(sim.cuGraphDestroy(graph));
            sim.cuGraphLaunch(exec, stream)
        });
        assert_eq!(launched, failed);
        let elsewhere = illegal(|sim, _| sim.cuMemAllocAsync(&mut 0, 4, sim.stream(1)));
        assert_eq!(elsewhere, failed);
        let after = illegal(|sim, stream| {
            assert_eq!(sim.cuStreamSynchronize(stream), UNSUPPORTED);
            assert_eq!(status(sim, stream), Ok(2));
            let mut addr = 0;
            sim.cuMemAllocAsync(&raw mut addr, 4, stream)
        });
        assert_eq!(after, (INVALIDATED, Err(INVALIDATED)));
    }
}

#[test]
fn errors_of_arguments_do_not_invalidate() {
    let (status, ended) = illegal(|sim, stream| unsafe {
        assert_eq!(sim.cuMemFreeAsync(64, stream), R::CUDA_ERROR_INVALID_VALUE);
        let mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        sim.cuStreamBeginCapture_v2(stream, mode)
    });
    assert_eq!(status, R::CUDA_ERROR_ILLEGAL_STATE, "it captures already");
    assert!(ended.is_ok());
}

#[test]
fn blocking_copies_do_not_affect_a_capture() {
    let sim = test_device(Builder::new());
    let word = sim.upload(&[3_u32]);
    let stream = sim.stream(1);
    sim.begin(stream);
    assert_eq!(sim.download::<u32>(word, 1), [3]);
    assert!(sim.end(stream).is_ok());
}

#[test]
fn captures_do_not_merge() {
    let sim = test_device(Builder::new());
    let (one, two) = (sim.stream(1), sim.stream(1));
    let event = sim.event(2);
    sim.begin(one);
    sim.begin(two);
    unsafe {
        ok(sim.cuEventRecord(event, one));
        let merge = sim.cuStreamWaitEvent(two, event, 0);
        assert_eq!(merge, R::CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    assert_eq!(
        (sim.end(one), sim.end(two)),
        (Err(INVALIDATED), Err(INVALIDATED))
    );
}

#[test]
fn forks_must_join_and_captures_end_where_they_began() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[0_u32]);
    let (one, two) = (sim.stream(1), sim.stream(1));
    let event = sim.event(2);
    let fork = || unsafe {
        sim.begin(one);
        ok(sim.cuEventRecord(event, one));
        ok(sim.cuStreamWaitEvent(two, event, 0));
        ok(sim.cuMemsetD32Async(data, 1, 1, two));
    };
    fork();
    assert_eq!(sim.end(one), Err(R::CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    assert_eq!(status(&sim, two), Ok(0));
    fork();
    let mut graph = ptr::null_mut();
    let other = unsafe { sim.cuStreamEndCapture(two, &raw mut graph) };
    assert_eq!(other, R::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(sim.end(one), Err(INVALIDATED));
    assert_eq!(
        sim.end(one),
        Err(R::CUDA_ERROR_ILLEGAL_STATE),
        "there is none"
    );
    assert_eq!(sim.simulator.live().graphs, 0);
}

#[test]
fn the_legacy_stream_depends_on_nothing_captured() {
    let implicit = R::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    let sim = test_device(Builder::new());
    let data = sim.upload(&[0_u32]);
    let (blocking, free) = (sim.stream(0), sim.stream(1));
    let legacy = ptr::null_mut();
    let mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
    unsafe {
        assert_eq!(sim.cuStreamBeginCapture_v2(legacy, mode), UNSUPPORTED);
        ok(sim.cuStreamBeginCapture_v2(free, mode));
        ok(sim.cuMemsetD32Async(data, 1, 1, legacy));
        sim.end(free).unwrap();
        ok(sim.cuStreamBeginCapture_v2(blocking, mode));
        assert_eq!(status(&sim, legacy), Err(implicit));
        assert_eq!(status(&sim, blocking), Ok(1), "asking invalidates nothing");
        assert_eq!(sim.cuMemsetD32Async(data, 1, 1, legacy), implicit);
        assert_eq!(status(&sim, blocking), Ok(2));
    }
    assert_eq!(sim.end(blocking), Err(INVALIDATED));
    assert_eq!(sim.download::<u32>(data, 1), [1]);
}

#[test]
fn the_mode_selects_the_prohibited_calls() {
    let sim = test_device(Builder::new());
    let (driver, context) = (&sim.driver, sim.context.addr());
    // Allocates on another thread during a capture, and returns how the capture ends.
    let elsewhere = |mode, own: Mode| {
        let stream = sim.stream(1);
        unsafe { ok(driver.cuStreamBeginCapture_v2(stream, mode)) };
        let status = thread::scope(|scope| {
            let work = move || unsafe {
                ok(driver.cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                let mut mode = own;
                ok(driver.cuThreadExchangeStreamCaptureMode(&raw mut mode));
                assert_eq!(mode, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
                driver.cuMemAlloc_v2(&mut 0, 4)
            };
            scope.spawn(work).join().unwrap()
        });
        (status, sim.end(stream).is_ok())
    };
    let global = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    let local = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let relaxed = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let good = (R::CUDA_SUCCESS, true);
    assert_eq!(elsewhere(global, global), (UNSUPPORTED, false));
    assert_eq!(elsewhere(global, local), good);
    assert_eq!(elsewhere(global, relaxed), good);
    assert_eq!(elsewhere(local, global), good);
    assert_eq!(elsewhere(relaxed, global), good);
    // Allocates on the thread that captures.
    let here = |mode, own: Mode| {
        let stream = sim.stream(1);
        let mut mine = own;
        unsafe {
            ok(sim.cuStreamBeginCapture_v2(stream, mode));
            ok(sim.cuThreadExchangeStreamCaptureMode(&raw mut mine));
            let status = sim.cuMemAlloc_v2(&mut 0, 4);
            ok(sim.cuThreadExchangeStreamCaptureMode(&raw mut mine));
            assert_eq!(mine, own, "and back");
            (status, sim.end(stream).is_ok())
        }
    };
    assert_eq!(here(global, global), (UNSUPPORTED, false));
    assert_eq!(here(local, local), (UNSUPPORTED, false));
    assert_eq!(here(local, relaxed), good);
    assert_eq!(here(relaxed, global), good);
}

#[test]
fn another_thread_ends_only_a_relaxed_capture() {
    let sim = test_device(Builder::new());
    let driver = &sim.driver;
    let end = |mode| {
        let stream = sim.stream(1);
        unsafe { ok(driver.cuStreamBeginCapture_v2(stream, mode)) };
        let handle = stream.addr();
        let status = thread::scope(|scope| {
            let work = move || unsafe {
                let mut graph = ptr::null_mut();
                driver.cuStreamEndCapture(ptr::without_provenance_mut(handle), &raw mut graph)
            };
            scope.spawn(work).join().unwrap()
        });
        (status, sim.end(stream).is_ok())
    };
    let wrong = R::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    assert_eq!(end(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL), (wrong, true));
    assert_eq!(
        end(Mode::CU_STREAM_CAPTURE_MODE_RELAXED),
        (R::CUDA_SUCCESS, false)
    );
}

#[test]
fn destroying_a_stream_ends_its_capture() {
    let sim = test_device(Builder::new());
    let (one, two) = (sim.stream(1), sim.stream(1));
    let event = sim.event(2);
    unsafe {
        sim.begin(one);
        ok(sim.cuEventRecord(event, one));
        ok(sim.cuStreamWaitEvent(two, event, 0));
        ok(sim.cuStreamDestroy_v2(one));
        assert_eq!(status(&sim, two), Ok(0));
        assert_eq!(sim.simulator.live().graphs, 0);
        let wait = sim.cuStreamWaitEvent(two, event, 0);
        assert_eq!(wait, R::CUDA_ERROR_INVALID_VALUE);
        ok(sim.cuStreamSynchronize(two));
    }
}

#[test]
fn a_joined_stream_may_be_destroyed() {
    for joined in [true, false] {
        let sim = test_device(Builder::new());
        let (one, two) = (sim.stream(1), sim.stream(1));
        let (fork, join) = (sim.event(2), sim.event(2));
        let data = sim.upload(&[0_u32; 3]);
        sim.begin(one);
        unsafe {
            ok(sim.cuEventRecord(fork, one));
            ok(sim.cuStreamWaitEvent(two, fork, 0));
            ok(sim.cuMemsetD32Async(data, 1, 1, one));
            ok(sim.cuMemsetD32Async(data + 4, 2, 1, two));
            if joined {
                ok(sim.cuEventRecord(join, two));
                ok(sim.cuStreamWaitEvent(one, join, 0));
            }
            ok(sim.cuStreamDestroy_v2(two));
            let next = sim.cuMemsetD32Async(data + 8, 3, 1, one);
            if !joined {
                assert_eq!(next, INVALIDATED);
                assert_eq!(sim.end(one), Err(INVALIDATED));
                continue;
            }
            ok(next);
            let exec = sim.instantiate(sim.end(one).unwrap());
            ok(sim.cuGraphLaunch(exec, one));
            ok(sim.cuStreamSynchronize(one));
        }
        assert_eq!(sim.download::<u32>(data, 3), [1, 2, 3]);
    }
}

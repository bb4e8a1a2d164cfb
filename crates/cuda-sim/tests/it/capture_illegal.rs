//! Capture: calls that are illegal during a capture, and the ends of captures.

use std::ptr;
use std::thread;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{CUgraph, CUstream, CUstreamCaptureMode};

use crate::capture::status;
use crate::support::{Bench, bench, ok};

type R = CUresult;
type Mode = CUstreamCaptureMode;

const UNSUPPORTED: R = R::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const INVALIDATED: R = R::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// Begins a capture, makes an illegal call and ends the capture. Returns the status of both.
fn illegal(work: impl FnOnce(&Bench, CUstream) -> R) -> (R, Result<CUgraph, R>) {
    let bench = bench(Builder::new());
    let stream = bench.stream(1);
    bench.begin(stream);
    let answer = work(&bench, stream);
    let ended = bench.end(stream);
    // The stream is usable again.
    unsafe { ok(bench.cuStreamSynchronize(stream)) };
    assert!(bench.simulator.live().graphs <= 1);
    (answer, ended)
}

#[test]
fn what_a_capturing_stream_cannot_do_invalidates() {
    let failed = (UNSUPPORTED, Err(INVALIDATED));
    unsafe {
        assert_eq!(
            illegal(|bench, stream| bench.cuStreamSynchronize(stream)),
            failed
        );
        assert_eq!(illegal(|bench, stream| bench.cuStreamQuery(stream)), failed);
        assert_eq!(illegal(|bench, _| bench.cuCtxSynchronize()), failed);
        assert_eq!(illegal(|bench, _| bench.cuMemAlloc_v2(&mut 0, 4)), failed);
        let query = illegal(|bench, stream| {
            let event = bench.event(0);
            ok(bench.cuEventRecord(event, stream));
            bench.cuEventQuery(event)
        });
        assert_eq!(query, (R::CUDA_ERROR_CAPTURED_EVENT, Err(INVALIDATED)));
        let wait = illegal(|bench, stream| {
            let (event, other) = (bench.event(0), bench.stream(1));
            ok(bench.cuEventRecord(event, other));
            bench.cuStreamWaitEvent(stream, event, 0)
        });
        assert_eq!(
            wait,
            (R::CUDA_ERROR_STREAM_CAPTURE_ISOLATION, Err(INVALIDATED))
        );
        let launched = illegal(|bench, stream| {
            let graph = bench.graph();
            let exec = bench.instantiate(graph);
            ok(bench.cuGraphDestroy(graph));
            bench.cuGraphLaunch(exec, stream)
        });
        assert_eq!(launched, failed);
        let elsewhere = illegal(|bench, _| bench.cuMemAllocAsync(&mut 0, 4, bench.stream(1)));
        assert_eq!(elsewhere, failed);
        let after = illegal(|bench, stream| {
            assert_eq!(bench.cuStreamSynchronize(stream), UNSUPPORTED);
            assert_eq!(status(bench, stream), Ok(2));
            let mut addr = 0;
            bench.cuMemAllocAsync(&raw mut addr, 4, stream)
        });
        assert_eq!(after, (INVALIDATED, Err(INVALIDATED)));
    }
}

#[test]
fn errors_of_arguments_do_not_invalidate() {
    let (answer, ended) = illegal(|bench, stream| unsafe {
        assert_eq!(
            bench.cuMemFreeAsync(64, stream),
            R::CUDA_ERROR_INVALID_VALUE
        );
        let mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        bench.cuStreamBeginCapture_v2(stream, mode)
    });
    assert_eq!(answer, R::CUDA_ERROR_ILLEGAL_STATE, "it captures already");
    assert!(ended.is_ok());
}

#[test]
fn copies_that_block_go_on_beside_a_capture() {
    let bench = bench(Builder::new());
    let word = bench.upload(&[3_u32]);
    let stream = bench.stream(1);
    bench.begin(stream);
    assert_eq!(bench.download::<u32>(word, 1), [3]);
    assert!(bench.end(stream).is_ok());
}

#[test]
fn captures_do_not_merge() {
    let bench = bench(Builder::new());
    let (one, two) = (bench.stream(1), bench.stream(1));
    let event = bench.event(2);
    bench.begin(one);
    bench.begin(two);
    unsafe {
        ok(bench.cuEventRecord(event, one));
        let merge = bench.cuStreamWaitEvent(two, event, 0);
        assert_eq!(merge, R::CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    assert_eq!(
        (bench.end(one), bench.end(two)),
        (Err(INVALIDATED), Err(INVALIDATED))
    );
}

#[test]
fn forks_must_join_and_captures_end_where_they_began() {
    let bench = bench(Builder::new());
    let data = bench.upload(&[0_u32]);
    let (one, two) = (bench.stream(1), bench.stream(1));
    let event = bench.event(2);
    let fork = || unsafe {
        bench.begin(one);
        ok(bench.cuEventRecord(event, one));
        ok(bench.cuStreamWaitEvent(two, event, 0));
        ok(bench.cuMemsetD32Async(data, 1, 1, two));
    };
    fork();
    assert_eq!(bench.end(one), Err(R::CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    assert_eq!(status(&bench, two), Ok(0));
    fork();
    let mut graph = ptr::null_mut();
    let other = unsafe { bench.cuStreamEndCapture(two, &raw mut graph) };
    assert_eq!(other, R::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(bench.end(one), Err(INVALIDATED));
    assert_eq!(
        bench.end(one),
        Err(R::CUDA_ERROR_ILLEGAL_STATE),
        "there is none"
    );
    assert_eq!(bench.simulator.live().graphs, 0);
}

#[test]
fn the_legacy_stream_depends_on_nothing_captured() {
    let implicit = R::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    let bench = bench(Builder::new());
    let data = bench.upload(&[0_u32]);
    let (blocking, free) = (bench.stream(0), bench.stream(1));
    let legacy = ptr::null_mut();
    let mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
    unsafe {
        assert_eq!(bench.cuStreamBeginCapture_v2(legacy, mode), UNSUPPORTED);
        ok(bench.cuStreamBeginCapture_v2(free, mode));
        ok(bench.cuMemsetD32Async(data, 1, 1, legacy));
        bench.end(free).unwrap();
        ok(bench.cuStreamBeginCapture_v2(blocking, mode));
        assert_eq!(status(&bench, legacy), Err(implicit));
        assert_eq!(
            status(&bench, blocking),
            Ok(1),
            "asking invalidates nothing"
        );
        assert_eq!(bench.cuMemsetD32Async(data, 1, 1, legacy), implicit);
        assert_eq!(status(&bench, blocking), Ok(2));
    }
    assert_eq!(bench.end(blocking), Err(INVALIDATED));
    assert_eq!(bench.download::<u32>(data, 1), [1]);
}

#[test]
fn modes_say_whose_calls_are_prohibited() {
    let bench = bench(Builder::new());
    let (driver, context) = (&bench.driver, bench.context.addr());
    // Allocates on another thread during a capture, and returns how the capture ends.
    let elsewhere = |mode, own: Mode| {
        let stream = bench.stream(1);
        unsafe { ok(driver.cuStreamBeginCapture_v2(stream, mode)) };
        let answer = thread::scope(|scope| {
            let work = move || unsafe {
                ok(driver.cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                let mut mode = own;
                ok(driver.cuThreadExchangeStreamCaptureMode(&raw mut mode));
                assert_eq!(mode, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
                driver.cuMemAlloc_v2(&mut 0, 4)
            };
            scope.spawn(work).join().unwrap()
        });
        (answer, bench.end(stream).is_ok())
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
        let stream = bench.stream(1);
        let mut mine = own;
        unsafe {
            ok(bench.cuStreamBeginCapture_v2(stream, mode));
            ok(bench.cuThreadExchangeStreamCaptureMode(&raw mut mine));
            let answer = bench.cuMemAlloc_v2(&mut 0, 4);
            ok(bench.cuThreadExchangeStreamCaptureMode(&raw mut mine));
            assert_eq!(mine, own, "and back");
            (answer, bench.end(stream).is_ok())
        }
    };
    assert_eq!(here(global, global), (UNSUPPORTED, false));
    assert_eq!(here(local, local), (UNSUPPORTED, false));
    assert_eq!(here(local, relaxed), good);
    assert_eq!(here(relaxed, global), good);
}

#[test]
fn another_thread_ends_only_a_relaxed_capture() {
    let bench = bench(Builder::new());
    let driver = &bench.driver;
    let end = |mode| {
        let stream = bench.stream(1);
        unsafe { ok(driver.cuStreamBeginCapture_v2(stream, mode)) };
        let handle = stream.addr();
        let answer = thread::scope(|scope| {
            let work = move || unsafe {
                let mut graph = ptr::null_mut();
                driver.cuStreamEndCapture(ptr::without_provenance_mut(handle), &raw mut graph)
            };
            scope.spawn(work).join().unwrap()
        });
        (answer, bench.end(stream).is_ok())
    };
    let wrong = R::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    assert_eq!(end(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL), (wrong, true));
    assert_eq!(
        end(Mode::CU_STREAM_CAPTURE_MODE_RELAXED),
        (R::CUDA_SUCCESS, false)
    );
}

#[test]
fn a_stream_that_goes_takes_its_capture_along() {
    let bench = bench(Builder::new());
    let (one, two) = (bench.stream(1), bench.stream(1));
    let event = bench.event(2);
    unsafe {
        bench.begin(one);
        ok(bench.cuEventRecord(event, one));
        ok(bench.cuStreamWaitEvent(two, event, 0));
        ok(bench.cuStreamDestroy_v2(one));
        assert_eq!(status(&bench, two), Ok(0));
        assert_eq!(bench.simulator.live().graphs, 0);
        let wait = bench.cuStreamWaitEvent(two, event, 0);
        assert_eq!(wait, R::CUDA_ERROR_INVALID_VALUE);
        ok(bench.cuStreamSynchronize(two));
    }
}

#[test]
fn a_forked_stream_may_go_once_it_is_joined() {
    for joined in [true, false] {
        let bench = bench(Builder::new());
        let (one, two) = (bench.stream(1), bench.stream(1));
        let (fork, join) = (bench.event(2), bench.event(2));
        let data = bench.upload(&[0_u32; 3]);
        bench.begin(one);
        unsafe {
            ok(bench.cuEventRecord(fork, one));
            ok(bench.cuStreamWaitEvent(two, fork, 0));
            ok(bench.cuMemsetD32Async(data, 1, 1, one));
            ok(bench.cuMemsetD32Async(data + 4, 2, 1, two));
            if joined {
                ok(bench.cuEventRecord(join, two));
                ok(bench.cuStreamWaitEvent(one, join, 0));
            }
            ok(bench.cuStreamDestroy_v2(two));
            let next = bench.cuMemsetD32Async(data + 8, 3, 1, one);
            if !joined {
                assert_eq!(next, INVALIDATED);
                assert_eq!(bench.end(one), Err(INVALIDATED));
                continue;
            }
            ok(next);
            let exec = bench.instantiate(bench.end(one).unwrap());
            ok(bench.cuGraphLaunch(exec, one));
            ok(bench.cuStreamSynchronize(one));
        }
        assert_eq!(bench.download::<u32>(data, 3), [1, 2, 3]);
    }
}

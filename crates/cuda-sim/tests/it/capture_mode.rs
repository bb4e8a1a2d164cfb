//! Capture modes: the calls that are potentially unsafe, and the captures that they invalidate.

use std::ptr;
use std::thread;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUarray, CUarray_format, CUevent, CUstream, CUstreamCaptureMode as Mode,
    CUstreamCaptureStatus, DriverTable,
};

use crate::capture::status;
use crate::support::{TestDevice, ok, test_device};

const GLOBAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const LOCAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
const UNSUPPORTED: R = R::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const INVALIDATED: R = R::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// The objects on which the calls are made; none of them takes part in the capture.
#[derive(Clone, Copy)]
struct Things {
    stream: usize,
    event: usize,
    memory: u64,
    pinned: usize,
    module: usize,
    array: usize,
    pool: usize,
    /// A page that is registered, and one that is not.
    pages: [usize; 2],
    peer: usize,
}

fn at<T>(address: usize) -> *mut T {
    ptr::with_exposed_provenance_mut(address)
}

impl Things {
    fn new(sim: &TestDevice) -> Self {
        let stream = sim.stream(1);
        let event = sim.event(0);
        let pages: &'static mut [u8] = Box::leak(vec![0; 3 << 12].into_boxed_slice());
        let first = pages.as_mut_ptr().expose_provenance();
        let first = first.next_multiple_of(1 << 12);
        let (mut pool, mut peer) = (ptr::null_mut(), ptr::null_mut());
        let mut array: CUarray = ptr::null_mut();
        let desc = descriptor();
        unsafe {
            ok(sim.cuEventRecord(event, stream));
            ok(sim.cuMemHostRegister_v2(at(first), 1 << 12, 0));
            ok(sim.cuDeviceGetDefaultMemPool(&raw mut pool, 0));
            ok(sim.cuArrayCreate_v2(&raw mut array, &raw const desc));
            ok(sim.cuDevicePrimaryCtxRetain(&raw mut peer, 1));
            ok(sim.cuCtxSynchronize());
        }
        Self {
            stream: stream.expose_provenance(),
            event: event.expose_provenance(),
            memory: sim.alloc(64),
            pinned: sim.pinned(64).expose_provenance(),
            module: sim.load(crate::support::ADD).expose_provenance(),
            array: array.expose_provenance(),
            pool: pool.expose_provenance(),
            pages: [first, first + (1 << 12)],
            peer: peer.expose_provenance(),
        }
    }
}

fn descriptor() -> CUDA_ARRAY_DESCRIPTOR {
    CUDA_ARRAY_DESCRIPTOR {
        Width: 4,
        Height: 0,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        NumChannels: 1,
    }
}

type Run = fn(&DriverTable, &Things) -> R;

/// Makes a list of calls from lines `class: name => call`.
macro_rules! calls {
    ($d:ident, $t:ident: $($name:literal => $call:expr;)*) => {
        &[$(($name, |$d, $t| {
            let _ = $t;
            unsafe { $call }
        })),*]
    };
}

const QUERIES_AND_WAITS: &[(&str, Run)] = calls! { d, t:
    "cuEventQuery" => d.cuEventQuery(at(t.event));
    "cuEventSynchronize" => d.cuEventSynchronize(at(t.event));
    "cuStreamQuery" => d.cuStreamQuery(at(t.stream));
    "cuStreamSynchronize" => d.cuStreamSynchronize(at(t.stream));
};

const DEVICE_MEMORY: &[(&str, Run)] = calls! { d, t:
    "cuMemAlloc" => d.cuMemAlloc_v2(&mut 0, 4);
    "cuMemAllocPitch" => d.cuMemAllocPitch_v2(&mut 0, &mut 0, 4, 4, 4);
    "cuMemAllocManaged" => d.cuMemAllocManaged(&mut 0, 4, 1);
    "cuMemFree" => d.cuMemFree_v2(t.memory);
    "cuMemAllocAsync" => d.cuMemAllocAsync(&mut 0, 4, at(t.stream));
    "cuMemFreeAsync" => d.cuMemFreeAsync(t.memory, at(t.stream));
    "cuMemPoolTrimTo" => d.cuMemPoolTrimTo(at(t.pool), 0);
    "cuDeviceGraphMemTrim" => d.cuDeviceGraphMemTrim(0);
};

const PAGE_LOCKED_MEMORY: &[(&str, Run)] = calls! { d, t:
    "cuMemAllocHost" => d.cuMemAllocHost_v2(&mut ptr::null_mut(), 4);
    "cuMemHostAlloc" => d.cuMemHostAlloc(&mut ptr::null_mut(), 4, 0);
    "cuMemFreeHost" => d.cuMemFreeHost(at(t.pinned));
    "cuMemHostRegister" => d.cuMemHostRegister_v2(at(t.pages[1]), 1 << 12, 0);
    "cuMemHostUnregister" => d.cuMemHostUnregister(at(t.pages[0]));
};

const ARRAYS: &[(&str, Run)] = calls! { d, t:
    "cuArrayCreate" => d.cuArrayCreate_v2(&mut ptr::null_mut(), &descriptor());
    "cuArrayDestroy" => d.cuArrayDestroy(at(t.array));
};

const CODE_AND_CONTEXTS: &[(&str, Run)] = calls! { d, t:
    "cuModuleUnload" => d.cuModuleUnload(at(t.module));
    "cuCtxEnablePeerAccess" => d.cuCtxEnablePeerAccess(at(t.peer), 0);
    "cuDevicePrimaryCtxRelease" => d.cuDevicePrimaryCtxRelease_v2(1);
};

const CLASSES: [&[(&str, Run)]; 5] = [
    QUERIES_AND_WAITS,
    DEVICE_MEMORY,
    PAGE_LOCKED_MEMORY,
    ARRAYS,
    CODE_AND_CONTEXTS,
];

const HARMLESS: &[(&str, Run)] = calls! { d, t:
    "cuCtxSynchronize of another context" => d.cuCtxSynchronize();
    "cuEventCreate and cuEventDestroy" => {
        let mut event: CUevent = ptr::null_mut();
        ok(d.cuEventCreate(&raw mut event, 0));
        d.cuEventDestroy_v2(event)
    };
    "cuEventRecord" => d.cuEventRecord(at(t.event), at(t.stream));
    "cuStreamCreate and cuStreamDestroy" => {
        let mut stream: CUstream = ptr::null_mut();
        ok(d.cuStreamCreate(&raw mut stream, 1));
        d.cuStreamDestroy_v2(stream)
    };
    "cuStreamIsCapturing" => {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        d.cuStreamIsCapturing(at(t.stream), &raw mut status)
    };
    "cuStreamWaitEvent" => d.cuStreamWaitEvent(at(t.stream), at(t.event), 0);
    "cuMemsetD8Async" => d.cuMemsetD8Async(t.memory, 1, 4, at(t.stream));
    "cuMemcpyHtoD" => d.cuMemcpyHtoD_v2(t.memory, [0_u8; 4].as_ptr().cast(), 4);
};

/// The thread that makes the call: the one that captures, or another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    Here,
    Elsewhere,
}

/// Makes a call in `thread` mode while a stream is captured in `capture` mode. Returns the status
/// of the call and of ending the capture.
///
/// The captured stream is on device 1, so that no call concerns its context.
fn beside(capture: Mode, caller: Caller, mut mode: Mode, call: Run) -> (R, Option<R>) {
    let sim = test_device(Builder::new().devices(2));
    let things = Things::new(&sim);
    let driver = sim.driver.table();
    let (mut second, own) = (ptr::null_mut(), sim.context.expose_provenance());
    let stream = unsafe {
        ok(driver.cuCtxCreate_v2(&raw mut second, 0, 1));
        let stream = sim.stream(1);
        ok(driver.cuCtxSetCurrent(at(own)));
        ok(driver.cuStreamBeginCapture_v2(stream, capture));
        stream
    };
    let mut run = move || unsafe {
        ok(driver.cuCtxSetCurrent(at(own)));
        ok(driver.cuThreadExchangeStreamCaptureMode(&raw mut mode));
        assert_eq!(mode, GLOBAL, "the initial mode of a thread");
        let status = call(driver, &things);
        ok(driver.cuThreadExchangeStreamCaptureMode(&raw mut mode));
        status
    };
    let status = match caller {
        Caller::Here => run(),
        Caller::Elsewhere => thread::scope(|scope| scope.spawn(run).join().unwrap()),
    };
    (status, sim.end(stream).err())
}

const GOOD: (R, Option<R>) = (R::CUDA_SUCCESS, None);
const BROKEN: (R, Option<R>) = (UNSUPPORTED, Some(INVALIDATED));

fn breaks(class: &[(&str, Run)]) {
    for &(name, call) in class {
        for (capture, caller, mode) in [
            (GLOBAL, Caller::Elsewhere, GLOBAL),
            (GLOBAL, Caller::Here, GLOBAL),
            (LOCAL, Caller::Here, LOCAL),
        ] {
            let found = beside(capture, caller, mode, call);
            assert_eq!(found, BROKEN, "{name} {capture:?} {caller:?} {mode:?}");
        }
        for (capture, caller, mode) in [
            (GLOBAL, Caller::Elsewhere, LOCAL),
            (GLOBAL, Caller::Elsewhere, RELAXED),
            (GLOBAL, Caller::Here, RELAXED),
            (LOCAL, Caller::Elsewhere, GLOBAL),
            (RELAXED, Caller::Here, GLOBAL),
            (RELAXED, Caller::Elsewhere, GLOBAL),
        ] {
            let found = beside(capture, caller, mode, call);
            assert_eq!(found, GOOD, "{name} {capture:?} {caller:?} {mode:?}");
        }
    }
}

#[test]
fn queries_and_waits_break_captures() {
    breaks(QUERIES_AND_WAITS);
}

#[test]
fn allocating_and_freeing_break_captures() {
    breaks(DEVICE_MEMORY);
}

#[test]
fn page_locked_memory_breaks_captures() {
    breaks(PAGE_LOCKED_MEMORY);
}

#[test]
fn arrays_break_captures() {
    breaks(ARRAYS);
}

#[test]
fn unloading_and_ending_contexts_break_captures() {
    breaks(CODE_AND_CONTEXTS);
}

#[test]
fn creating_and_queueing_break_no_capture() {
    for &(name, call) in HARMLESS {
        for caller in [Caller::Here, Caller::Elsewhere] {
            let found = beside(GLOBAL, caller, GLOBAL, call);
            assert_eq!(found, GOOD, "{name} {caller:?}");
        }
    }
}

/// A rejected call has no effect: it can be made again once the capture has ended.
#[test]
fn a_refused_call_does_nothing() {
    for &(name, call) in CLASSES.into_iter().flatten() {
        let sim = test_device(Builder::new().devices(2));
        let things = Things::new(&sim);
        let stream = sim.stream(1);
        sim.begin(stream);
        assert_eq!(call(sim.driver.table(), &things), UNSUPPORTED, "{name}");
        assert_eq!(status(&sim, stream), Ok(2), "{name}");
        assert_eq!(sim.end(stream), Err(INVALIDATED), "{name}");
        assert_eq!(call(sim.driver.table(), &things), R::CUDA_SUCCESS, "{name}");
    }
}

#[test]
fn a_mode_is_of_one_thread_and_one_driver() {
    let fixtures = [test_device(Builder::new()), test_device(Builder::new())];
    let mut mode = RELAXED;
    unsafe { ok(fixtures[0].cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
    assert_eq!(mode, GLOBAL);
    let exchange = |sim: &TestDevice| {
        let mut mode = LOCAL;
        unsafe { ok(sim.cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
        mode
    };
    assert_eq!(exchange(&fixtures[1]), GLOBAL);
    assert_eq!(exchange(&fixtures[0]), RELAXED);
    assert_eq!(exchange(&fixtures[0]), LOCAL);
    let elsewhere = thread::scope(|scope| {
        let driver = fixtures[0].driver.table();
        let work = move || {
            let mut mode = LOCAL;
            unsafe { ok(driver.cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
            mode
        };
        scope.spawn(work).join().unwrap()
    });
    assert_eq!(elsewhere, GLOBAL);
}

#[test]
fn events_of_captures_that_are_over_are_invalid() {
    let invalid = R::CUDA_ERROR_INVALID_VALUE;
    let captured = R::CUDA_ERROR_CAPTURED_EVENT;
    let sim = test_device(Builder::new());
    let stream = sim.stream(1);
    let event = sim.event(0);
    let asked = || unsafe { [sim.cuEventQuery(event), sim.cuEventSynchronize(event)] };
    let begin = || unsafe {
        ok(sim.cuStreamBeginCapture_v2(stream, RELAXED));
        ok(sim.cuEventRecord(event, stream));
    };
    begin();
    // The query invalidates the capture, so the second query reports that it is invalid.
    assert_eq!(asked(), [captured, invalid]);
    assert_eq!(sim.end(stream), Err(INVALIDATED));
    assert_eq!(asked(), [invalid; 2], "after the end");
    // A capture that has ended successfully.
    begin();
    sim.end(stream).unwrap();
    assert_eq!(asked(), [invalid; 2], "after a successful end");
    // A capture that ended when its stream was destroyed.
    begin();
    unsafe { ok(sim.cuStreamDestroy_v2(stream)) };
    assert_eq!(asked(), [invalid; 2], "after the stream");
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuEventRecord(event, stream));
        ok(sim.cuEventSynchronize(event));
    }
}

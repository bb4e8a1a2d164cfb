//! Calls that other threads make during a capture, and calls that synchronize with one context or
//! one stream.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUarray_format, CUcontext, CUevent, CUlibrary, CUmodule, CUresult,
    CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

use crate::fixture::{Fixture, PTX, SIZE, cases, with_number};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode(0);
const LOCAL: CUstreamCaptureMode = CUstreamCaptureMode(1);
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode(2);

/// The time limit for a call that may block on a stream that is held up.
const PATIENCE: Duration = Duration::from_millis(500);

type Call = fn(&Fixture<'_>) -> CUresult;

#[track_caller]
fn ok(status: CUresult) {
    assert_eq!(status, CUresult::CUDA_SUCCESS, "{status}");
}

/// A [`Fixture`] that is passed to another thread.
struct Across<'a>(&'a Fixture<'a>);

// SAFETY: handles and memory of the driver may be used from any thread; the thread that owns the
// `Fixture` waits for the other one.
unsafe impl Send for Across<'_> {}

impl<'a> Across<'a> {
    fn fixture(&self) -> &'a Fixture<'a> {
        self.0
    }
}

/// Makes a call on another thread in `mode` while a stream is captured in `capture` mode. Returns
/// the status of the call and the status of ending the capture.
fn elsewhere(
    g: &Fixture<'_>,
    capture: CUstreamCaptureMode,
    mode: CUstreamCaptureMode,
    call: Call,
) -> [CUresult; 2] {
    let (mut stream, mut graph) = (null_mut(), null_mut());
    unsafe {
        ok(g.d.cuStreamCreate(&raw mut stream, 1));
        ok(g.d.cuStreamBeginCapture_v2(stream, capture));
    }
    let across = Across(g);
    let status = thread::scope(|scope| {
        let work = move || unsafe {
            let g = across.fixture();
            let mut mode = mode;
            ok(g.d.cuCtxSetCurrent(g.context));
            ok(g.d.cuThreadExchangeStreamCaptureMode(&raw mut mode));
            call(g)
        };
        scope.spawn(work).join().unwrap()
    });
    unsafe {
        let end = g.d.cuStreamEndCapture(stream, &raw mut graph);
        if !graph.is_null() {
            ok(g.d.cuGraphDestroy(graph));
        }
        ok(g.d.cuStreamDestroy_v2(stream));
        [status, end]
    }
}

fn asked(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuEventQuery(g.event) }
}

fn stream_asked(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuStreamQuery(g.stream) }
}

fn synchronized(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuStreamSynchronize(g.stream) }
}

fn freed(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuMemFree_v2(0x1000) }
}

fn event_made(g: &Fixture<'_>) -> CUresult {
    let mut event: CUevent = null_mut();
    unsafe {
        ok(g.d.cuEventCreate(&raw mut event, 2));
        g.d.cuEventDestroy_v2(event)
    }
}

fn capturing_asked(g: &Fixture<'_>) -> CUresult {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    unsafe { g.d.cuStreamIsCapturing(g.stream, &raw mut status) }
}

fn array_made(g: &Fixture<'_>) -> CUresult {
    let desc = CUDA_ARRAY_DESCRIPTOR {
        Width: 4,
        Height: 0,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        NumChannels: 1,
    };
    let mut array = null_mut();
    unsafe {
        let status = g.d.cuArrayCreate_v2(&raw mut array, &raw const desc);
        if status.is_success() {
            let _ = g.d.cuArrayDestroy(array);
        }
        status
    }
}

fn array_destroyed(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuArrayDestroy(null_mut()) }
}

fn allocated_in_order(g: &Fixture<'_>) -> CUresult {
    let mut addr = 0;
    unsafe {
        let status = g.d.cuMemAllocAsync(&raw mut addr, SIZE, g.stream);
        if status.is_success() {
            let _ = g.d.cuMemFreeAsync(addr, g.stream);
        }
        status
    }
}

fn unloaded(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuModuleUnload(null_mut()) }
}

fn access_enabled(g: &Fixture<'_>) -> CUresult {
    unsafe { g.d.cuCtxEnablePeerAccess(g.context, 0) }
}

/// Synchronizes a context that does not take part in the capture.
fn other_context_synchronized(g: &Fixture<'_>) -> CUresult {
    let mut other: CUcontext = null_mut();
    unsafe {
        let created = g.d.cuCtxCreate_v2(&raw mut other, 0, 0);
        if !created.is_success() {
            return created;
        }
        let status = g.d.cuCtxSynchronize();
        ok(g.d.cuCtxPopCurrent_v2(&raw mut other));
        // The driver may refuse to destroy it during the capture; it is then freed when the process
        // ends.
        let _ = g.d.cuCtxDestroy_v2(other);
        status
    }
}

/// Records an event in a capture, makes `call`, which may invalidate the capture, and then runs
/// `then` with the event.
fn of_a_capture(
    g: &Fixture<'_>,
    call: fn(&Fixture<'_>, CUevent),
    ended: bool,
    then: fn(&Fixture<'_>, CUevent) -> CUresult,
) -> CUresult {
    let (mut stream, mut graph, mut event) = (null_mut(), null_mut(), null_mut());
    unsafe {
        ok(g.d.cuStreamCreate(&raw mut stream, 1));
        ok(g.d.cuEventCreate(&raw mut event, 0));
        ok(g.d.cuStreamBeginCapture_v2(stream, RELAXED));
        ok(g.d.cuEventRecord(event, stream));
        call(g, event);
        let before = (!ended).then(|| then(g, event));
        let _ = g.d.cuStreamEndCapture(stream, &raw mut graph);
        let status = before.unwrap_or_else(|| then(g, event));
        if !graph.is_null() {
            ok(g.d.cuGraphDestroy(graph));
        }
        ok(g.d.cuEventDestroy_v2(event));
        ok(g.d.cuStreamDestroy_v2(stream));
        status
    }
}

fn broken(g: &Fixture<'_>, event: CUevent) {
    let _ = unsafe { g.d.cuEventQuery(event) };
}

fn left_alone(_: &Fixture<'_>, _: CUevent) {}

fn query(g: &Fixture<'_>, event: CUevent) -> CUresult {
    unsafe { g.d.cuEventQuery(event) }
}

fn wait(g: &Fixture<'_>, event: CUevent) -> CUresult {
    unsafe { g.d.cuEventSynchronize(event) }
}

fn time(g: &Fixture<'_>, event: CUevent) -> CUresult {
    let mut time = 0.0;
    unsafe { g.d.cuEventElapsedTime(&raw mut time, event, event) }
}

fn stream_waits(g: &Fixture<'_>, event: CUevent) -> CUresult {
    unsafe { g.d.cuStreamWaitEvent(g.stream, event, 0) }
}

/// Checks whether `call` returns while a stream of the same context, or of another one, waits for
/// the host. Reports 1 if it does.
fn returns(
    g: &Fixture<'_>,
    is_own: bool,
    call: fn(&Fixture<'_>, usize) -> CUresult,
    thing: usize,
) -> CUresult {
    let (mut other, mut stream): (CUcontext, CUstream) = (null_mut(), null_mut());
    let flag = g.pinned.cast::<u32>();
    unsafe {
        flag.write_volatile(0);
        if !is_own {
            let created = g.d.cuCtxCreate_v2(&raw mut other, 0, 0);
            if !created.is_success() {
                return created;
            }
        }
        ok(g.d.cuStreamCreate(&raw mut stream, 1));
        ok(g.d.cuStreamWaitValue32_v2(stream, flag.expose_provenance() as u64, 1, 0));
        if !is_own {
            ok(g.d.cuCtxPopCurrent_v2(&raw mut other));
        }
    }
    let across = Across(g);
    let (status, is_back) = thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            let g = across.fixture();
            unsafe { ok(g.d.cuCtxSetCurrent(g.context)) };
            let _ = sender.send(call(g, thing));
        });
        let first = receiver.recv_timeout(PATIENCE);
        unsafe { flag.write_volatile(1) };
        match first {
            Ok(status) => (status, true),
            Err(_) => (receiver.recv().unwrap(), false),
        }
    });
    unsafe {
        ok(g.d.cuStreamSynchronize(stream));
        ok(g.d.cuStreamDestroy_v2(stream));
        if !is_own {
            ok(g.d.cuCtxDestroy_v2(other));
        }
    }
    with_number(status, is_back.into())
}

fn memory(g: &Fixture<'_>) -> usize {
    let mut addr = 0;
    unsafe { ok(g.d.cuMemAlloc_v2(&raw mut addr, SIZE)) };
    addr as usize
}

fn memory_freed(g: &Fixture<'_>, addr: usize) -> CUresult {
    unsafe { g.d.cuMemFree_v2(addr as u64) }
}

fn managed(g: &Fixture<'_>) -> usize {
    let mut addr = 0;
    unsafe { ok(g.d.cuMemAllocManaged(&raw mut addr, SIZE, 1)) };
    addr as usize
}

fn pinned(g: &Fixture<'_>) -> usize {
    let mut start = null_mut();
    unsafe { ok(g.d.cuMemHostAlloc(&raw mut start, SIZE, 0)) };
    start.expose_provenance()
}

fn at<T>(address: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address)
}

fn registered(g: &Fixture<'_>) -> usize {
    let pages: &'static mut [u8] = Box::leak(vec![0; 3 << 12].into_boxed_slice());
    let start = pages
        .as_mut_ptr()
        .expose_provenance()
        .next_multiple_of(1 << 12);
    unsafe { ok(g.d.cuMemHostRegister_v2(at(start), 1 << 12, 0)) };
    start
}

fn module(g: &Fixture<'_>) -> usize {
    let mut module: CUmodule = null_mut();
    unsafe { ok(g.d.cuModuleLoadData(&raw mut module, PTX.as_ptr().cast())) };
    module.expose_provenance()
}

fn library(g: &Fixture<'_>) -> usize {
    let (mut library, mut module): (CUlibrary, CUmodule) = (null_mut(), null_mut());
    let (place, image) = (&raw mut library, PTX.as_ptr().cast());
    let (options, values) = (null_mut(), null_mut());
    unsafe {
        let loaded =
            g.d.cuLibraryLoadData(place, image, null_mut(), null_mut(), 0, options, values, 0);
        ok(loaded);
        ok(g.d.cuLibraryGetModule(&raw mut module, library));
    }
    library.expose_provenance()
}

fn array(g: &Fixture<'_>) -> usize {
    let desc = CUDA_ARRAY_DESCRIPTOR {
        Width: 4,
        Height: 4,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        NumChannels: 1,
    };
    let mut array = null_mut();
    unsafe { ok(g.d.cuArrayCreate_v2(&raw mut array, &raw const desc)) };
    array.expose_provenance()
}

/// Checks whether work that is queued on a blocking stream after `call` runs while another blocking
/// stream waits for the host. Reports 1 if it does.
fn runs_beside_held_stream(g: &Fixture<'_>, call: Call) -> CUresult {
    let (mut held, mut other, mut event) = (null_mut(), null_mut(), null_mut());
    let flag = g.pinned.cast::<u32>();
    unsafe {
        flag.write_volatile(0);
        ok(g.d.cuStreamCreate(&raw mut held, 0));
        ok(g.d.cuStreamCreate(&raw mut other, 0));
        ok(g.d.cuEventCreate(&raw mut event, 2));
        ok(g.d.cuStreamWaitValue32_v2(held, flag.expose_provenance() as u64, 1, 0));
        let status = call(g);
        ok(g.d.cuEventRecord(event, other));
        let begun = Instant::now();
        let mut is_done = false;
        while !is_done && begun.elapsed() < PATIENCE {
            is_done = g.d.cuEventQuery(event).is_success();
            thread::sleep(Duration::from_millis(1));
        }
        flag.write_volatile(1);
        ok(g.d.cuCtxSynchronize());
        ok(g.d.cuEventDestroy_v2(event));
        ok(g.d.cuStreamDestroy_v2(held));
        ok(g.d.cuStreamDestroy_v2(other));
        with_number(status, is_done.into())
    }
}

/// A kernel that declares 200 register names but needs few registers once it is assembled.
fn named(g: &Fixture<'_>, launch: bool) -> CUresult {
    let all = 1..200;
    let make = all.clone().map(|i| format!("mov.u32 %r{i}, {i};\n"));
    let uses = all.map(|i| format!("add.u32 %r0, %r0, %r{i};\n"));
    let body: String = make.chain(uses).collect();
    let text = CString::new(format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b32 %r<200>;\n.reg .b64 %rd1;\nmov.u32 %r0, 0;\n{body}\
         ld.param.u64 %rd1, [out];\nst.global.u32 [%rd1], %r0;\nret;\n}}"
    ));
    let (mut module, mut function) = (null_mut(), null_mut());
    unsafe {
        ok(g.d.cuModuleLoadData(&raw mut module, text.unwrap().as_ptr().cast()));
        ok(g.d.cuModuleGetFunction(&raw mut function, module, c"k".as_ptr()));
        let status = if launch {
            let mut out = g.memory;
            let mut params: [*mut c_void; 1] = [(&raw mut out).cast()];
            let params = params.as_mut_ptr();
            g.d.cuLaunchKernel(
                function,
                1,
                1,
                1,
                1024,
                1,
                1,
                0,
                g.stream,
                params,
                null_mut(),
            )
        } else {
            let most = cuda_sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
            let mut value = 0;
            with_number(
                g.d.cuFuncGetAttribute(&raw mut value, most, function),
                value,
            )
        };
        ok(g.d.cuCtxSynchronize());
        ok(g.d.cuModuleUnload(module));
        status
    }
}

cases! { g:
    "event_asked_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, asked)[0];
    "end_of_a_global_capture_beside_event_asked" => elsewhere(g, GLOBAL, GLOBAL, asked)[1];
    "stream_asked_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, stream_asked)[0];
    "end_of_a_global_capture_beside_stream_asked" => elsewhere(g, GLOBAL, GLOBAL, stream_asked)[1];
    "stream_synchronized_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, synchronized)[0];
    "end_of_a_global_capture_beside_stream_synchronized" => elsewhere(g, GLOBAL, GLOBAL, synchronized)[1];
    "freed_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, freed)[0];
    "end_of_a_global_capture_beside_freed" => elsewhere(g, GLOBAL, GLOBAL, freed)[1];
    "array_made_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, array_made)[0];
    "end_of_a_global_capture_beside_array_made" => elsewhere(g, GLOBAL, GLOBAL, array_made)[1];
    "no_array_destroyed_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, array_destroyed)[0];
    "end_of_a_global_capture_beside_no_array_destroyed" => elsewhere(g, GLOBAL, GLOBAL, array_destroyed)[1];
    "allocated_in_order_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, allocated_in_order)[0];
    "end_of_a_global_capture_beside_allocated_in_order" => elsewhere(g, GLOBAL, GLOBAL, allocated_in_order)[1];
    "no_module_unloaded_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, unloaded)[0];
    "end_of_a_global_capture_beside_no_module_unloaded" => elsewhere(g, GLOBAL, GLOBAL, unloaded)[1];
    "access_to_itself_enabled_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, access_enabled)[0];
    "end_of_a_global_capture_beside_access_to_itself_enabled" => elsewhere(g, GLOBAL, GLOBAL, access_enabled)[1];
    "other_context_synchronized_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, other_context_synchronized)[0];
    "end_of_a_global_capture_beside_other_context_synchronized" => elsewhere(g, GLOBAL, GLOBAL, other_context_synchronized)[1];
    "event_made_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, event_made)[0];
    "end_of_a_global_capture_beside_event_made" => elsewhere(g, GLOBAL, GLOBAL, event_made)[1];
    "capturing_asked_beside_a_global_capture" => elsewhere(g, GLOBAL, GLOBAL, capturing_asked)[0];
    "end_of_a_global_capture_beside_capturing_asked" => elsewhere(g, GLOBAL, GLOBAL, capturing_asked)[1];
    "event_asked_beside_a_local_capture" => elsewhere(g, LOCAL, GLOBAL, asked)[0];
    "event_asked_by_a_local_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, LOCAL, asked)[0];
    "event_asked_by_a_relaxed_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, RELAXED, asked)[0];
    "end_of_a_global_capture_beside_event_asked_by_a_relaxed_thread" => elsewhere(g, GLOBAL, RELAXED, asked)[1];
    "stream_asked_beside_a_local_capture" => elsewhere(g, LOCAL, GLOBAL, stream_asked)[0];
    "stream_asked_by_a_local_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, LOCAL, stream_asked)[0];
    "stream_asked_by_a_relaxed_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, RELAXED, stream_asked)[0];
    "end_of_a_global_capture_beside_stream_asked_by_a_relaxed_thread" => elsewhere(g, GLOBAL, RELAXED, stream_asked)[1];
    "stream_synchronized_beside_a_local_capture" => elsewhere(g, LOCAL, GLOBAL, synchronized)[0];
    "stream_synchronized_by_a_local_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, LOCAL, synchronized)[0];
    "stream_synchronized_by_a_relaxed_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, RELAXED, synchronized)[0];
    "end_of_a_global_capture_beside_stream_synchronized_by_a_relaxed_thread" => elsewhere(g, GLOBAL, RELAXED, synchronized)[1];
    "freed_beside_a_local_capture" => elsewhere(g, LOCAL, GLOBAL, freed)[0];
    "freed_by_a_local_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, LOCAL, freed)[0];
    "freed_by_a_relaxed_thread_beside_a_global_capture" => elsewhere(g, GLOBAL, RELAXED, freed)[0];
    "end_of_a_global_capture_beside_freed_by_a_relaxed_thread" => elsewhere(g, GLOBAL, RELAXED, freed)[1];
    "event_of_a_broken_capture_asked" => of_a_capture(g, broken, false, query);
    "event_of_a_broken_capture_that_ended_asked" => of_a_capture(g, broken, true, query);
    "event_of_a_capture_that_ended_asked" => of_a_capture(g, left_alone, true, query);
    "event_of_a_broken_capture_synchronized" => of_a_capture(g, broken, false, wait);
    "event_of_a_broken_capture_that_ended_synchronized" => of_a_capture(g, broken, true, wait);
    "event_of_a_capture_that_ended_synchronized" => of_a_capture(g, left_alone, true, wait);
    "event_of_a_broken_capture_timed" => of_a_capture(g, broken, false, time);
    "event_of_a_broken_capture_that_ended_timed" => of_a_capture(g, broken, true, time);
    "event_of_a_capture_that_ended_timed" => of_a_capture(g, left_alone, true, time);
    "event_of_a_broken_capture_waited_for" => of_a_capture(g, broken, false, stream_waits);
    "event_of_a_broken_capture_that_ended_waited_for" => of_a_capture(g, broken, true, stream_waits);
    "event_of_a_capture_that_ended_waited_for" => of_a_capture(g, left_alone, true, stream_waits);
    "memory_freed_while_its_own_context_is_held_up" => returns(g, true, memory_freed, memory(g));
    "memory_freed_while_another_context_is_held_up" => returns(g, false, memory_freed, memory(g));
    "managed_memory_freed_while_its_own_context_is_held_up" => returns(g, true, memory_freed, managed(g));
    "managed_memory_freed_while_another_context_is_held_up" => returns(g, false, memory_freed, managed(g));
    "pinned_memory_freed_while_its_own_context_is_held_up" => returns(g, true, |g, start| g.d.cuMemFreeHost(at(start)), pinned(g));
    "pinned_memory_freed_while_another_context_is_held_up" => returns(g, false, |g, start| g.d.cuMemFreeHost(at(start)), pinned(g));
    "memory_unregistered_while_its_own_context_is_held_up" => returns(g, true, |g, start| g.d.cuMemHostUnregister(at(start)), registered(g));
    "memory_unregistered_while_another_context_is_held_up" => returns(g, false, |g, start| g.d.cuMemHostUnregister(at(start)), registered(g));
    "module_unloaded_while_its_own_context_is_held_up" => returns(g, true, |g, module| g.d.cuModuleUnload(at(module)), module(g));
    "module_unloaded_while_another_context_is_held_up" => returns(g, false, |g, module| g.d.cuModuleUnload(at(module)), module(g));
    "library_unloaded_while_its_own_context_is_held_up" => returns(g, true, |g, library| g.d.cuLibraryUnload(at(library)), library(g));
    "library_unloaded_while_another_context_is_held_up" => returns(g, false, |g, library| g.d.cuLibraryUnload(at(library)), library(g));
    "array_destroyed_while_its_own_context_is_held_up" => returns(g, true, |g, array| g.d.cuArrayDestroy(at(array)), array(g));
    "array_destroyed_while_another_context_is_held_up" => returns(g, false, |g, array| g.d.cuArrayDestroy(at(array)), array(g));
    "legacy_allocation_behind_a_held_up_stream" => runs_beside_held_stream(g, |g| g.d.cuMemAllocAsync(g.out(), SIZE, null_mut()));
    "legacy_allocation_from_a_pool_behind_a_held_up_stream" => runs_beside_held_stream(g, |g| g.d.cuMemAllocFromPoolAsync(g.out(), SIZE, g.pool, null_mut()));
    "legacy_upload_behind_a_held_up_stream" => runs_beside_held_stream(g, |g| g.d.cuGraphUpload(g.exec, null_mut()));
    "legacy_fill_behind_a_held_up_stream" => runs_beside_held_stream(g, |g| g.d.cuMemsetD8Async(g.memory, 1, 16, null_mut()));
    "legacy_event_behind_a_held_up_stream" => runs_beside_held_stream(g, |g| g.d.cuEventRecord(g.untimed, null_mut()));
    "legacy_launch_of_a_graph_behind_a_held_up_stream" => runs_beside_held_stream(g, |g| g.d.cuGraphLaunch(g.exec, null_mut()));
    "legacy_free_behind_a_held_up_stream" => {
        ok(g.d.cuMemAllocAsync(g.also(), SIZE, g.stream));
        ok(g.d.cuStreamSynchronize(g.stream));
        runs_beside_held_stream(g, |g| g.d.cuMemFreeAsync(g.also::<u64>().read(), null_mut()))
    };
    "threads_of_a_kernel_with_200_names_of_registers" => named(g, false);
    "launched_1024_threads_with_200_names_of_registers" => named(g, true);
}

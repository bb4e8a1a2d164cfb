//! Calls that a capture does not accept, and captures that are invalid.

use std::ptr::{null, null_mut};

use cuda_sys::{CUevent, CUresult, CUstream, CUstreamCaptureMode};

use crate::fixture::{Fixture, PTX, SIZE, cases};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode(0);
const LOCAL: CUstreamCaptureMode = CUstreamCaptureMode(1);
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode(2);

/// Creates a stream that joins the capture of `stream`. Also returns the event that it waits for.
fn forked(g: &Fixture<'_>, stream: CUstream) -> (CUstream, CUevent) {
    unsafe {
        let _ = g.d.cuEventCreate(g.out(), 0);
        let event = g.out::<CUevent>().read();
        let _ = g.d.cuStreamCreate(g.also(), 1);
        let other = g.also::<CUstream>().read();
        let _ = g.d.cuEventRecord(event, stream);
        let _ = g.d.cuStreamWaitEvent(other, event, 0);
        (other, event)
    }
}

cases! { g:
    "capture_in_an_unknown_mode" => {
        let status = g.d.cuStreamBeginCapture_v2(g.stream, CUstreamCaptureMode(9));
        if status.is_success() { let _ = g.d.cuStreamEndCapture(g.stream, g.out()); }
        status
    };
    "capture_of_the_null_stream" => g.d.cuStreamBeginCapture_v2(null_mut(), RELAXED);
    "capture_that_was_not_begun_ended" => g.d.cuStreamEndCapture(g.stream, g.out());
    "capture_ended_to_nowhere" => g.d.cuStreamEndCapture(g.stream, null_mut());
    "capture_begun_twice" => g.captured(RELAXED, |stream| g.d.cuStreamBeginCapture_v2(stream, RELAXED));
    "captured_stream_synchronized" => g.captured(RELAXED, |stream| g.d.cuStreamSynchronize(stream));
    "captured_stream_asked" => g.captured(RELAXED, |stream| g.d.cuStreamQuery(stream));
    "captured_stream_destroyed_after_synchronizing" => g.end_of_capture(|stream| {
        let _ = g.d.cuStreamSynchronize(stream);
    });
    "context_synchronized_in_a_global_capture" => g.captured(GLOBAL, |_| g.d.cuCtxSynchronize());
    "context_synchronized_in_a_relaxed_capture" => g.captured(RELAXED, |_| g.d.cuCtxSynchronize());
    "allocated_in_a_global_capture" => g.captured(GLOBAL, |_| g.d.cuMemAlloc_v2(g.out(), SIZE));
    "allocated_in_a_local_capture" => g.captured(LOCAL, |_| g.d.cuMemAlloc_v2(g.out(), SIZE));
    "allocated_in_a_relaxed_capture" => g.captured(RELAXED, |_| {
        let status = g.d.cuMemAlloc_v2(g.out(), SIZE);
        if status.is_success() { let _ = g.d.cuMemFree_v2(g.out::<u64>().read()); }
        status
    });
    "freed_in_a_global_capture" => g.captured(GLOBAL, |_| g.d.cuMemFree_v2(0x1000));
    "pinned_in_a_global_capture" => g.captured(GLOBAL, |_| {
        let status = g.d.cuMemHostAlloc(g.out(), SIZE, 0);
        if status.is_success() { let _ = g.d.cuMemFreeHost(g.out::<*mut std::ffi::c_void>().read()); }
        status
    });
    "copied_in_a_global_capture" => g.captured(GLOBAL, |_| g.d.cuMemcpyHtoD_v2(g.memory, g.host, 16));
    "copied_in_a_relaxed_capture" => g.captured(RELAXED, |_| g.d.cuMemcpyHtoD_v2(g.memory, g.host, 16));
    "filled_in_a_global_capture" => g.captured(GLOBAL, |_| g.d.cuMemsetD8_v2(g.memory, 1, 16));
    "module_loaded_in_a_global_capture" => g.captured(GLOBAL, |_| {
        let status = g.d.cuModuleLoadData(g.out(), PTX.as_ptr().cast());
        if status.is_success() { let _ = g.d.cuModuleUnload(g.out::<cuda_sys::CUmodule>().read()); }
        status
    });
    "event_of_a_capture_synchronized" => g.captured(RELAXED, |stream| {
        let _ = g.d.cuEventCreate(g.out(), 0);
        let event = g.out::<cuda_sys::CUevent>().read();
        let _ = g.d.cuEventRecord(event, stream);
        g.d.cuEventSynchronize(event)
    });
    "event_of_a_capture_asked" => g.captured(RELAXED, |stream| {
        let _ = g.d.cuEventCreate(g.out(), 0);
        let event = g.out::<cuda_sys::CUevent>().read();
        let _ = g.d.cuEventRecord(event, stream);
        g.d.cuEventQuery(event)
    });
    "time_of_an_event_of_a_capture" => g.captured(RELAXED, |stream| {
        let _ = g.d.cuEventCreate(g.out(), 0);
        let event = g.out::<cuda_sys::CUevent>().read();
        let _ = g.d.cuEventRecord(event, stream);
        g.d.cuEventElapsedTime(g.also(), event, event)
    });
    "waited_in_a_capture_for_an_event_from_before" => g.captured(RELAXED, |stream| g.d.cuStreamWaitEvent(stream, g.event, 0));
    "waited_in_a_capture_for_an_event_not_recorded" => g.captured(RELAXED, |stream| g.d.cuStreamWaitEvent(stream, g.fresh, 0));
    "callback_in_a_capture" => g.captured(RELAXED, |stream| g.d.cuStreamAddCallback(stream, None, null_mut(), 0));
    "capture_that_another_stream_did_not_come_back_to" => g.end_of_capture(|stream| {
        let (other, event) = forked(g, stream);
        let _ = g.d.cuEventRecord(event, other);
        let _ = g.d.cuMemsetD32Async(g.memory, 1, 4, other);
    });
    "capture_ended_on_another_stream" => g.captured(RELAXED, |stream| {
        let (other, _) = forked(g, stream);
        g.d.cuStreamEndCapture(other, g.out())
    });
    "dependencies_of_no_capture" => g.d.cuStreamUpdateCaptureDependencies(g.stream, null_mut(), 0, 0);
    "dependencies_with_unknown_flags" => g.captured(RELAXED, |stream| g.d.cuStreamUpdateCaptureDependencies(stream, null_mut(), 0, 9));
    "dependency_on_a_node_of_another_graph" => g.captured(RELAXED, |stream| {
        g.also::<cuda_sys::CUgraphNode>().write(g.other_node);
        g.d.cuStreamUpdateCaptureDependencies(stream, g.also(), 1, 1)
    });
    "graph_of_a_capture_launched_within" => g.captured(RELAXED, |stream| g.d.cuGraphLaunch(null_mut(), stream));
    "capture_mode_unknown" => {
        g.out::<CUstreamCaptureMode>().write(CUstreamCaptureMode(9));
        let status = g.d.cuThreadExchangeStreamCaptureMode(g.out());
        if status.is_success() { let _ = g.d.cuThreadExchangeStreamCaptureMode(g.out()); }
        status
    };
    "capture_mode_from_nowhere" => g.d.cuThreadExchangeStreamCaptureMode(null_mut());
    "value_awaited_in_a_capture_at_an_odd_address" => g.captured(RELAXED, |stream| g.d.cuStreamWaitValue32_v2(stream, g.memory + 2, 0, 0));
    "launched_nothing_in_a_capture" => g.captured(RELAXED, |stream| {
        g.d.cuLaunchKernel(null_mut(), 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut())
    });
    "launched_an_empty_grid_in_a_capture" => g.captured(RELAXED, |stream| {
        let mut parameters = [g.host, g.host];
        g.d.cuLaunchKernel(g.plain, 0, 1, 1, 1, 1, 1, 0, stream, parameters.as_mut_ptr(), null_mut())
    });
    "end_after_a_refused_launch" => g.end_of_capture(|stream| {
        let mut parameters = [g.host, g.host];
        let _: CUresult = g.d.cuLaunchKernel(g.plain, 0, 1, 1, 1, 1, 1, 0, stream, parameters.as_mut_ptr(), null_mut());
    });
    "end_after_a_refused_allocation" => {
        let mut status = CUresult::CUDA_SUCCESS;
        let first = g.captured(GLOBAL, |stream| {
            let _ = g.d.cuMemAlloc_v2(g.out(), SIZE);
            status = g.d.cuStreamEndCapture(stream, g.also());
            status
        });
        assert_eq!(first, status);
        status
    };
    "freed_in_a_capture_what_is_not_of_a_pool" => g.captured(RELAXED, |stream| g.d.cuMemFreeAsync(0x1000, stream));
    "copied_to_null_in_a_capture" => g.captured(RELAXED, |stream| g.d.cuMemcpyHtoDAsync_v2(0, null(), 16, stream));
}

//! Streams that other code may capture.

use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_driver::stream::CaptureStatus;
use cuda_sys::{CUgraph, CUstreamCaptureMode};

use crate::foreign::borrowed;
use crate::support::{COPY, Fixture, assert_all, everywhere, filled, late_devices, launch_copy};

const N: u32 = 256;

/// Begins a capture of the stream with raw calls.
fn begin(stream: &Stream) {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let table = stream.context().driver().library();
    // SAFETY: the stream is alive.
    let status = unsafe { table.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
    assert_eq!(status, Status::CUDA_SUCCESS);
}

/// Ends the capture, which must be intact, and returns the number of its nodes.
#[track_caller]
fn end(stream: &Stream) -> usize {
    let table = stream.context().driver().library();
    let mut graph: CUgraph = ptr::null_mut();
    // SAFETY: the stream is alive, and the pointer is to a local.
    let status = unsafe { table.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert_eq!(status, Status::CUDA_SUCCESS, "the capture is intact");
    let mut nodes = 0;
    // SAFETY: the graph was created just now, and the pointer is to a local.
    let status = unsafe { table.cuGraphGetNodes(graph, ptr::null_mut(), &raw mut nodes) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    // SAFETY: the graph is not used afterwards.
    let status = unsafe { table.cuGraphDestroy(graph) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    nodes
}

/// Fails unless the call was refused because of the capture.
#[track_caller]
fn expect_refused<T>(result: cuda_driver::Result<T>) {
    match result {
        Err(Error::Capturing { .. }) => {}
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn calls_on_a_captured_stream_are_refused() {
    for fixture in everywhere() {
        let kernel = fixture.kernel(COPY, "copy");
        let own = fixture.stream();
        for flags in [StreamFlags::NON_BLOCKING, StreamFlags::DEFAULT] {
            let (stream, _) = borrowed(&fixture, flags);
            stream.allow_capture().unwrap();
            let mut here = filled(&stream, N, 1);
            let mut there = filled(&own, N, 2);
            let mut pinned =
                PinnedBuffer::<u32>::zeroed(&fixture.context, N as usize, PinnedFlags::DEFAULT)
                    .unwrap();
            let event = own.record_event().unwrap();
            let mut graph = Graph::new(&fixture.context).unwrap();
            let mut filled_by_graph = filled(&own, N, 0);
            graph.add_fill(&[], &mut filled_by_graph, 3_u32).unwrap();
            let exec = graph.instantiate().unwrap();

            begin(&stream);
            assert_eq!(stream.capture_status().unwrap(), CaptureStatus::Active);
            expect_refused(launch_copy(&kernel, &stream, &there, &mut here));
            expect_refused(launch_copy(&kernel, &own, &here, &mut there));
            expect_refused(here.to_vec());
            expect_refused(here.fill(3));
            expect_refused(there.fill_on(3, &stream));
            expect_refused(here.copy_from_host(&[4; N as usize]));
            expect_refused(there.copy_from_host_on(&[4; N as usize], &stream));
            expect_refused(here.copy_to_pinned(&mut pinned));
            expect_refused(DeviceBuffer::<u32>::zeroed(&stream, 4));
            expect_refused(here.try_clone());
            expect_refused(stream.synchronize());
            expect_refused(stream.is_done());
            expect_refused(stream.wait(&event));
            expect_refused(event.record(&stream));
            expect_refused(stream.record_event());
            expect_refused(stream.fork());
            expect_refused(stream.join(&own));
            expect_refused(own.join(&stream));
            expect_refused(stream.launch_host(|| ()));
            expect_refused(exec.launch(&stream));
            // SAFETY: the closure is not called.
            expect_refused::<()>(unsafe { stream.using((&there,), |_| panic!("called")) });
            // SAFETY: nothing is copied.
            expect_refused(unsafe { stream.copy_raw(here.as_raw(), there.as_raw(), 4, ()) });
            drop(stream.completion());
            assert_eq!(end(&stream), 0, "{}", fixture.name);

            // After the capture, all of this works.
            launch_copy(&kernel, &stream, &there, &mut here).unwrap();
            assert_all(&here, 2, &fixture.name);
            here.fill(3).unwrap();
            exec.launch(&stream).unwrap();
            launch_copy(&kernel, &own, &here, &mut there).unwrap();
            assert_all(&there, 3, &fixture.name);
        }
        let refused = fixture.context.per_thread_stream().allow_capture();
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
    }
}

/// Waits until the software device has at most `allocations` allocations.
fn wait_until_freed(fixture: &Fixture, allocations: usize) {
    let Some(simulator) = &fixture.simulator else {
        return;
    };
    let start = Instant::now();
    while simulator.live().allocations > allocations {
        assert!(start.elapsed() < Duration::from_secs(10), "not freed");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn memory_dropped_during_a_capture_is_freed_after_it() {
    for fixture in late_devices(4) {
        let count = |fixture: &Fixture| {
            let simulator = fixture.simulator.as_ref();
            simulator.map_or(0, |it| it.live().allocations)
        };
        let kernel = fixture.kernel(COPY, "copy");
        let own = fixture.stream();
        let (stream, _) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        stream.allow_capture().unwrap();
        let mut last = filled(&own, N, 0);
        let before = count(&fixture);
        let source = filled(&stream, N, 5);
        let mut elsewhere = filled(&own, N, 0);
        launch_copy(&kernel, &stream, &source, &mut elsewhere).unwrap();
        launch_copy(&kernel, &stream, &elsewhere, &mut last).unwrap();
        begin(&stream);
        drop((source, elsewhere));
        thread::sleep(Duration::from_millis(20));
        assert!(count(&fixture) > before || fixture.simulator.is_none());
        assert_eq!(end(&stream), 0);
        wait_until_freed(&fixture, before);
        assert_all(&last, 5, &fixture.name);
    }
}

#[test]
fn uses_between_captures_are_ordered() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let own = fixture.stream();
        let (stream, _) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        stream.allow_capture().unwrap();
        let mut source = filled(&own, N, 1);
        let mut target = filled(&stream, N, 0);
        begin(&stream);
        // The stream is not used before its capture ends.
        source.fill(2).unwrap();
        assert_eq!(end(&stream), 0);
        launch_copy(&kernel, &stream, &source, &mut target).unwrap();
        source.fill(7).unwrap();
        let mut last = filled(&own, N, 0);
        launch_copy(&kernel, &own, &target, &mut last).unwrap();
        target.fill(8).unwrap();
        assert_all(&last, 2, &fixture.name);
    }
}

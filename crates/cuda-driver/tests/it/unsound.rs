//! Programs that other bindings accept and run incorrectly; with this crate each is correct.
//! `docs/unsound.md` lists them all.

use std::thread;

use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{
    COPY, assert_all, count_calls, filled, late, late_devices, launch_copy, software,
};

const N: u32 = 1 << 14;

#[test]
fn separately_obtained_handles_share_one_tracker() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let handle = || fixture.context.device().primary_context().unwrap();
        let one = Stream::new(&handle(), StreamFlags::NON_BLOCKING, 0).unwrap();
        let two = Stream::new(&handle(), StreamFlags::NON_BLOCKING, 0).unwrap();
        let (mut source, three) = (filled(&one, N, 1), filled(&one, N, 3));
        launch_copy(&kernel, &one, &three, &mut source).unwrap();
        let mut target = filled(&two, N, 0);
        launch_copy(&kernel, &two, &source, &mut target).unwrap();
        assert_all(&target, 3, &fixture.name);
    }
}

#[test]
fn zeroes_are_there_before_another_stream_reads_them() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let (one, two) = (fixture.stream(), fixture.stream());
        // The next buffer probably gets the same memory, filled with other data.
        drop(filled(&one, N, 9));
        let zeroes = DeviceBuffer::<u32>::zeroed(&one, N as usize).unwrap();
        let mut target = filled(&two, N, 7);
        launch_copy(&kernel, &two, &zeroes, &mut target).unwrap();
        assert_all(&target, 0, &fixture.name);
    }
}

#[test]
fn stream_created_after_launch_views_is_ordered() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let owning = fixture.stream();
        let (mut source, four) = (filled(&owning, N, 1), filled(&owning, N, 4));
        let mut target = filled(&owning, N, 0);
        launch_copy(&kernel, &owning, &four, &mut source).unwrap();
        let (from, to) = (source.as_slice(), target.as_mut_slice());
        let late = fixture.stream();
        // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
        unsafe {
            late.launch(
                &kernel,
                LaunchConfig::for_num_elems(N).unwrap(),
                (from, to, N),
            )
        }
        .unwrap();
        launch_copy(&kernel, &owning, &target, &mut source).unwrap();
        assert_all(&source, 4, &fixture.name);
    }
}

/// If the event after a launch cannot be recorded, its uses are still tracked.
#[test]
fn a_use_without_an_event_is_still_waited_for() {
    for seed in 0..16 {
        for nth in 1..6 {
            let fixture = software(late(seed));
            let simulator = fixture.simulator.as_ref().unwrap();
            let kernel = fixture.kernel(COPY, "copy");
            let streams: Vec<Stream> = (0..3).map(|_| fixture.stream()).collect();
            let (mut source, five) = (filled(&streams[0], N, 1), filled(&streams[2], N, 5));
            let mut targets = [filled(&streams[1], N, 0), filled(&streams[2], N, 0)];
            let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuEventRecord");
            simulator.add_rule(rule.nth(nth));
            let mut expected = [0, 0, 1];
            for (i, target) in targets.iter_mut().enumerate() {
                if launch_copy(&kernel, &streams[i + 1], &source, target).is_ok() {
                    expected[i] = 1;
                }
            }
            if launch_copy(&kernel, &streams[2], &five, &mut source).is_ok() {
                expected[2] = 5;
            }
            simulator.clear_rules();
            let name = format!("seed {seed}, event {nth}");
            assert_all(&targets[0], expected[0], &name);
            assert_all(&targets[1], expected[1], &name);
            assert_all(&source, expected[2], &name);
        }
    }
}

#[test]
fn a_wait_that_fails_stops_the_call_that_needs_it() {
    let fixture = software(late(1));
    let simulator = fixture.simulator.as_ref().unwrap();
    let kernel = fixture.kernel(COPY, "copy");
    let (owning, other) = (fixture.stream(), fixture.stream());
    let source = filled(&owning, N, 1);
    let mut target = filled(&other, N, 0);
    simulator.reset_calls();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function("cuStreamWaitEvent"));
    let error = launch_copy(&kernel, &other, &source, &mut target).unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
    assert!(target.as_mut_slice().copy_from(source.as_slice()).is_err());
    assert_eq!(count_calls(simulator, "cuLaunchKernel"), 0);
    assert_eq!(count_calls(simulator, "cuMemcpyDtoDAsync_v2"), 0);
    simulator.clear_rules();
    launch_copy(&kernel, &other, &source, &mut target).unwrap();
    assert_all(&target, 1, "after");
}

/// If the owning stream cannot wait for a reader on another stream, the memory is not freed, so it
/// gets no other owner.
#[test]
fn a_drop_that_cannot_wait_for_a_reader_leaves_the_memory_alone() {
    for seed in 0..16 {
        for call in ["cuStreamWaitEvent", "cuEventRecord", "cuEventCreate"] {
            let fixture = software(late(seed));
            let simulator = fixture.simulator.as_ref().unwrap();
            let kernel = fixture.kernel(COPY, "copy");
            let (owning, reader) = (fixture.stream(), fixture.stream());
            let mut target = filled(&reader, N, 0);
            let source = filled(&owning, N, 1);
            owning.synchronize().unwrap();
            launch_copy(&kernel, &reader, &source, &mut target).unwrap();
            simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function(call));
            let freed = count_calls(simulator, "cuMemFreeAsync");
            drop(source);
            let is_freed = count_calls(simulator, "cuMemFreeAsync") > freed;
            simulator.clear_rules();
            // A pooled event need not be created.
            assert!(!is_freed || call == "cuEventCreate", "{call}");
            let next = filled(&owning, N, 9);
            assert_all(&target, 1, call);
            assert_all(&next, 9, call);
        }
    }
}

#[test]
fn later_calls_do_not_report_errors_of_drops() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    for call in ["cuMemFreeAsync", "cuEventDestroy_v2", "cuStreamDestroy_v2"] {
        simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function(call));
    }
    drop(filled(&stream, N, 1));
    drop(Event::new(&fixture.context, EventFlags::empty()).unwrap());
    drop(fixture.stream());
    simulator.clear_rules();
    fixture.context.synchronize().unwrap();
    stream.synchronize().unwrap();
    assert_all(&filled(&stream, N, 6), 6, "after");
    // Only `close` reports this error.
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuMemFreeAsync"));
    let error = filled(&stream, N, 1).close().unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_UNKNOWN));
}

#[test]
fn a_stream_that_cannot_be_made_changes_nothing() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let (owning, kernel) = (fixture.stream(), fixture.kernel(COPY, "copy"));
    let (source, mut target) = (filled(&owning, N, 1), filled(&owning, N, 0));
    let fails = Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function("cuStreamCreateWithPriority");
    simulator.add_rule(fails);
    Stream::new(&fixture.context, StreamFlags::empty(), 0).unwrap_err();
    simulator.clear_rules();
    simulator.reset_calls();
    launch_copy(&kernel, &owning, &source, &mut target).unwrap();
    assert_eq!(simulator.calls().values().sum::<u64>(), 1);
}

#[test]
fn buffer_is_on_the_device_of_its_stream() {
    let fixture = software(Builder::new().devices(2));
    let driver = fixture.context.driver();
    let other = driver.device(1).unwrap().primary_context().unwrap();
    let ours = fixture.stream();
    let theirs = other.default_stream().unwrap();
    for current in [&fixture.context, &other] {
        let _current = current.make_current().unwrap();
        for (stream, ordinal) in [(&ours, 0), (&theirs, 1)] {
            let buffer = filled(stream, N, 3);
            let attributes = buffer.as_slice().pointer_attributes().unwrap();
            assert_eq!(attributes.device_ordinal, Some(ordinal));
            assert_all(&buffer, 3, "whatever is current");
        }
    }
}

#[test]
fn thread_without_context_frees_memory_in_its_context() {
    let fixture = software(Builder::new().devices(2));
    let other = fixture.context.driver().device(1).unwrap();
    let other = other.primary_context().unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    let (ours, theirs) = (fixture.stream(), other.default_stream().unwrap());
    let buffers = [filled(&ours, N, 1), filled(&theirs, N, 2)];
    thread::scope(|scope| {
        scope.spawn(|| {
            // The current context of this thread is that of the other device.
            let _current = other.make_current().unwrap();
            for buffer in buffers {
                buffer.close().unwrap();
            }
        });
    });
    ours.synchronize().unwrap();
    theirs.synchronize().unwrap();
    assert_eq!(simulator.live().bytes, 0, "{}", simulator.live());
}

#[test]
fn unknown_statuses_are_kept_and_printed() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.add_rule(Rule::new(Status(4242)).function("cuCtxSynchronize"));
    let error = fixture.context.synchronize().unwrap_err();
    assert_eq!(error.status(), Some(Status(4242)));
    assert!(error.to_string().contains("4242"), "{error}");
}

//! Violations that no call has returned, waits on two threads, and the cost of waits.

use std::env;
use std::process::{Command, Stdio, exit};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cuda_driver::memory::PinnedFlags;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeKernel, SafeModule, Unproven};
use cuda_driver::{Error, Result};
use cuda_sim::Builder;

use super::{STORE, kernel, violation};
use crate::support::{Fixture, MIX, block, everywhere, filled, software};

fn store_at(stream: &Stream, store: &SafeKernel, x: &mut DeviceBuffer<u32>, at: u64) {
    let launch = stream.launch_safe(store, LaunchConfig::new(1, 1), (x, at, 1_u32));
    drop(launch.unwrap());
}

#[test]
fn two_threads_get_a_violation_once() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        for round in 0..30 {
            store_at(&stream, &store, &mut x, 100);
            let event = stream.record_event().unwrap();
            let found = AtomicUsize::new(0);
            let barrier = Barrier::new(4);
            let waits: [&(dyn Fn() -> Result<()> + Sync); 4] = [
                &|| stream.synchronize(),
                &|| event.synchronize(),
                &|| x.to_vec().map(|words| assert_eq!(words, [9; 4])),
                &|| fixture.context.synchronize(),
            ];
            thread::scope(|scope| {
                for wait in waits {
                    let (found, barrier) = (&found, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        match wait() {
                            Ok(()) => {}
                            Err(Error::Violation(all)) => {
                                found.fetch_add(all.len(), Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    });
                }
            });
            let found = found.into_inner();
            assert_eq!(found, 1, "{}, round {round}", fixture.name);
        }
    }
}

/// The README's program: launches a kernel for `n` of 100 elements, and reads the result.
fn program(fixture: &Fixture, n: u32) -> Result<Vec<u32>> {
    let stream = fixture.context.default_stream()?;
    let module = SafeModule::load(&fixture.context, &Ptx::new(MIX).unwrap())?;
    let mix = module.kernel("mix")?;
    let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
    stream.launch_safe(&mix, LaunchConfig::for_num_elems(n)?, (&mut x, &y, n))?;
    x.to_vec()
}

#[test]
fn a_program_with_a_wrong_length_ends_with_the_violation() {
    for fixture in everywhere() {
        assert_eq!(program(&fixture, 100).unwrap(), [7; 100]);
        let found = violation(program(&fixture, 101));
        assert_eq!((found.offset, found.kernel.as_str()), (400, "mix"));
    }
}

/// Environment variable that holds the name of the case in a child process.
const CHILD: &str = "CUDA_DRIVER_TEST_UNREAD";

/// Runs the child process and returns its lines about violations.
fn lines_of(case: &str) -> Vec<String> {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "safe::unread::a_process_that_ends"])
        .args(["--ignored", "--nocapture"])
        .env(CHILD, case)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(7), "{child:?}");
    let text = String::from_utf8_lossy(&child.stderr);
    let lines = text.lines().filter(|line| line.contains("violation"));
    lines.map(str::to_owned).collect()
}

#[test]
fn unread_violations_are_printed_when_the_process_ends() {
    for case in ["kept", "dropped", "busy"] {
        let lines = lines_of(case);
        assert_eq!(lines.len(), 2, "{case}: {lines:#?}");
        let start = "cuda-driver: no wait has returned this violation: kernel store tried";
        assert!(
            lines.iter().all(|line| line.starts_with(start)),
            "{lines:#?}"
        );
        for at in [100, 200] {
            let place = format!("at offset {at} of argument 1");
            let found = lines.iter().filter(|line| line.contains(&place));
            assert_eq!(found.count(), 1, "{case}: {lines:#?}");
        }
    }
    for case in ["read", "proven", "hanging"] {
        let lines = lines_of(case);
        assert!(lines.is_empty(), "{case}: {lines:#?}");
    }
}

#[test]
#[ignore = "ends the process; run by another test"]
fn a_process_that_ends() {
    let Ok(case) = env::var(CHILD) else {
        return;
    };
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store");
    let mut x = filled(&stream, 4, 9);
    let sender = ["busy", "hanging"]
        .contains(&case.as_str())
        .then(|| block(&stream));
    for at in [100, 200] {
        store_at(
            &stream,
            &store,
            &mut x,
            if case == "proven" { 0 } else { at },
        );
    }
    match case.as_str() {
        "read" => {
            stream.synchronize().unwrap_err();
        }
        "dropped" => drop((x, stream)),
        "busy" => {
            // The launches are not complete when the handles are dropped.
            drop((x, stream));
            drop(sender);
        }
        "hanging" => std::mem::forget((sender, x, stream)),
        _ => std::mem::forget((x, stream)),
    }
    exit(7);
}

/// The numbers of calls of the driver, by name.
type Calls = Vec<(&'static str, u64)>;

/// The calls of the driver during `work`, without those that set the capture mode.
fn calls_of(fixture: &Fixture, work: impl FnOnce()) -> Calls {
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.reset_calls();
    work();
    let calls = simulator.calls().into_iter();
    let calls = calls.filter(|(name, _)| *name != "cuThreadExchangeStreamCaptureMode");
    calls.collect()
}

/// The calls of the waits on `stream`, and of those for `x`.
fn calls_of_waits(
    fixture: &Fixture,
    stream: &Stream,
    x: &mut DeviceBuffer<u32>,
) -> Vec<(&'static str, Calls)> {
    let event = stream.record_event().unwrap();
    let pinned = |words: [u32; 4]| {
        PinnedBuffer::from_host(&fixture.context, &words, PinnedFlags::DEFAULT).unwrap()
    };
    let (mut one, other) = (pinned([0; 4]), pinned([0; 4]));
    let calls_of = |work: &mut dyn FnMut()| calls_of(fixture, work);
    vec![
        (
            "Stream::synchronize",
            calls_of(&mut || stream.synchronize().unwrap()),
        ),
        (
            "Event::record",
            calls_of(&mut || event.record(stream).unwrap()),
        ),
        (
            "Event::synchronize",
            calls_of(&mut || event.synchronize().unwrap()),
        ),
        ("to_vec", calls_of(&mut || drop(x.to_vec().unwrap()))),
        (
            "copy_to_pinned",
            calls_of(&mut || x.copy_to_pinned(&mut one).unwrap()),
        ),
        (
            "copy_from_pinned",
            calls_of(&mut || x.copy_from_pinned(&other).unwrap()),
        ),
        (
            "Transfer::wait",
            calls_of(&mut || {
                let copy = x.as_slice().copy_to_pinned_async(pinned([0; 4]), stream);
                drop(copy.unwrap().wait().unwrap());
            }),
        ),
        (
            "Stream::completion",
            calls_of(&mut || stream.completion().wait().unwrap()),
        ),
        (
            "Context::synchronize",
            calls_of(&mut || fixture.context.synchronize().unwrap()),
        ),
    ]
}

#[test]
fn waits_make_no_more_calls_than_without_safe_launches() {
    let fixture = software(Builder::new());
    let (stream, other) = (fixture.stream(), fixture.stream());
    let (mut x, mut y) = (filled(&stream, 4, 9), filled(&other, 4, 9));
    // The first round creates streams, events and blocks that later ones use again. An unread
    // report keeps an event.
    for completion in [stream.completion(), stream.completion()] {
        completion.wait().unwrap();
    }
    calls_of_waits(&fixture, &stream, &mut x);
    let before = calls_of_waits(&fixture, &stream, &mut x);
    let of = |name: &str| before.iter().find(|(known, _)| *known == name).unwrap();
    assert_eq!(of("Stream::synchronize").1, [("cuStreamSynchronize", 1)]);
    assert_eq!(of("Event::synchronize").1, [("cuEventSynchronize", 1)]);
    let copy = [("cuMemcpyDtoHAsync_v2", 1), ("cuStreamSynchronize", 1)];
    assert_eq!(of("to_vec").1, copy);
    // A proven launch.
    let store = kernel(&fixture, STORE, "store");
    store_at(&stream, &store, &mut x, 4);
    assert_eq!(calls_of_waits(&fixture, &stream, &mut x), before);
    // An unread report of another stream, which only a wait for the context reads.
    let all = store.with_unproven(Unproven::CheckAll);
    store_at(&other, &all, &mut y, 4);
    let mut after = calls_of_waits(&fixture, &stream, &mut x);
    let (last, expected) = before.split_last().unwrap();
    assert_eq!(last.0, "Context::synchronize");
    let read = after.pop().unwrap().1;
    assert_eq!(after, expected);
    assert!(read.contains(&("cuMemcpyDtoHAsync_v2", 1)), "{read:?}");
    assert_eq!(calls_of_waits(&fixture, &stream, &mut x), before);
}

//! Violations that no call has returned, waits on two threads, and the cost of waits.

use std::env;
use std::process::{Command, Stdio, exit};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cuda_driver::memory::PinnedFlags;
use cuda_driver::prelude::*;
use cuda_driver::safe::SafeKernel;
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
    let module = cuda_driver::safe::SafeModule::load(&fixture.context, &Ptx::new(MIX)?)?;
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
        for (line, at) in lines.iter().zip([100, 200]) {
            let start = "cuda-driver: no wait has returned this violation: kernel store tried";
            assert!(line.starts_with(start), "{case}: {line}");
            let place = format!("at offset {at} of argument 1");
            assert!(line.contains(&place), "{case}: {line}");
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

/// The calls of the driver during `work`, without those that query or set the capture mode.
fn calls_of(fixture: &Fixture, work: impl FnOnce()) -> Vec<(&'static str, u64)> {
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
) -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    let event = stream.record_event().unwrap();
    let words = [0_u32; 4];
    let pinned = PinnedBuffer::from_host(&fixture.context, &words, PinnedFlags::DEFAULT);
    let mut pinned = pinned.unwrap();
    vec![
        (
            "Stream::synchronize",
            calls_of(fixture, || stream.synchronize().unwrap()),
        ),
        (
            "Event::record",
            calls_of(fixture, || event.record(stream).unwrap()),
        ),
        (
            "Event::synchronize",
            calls_of(fixture, || event.synchronize().unwrap()),
        ),
        (
            "Context::synchronize",
            calls_of(fixture, || fixture.context.synchronize().unwrap()),
        ),
        ("to_vec", calls_of(fixture, || drop(x.to_vec().unwrap()))),
        (
            "copy_to_pinned",
            calls_of(fixture, || x.copy_to_pinned(&mut pinned).unwrap()),
        ),
        (
            "copy_from_pinned",
            calls_of(fixture, || x.copy_from_pinned(&pinned).unwrap()),
        ),
        (
            "Transfer::wait",
            calls_of(fixture, || {
                drop(x.copy_to_pinned_async(pinned, stream).unwrap().wait());
            }),
        ),
        (
            "Stream::completion",
            calls_of(fixture, || stream.completion().wait().unwrap()),
        ),
    ]
}

#[test]
fn waits_make_no_more_calls_than_without_safe_launches() {
    let fixture = software(Builder::new());
    let (stream, other) = (fixture.stream(), fixture.stream());
    let mut x = filled(&stream, 4, 9);
    // The first round creates streams, events and blocks that later ones use again.
    calls_of_waits(&fixture, &stream, &mut x);
    let before = calls_of_waits(&fixture, &stream, &mut x);
    let exact: Vec<_> = before
        .iter()
        .filter(|(name, _)| ["Stream::synchronize", "Event::synchronize", "to_vec"].contains(name))
        .map(|(_, calls)| calls.clone())
        .collect();
    let expected: [&[(&str, u64)]; 3] = [
        &[("cuStreamSynchronize", 1)],
        &[("cuEventSynchronize", 1)],
        &[("cuMemcpyDtoHAsync_v2", 1), ("cuStreamSynchronize", 1)],
    ];
    assert_eq!(exact, expected);
    // A proven launch, and a checked one elsewhere, which nothing here waits for.
    let store = kernel(&fixture, STORE, "store");
    store_at(&stream, &store, &mut x, 4);
    assert_eq!(calls_of_waits(&fixture, &stream, &mut x), before);
    let mut y = filled(&other, 4, 9);
    let sender = block(&other);
    store_at(&other, &store, &mut y, 100);
    let only = |all: Vec<(&'static str, Vec<(&'static str, u64)>)>| {
        let is_of_context = |name: &str| name == "Context::synchronize";
        let all = all.into_iter().filter(|(name, _)| !is_of_context(name));
        all.collect::<Vec<_>>()
    };
    let event = other.record_event().unwrap();
    drop(sender);
    while !event.is_done().unwrap() {
        thread::yield_now();
    }
    // `Context::synchronize` waits for the checked launch and reports it, so it is left out.
    let own: Vec<_> = ["Stream::synchronize", "to_vec"]
        .into_iter()
        .zip([
            calls_of(&fixture, || stream.synchronize().unwrap()),
            calls_of(&fixture, || drop(x.to_vec().unwrap())),
        ])
        .collect();
    let expected = only(before);
    for (name, calls) in own {
        let found = expected.iter().find(|(known, _)| *known == name);
        assert_eq!(Some(&calls), found.map(|(_, calls)| calls), "{name}");
    }
    violation(other.synchronize());
}

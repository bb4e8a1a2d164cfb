//! Contexts: shared handles, and the current context of a thread.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cuda_driver::error::{Error, Status};
use cuda_driver::graph::Capture;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Simulator};

use crate::support::{everywhere, gpu, late, new_stream, raw_current, simulator, software};
use crate::task::until;

#[test]
fn primary_context_handles_share_default_stream() {
    for fixture in everywhere() {
        let other = fixture.context.device().primary_context().unwrap();
        assert_eq!(other, fixture.context);
        assert_eq!(other.as_raw(), fixture.context.as_raw());
        assert_eq!(
            other.default_stream().unwrap(),
            fixture.context.default_stream().unwrap()
        );
    }
}

#[test]
fn every_load_returns_the_same_driver() {
    let Some(fixture) = gpu() else {
        return;
    };
    let again = Driver::load()
        .unwrap()
        .device(0)
        .unwrap()
        .primary_context()
        .unwrap();
    assert_eq!(again, fixture.context);
}

#[test]
fn the_primary_context_is_released_once_with_its_last_handle() {
    let simulator = crate::support::built(&Builder::new());
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let device = driver.device(0).unwrap();
    let context = device.primary_context().unwrap();
    let stream = context.default_stream().unwrap();
    drop(context);
    assert_eq!(
        simulator
            .calls()
            .get("cuDevicePrimaryCtxRelease_v2")
            .copied()
            .unwrap_or(0),
        0
    );
    drop(stream);
    assert_eq!(simulator.calls()["cuDevicePrimaryCtxRelease_v2"], 1);
    assert_eq!(simulator.calls()["cuStreamDestroy_v2"], 1);
    device
        .primary_context()
        .unwrap()
        .default_stream()
        .unwrap()
        .synchronize()
        .unwrap();
}

#[test]
fn calls_restore_the_current_context() {
    for fixture in everywhere() {
        let context = fixture.context.clone();
        // A new thread has no current context.
        thread::spawn(move || {
            let driver = context.driver().clone();
            assert!(raw_current(&driver).is_null());
            let stream = Stream::new(&context, StreamFlags::empty(), 0).unwrap();
            let event = Event::new(&context, EventFlags::empty()).unwrap();
            event.record(&stream).unwrap();
            context.synchronize().unwrap();
            drop(event);
            drop(stream);
            drop(context);
            assert!(raw_current(&driver).is_null());
        })
        .join()
        .unwrap();
    }
}

#[test]
fn calls_use_their_own_context() {
    let fixture = software(Builder::new().devices(2));
    let driver = fixture.context.driver();
    let other = driver.device(1).unwrap().primary_context().unwrap();
    // SAFETY: the context is alive.
    assert!(unsafe { driver.library().cuCtxSetCurrent(other.as_raw()) }.is_success());
    let stream = fixture.stream();
    let mut of = ptr::null_mut();
    let library = driver.library();
    // SAFETY: the pointer is to a local, and the stream is alive.
    let status = unsafe { library.cuStreamGetCtx(stream.as_raw(), &raw mut of) };
    assert!(status.is_success());
    assert_eq!(of, fixture.context.as_raw());
    assert_eq!(raw_current(driver), other.as_raw());
}

#[test]
fn handles_of_another_driver_are_refused_without_a_call() {
    let (one, two) = (software(Builder::new()), software(Builder::new()));
    let (stream, event) = (
        one.stream(),
        Event::new(&one.context, EventFlags::empty()).unwrap(),
    );
    let foreign = Event::new(&two.context, EventFlags::empty()).unwrap();
    let simulators = [one.simulator.unwrap(), two.simulator.unwrap()];
    simulators.iter().for_each(Simulator::reset_calls);
    for result in [
        stream.wait(&foreign),
        event.elapsed_since(&foreign).map(drop),
        foreign.record(&stream),
    ] {
        let error = result.unwrap_err();
        let is_named = matches!(
            error,
            Error::OtherContext {
                what: "the event",
                ..
            }
        );
        assert!(is_named, "{error}");
    }
    for simulator in simulators {
        assert!(simulator.calls().is_empty(), "{:?}", simulator.calls());
    }
}

#[test]
fn a_stream_waits_for_an_event_of_another_device() {
    let fixture = software(Builder::new().devices(2));
    let other = fixture.context.driver().device(1).unwrap();
    let event = Event::new(&other.primary_context().unwrap(), EventFlags::empty()).unwrap();
    fixture.stream().wait(&event).unwrap();
}

/// Threads create and drop handles at the same time: each gets a live handle to the context that
/// the other threads share at that moment.
#[test]
fn short_lived_threads_share_one_primary_context() {
    let fixture = software(Builder::new().devices(2));
    let simulator = fixture.simulator.as_ref().unwrap();
    let device = fixture.context.driver().device(1).unwrap();
    thread::scope(|scope| {
        for thread in 0..8_u32 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..100 {
                    let context = device.primary_context().unwrap();
                    let again = device.primary_context().unwrap();
                    assert_eq!(context, again);
                    let stream = context.default_stream().unwrap();
                    let value = thread * 1000 + round;
                    let buffer = DeviceBuffer::from_host(&stream, &[value; 10]).unwrap();
                    drop((context, stream));
                    let mut other =
                        DeviceBuffer::<u32>::zeroed(&again.default_stream().unwrap(), 10).unwrap();
                    other.as_mut_slice().copy_from(buffer.as_slice()).unwrap();
                    assert_eq!(other.to_vec().unwrap(), [value; 10]);
                }
            });
        }
    });
    let calls = simulator.calls();
    // The test fixture holds one reference to the primary context of the other device.
    assert_eq!(
        calls["cuDevicePrimaryCtxRetain"],
        calls["cuDevicePrimaryCtxRelease_v2"] + 1
    );
    assert_eq!(simulator.live().contexts, 1, "{}", simulator.live());
}

/// Blocks the stream that calls it until the flag is set.
unsafe extern "C" fn wait_for(flag: *mut c_void) {
    // SAFETY: the flag must be alive ← it is a static.
    let flag = unsafe { &*flag.cast::<AtomicBool>() };
    while !flag.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The last handle of a primary context waits for the work in the context. Another thread retains
/// the context meanwhile: a capture there must not begin during that wait, which would break it.
#[test]
fn a_capture_begins_after_the_last_wait_of_an_earlier_handle() {
    static IS_OPEN: AtomicBool = AtomicBool::new(false);
    let fixture = software(Builder::new());
    let (stream, device) = (fixture.stream(), fixture.context.device().clone());
    let (library, simulator) = (device.driver().library(), fixture.simulator.unwrap());
    let flag = (&raw const IS_OPEN).cast_mut().cast();
    // SAFETY: the function and the flag are static, and the stream is alive.
    let status = unsafe { library.cuLaunchHostFunc(stream.as_raw(), Some(wait_for), flag) };
    assert!(status.is_success());
    let context = fixture.context;
    let ending = thread::spawn(move || drop((stream, context)));
    let limit = Duration::from_secs(5);
    until("the last handle waits", limit, || {
        simulator.calls().contains_key("cuCtxSynchronize")
    });
    let again = device.primary_context().unwrap();
    let (begun, has_begun) = mpsc::channel();
    let capturing = thread::spawn(move || {
        let capture = Capture::begin(&again).unwrap();
        begun.send(()).unwrap();
        drop(capture);
    });
    let early = has_begun.recv_timeout(Duration::from_millis(100));
    assert!(early.is_err(), "the capture began during the wait");
    IS_OPEN.store(true, Ordering::Release);
    has_begun.recv_timeout(limit).unwrap();
    ending.join().unwrap();
    capturing.join().unwrap();
    assert!(simulator.live().is_empty(), "{}", simulator.live());
}

/// Every handle of a primary context owns one count of it, so no call reaches the driver with a
/// context that another thread has released.
#[test]
fn no_call_uses_a_primary_context_that_has_ended() {
    for seed in 0..2 {
        let simulator = simulator(&late(seed).devices(2).trace(true));
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        thread::scope(|scope| {
            for thread in 0..4_u32 {
                let devices = driver.devices().unwrap();
                scope.spawn(move || {
                    for round in 0..10 {
                        end_contexts(&devices, thread.wrapping_mul(7) + round);
                    }
                });
            }
        });
        drop(driver);
        let limit = Duration::from_secs(20);
        until("nothing is left", limit, || simulator.live().is_empty());
        let wrong = simulator.take_trace().into_iter().filter(|entry| {
            let dead = [
                Status::CUDA_ERROR_INVALID_CONTEXT,
                Status::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            ];
            dead.contains(&entry.result)
        });
        assert_eq!(wrong.count(), 0, "seed {seed}");
    }
}

/// Ends handles of primary contexts in one of several ways, with work in flight.
fn end_contexts(devices: &[Device], way: u32) {
    let [one, two] = [0, 1].map(|index| devices[index].primary_context().unwrap());
    let streams = [&one, &two].map(new_stream);
    let source = DeviceBuffer::from_host(&streams[0], &[way; 64]).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&streams[1], 64).unwrap();
    let mut view = target.as_mut_slice();
    view.copy_from_peer(source.as_slice()).unwrap();
    match way % 5 {
        // The record of the peer copy holds the last handle.
        0 => drop((target, streams, two, one, source)),
        1 => {
            let current = two.make_current().unwrap();
            drop((source, streams, one, two));
            assert_eq!(target.to_vec().unwrap(), [way; 64]);
            drop((target, current));
        }
        2 => {
            let [_, there] = streams;
            drop(
                there
                    .launch_host(move || drop((source, target, one)))
                    .unwrap(),
            );
            drop((two, there));
        }
        3 => {
            let capture = Capture::begin(&one).unwrap();
            drop((two, streams, source));
            drop((capture, target, one));
        }
        _ => {
            drop((source, target, streams));
            // Fails if another thread has a handle, which ends the context later.
            let _ = (one.close(), two.close());
        }
    }
}

#[test]
fn drivers_of_one_library_are_equal() {
    let simulator = crate::support::built(&Builder::new());
    let library = Arc::new(simulator.library().unwrap());
    let drivers = [(); 2].map(|()| Driver::new(Arc::clone(&library)).unwrap());
    let contexts = drivers.each_ref().map(|driver| {
        let device = driver.device(0).unwrap();
        device.primary_context().unwrap()
    });
    assert_eq!(contexts[0], contexts[1]);
    assert_eq!(
        contexts[0].default_stream().unwrap(),
        contexts[1].default_stream().unwrap()
    );
    drop((contexts, drivers));
    assert!(simulator.live().is_empty(), "{}", simulator.live());
    // A new driver can be created after the last handle is dropped.
    Driver::new(library).unwrap().device(0).unwrap();
}

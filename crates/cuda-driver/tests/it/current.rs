//! The current context of a thread: guards, and other code that changes it between calls of this
//! crate.

use std::ptr;
use std::sync::Barrier;
use std::thread;

use cuda_driver::Error;
use cuda_driver::context::ContextFlags;
use cuda_driver::graph::Capture;
use cuda_driver::prelude::*;
use cuda_sys::CUctx_st;

use crate::support::{Fixture, count_calls, everywhere, new_stream, raw_current, software};

fn set_current(driver: &Driver, raw: *mut CUctx_st) {
    // SAFETY: the callers' contexts are alive.
    assert!(unsafe { driver.library().cuCtxSetCurrent(raw) }.is_success());
}

fn push(driver: &Driver, raw: *mut CUctx_st) {
    // SAFETY: the callers' contexts are alive.
    assert!(unsafe { driver.library().cuCtxPushCurrent_v2(raw) }.is_success());
}

fn pop(driver: &Driver) -> *mut CUctx_st {
    let mut popped = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { driver.library().cuCtxPopCurrent_v2(&raw mut popped) };
    assert!(status.is_success());
    popped
}

/// Runs `test` on its own thread, which has no current context, with the primary context and two
/// created ones.
fn on_a_thread(fixture: &Fixture, test: impl FnOnce(&Driver, [Context; 3]) + Send) {
    let own = || Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let contexts = [fixture.context.clone(), own(), own()];
    thread::scope(|scope| {
        // Joins explicitly, because a scope does not wait for the thread-local destructors of its
        // threads.
        let thread = scope.spawn(|| test(fixture.context.driver(), contexts));
        thread.join().unwrap();
    });
}

#[test]
fn guards_set_and_restore_the_context_in_any_order() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, three]| {
            let raw = [one.as_raw(), two.as_raw(), three.as_raw()];
            let first = one.make_current().unwrap();
            assert_eq!(raw_current(driver), raw[0]);
            let second = two.make_current().unwrap();
            let third = three.make_current().unwrap();
            assert_eq!(raw_current(driver), raw[2]);
            drop(second);
            assert_eq!(
                raw_current(driver),
                raw[2],
                "the guard made last stays current"
            );
            drop(third);
            assert_eq!(raw_current(driver), raw[0], "back to the first guard");
            let again = one.make_current().unwrap();
            drop(first);
            assert_eq!(raw_current(driver), raw[0]);
            drop(again);
            assert!(raw_current(driver).is_null());
        });
    }
}

#[test]
fn guard_keeps_context_alive_and_allows_other_calls() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, _]| {
            let raw = two.as_raw();
            let guard = two.make_current().unwrap();
            drop(two);
            assert_eq!(raw_current(driver), raw);
            let stream = Stream::new(&one, StreamFlags::empty(), 0).unwrap();
            let mut of = ptr::null_mut();
            // SAFETY: the stream is alive and the pointer to a local.
            let status = unsafe {
                driver
                    .library()
                    .cuStreamGetCtx(stream.as_raw(), &raw mut of)
            };
            assert!(status.is_success());
            assert_eq!((of, raw_current(driver)), (one.as_raw(), raw));
            let before = fixture.simulator.as_ref().map(|sim| sim.live().contexts);
            drop(guard);
            assert!(raw_current(driver).is_null());
            let after = fixture.simulator.as_ref().map(|sim| sim.live().contexts);
            assert_eq!(before.map(|count| count - 1), after);
        });
    }
}

#[test]
fn forgotten_guard_leaves_context_current_and_alive() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, three]| {
            let raw = two.as_raw();
            std::mem::forget(two.make_current().unwrap());
            drop(two);
            {
                let _other = three.make_current().unwrap();
                one.synchronize().unwrap();
            }
            assert_eq!(raw_current(driver), raw);
            let again = Context::current(driver).unwrap().unwrap();
            assert_eq!(again.as_raw(), raw);
            again.synchronize().unwrap();
        });
        // The thread has ended and released its current context.
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().contexts, 1, "{}", simulator.live());
        }
    }
}

#[test]
fn guard_restores_context_after_foreign_change() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, three]| {
            for before in [ptr::null_mut(), three.as_raw()] {
                set_current(driver, before);
                let guard = two.make_current().unwrap();
                // The CUDA runtime does the same for `cudaSetDevice`.
                set_current(driver, one.as_raw());
                drop(guard);
                assert_eq!(raw_current(driver), before, "replaced");
                let guard = two.make_current().unwrap();
                assert_eq!(pop(driver), two.as_raw());
                drop(guard);
                assert_eq!(raw_current(driver), before, "popped");
                let guard = two.make_current().unwrap();
                push(driver, one.as_raw());
                assert_eq!(pop(driver), one.as_raw());
                drop(guard);
                assert_eq!(raw_current(driver), before, "pushed and popped");
                set_current(driver, ptr::null_mut());
            }
        });
    }
}

/// Other code changes the current context between any two calls of this crate, on four threads at
/// once.
#[test]
fn calls_work_if_other_code_changes_current_context() {
    for fixture in everywhere() {
        let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let contexts = [fixture.context.clone(), own];
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (contexts, barrier) = (&contexts, &barrier);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let driver = contexts[0].driver();
                    let mut depth = 0;
                    barrier.wait();
                    for round in 0..60_u32 {
                        let raw = contexts[random.usize(..2)].as_raw();
                        match random.u32(..4) {
                            0 if depth > 0 => {
                                set_current(driver, raw);
                            }
                            1 if depth > 0 => {
                                pop(driver);
                                depth -= 1;
                            }
                            _ => {
                                push(driver, raw);
                                depth += 1;
                            }
                        }
                        let before = raw_current(driver);
                        let context = &contexts[random.usize(..2)];
                        let stream = new_stream(context);
                        let mut of = ptr::null_mut();
                        // SAFETY: the stream is alive and the pointer to a local.
                        let status = unsafe {
                            driver
                                .library()
                                .cuStreamGetCtx(stream.as_raw(), &raw mut of)
                        };
                        assert!(status.is_success());
                        assert_eq!(of, context.as_raw());
                        let buffer = DeviceBuffer::from_host(&stream, &[round; 100]).unwrap();
                        assert_eq!(raw_current(driver), before);
                        assert_eq!(buffer.to_vec().unwrap(), [round; 100]);
                        let event = Event::new(context, EventFlags::empty()).unwrap();
                        event.record(&stream).unwrap();
                        event.synchronize().unwrap();
                        drop((buffer, stream, event));
                        assert_eq!(raw_current(driver), before);
                    }
                });
            }
        });
    }
}

#[test]
fn contexts_and_their_objects_move_between_threads() {
    for fixture in everywhere() {
        let device = fixture.context.device().clone();
        // The objects are created on one thread, used on a second and dropped on a third; none has
        // a current context.
        let made = thread::spawn(move || {
            let context = Context::new(&device, ContextFlags::empty()).unwrap();
            let stream = context.default_stream().unwrap();
            let buffer = DeviceBuffer::from_host(&stream, &[7_u64; 50]).unwrap();
            (context, stream, buffer)
        })
        .join()
        .unwrap();
        let used = thread::spawn(move || {
            let (context, stream, mut buffer) = made;
            assert!(raw_current(context.driver()).is_null());
            assert_eq!(buffer.to_vec().unwrap(), [7; 50]);
            buffer.copy_from_host(&[8; 50]).unwrap();
            Event::new(&context, EventFlags::empty())
                .unwrap()
                .record(&stream)
                .unwrap();
            (context, stream, buffer)
        })
        .join()
        .unwrap();
        thread::spawn(move || {
            let (context, stream, buffer) = used;
            let driver = context.driver().clone();
            drop((context, stream));
            assert_eq!(buffer.to_vec().unwrap(), [8; 50]);
            buffer.close().unwrap();
            assert!(raw_current(&driver).is_null());
        })
        .join()
        .unwrap();
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().contexts, 1, "{}", simulator.live());
        }
    }
}

/// The test for a primary context does not wait for the work of other code in that context.
#[test]
fn asking_for_a_context_of_other_code_breaks_no_capture() {
    for fixture in everywhere() {
        let driver = fixture.context.driver();
        let (mut foreign, device) = (ptr::null_mut(), fixture.context.device().as_raw());
        let mut capture = Capture::begin(&fixture.context).unwrap();
        // SAFETY: the pointer is to a local. The context becomes current.
        let status = unsafe { driver.library().cuCtxCreate_v2(&raw mut foreign, 0, device) };
        assert!(status.is_success());
        let of = "this thread";
        assert_eq!(Context::current(driver), Err(Error::ForeignContext { of }));
        assert_eq!(pop(driver), foreign);
        assert!(capture.scope().is_capturing().unwrap(), "{}", fixture.name);
        drop(capture);
        // SAFETY: the context is no longer in use.
        assert!(unsafe { driver.library().cuCtxDestroy_v2(foreign) }.is_success());
    }
}

#[test]
fn bound_thread_keeps_its_context_current_and_alive() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, _]| {
            two.bind_thread().unwrap();
            two.bind_thread().unwrap();
            let raw = two.as_raw();
            drop(two);
            one.synchronize().unwrap();
            assert_eq!(raw_current(driver), raw);
            let two = Context::current(driver).unwrap().unwrap();
            two.synchronize().unwrap();
            let error = two.close().unwrap_err();
            assert!(matches!(error, Error::StillInUse { .. }), "{error:?}");
        });
        // The thread has ended and released its context.
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().contexts, 1, "{}", simulator.live());
        }
    }
}

#[test]
fn binding_ends_with_another_binding_or_explicitly() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, three]| {
            let live = || fixture.simulator.as_ref().map(|sim| sim.live().contexts);
            let before = live();
            two.bind_thread().unwrap();
            drop(two);
            assert_eq!(live(), before);
            three.bind_thread().unwrap();
            assert_eq!(live(), before.map(|count| count - 1));
            assert_eq!(raw_current(driver), three.as_raw());
            // This thread does not belong to `one`.
            one.unbind_thread().unwrap();
            assert_eq!(raw_current(driver), three.as_raw());
            three.unbind_thread().unwrap();
            assert!(raw_current(driver).is_null());
            three.close().unwrap();
        });
    }
}

#[test]
fn bound_threads_leave_changes_of_other_code_in_place() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, _]| {
            one.bind_thread().unwrap();
            set_current(driver, two.as_raw());
            one.synchronize().unwrap();
            assert_eq!(raw_current(driver), two.as_raw());
            // The change of the other code ends neither with nor before the binding.
            one.unbind_thread().unwrap();
            assert_eq!(raw_current(driver), two.as_raw());
            one.bind_thread().unwrap();
            push(driver, two.as_raw());
            one.synchronize().unwrap();
            assert_eq!(pop(driver), two.as_raw());
            assert_eq!(raw_current(driver), one.as_raw());
            set_current(driver, ptr::null_mut());
            one.synchronize().unwrap();
            assert!(raw_current(driver).is_null());
        });
    }
}

#[test]
fn bound_threads_push_only_if_other_code_changed_the_context() {
    for devices in [1, 2] {
        let fixture = software(cuda_sim::Builder::new().devices(devices));
        on_a_thread(&fixture, |driver, [one, two, _]| {
            let simulator = fixture.simulator.as_ref().unwrap();
            let pushes_of = |current: *mut CUctx_st| {
                set_current(driver, current);
                simulator.reset_calls();
                one.memory_info().unwrap();
                count_calls(simulator, "cuCtxPushCurrent_v2")
            };
            one.bind_thread().unwrap();
            assert_eq!(pushes_of(one.as_raw()), 0);
            assert_eq!(pushes_of(two.as_raw()), 1);
            if devices == 2 {
                let other = driver.device(1).unwrap().primary_context().unwrap();
                assert_eq!(pushes_of(other.as_raw()), 1);
                // A copy in the bound context, while that of the other device is current.
                let stream = new_stream(&one);
                let buffer = DeviceBuffer::from_host(&stream, &[7_u32; 100]).unwrap();
                assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
                assert_eq!(raw_current(driver), other.as_raw());
            }
        });
    }
}

#[test]
fn binding_is_refused_while_a_guard_exists() {
    for fixture in everywhere() {
        on_a_thread(&fixture, |driver, [one, two, _]| {
            let guard = one.make_current().unwrap();
            let error = two.bind_thread().unwrap_err();
            assert!(matches!(error, Error::StillInUse { .. }), "{error:?}");
            assert_eq!(raw_current(driver), one.as_raw());
            drop(guard);
            two.bind_thread().unwrap();
            let guard = one.make_current().unwrap();
            assert!(two.unbind_thread().is_err());
            drop(guard);
            assert_eq!(raw_current(driver), two.as_raw());
        });
    }
}

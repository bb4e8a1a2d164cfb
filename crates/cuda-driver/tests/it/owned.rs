//! Created contexts, the settings of contexts, and the state of primary contexts.

use std::thread;
use std::time::Duration;

use cuda_driver::context::{CacheConfig, ContextFlags, Limit};
use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{MIX, everywhere, late, new_stream, software};
use crate::task::until;

fn own(of: &Context) -> Context {
    Context::new(of.device(), ContextFlags::empty()).unwrap()
}

#[test]
fn a_context_of_our_own_does_all_that_the_primary_one_does() {
    for fixture in everywhere() {
        let context = own(&fixture.context);
        assert_ne!(context, fixture.context);
        assert_ne!(context.as_raw(), fixture.context.as_raw());
        assert_ne!(context.id().unwrap(), fixture.context.id().unwrap());
        assert!(!context.is_primary() && !context.is_borrowed());
        assert_eq!(context.device(), fixture.context.device());
        let kernel = Module::load(&context, &Ptx::new(MIX).unwrap())
            .unwrap()
            .function("mix")
            .unwrap();
        let (owner, other) = (new_stream(&context), context.default_stream().unwrap());
        let words: Vec<u32> = (0..10_000).collect();
        let mut x = DeviceBuffer::from_host(&owner, &words).unwrap();
        let y = DeviceBuffer::from_host(&other, &words).unwrap();
        for on in [&owner, &other] {
            // SAFETY: the kernel reads 10,000 words of each and writes 10,000 words of `x`; each
            // has 10,000.
            unsafe {
                on.launch(
                    &kernel,
                    LaunchConfig::for_num_elems(10_000).unwrap(),
                    (&mut x, &y, 10_000_u32),
                )
            }
            .unwrap();
        }
        let (begin, end) = [(); 2]
            .map(|()| Event::new(&context, EventFlags::empty()).unwrap())
            .into();
        begin.record(&owner).unwrap();
        end.record(&owner).unwrap();
        end.synchronize().unwrap();
        end.elapsed_since(&begin).unwrap();
        let expected: Vec<u32> = words.iter().map(|word| 7 * word).collect();
        assert_eq!(x.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

#[test]
fn objects_of_two_contexts_of_one_device_do_not_mix() {
    for fixture in everywhere() {
        let context = own(&fixture.context);
        let (here, there) = (new_stream(&fixture.context), new_stream(&context));
        let kernel = fixture.kernel(MIX, "mix");
        let of_there = Module::load(&context, &Ptx::new(MIX).unwrap())
            .unwrap()
            .function("mix")
            .unwrap();
        let event = Event::new(&context, EventFlags::empty()).unwrap();
        let mut x = DeviceBuffer::from_host(&here, &[1_u32; 4]).unwrap();
        let y = DeviceBuffer::from_host(&there, &[2_u32; 4]).unwrap();
        let z = DeviceBuffer::from_host(&here, &[2_u32; 4]).unwrap();
        let config = LaunchConfig::for_num_elems(4).unwrap();
        let results = [
            // SAFETY: the kernel reads 4 words of the one and writes 4 of the other; each has 4.
            unsafe { here.launch(&kernel, config, (&mut x, &y, 4_u32)) },
            // SAFETY: as above.
            unsafe { there.launch(&kernel, config, (&mut x, &z, 4_u32)) },
            // SAFETY: as above.
            unsafe { there.launch(&of_there, config, (&mut x, &z, 4_u32)) },
            x.as_mut_slice().copy_from(y.as_slice()),
            event.record(&here),
        ];
        for result in results {
            let error = result.unwrap_err();
            assert!(
                matches!(error, Error::OtherContext { .. }),
                "{}: {error}",
                fixture.name
            );
        }
        // Contexts may wait for each other's events.
        event.record(&there).unwrap();
        here.wait(&event).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1; 4]);
    }
}

#[test]
fn own_context_is_destroyed_once_with_its_last_object() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let context = own(&fixture.context);
    let stream = context.default_stream().unwrap();
    let buffer = DeviceBuffer::from_host(&stream, &[1_u8; 100]).unwrap();
    drop((context, stream));
    assert_eq!(simulator.live().contexts, 2);
    thread::spawn(move || drop(buffer)).join().unwrap();
    assert_eq!(simulator.calls()["cuCtxDestroy_v2"], 1);
    assert_eq!(simulator.live().contexts, 1);
    assert_eq!(simulator.live().bytes, 0);
}

#[test]
fn close_reports_driver_errors_and_other_users() {
    for fixture in everywhere() {
        let context = own(&fixture.context);
        context.default_stream().unwrap();
        context.close().unwrap();
        let context = own(&fixture.context);
        let stream = new_stream(&context);
        let error = context.close().unwrap_err();
        assert!(matches!(error, Error::StillInUse { .. }), "{error}");
        assert!(error.to_string().contains("streams, memory"), "{error}");
        stream.synchronize().unwrap();
        let Some(simulator) = &fixture.simulator else {
            continue;
        };
        drop(stream);
        assert_eq!(simulator.live().contexts, 1);
        let fails = Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuCtxDestroy_v2");
        let context = own(&fixture.context);
        simulator.add_rule(fails);
        let error = context.close().unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_UNKNOWN));
    }
}

#[test]
fn creating_a_context_keeps_the_current_one() {
    let fixture = software(Builder::new());
    let driver = fixture.context.driver();
    assert_eq!(Context::current(driver).unwrap(), None);
    let context = own(&fixture.context);
    assert_eq!(Context::current(driver).unwrap(), None);
    let simulator = fixture.simulator.as_ref().unwrap();
    for call in ["cuCtxCreate_v2", "cuDeviceGetAttribute"] {
        simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function(call));
        let error = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
        simulator.clear_rules();
    }
    assert_eq!(Context::current(driver).unwrap(), None);
    drop(context);
    assert_eq!(simulator.live().contexts, 1);
}

#[test]
fn flags_are_those_that_a_context_was_made_with() {
    for fixture in everywhere() {
        let device = fixture.context.device();
        for flags in [
            ContextFlags::SCHED_SPIN,
            ContextFlags::SCHED_YIELD | ContextFlags::LMEM_RESIZE_TO_MAX,
            ContextFlags::SCHED_BLOCKING_SYNC | ContextFlags::MAP_HOST,
        ] {
            let context = Context::new(device, flags).unwrap();
            // `MAP_HOST` is always on, and some drivers report it.
            let found = context.flags().unwrap() | ContextFlags::MAP_HOST;
            assert_eq!(found, flags | ContextFlags::MAP_HOST, "{}", fixture.name);
        }
        let two = ContextFlags::SCHED_SPIN | ContextFlags::SCHED_YIELD;
        let error = Context::new(device, two).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
    }
}

#[test]
fn a_call_that_the_driver_lacks_is_named() {
    let fixture = software(Builder::new().version(12000));
    let context = own(&fixture.context);
    context.id().unwrap();
    let error = context.set_flags(ContextFlags::SCHED_SPIN).unwrap_err();
    assert!(error.to_string().contains("cuCtxSetFlags"), "{error}");
    let newer = software(Builder::new().version(12010));
    let context = own(&newer.context);
    context.set_flags(ContextFlags::SCHED_SPIN).unwrap();
    assert_eq!(context.flags().unwrap(), ContextFlags::SCHED_SPIN);
}

#[test]
fn limits_are_at_least_the_requested_ones() {
    for fixture in everywhere() {
        let context = own(&fixture.context);
        for (limit, value) in [
            (Limit::STACK_SIZE, 4096),
            (Limit::PRINTF_FIFO_SIZE, 2 << 20),
            (Limit::MALLOC_HEAP_SIZE, 16 << 20),
        ] {
            context.set_limit(limit, value).unwrap();
            let found = context.limit(limit).unwrap();
            assert!(found >= value, "{}: {limit:?} is {found}", fixture.name);
        }
        let error = context.limit(Limit(1000)).unwrap_err();
        let status = error.status().unwrap();
        let expected = [
            Status::CUDA_ERROR_UNSUPPORTED_LIMIT,
            Status::CUDA_ERROR_INVALID_VALUE,
        ];
        assert!(expected.contains(&status), "{error}");
        // The other context has its own limit.
        let of_primary = fixture.context.limit(Limit::STACK_SIZE).unwrap();
        assert!(of_primary < 4096, "{}: {of_primary}", fixture.name);
    }
}

#[test]
fn the_preference_for_the_cache_is_kept() {
    for fixture in everywhere() {
        let context = own(&fixture.context);
        assert_eq!(context.cache_config().unwrap(), CacheConfig::NONE);
        for config in [CacheConfig::SHARED, CacheConfig::L1, CacheConfig::EQUAL] {
            context.set_cache_config(config).unwrap();
            // A device with a fixed cache split need not keep the preference.
            let found = context.cache_config().unwrap();
            assert!([config, CacheConfig::NONE].contains(&found), "{found:?}");
        }
        assert!(context.api_version().unwrap() >= 3010);
        context.reset_persisting_l2_cache().unwrap();
    }
}

#[test]
fn primary_context_is_active_while_held_and_keeps_flags() {
    let fixture = software(Builder::new().devices(2));
    let device = fixture.context.driver().device(1).unwrap();
    assert!(!device.primary_context_state().unwrap().is_active);
    let flags = ContextFlags::SCHED_BLOCKING_SYNC;
    device.set_primary_context_flags(flags).unwrap();
    let context = device.primary_context().unwrap();
    let state = device.primary_context_state().unwrap();
    assert_eq!((state.flags, state.is_active), (flags, true));
    assert_eq!(context.flags().unwrap(), flags);
    context.close().unwrap();
    assert!(!device.primary_context_state().unwrap().is_active);
}

#[test]
fn a_reset_destroys_what_is_in_the_primary_context() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    std::mem::forget(DeviceBuffer::from_host(&stream, &[1_u8; 100]).unwrap());
    std::mem::forget(stream);
    assert_eq!(simulator.live().streams, 1);
    // SAFETY: the context is no longer in use.
    unsafe { fixture.context.device().reset_primary_context() }.unwrap();
    assert_eq!(simulator.live().streams, 0);
    std::mem::forget(fixture.context);
}

#[test]
fn the_last_handle_waits_for_the_work_of_its_context() {
    for seed in 0..4 {
        let fixture = software(late(seed).devices(2));
        let simulator = fixture.simulator.as_ref().unwrap();
        let device = fixture.context.driver().device(1).unwrap();
        for is_own in [true, false] {
            let context = if is_own {
                own(&fixture.context)
            } else {
                device.primary_context().unwrap()
            };
            let owner = fixture.stream();
            let source = DeviceBuffer::from_host(&owner, &[1_u32; 100]).unwrap();
            fixture.context.synchronize().unwrap();
            let mut target = DeviceBuffer::<u32>::zeroed(&new_stream(&context), 100).unwrap();
            target
                .as_mut_slice()
                .copy_from_peer(source.as_slice())
                .unwrap();
            drop((target, context));
            // The recorded use of the source keeps the context of the copy alive. The drop does not
            // wait for the end of that context.
            assert!(simulator.pending() > 0);
            assert_eq!(simulator.live().contexts, 2);
            drop(source);
            let limit = Duration::from_secs(5);
            until("the context ends", limit, || simulator.live().contexts == 1);
            owner.synchronize().unwrap();
            assert_eq!(simulator.live().bytes, 0, "{}", simulator.live());
        }
    }
}

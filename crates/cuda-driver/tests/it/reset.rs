//! Primary contexts that other code resets.

use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{Fixture, MIX, filled, software};

const TEXT: &str = "other code has reset the primary context";

/// Resets the primary context behind the back of the crate.
fn reset(fixture: &Fixture) {
    let library = fixture.context.driver().library();
    let device = fixture.context.device().as_raw();
    // SAFETY: the host uses no memory of the context afterwards.
    let status = unsafe { library.table().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(status, Status::CUDA_SUCCESS);
}

/// Returns the names of the calls since the last reset of the counters, except those that only ask.
fn calls(fixture: &Fixture) -> Vec<&'static str> {
    let calls = fixture.simulator.as_ref().unwrap().calls();
    let asks = |name: &str| {
        name.contains("Get") || name == "cuThreadExchangeStreamCaptureMode" || name == "cuInit"
    };
    calls.into_keys().filter(|name| !asks(name)).collect()
}

#[test]
fn a_reset_is_named_and_drops_make_no_calls() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let (stream, kernel) = (fixture.stream(), fixture.kernel(MIX, "mix"));
    let (mut x, y) = (filled(&stream, 4, 1), filled(&stream, 4, 2));
    let event = Event::new(&fixture.context, EventFlags::empty()).unwrap();
    let graph = Graph::new(&fixture.context).unwrap();
    let exec = graph.instantiate().unwrap();
    reset(&fixture);

    let config = LaunchConfig::new(1, 4);
    // SAFETY: the launch fails: its context is gone.
    let first = unsafe { stream.launch(&kernel, config, (&mut x, &y, 4_u32)) }.unwrap_err();
    let destroyed = Status::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_eq!(first.status(), Some(destroyed));
    assert!(first.to_string().contains(TEXT), "{first}");

    simulator.reset_calls();
    let is_reset = |error: Error| {
        assert_eq!(error.status(), Some(destroyed), "{error}");
        assert!(error.to_string().contains(TEXT), "{error}");
        matches!(error, Error::ContextGone { is_reset: true, .. })
    };
    assert!(stream.synchronize().is_err_and(is_reset));
    assert!(y.to_vec().is_err_and(is_reset));
    assert!(event.record(&stream).is_err_and(is_reset));
    assert!(exec.launch(&stream).is_err_and(is_reset));
    assert!(fixture.context.synchronize().is_err_and(is_reset));
    assert!(DeviceBuffer::<u32>::zeroed(&stream, 4).is_err_and(is_reset));
    drop((x, y, kernel, event, exec, graph, stream));
    assert_eq!(calls(&fixture), Vec::<&str>::new());
}

#[test]
fn a_new_context_works_after_a_reset() {
    for sees_an_error in [true, false] {
        let fixture = software(Builder::new());
        let (device, old) = (fixture.context.device().clone(), fixture.stream());
        let x = filled(&old, 4, 1);
        reset(&fixture);
        assert!(!sees_an_error || old.synchronize().is_err());
        let context = device.primary_context().unwrap();
        assert_ne!(context, fixture.context);
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        assert_eq!(filled(&stream, 4, 7).to_vec().unwrap(), [7; 4]);
        assert!(old.synchronize().is_err());
        drop((x, old));
        drop(fixture.context);
        // The release of the old context does not end the new one.
        assert_eq!(filled(&stream, 4, 8).to_vec().unwrap(), [8; 4]);
        drop((stream, context));
        assert!(!device.primary_context_state().unwrap().is_active);
    }
}

#[test]
fn the_drop_of_a_stream_finds_a_reset_before_other_uses() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    reset(&fixture);
    let table = fixture.context.driver().library().table();
    let mut again = std::ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { table.cuDevicePrimaryCtxRetain(&raw mut again, 0) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    assert_eq!(again, fixture.context.as_raw());
    fixture.simulator.as_ref().unwrap().reset_calls();
    drop(stream);
    assert_eq!(calls(&fixture), Vec::<&str>::new());
    assert!(fixture.context.default_stream().is_err());
}

#[test]
fn a_reset_of_one_device_leaves_the_others_alone() {
    let fixture = software(Builder::new().devices(2));
    let other = fixture.context.driver().device(1).unwrap();
    let other = other.primary_context().unwrap();
    let stream = Stream::new(&other, StreamFlags::NON_BLOCKING, 0).unwrap();
    let own = fixture.stream();
    reset(&fixture);
    assert!(own.synchronize().is_err());
    assert_eq!(filled(&stream, 4, 7).to_vec().unwrap(), [7; 4]);
    // A context of this crate does not end with the primary one.
    let apart = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let stream = Stream::new(&apart, StreamFlags::NON_BLOCKING, 0).unwrap();
    assert_eq!(filled(&stream, 4, 8).to_vec().unwrap(), [8; 4]);
}

#[test]
fn a_current_context_that_other_code_destroys_is_no_reset() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let x = filled(&stream, 4, 3);
    stream.synchronize().unwrap();
    let table = fixture.context.driver().library().table();
    let mut foreign = std::ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { table.cuCtxCreate_v2(&raw mut foreign, 0, 0) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    // Another thread destroys the context, which stays current on this one.
    let address = foreign.expose_provenance();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let foreign = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: the context is alive, and nothing uses it.
            let status = unsafe { table.cuCtxDestroy_v2(foreign) };
            assert_eq!(status, Status::CUDA_SUCCESS);
        });
    });
    // A copy needs no context on a machine with one device, so the driver may refuse it here.
    let _ = x.to_vec();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(x.to_vec().unwrap(), [3; 4]));
    });
    stream.synchronize().unwrap();
    let mut popped = std::ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let _ = unsafe { table.cuCtxPopCurrent_v2(&raw mut popped) };
}

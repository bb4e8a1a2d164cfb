//! Events: elapsed time, and valid combinations of flags.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{count_calls, everywhere, filled, late, software};

#[test]
fn elapsed_time_is_positive_and_has_both_directions() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let end = Event::new(&fixture.context, EventFlags::DEFAULT).unwrap();
        let begun = Instant::now();
        let start = stream.record_event().unwrap();
        start.synchronize().unwrap();
        thread::sleep(Duration::from_millis(20));
        end.record(&stream).unwrap();
        end.synchronize().unwrap();
        let most = begun.elapsed() + Duration::from_millis(1);
        let time = end.elapsed_since(&start).unwrap();
        assert!(
            (Duration::from_millis(19)..=most).contains(&time),
            "{time:?}"
        );
        assert_eq!(start.elapsed_until(&end).unwrap(), time);
        let milliseconds = end.milliseconds_since(&start).unwrap();
        assert!((f64::from(milliseconds) / 1e3 - time.as_secs_f64()).abs() < 1e-6);
        // In reverse order the time is negative, which a `Duration` cannot represent.
        assert!(start.milliseconds_since(&end).unwrap() < -19.0);
        assert_eq!(start.elapsed_since(&end).unwrap(), Duration::ZERO);
    }
}

#[test]
fn a_recorded_event_follows_the_work_of_its_stream() {
    let fixture = software(late(1));
    let stream = fixture.stream();
    let (open, gate) = mpsc::channel::<()>();
    let call = stream.launch_host(move || {
        let _ = gate.recv();
    });
    let event = stream.record_event().unwrap();
    assert!(!event.is_done().unwrap());
    drop(open);
    call.unwrap().wait().unwrap();
    event.synchronize().unwrap();
    assert!(event.is_done().unwrap());
}

#[test]
fn a_blocking_event_keeps_a_time_unless_it_is_disabled() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let blocking = Event::new(&fixture.context, EventFlags::BLOCKING_SYNC).unwrap();
        let flags = EventFlags::BLOCKING_SYNC | EventFlags::DISABLE_TIMING;
        let untimed = Event::new(&fixture.context, flags).unwrap();
        let start = stream.record_event().unwrap();
        start.synchronize().unwrap();
        thread::sleep(Duration::from_millis(20));
        blocking.record(&stream).unwrap();
        untimed.record(&stream).unwrap();
        untimed.synchronize().unwrap();
        // The earlier event of the stream is done, too.
        assert!(blocking.is_done().unwrap() && untimed.is_done().unwrap());
        blocking.synchronize().unwrap();
        let time = blocking.elapsed_since(&start).unwrap();
        assert!(time >= Duration::from_millis(19), "{time:?}");
        let error = untimed.elapsed_since(&start).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_HANDLE));
    }
}

#[test]
fn an_interprocess_event_keeps_no_time() {
    for fixture in everywhere() {
        let invalid = Event::new(&fixture.context, EventFlags::INTERPROCESS).unwrap_err();
        assert_eq!(invalid.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
        let flags = EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING;
        let event = Event::new(&fixture.context, flags).unwrap();
        let stream = fixture.stream();
        event.record(&stream).unwrap();
        stream.wait(&event).unwrap();
        event.synchronize().unwrap();
        assert!(event.is_done().unwrap());
        let timed = event.elapsed_since(&event).unwrap_err();
        assert_eq!(timed.status(), Some(Status::CUDA_ERROR_INVALID_HANDLE));
    }
}

#[test]
fn events_of_two_drivers_have_no_time_between_them() {
    let (one, other) = (software(Builder::new()), software(Builder::new()));
    let event = |context| Event::new(context, EventFlags::empty()).unwrap();
    let (one, other) = (event(&one.context), event(&other.context));
    let error = one.elapsed_until(&other).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

#[test]
fn a_wait_with_a_limit_makes_no_call_that_waits() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let _buffer = filled(&stream, 100, 1);
    let event = stream.record_event().unwrap();
    let calls = ["cuStreamSynchronize", "cuEventSynchronize"];
    let before = calls.map(|call| count_calls(simulator, call));
    let limit = Duration::from_secs(10);
    assert!(stream.synchronize_timeout(limit).unwrap());
    assert!(event.synchronize_timeout(limit).unwrap());
    // Another thread may have queued work that never ends.
    assert_eq!(calls.map(|call| count_calls(simulator, call)), before);
}

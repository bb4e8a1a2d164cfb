//! Futures of streams and events.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_driver::stream::{Completion, WaitCondition};
use cuda_sim::{Builder, Rule};

use crate::support::{self, block, everywhere, late, software};
use crate::task::{Count, block_on, until};

const SECOND: Duration = Duration::from_secs(1);

fn poll(future: &mut Completion, count: &Arc<Count>) -> Poll<cuda_driver::Result<()>> {
    let waker = Waker::from(Arc::clone(count));
    Pin::new(future).poll(&mut TaskContext::from_waker(&waker))
}

#[test]
fn a_stream_is_awaited_to_the_end_of_its_work() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let is_called = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_called);
        stream
            .launch_host(move || {
                thread::sleep(Duration::from_millis(20));
                seen.store(true, Ordering::SeqCst);
            })
            .unwrap();
        block_on(async { (&stream).await }, 10 * SECOND).unwrap();
        assert!(is_called.load(Ordering::SeqCst), "{}", fixture.name);
    }
}

#[test]
fn an_event_is_awaited_as_it_was_recorded_at_the_call() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
        // The event was never recorded, so there is nothing to wait for.
        block_on(event.completion(), 10 * SECOND).unwrap();
        let open = block(&stream);
        event.record(&stream).unwrap();
        let mut completion = event.completion();
        // The event is recorded again on an idle stream, which replaces the earlier record.
        event.record(&other).unwrap();
        event.synchronize().unwrap();
        let count = Arc::<Count>::default();
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(50));
            assert!(
                poll(&mut completion, &count).is_pending(),
                "{}",
                fixture.name
            );
        }
        assert_eq!(count.get(), 0);
        open.send(()).unwrap();
        block_on(completion, 10 * SECOND).unwrap();
    }
}

#[test]
fn the_last_waker_is_woken_once() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let open = block(&stream);
    let mut completion = stream.completion();
    let (first, last) = (Arc::<Count>::default(), Arc::<Count>::default());
    assert!(poll(&mut completion, &first).is_pending());
    assert!(poll(&mut completion, &first).is_pending());
    assert!(poll(&mut completion, &last).is_pending());
    assert!(!completion.is_done().unwrap());
    open.send(()).unwrap();
    until("the task is woken", SECOND, || last.get() == 1);
    assert_eq!(first.get(), 0);
    // A completed future stays ready when polled again.
    for _ in 0..2 {
        assert_eq!(poll(&mut completion, &last), Poll::Ready(Ok(())));
    }
    assert!(completion.is_done().unwrap());
    completion.wait().unwrap();
    assert_eq!(last.get(), 1);
}

#[test]
fn futures_do_not_block_each_other() {
    for fixture in everywhere() {
        let (blocked, free) = (fixture.stream(), fixture.stream());
        let flag = support::unpooled(&free, &[0_u32]);
        let waiting = blocked.wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32);
        if let Err(error) = waiting {
            assert!(fixture.simulator.is_none(), "{error}");
            continue;
        }
        let mut first = blocked.completion();
        block_on(free.completion(), 10 * SECOND).unwrap();
        assert!(poll(&mut first, &Arc::default()).is_pending());
        free.write_value(&flag, 0, 1_u32).unwrap();
        block_on(first, 10 * SECOND).unwrap();
    }
}

#[test]
fn futures_may_be_dropped_at_any_time() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let open = block(&stream);
        drop(stream.completion());
        let mut polled = stream.completion();
        assert!(poll(&mut polled, &Arc::default()).is_pending());
        drop(polled);
        let kept = stream.completion();
        open.send(()).unwrap();
        stream.synchronize().unwrap();
        drop((fixture, stream));
        kept.wait().unwrap();
        // The late driver calls host functions only after several queries.
        until("all resources are released", 4 * SECOND, || {
            simulator.live().is_empty()
        });
    }
}

/// A waker that owns all objects and drops them when it is woken.
struct Owner(Mutex<Option<(Context, Stream, DeviceBuffer<u32>)>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_waker_may_drop_the_last_handle_of_the_context() {
    for builder in [Builder::new(), late(4)] {
        let fixture = software(builder);
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let open = block(&stream);
        let mut completion = stream.completion();
        let buffer = DeviceBuffer::<u32>::zeroed(&stream, 9).unwrap();
        let all = (fixture.context.clone(), stream, buffer);
        let owner = Arc::new(Owner(Mutex::new(Some(all))));
        let waker = Waker::from(owner);
        let pending = Pin::new(&mut completion).poll(&mut TaskContext::from_waker(&waker));
        assert!(pending.is_pending());
        drop((fixture, waker));
        open.send(()).unwrap();
        completion.wait().unwrap();
        until("all resources are released", 4 * SECOND, || {
            simulator.live().is_empty()
        });
    }
}

#[test]
fn a_lost_device_is_reported_within_a_second() {
    for builder in [Builder::new(), late(1), late(2)] {
        let fixture = software(builder);
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let flag = support::unpooled(&stream, &[0_u32]);
        stream
            .wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
        event.record(&stream).unwrap();
        let pending = [stream.completion(), event.completion()];
        simulator.lose_device(0, Status::CUDA_ERROR_ILLEGAL_ADDRESS);
        let lost = Some(Status::CUDA_ERROR_ILLEGAL_ADDRESS);
        for completion in pending {
            assert_eq!(block_on(completion, SECOND).unwrap_err().status(), lost);
        }
        // A future that is created now fails at once.
        assert_eq!(block_on(stream.completion(), SECOND).status(), lost);
    }
}

/// Returns the status of a result's error.
trait Answer {
    fn status(self) -> Option<Status>;
}

impl Answer for cuda_driver::Result<()> {
    fn status(self) -> Option<Status> {
        self.unwrap_err().status()
    }
}

#[test]
fn a_future_reports_work_that_cannot_be_queued() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    for name in ["cuEventRecord", "cuStreamWaitEvent", "cuLaunchHostFunc"] {
        let rule = Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function(name);
        simulator.add_rule(rule);
        let failed = block_on(stream.completion(), SECOND);
        assert_eq!(failed.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
        simulator.clear_rules();
        block_on(stream.completion(), SECOND).unwrap();
    }
}

//! Deferred release of resources: a blocked context delays only the release of its own resources.

use cuda_driver::memory::Unpooled;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::context::ContextFlags;
use cuda_driver::error::Status;
use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;
use cuda_sim::Builder;

use crate::support::{COPY, Fixture, block, everywhere, late, new_stream, software, unpooled};
use crate::task::{LIMIT, block_on, in_time, until};

const SECOND: Duration = Duration::from_secs(1);

/// A context in which a deferred free waits for a blocked stream, until this is released.
struct Blocked {
    context: Context,
    free: Stream,
    flag: DeviceBuffer<u32>,
}

impl Blocked {
    fn new(context: &Context) -> Self {
        let stream = || new_stream(context);
        let (stuck, free) = (stream(), stream());
        let flag = unpooled(&free, &[0_u32]);
        let plain = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stuck, 4).unwrap();
        let pitched = PitchedBuffer::<u32>::zeroed(&stuck, (4, 4)).unwrap();
        stuck
            .wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        in_host_function(&free, (plain, pitched));
        Self {
            context: context.clone(),
            free,
            flag,
        }
    }

    fn release(self) {
        let context = self.context.clone();
        drop(self);
        context.synchronize().unwrap();
    }
}

/// Releases the stream even if the test fails, as it would hang otherwise.
impl Drop for Blocked {
    fn drop(&mut self) {
        self.free.write_value(&self.flag, 0, 1_u32).unwrap();
    }
}

/// Drops `value` in a host function, so that another thread releases its resources.
fn in_host_function(stream: &Stream, value: impl Send + 'static) {
    stream
        .launch_host(move || drop(value))
        .unwrap()
        .wait()
        .unwrap();
}

/// Records its drop.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Drops a buffer of foreign memory in a host function and checks that it is released in time.
fn gives_back(context: &Context) {
    let stream = new_stream(context);
    let memory = DeviceBuffer::from_host(&stream, &[7_u32; 4]).unwrap();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let owner = Dropped(Arc::clone(&is_dropped));
    // SAFETY: `memory` has 4 aligned words there, is not used otherwise and outlives the buffer.
    let buffer = unsafe { DeviceBuffer::<u32>::from_foreign(&stream, memory.as_raw(), 4, owner) };
    in_host_function(&stream, buffer.unwrap());
    until("a buffer is released", SECOND, || {
        is_dropped.load(Ordering::SeqCst)
    });
}

fn other_context(fixture: &Fixture) -> Context {
    Context::new(fixture.context.device(), ContextFlags::empty()).unwrap()
}

#[test]
fn a_blocked_context_delays_no_other_context() {
    for fixture in everywhere() {
        let blocked = Blocked::new(&fixture.context);
        let other = other_context(&fixture);
        gives_back(&other);
        blocked.release();
        // The end of this context frees page-locked memory, for which the software device waits for
        // all contexts.
        drop(other);
    }
}

#[test]
fn a_blocked_context_delays_no_other_driver() {
    for fixture in everywhere() {
        let other = software(late(7));
        let blocked = Blocked::new(&fixture.context);
        gives_back(&other.context);
        let stream = other.stream();
        let simulator = other.simulator.clone().unwrap();
        let before = simulator.live().host_allocations;
        let pinned = PinnedBuffer::<u32>::zeroed(&other.context, 4, PinnedFlags::empty()).unwrap();
        in_host_function(&stream, (other.kernel(COPY, "copy"), pinned));
        until("all resources are released", SECOND, || {
            let live = simulator.live();
            live.modules == 0 && live.host_allocations == before
        });
        blocked.release();
    }
}

#[test]
fn drops_in_another_context_are_not_deferred() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.clone().unwrap();
    let other = other_context(&fixture);
    let blocked = Blocked::new(&fixture.context);
    let stream = new_stream(&other);
    let before = simulator.live().streams;
    drop(stream);
    assert_eq!(simulator.live().streams, before - 1);
    let start = Instant::now();
    other.close().unwrap();
    assert_eq!(simulator.live().contexts, 1);
    assert!(start.elapsed() < SECOND / 2, "{:?}", start.elapsed());
    blocked.release();
}

#[test]
fn a_blocked_context_ends_behind_its_objects() {
    let fixture = software(Builder::new().trace(true));
    let simulator = fixture.simulator.clone().unwrap();
    let own = other_context(&fixture);
    let blocked = Blocked::new(&own);
    let (stream, event) = (
        new_stream(&own),
        Event::new(&own, EventFlags::empty()).unwrap(),
    );
    drop(own);
    drop((stream, event));
    drop(simulator.take_trace());
    drop(blocked);
    until("the context ends", LIMIT, || simulator.live().contexts == 1);
    let trace = simulator.take_trace();
    let is_end = |name: &str| name == "cuCtxDestroy";
    let end = trace.iter().position(|it| is_end(it.function.base));
    let later = &trace[end.unwrap() + 1..];
    let late: Vec<_> = later.iter().map(|it| it.function.base).collect();
    assert!(
        !late
            .iter()
            .any(|it| it.contains("Destroy") || it.contains("Free")),
        "{late:?}"
    );
}

#[test]
fn a_lost_device_is_reported_while_another_is_blocked() {
    let fixture = software(Builder::new());
    let other = software(late(3));
    let stream = other.stream();
    // A closure that is never called and whose drop blocks.
    struct Slow(mpsc::Receiver<()>);
    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv_timeout(LIMIT);
        }
    }
    let third = software(late(4));
    let (open, gate) = mpsc::channel();
    let slow = Slow(gate);
    let never = third.stream().launch_host(move || drop(slow)).unwrap();
    let blocked = Blocked::new(&fixture.context);
    let lost = Status::CUDA_ERROR_LAUNCH_FAILED;
    let lose = |fixture: &Fixture| fixture.simulator.as_ref().unwrap().lose_device(0, lost);
    lose(&third);
    thread::sleep(SECOND / 5);
    let call = stream.launch_host(|| ()).unwrap();
    lose(&other);
    assert_eq!(block_on(call, SECOND).unwrap_err().status(), Some(lost));
    drop(open);
    assert_eq!(block_on(never, LIMIT).unwrap_err().status(), Some(lost));
    blocked.release();
}

#[test]
fn a_dropped_transfer_with_waiting_memory_blocks_nothing() {
    let fixture = software(late(5));
    let other = software(late(6));
    let context = fixture.context.clone();
    let blocked = Blocked::new(&context);
    let stream = fixture.stream();
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(&context, 4, PinnedFlags::empty()).unwrap();
    // The copy is still queued when the transfer is dropped. Otherwise this thread would free the
    // memory itself, and freeing it waits for the whole context.
    let open = block(&stream);
    drop(buffer.copy_to_pinned_async(pinned, &stream).unwrap());
    drop(open);
    stream.synchronize().unwrap();
    thread::sleep(SECOND / 4);
    let call = other.stream().launch_host(|| ()).unwrap();
    let lost = Status::CUDA_ERROR_LAUNCH_FAILED;
    other.simulator.as_ref().unwrap().lose_device(0, lost);
    assert_eq!(block_on(call, SECOND).unwrap_err().status(), Some(lost));
    in_time("the release", move || blocked.release());
}

#[cfg(target_os = "linux")]
#[test]
fn there_are_at_most_two_workers_for_a_context() {
    let workers = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |it: std::fs::DirEntry| std::fs::read_to_string(it.path().join("comm")).ok();
        let names = threads.filter_map(|it| name(it.ok()?));
        names.filter(|it| it.starts_with("cuda-driver")).count()
    };
    let fixture = software(Builder::new());
    let blocked = Blocked::new(&fixture.context);
    let stream = fixture.stream();
    let before = workers();
    for _ in 0..50 {
        let pinned =
            PinnedBuffer::<u32>::zeroed(&fixture.context, 4, PinnedFlags::empty()).unwrap();
        in_host_function(&stream, (fixture.kernel(COPY, "copy"), pinned));
    }
    // Other tests run their own workers at the same time.
    let after = workers();
    assert!(after < before + 25, "{before} and {after}");
    blocked.release();
}

//! Host functions in stream order.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::context::ContextFlags;
use cuda_driver::error::Status;
use cuda_driver::jit::JitOptions;
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;
use cuda_driver::{Error, Library};
use cuda_sim::{Builder, Rule, TraceEntry};

use crate::support::{COPY, everywhere, late, software};
use crate::task::{block_on, until};

const SECOND: Duration = Duration::from_secs(1);

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn host_functions_are_called_once_in_the_order_of_their_stream() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut calls = Vec::new();
        for i in 0..50 {
            let seen = Arc::clone(&seen);
            let call = stream.launch_host(move || seen.lock().unwrap().push(i));
            calls.push(call.unwrap());
        }
        // Waits for the last one first, which runs after the others.
        for call in calls.into_iter().rev() {
            call.wait().unwrap();
            assert_eq!(*seen.lock().unwrap(), (0..50).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_panic_of_a_host_function_is_an_error_of_its_call_alone() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let drops = Arc::new(AtomicUsize::new(0));
        let captured = Dropped(Arc::clone(&drops));
        let panicking = stream
            .launch_host(move || {
                let _captured = captured;
                panic::resume_unwind(Box::new("on purpose"));
            })
            .unwrap();
        let text = stream.launch_host(|| panic::resume_unwind(Box::new(format!("{} too", 1))));
        let fine = stream.launch_host(|| ()).unwrap();
        let panicked = |message: &str| {
            let message = message.to_owned();
            Err(Error::HostFunctionPanicked { message })
        };
        assert_eq!(panicking.wait(), panicked("on purpose"));
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert_eq!(block_on(text.unwrap(), 10 * SECOND), panicked("1 too"));
        fine.wait().unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn dropped_future_does_not_cancel_its_function() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let is_called = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_called);
        let call = stream.launch_host(move || seen.store(true, Ordering::SeqCst));
        drop(call.unwrap());
        stream.synchronize().unwrap();
        assert!(is_called.load(Ordering::SeqCst), "{}", fixture.name);
    }
}

#[test]
fn drops_in_a_host_function_are_deferred_to_a_thread() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.clone().unwrap();
        let baseline = simulator.live();
        let stream = fixture.stream();
        let event = Event::new(&fixture.context, EventFlags::empty()).unwrap();
        let buffer = DeviceBuffer::<u32>::zeroed(&fixture.stream(), 100).unwrap();
        let pinned = PinnedBuffer::<u32>::zeroed(&fixture.context, 100, PinnedFlags::empty());
        let registered =
            RegisteredBuffer::from_vec(&fixture.context, vec![1_u32; 5000], RegisterFlags::empty());
        let kernel = fixture.kernel(COPY, "copy");
        let (pinned, registered) = (pinned.unwrap(), registered.unwrap());
        let driver = fixture.context.driver();
        let library = Library::load(driver, &Ptx::new(COPY).unwrap(), &JitOptions::new()).unwrap();
        let of_library = library.kernel("copy").unwrap().function(&fixture.context);
        drop(library);
        let pool = CachingPool::new(&fixture.context);
        drop(DeviceBuffer::<u32>::zeroed_in(&pool, &fixture.stream(), 1000).unwrap());
        let kernels = (kernel, of_library.unwrap());
        let own = (
            stream.clone(),
            event,
            buffer,
            pinned,
            registered,
            kernels,
            pool,
        );
        let call = stream.launch_host(move || drop(own)).unwrap();
        drop(stream);
        call.wait().unwrap();
        let left = || {
            let mut live = simulator.live();
            // Pools of the context keep some of these.
            live.streams = baseline.streams;
            live.events = baseline.events;
            live
        };
        until("all is given back", SECOND, || left() == baseline);
        drop(fixture);
        until("the context too", SECOND, || simulator.live().is_empty());
    }
}

#[test]
fn a_host_function_may_drop_the_last_context_handle() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let context = fixture.context.clone();
        drop(fixture);
        let call = stream.clone().launch_host(move || drop((stream, context)));
        call.unwrap().wait().unwrap();
        until("all is given back", SECOND, || simulator.live().is_empty());
    }
}

/// Returns the calls that failed, except queries that may return "not ready".
fn refused(trace: &[TraceEntry]) -> Vec<String> {
    trace
        .iter()
        .filter(|entry| !entry.result.is_success() && entry.result != Status::CUDA_ERROR_NOT_READY)
        .map(ToString::to_string)
        .collect()
}

/// This includes the staging block of its copies, which was in use.
#[test]
fn deferred_frees_precede_the_end_of_the_context() {
    let fixture = software(Builder::new().trace(true));
    let simulator = fixture.simulator.clone().unwrap();
    let (stream, last) = (fixture.stream(), fixture.stream());
    let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let pinned = PinnedBuffer::<u8>::zeroed(&own, 1, PinnedFlags::empty()).unwrap();
    drop(DeviceBuffer::from_host(&own.default_stream().unwrap(), &[1_u32]).unwrap());
    drop(own);
    drop(simulator.take_trace());
    stream.launch_host(move || drop(pinned)).unwrap();
    until("the context ends", SECOND, || {
        simulator.live().contexts == 1
    });
    // This runs after all the deferred work.
    stream.launch_host(move || drop(last)).unwrap();
    until("a stream ends", SECOND, || simulator.live().streams == 1);
    let trace = simulator.take_trace();
    let is_freed = |entry: &TraceEntry| entry.function.base == "cuMemFreeHost";
    assert_eq!(trace.iter().filter(|entry| is_freed(entry)).count(), 2);
    assert_eq!(refused(&trace), [""; 0]);
}

#[test]
fn closed_context_waits_for_late_releases() {
    let fixture = software(Builder::new().trace(true));
    let simulator = fixture.simulator.clone().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let stream = fixture.stream();
            while !is_over.load(Ordering::Acquire) {
                let flags = PinnedFlags::empty();
                let pinned = PinnedBuffer::<u8>::zeroed(&fixture.context, 1, flags).unwrap();
                let call = stream.launch_host(move || drop(pinned)).unwrap();
                call.wait().unwrap();
            }
        });
        for _ in 0..200 {
            let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
            let stream = own.default_stream().unwrap();
            drop(DeviceBuffer::from_host(&stream, &[1_u32]).unwrap());
            drop(stream);
            own.close().unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
    until("all contexts end", SECOND, || {
        simulator.live().contexts == 1
    });
    assert_eq!(refused(&simulator.take_trace()), [""; 0]);
}

#[test]
fn a_lost_device_releases_host_functions() {
    for seed in 0..6 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let drops = Arc::new(AtomicUsize::new(0));
        let launch = || {
            let captured = Dropped(Arc::clone(&drops));
            let call = stream.launch_host(move || {
                let _captured = captured;
                panic!("a lost device calls nothing");
            });
            call.unwrap()
        };
        let (awaited, waited, _dropped) = (launch(), launch(), drop(launch()));
        simulator.lose_device(0, Status::CUDA_ERROR_LAUNCH_FAILED);
        let lost = Some(Status::CUDA_ERROR_LAUNCH_FAILED);
        let start = Instant::now();
        assert_eq!(waited.wait().unwrap_err().status(), lost);
        assert_eq!(block_on(awaited, SECOND).unwrap_err().status(), lost);
        until("all closures are dropped", SECOND, || {
            drops.load(Ordering::SeqCst) == 3
        });
        assert!(start.elapsed() < SECOND);
    }
}

#[test]
fn unqueued_host_function_is_dropped_without_a_call() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    for name in ["cuLaunchHostFunc", "cuEventRecord"] {
        let drops = Arc::new(AtomicUsize::new(0));
        let captured = Dropped(Arc::clone(&drops));
        simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function(name));
        let error = stream.launch_host(move || {
            let _captured = captured;
            panic!("the function was not queued");
        });
        let error = error.unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
        assert_eq!(drops.load(Ordering::SeqCst), 1, "{name}");
        simulator.clear_rules();
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_read_does_not_wait_for_a_host_function_on_another_stream() {
    for fixture in everywhere() {
        let (first, second) = (fixture.stream(), fixture.stream());
        // The buffer is used on its owning stream, and later on another stream.
        let source = DeviceBuffer::from_host(&first, &[7_u32; 64]).unwrap();
        let mut other = DeviceBuffer::from_host(&second, &[0_u32; 64]).unwrap();
        let copy = fixture.kernel(COPY, "copy");
        let config = LaunchConfig::for_num_elems(64).unwrap();
        // SAFETY: the kernel reads 64 words of the one and writes 64 of the other; each has 64.
        unsafe { first.launch(&copy, config, (&source, &mut other, 64_u32)) }.unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let blocked = first
            .launch_host(move || gate.recv_timeout(Duration::from_secs(20)).unwrap())
            .unwrap();
        let mut result = DeviceBuffer::<u32>::zeroed(&second, 64).unwrap();
        // SAFETY: as above.
        unsafe { second.launch(&copy, config, (&source, &mut result, 64_u32)) }.unwrap();
        // SAFETY: as above.
        unsafe { second.launch(&copy, config, (&other, &mut result, 64_u32)) }.unwrap();
        assert_eq!(result.to_vec().unwrap(), [7; 64], "{}", fixture.name);
        // The first stream is released only now, after the read.
        open.send(()).unwrap();
        blocked.wait().unwrap();
        first.synchronize().unwrap();
    }
}

#[test]
fn threads_read_a_buffer_while_host_functions_are_queued() {
    for fixture in everywhere() {
        let owner = fixture.stream();
        let (a, b) = (fixture.stream(), fixture.stream());
        let source = DeviceBuffer::from_host(&owner, &[3_u32; 16]).unwrap();
        let copy = fixture.kernel(COPY, "copy");
        let config = LaunchConfig::for_num_elems(16).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    owner.launch_host(|| ()).unwrap().wait().unwrap();
                }
            });
            for stream in [&owner, &a, &b] {
                let (source, copy) = (&source, &copy);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mut result = DeviceBuffer::<u32>::zeroed(stream, 16).unwrap();
                        // SAFETY: the kernel reads and writes 16 words; each has 16.
                        unsafe { stream.launch(copy, config, (source, &mut result, 16_u32)) }
                            .unwrap();
                        assert_eq!(result.to_vec().unwrap(), [3; 16]);
                    }
                });
            }
        });
    }
}

//! Waits for the device or for the program must not block independent work.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;
use cuda_sim::Builder;

use crate::support::{COPY, everywhere, late, new_stream, software, unpooled};
use crate::task::{LIMIT, in_time, until};

/// An owner of foreign memory that records its drop. The drop first waits for `gate`, if there is
/// one.
struct Owner {
    gate: Mutex<Option<mpsc::Receiver<()>>>,
    is_dropped: Arc<AtomicBool>,
    _memory: DeviceBuffer<u32>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.get_mut().unwrap().take() {
            gate.recv().unwrap();
        }
        self.is_dropped.store(true, Ordering::SeqCst);
    }
}

fn owned(
    stream: &Stream,
    gate: Option<mpsc::Receiver<()>>,
) -> (DeviceBuffer<u32>, Arc<AtomicBool>) {
    let memory = DeviceBuffer::from_host(stream, &[7_u32; 4]).unwrap();
    let address = memory.as_raw();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let owner = Owner {
        gate: Mutex::new(gate),
        is_dropped: Arc::clone(&is_dropped),
        _memory: memory,
    };
    // SAFETY: the owner has 4 aligned words at that address and does not access them.
    let buffer = unsafe { DeviceBuffer::from_foreign(stream, address, 4, owner) };
    (buffer.unwrap(), is_dropped)
}

#[test]
fn work_before_a_legacy_use_is_waited_for_separately() {
    for fixture in everywhere() {
        let context = fixture.context.clone();
        let (open, gate) = mpsc::channel();
        in_time(&fixture.name, move || {
            let blocking = || Stream::new(&context, StreamFlags::empty(), 0).unwrap();
            let (one, two) = (blocking(), blocking());
            let own = new_stream(&context);
            let mut result = DeviceBuffer::<u32>::zeroed(&own, 4).unwrap();
            one.launch_host(move || {
                let _ = gate.recv();
            })
            .unwrap();
            let source = DeviceBuffer::from_host(&two, &[1_u32; 4]).unwrap();
            // The allocation waits for `one`, and `two` waits for the allocation.
            let behind = DeviceBuffer::<u32>::zeroed(&context.legacy_stream(), 4).unwrap();
            result.as_mut_slice().copy_from(source.as_slice()).unwrap();
            assert_eq!(result.to_vec().unwrap(), [1; 4]);
            open.send(()).unwrap();
            drop(behind);
        });
    }
}

#[test]
fn a_module_dropped_in_a_host_function_blocks_nothing() {
    for fixture in everywhere() {
        let (stuck, stream, free) = (fixture.stream(), fixture.stream(), fixture.stream());
        let flag = unpooled(&stream, &[0_u32]);
        let (buffer, is_dropped) = owned(&stream, None);
        let function = fixture.kernel(COPY, "copy");
        stuck
            .wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        // Its module can be unloaded only after all work in the context, and `stuck` is still
        // blocked.
        stream.launch_host(move || drop(function)).unwrap();
        stream.launch_host(move || drop(buffer)).unwrap();
        let what = format!(
            "{}: the buffer is freed while the module waits",
            fixture.name
        );
        until(&what, LIMIT, || is_dropped.load(Ordering::SeqCst));
        free.write_value(&flag, 0, 1_u32).unwrap();
        free.synchronize().unwrap();
        stuck.synchronize().unwrap();
    }
}

#[test]
fn the_end_of_a_primary_context_breaks_no_capture_in_the_next() {
    for builder in [Builder::new(), late(1)] {
        let fixture = software(builder);
        let device = fixture.context.device().clone();
        let other = Context::new(&device, cuda_driver::context::ContextFlags::empty()).unwrap();
        let stream = || new_stream(&other);
        let (stuck, free) = (stream(), stream());
        let flag = unpooled(&free, &[0_u32]);
        stuck
            .wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        let event = Event::new(&other, EventFlags::DISABLE_TIMING).unwrap();
        event.record(&stuck).unwrap();
        // The staging memory of this copy is freed after the copy, and the context after that, on a
        // worker thread.
        let held = fixture.stream();
        let mut copy = DeviceBuffer::<u32>::zeroed(&held, 4).unwrap();
        held.wait(&event).unwrap();
        copy.copy_from_host(&[1; 4]).unwrap();
        drop((copy, held));
        let (dropped, all) = mpsc::channel();
        let context = fixture.context;
        let call = free.launch_host(move || {
            drop(context);
            dropped.send(()).unwrap();
        });
        call.unwrap().wait().unwrap();
        all.recv().unwrap();
        let again = device.primary_context().unwrap();
        let own = new_stream(&again);
        let mut memory = DeviceBuffer::<u32>::zeroed(&own, 4).unwrap();
        let graph = Graph::capture(&again, |scope| {
            free.write_value(&flag, 0, 1_u32)?;
            stuck.synchronize()?;
            // The first handle of the context is released right after the copy.
            thread::sleep(Duration::from_millis(50));
            scope.fill(&mut memory, 9_u32)?;
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&own).unwrap();
        own.synchronize().unwrap();
        drop(exec);
        assert_eq!(memory.to_vec().unwrap(), [9; 4]);
    }
}

#[test]
fn a_guard_dropped_in_a_host_function_frees_its_buffer() {
    for fixture in everywhere() {
        let pinned = PinnedBuffer::from_host(&fixture.context, &[1_u32; 4], PinnedFlags::empty());
        // The guard borrows the buffer, and a host function must own it or borrow it for `'static`.
        let host: &'static _ = Box::leak(Box::new(GraphHostBuffer::new(pinned.unwrap()).unwrap()));
        let guard = host.read().unwrap();
        assert!(host.write().is_err());
        let call = fixture.stream().launch_host(move || drop(guard));
        call.unwrap().wait().unwrap();
        until("the guard releases the buffer", LIMIT, || {
            host.write().is_ok()
        });
    }
}

#[test]
fn a_panic_that_panics_when_it_is_dropped_is_thrown_once() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic::resume_unwind(Box::new("again"));
        }
    }
    for fixture in everywhere() {
        let function = fixture.kernel(COPY, "copy");
        let thrown = panic::catch_unwind(AssertUnwindSafe(|| {
            function.max_potential_block_size(|_| panic::panic_any(Bad), 0)
        }));
        let bad = thrown.expect_err("it panics");
        assert!(bad.is::<Bad>());
        // The drop would panic here as well.
        std::mem::forget(bad);
    }
}

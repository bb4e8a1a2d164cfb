//! Owners that are dropped inside host functions, where the driver must not be called: another
//! thread frees them.

use cuda_driver::memory::Unpooled;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::Library;
use cuda_driver::context::ContextFlags;
use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::jit::JitOptions;
use cuda_driver::memory::{
    CachingPool, ManagedBuffer, MemoryPool, PinnedCachingPool, PitchedBuffer,
};
use cuda_driver::prelude::*;

use crate::set_up::{VARIABLES, stream as new_stream};
use crate::support::{Attack, Case};

/// Drops `owners` in a host function of `stream`, and waits until that has happened.
fn drop_inside<T: Send + 'static>(case: &Case, stream: &Stream, owners: T) {
    case.hold_up(stream);
    let call = stream.launch_host(move || drop(owners)).unwrap();
    call.wait().unwrap();
}

/// Claim: an owner that is dropped inside a host function is freed by another thread, after its
/// uses. Device buffers from all sources are dropped while another stream reads them.
#[test]
fn device_buffers_dropped_inside_outlive_readers() {
    Attack::new().run(|case| {
        let (stream, reader, host) = (case.stream(), case.stream(), case.stream());
        let device = case.context.device();
        let caching = CachingPool::new(&case.context);
        let pool = MemoryPool::new(device).unwrap();
        for round in 0..3 {
            let words = vec![3; case.n];
            let mut plain = DeviceBuffer::zeroed_in(&Unpooled, &stream, case.n).unwrap();
            plain.fill(3).unwrap();
            let buffers = [
                case.filled(&stream, 3),
                DeviceBuffer::from_host_in(&caching, &stream, &words).unwrap(),
                DeviceBuffer::from_host_in(&pool, &stream, &words).unwrap(),
                plain,
            ];
            let mut results: Vec<_> = (0..4).map(|_| case.filled(&reader, round)).collect();
            case.hold_up(&reader);
            for (result, buffer) in results.iter_mut().zip(&buffers) {
                case.copy(&reader, result.as_mut_slice(), buffer.as_slice())
                    .unwrap();
            }
            drop_inside(case, &host, buffers);
            let others = [
                case.filled(&stream, 8),
                DeviceBuffer::from_host_in(&caching, &stream, &vec![8; case.n]).unwrap(),
                DeviceBuffer::from_host_in(&pool, &stream, &vec![8; case.n]).unwrap(),
            ];
            for result in &results {
                case.expect(result, 3);
            }
            for other in &others {
                case.expect(other, 8);
            }
        }
    });
}

/// Claim: page-locked memory is freed only when no copy uses it. Transfers are dropped inside a
/// host function with their memory, which comes from a pool, from the driver and from a `Vec`.
#[test]
fn transfers_dropped_inside_end_their_copies() {
    Attack::new().run(|case| {
        let (stream, host) = (case.stream(), case.stream());
        let pool = case.pinned_pool();
        let (mut a, mut b, c) = (
            case.filled(&stream, 0),
            case.filled(&stream, 0),
            case.filled(&stream, 6),
        );
        for round in 1..4 {
            case.hold_up(&stream);
            let block = PinnedBuffer::from_host_in(&pool, &vec![round; case.n]).unwrap();
            let vec = vec![round + 10; case.n];
            let vec = RegisteredBuffer::from_vec(&case.context, vec, RegisterFlags::default());
            let transfers = (
                a.copy_from_pinned_async(block, &stream).unwrap(),
                b.copy_from_pinned_async(vec.unwrap(), &stream).unwrap(),
                c.copy_to_pinned_async(case.pinned(0), &stream).unwrap(),
            );
            drop_inside(case, &host, transfers);
            pool.take::<u32>(case.n).unwrap().fill(77);
            case.expect(&a, round);
            case.expect(&b, round + 10);
        }
    });
}

/// Claim: the driver destroys streams and events once their work is done. They are dropped inside a
/// host function while other streams wait for them.
#[test]
fn streams_and_events_dropped_inside_are_waited_for() {
    Attack::new().run(|case| {
        let (owning, host) = (case.stream(), case.stream());
        let mut buffer = case.filled(&owning, 1);
        let one = case.filled(&owning, 1);
        for _ in 0..4 {
            let stream = case.stream();
            let event = case.event();
            case.hold_up(&stream);
            case.mix(&stream, buffer.as_mut_slice(), one.as_slice())
                .unwrap();
            event.record(&stream).unwrap();
            owning.wait(&event).unwrap();
            drop_inside(
                case,
                &host,
                (event.completion(), stream.completion(), stream, event),
            );
        }
        case.expect(&buffer, 31);
    });
}

/// Claim: a module waits for its context before it is unloaded, in the background if its last
/// handle was dropped in a host function. Modules, functions, libraries and variables are dropped
/// while their kernels are queued.
#[test]
fn code_dropped_inside_runs_to_its_end() {
    Attack::new().run(|case| {
        let (stream, host) = (case.stream(), case.stream());
        let mut words = DeviceBuffer::from_host(&stream, &[1_u32; 4]).unwrap();
        let image = Ptx::new(VARIABLES).unwrap();
        for _ in 0..2 {
            let module = Module::load(&case.context, &image).unwrap();
            let driver = case.context.driver();
            let library = Library::load(driver, &image, &JitOptions::default()).unwrap();
            let scale = module.function("scale").unwrap();
            let also = library
                .kernel("scale")
                .unwrap()
                .function(&case.context)
                .unwrap();
            let counter = module.global::<u32>("counter", &stream).unwrap();
            case.hold_up(&stream);
            for function in [&scale, &also] {
                // SAFETY: the kernel reads and writes four words ← the buffer has four.
                unsafe { stream.launch(function, LaunchConfig::new(1, 4), (&mut words,)) }.unwrap();
            }
            drop_inside(case, &host, (counter, scale, also, module, library));
        }
        assert_eq!(words.to_vec().unwrap(), [1, 16, 81, 256], "{}", case.title);
    });
}

/// Claim: the parts of a graph are freed after its last launch, by another thread if the last owner
/// was dropped in a host function. Graphs, executables, their buffers and host memory are dropped
/// while they run.
#[test]
fn graphs_dropped_inside_run_to_their_end() {
    Attack::new().run(|case| {
        let (stream, host) = (case.stream(), case.stream());
        let mut result = case.filled(&stream, 0);
        for round in 1..4 {
            let source = GraphHostBuffer::new(case.pinned(round)).unwrap();
            let mut middle = case.filled(&stream, 0);
            let mut graph = case.graph();
            graph.add_copy(&[], &mut middle, &source).unwrap();
            graph.add_copy(&[], &mut result, &middle).unwrap();
            let exec = graph.instantiate().unwrap();
            case.launch_late(&exec, &stream);
            drop_inside(case, &host, (exec, graph, source, middle));
            let other = case.filled(&stream, 90);
            case.expect(&result, round);
            case.expect(&other, 90);
        }
    });
}

/// Claim: closures of graphs are kept until the launches that call them are done. The closure of a
/// node owns the last handles of other graphs and buffers, and is dropped by another host function.
#[test]
fn closures_dropped_inside_closures_are_freed() {
    Attack::new().run(|case| {
        let (stream, host) = (case.stream(), case.stream());
        let ran = Arc::new(AtomicU32::new(0));
        let inner = {
            let mut graph = case.graph();
            let mut buffer = case.filled(&stream, 0);
            graph.add_fill(&[], &mut buffer, 1_u32).unwrap();
            (graph.instantiate().unwrap(), graph, buffer)
        };
        let counter = Arc::clone(&ran);
        let keep = Arc::new(inner);
        let kept = Arc::downgrade(&keep);
        let mut graph = case.graph();
        let node = graph.add_host(&[], move || {
            let _kept = &keep;
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let exec = graph.instantiate().unwrap();
        case.launch_late(&exec, &stream);
        exec.set_host(node.unwrap(), || {}).unwrap();
        drop_inside(case, &host, (graph, exec));
        stream.synchronize().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1, "{}", case.title);
        case.until("frees the closure", || kept.upgrade().is_none());
    });
}

/// Claim: managed, pitched and registered memory is freed after its uses, wherever it is dropped.
#[test]
fn other_memory_dropped_inside_outlives_readers() {
    Attack::new().run(|case| {
        let (stream, reader, host) = (case.stream(), case.stream(), case.stream());
        for round in 1..3 {
            let words = vec![round; case.n];
            let managed = ManagedBuffer::from_host(&stream, &words).unwrap();
            let pitched = PitchedBuffer::from_host(&stream, (16, 16), &[round; 256]).unwrap();
            let vec = RegisteredBuffer::from_vec(&case.context, words, RegisterFlags::default());
            let mut result = case.filled(&reader, 0);
            let mut rows = PitchedBuffer::<u32>::zeroed(&reader, (16, 16)).unwrap();
            case.hold_up(&reader);
            case.copy(&reader, result.as_mut_slice(), managed.as_slice())
                .unwrap();
            rows.as_mut_slice().copy_from(&pitched.as_slice()).unwrap();
            drop_inside(case, &host, (managed, pitched, vec.unwrap()));
            let other = ManagedBuffer::from_host(&stream, &vec![70_u32; case.n]).unwrap();
            case.expect(&result, round);
            case.expect_words(&rows.to_vec().unwrap(), round);
            case.expect_words(&other.to_vec().unwrap(), 70);
        }
    });
}

/// Claim: the last handle of a context may be dropped anywhere. It is dropped inside a host
/// function of that context, with pools, streams and buffers, while work is queued.
#[test]
fn context_dropped_inside_ends_behind_its_work() {
    Attack::new().run(|case| {
        let (host, word) = (case.stream(), Arc::new(AtomicU32::new(0)));
        let own = Context::new(case.context.device(), ContextFlags::empty()).unwrap();
        let stream = new_stream(&own);
        let pool = CachingPool::new(&own);
        let buffer = DeviceBuffer::from_host_in(&pool, &stream, &vec![5_u32; case.n]).unwrap();
        let pinned = PinnedCachingPool::new(&own, PinnedFlags::default());
        let transfer = buffer
            .copy_to_pinned_async(pinned.take(case.n).unwrap(), &stream)
            .unwrap();
        let write = Arc::clone(&word);
        let call = stream
            .launch_host(move || write.store(1, Ordering::SeqCst))
            .unwrap();
        drop_inside(
            case,
            &host,
            (own, pool, pinned, buffer, transfer, stream, call),
        );
        case.until("runs the work", || word.load(Ordering::SeqCst) == 1);
    });
}

/// Claim: dropping the last handle of a context in one of its own host functions does not call the
/// driver there. The closure owns the stream it runs on, its context and a buffer.
#[test]
fn closure_owns_its_own_stream_and_context() {
    Attack::new().run(|case| {
        let ran = Arc::new(AtomicU32::new(0));
        for _ in 0..3 {
            let own = Context::new(case.context.device(), ContextFlags::empty()).unwrap();
            let stream = new_stream(&own);
            let buffer = DeviceBuffer::<u32>::zeroed(&stream, case.n).unwrap();
            let (counter, same) = (Arc::clone(&ran), stream.clone());
            let call = same.launch_host(move || {
                drop((own, stream, buffer));
                counter.fetch_add(1, Ordering::SeqCst);
            });
            drop((call.unwrap(), same));
        }
        case.until("runs the closures", || ran.load(Ordering::SeqCst) == 3);
    });
}

//! Guards and scopes that are forgotten, so that their drop code never runs.

use std::mem;
use std::thread;

use cuda_driver::context::ContextFlags;
use cuda_driver::graph::{Capture, GraphHostBuffer};
use cuda_driver::prelude::*;

use crate::set_up::stream as new_stream;
use crate::support::{Attack, is_borrowed};

/// Claim: while the host has the memory of a `GraphHostBuffer` mapped, a launch that uses it fails.
/// A write guard is forgotten: the memory belongs to the host forever, and no launch writes it.
#[test]
fn forgotten_host_write_refuses_launches() {
    Attack::new().leaks().run(|case| {
        let stream = case.stream();
        let source = case.filled(&stream, 4);
        let host = GraphHostBuffer::new(case.pinned(1)).unwrap();
        let mut graph = case.graph();
        graph.add_copy(&[], &host, &source).unwrap();
        let exec = graph.instantiate().unwrap();
        case.launch_late(&exec, &stream);
        let mut guard = host.write().unwrap();
        case.expect_words(&guard, 4);
        guard.fill(2);
        let words: *const [u32] = &*guard;
        mem::forget(guard);
        for _ in 0..3 {
            assert!(is_borrowed(&exec.launch(&stream)), "{}", case.title);
        }
        assert!(is_borrowed(&host.read()) && is_borrowed(&host.write()));
        stream.synchronize().unwrap();
        assert_eq!(words.len(), case.n);
    });
}

/// Claim: several guards may read at once, and a launch that writes the memory fails while one of
/// them exists. Read guards are forgotten: launches that only read still work, launches that write
/// fail.
#[test]
fn forgotten_host_read_refuses_writers_only() {
    Attack::new().leaks().run(|case| {
        let stream = case.stream();
        let (source, mut target) = (case.filled(&stream, 4), case.filled(&stream, 0));
        let host = GraphHostBuffer::new(case.pinned(1)).unwrap();
        let (mut reads, mut writes) = (case.graph(), case.graph());
        reads.add_copy(&[], &mut target, &host).unwrap();
        writes.add_copy(&[], &host, &source).unwrap();
        let (reads, writes) = (reads.instantiate().unwrap(), writes.instantiate().unwrap());
        let guard = host.read().unwrap();
        mem::forget(host.read().unwrap());
        reads.launch(&stream).unwrap();
        assert!(is_borrowed(&writes.launch(&stream)), "{}", case.title);
        case.expect_words(&guard, 1);
        drop(guard);
        assert!(is_borrowed(&writes.launch(&stream)), "{}", case.title);
        case.expect(&target, 1);
    });
}

/// Claim: work outside of a capture is not affected by it. A capture is forgotten: buffers,
/// modules, copies and host memory still work, drops do not hang, and other captures are possible.
#[test]
fn forgotten_capture_blocks_no_other_work() {
    Attack::new().leaks().run(|case| {
        let stream = case.stream();
        let (mut a, b) = (case.filled(&stream, 1), case.filled(&stream, 2));
        let mut capture = Capture::begin(&case.context).unwrap();
        capture.scope().fill(&mut a, 8_u32).unwrap();
        mem::forget(capture);
        case.mix(&stream, a.as_mut_slice(), b.as_slice()).unwrap();
        case.expect(&a, 4);
        let graph = Graph::capture(&case.context, |scope| scope.fill(&mut a, 6_u32).map(drop));
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        case.expect(&a, 6);
        drop((a, b, case.pinned(3)));
        let c = case.filled(&stream, 3);
        case.expect(&c, 3);
    });
}

/// Claim: branches that were not joined are joined when the capture ends. Forked scopes are
/// forgotten: the work that they captured is in the graph, and ordered where it shares memory.
#[test]
fn forgotten_forks_are_joined() {
    Attack::new().leaks().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 0), case.filled(&stream, 0));
        let graph = Graph::capture(&case.context, |scope| {
            let fork = scope.fork()?;
            fork.fill(&mut a, 3_u32)?;
            mem::forget(fork);
            let fork = scope.fork()?;
            fork.copy(&mut b, &a)?;
            mem::forget(fork);
            scope.fill(&mut a, 4_u32).map(drop)
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
        }
        case.expect(&a, 4);
        case.expect(&b, 3);
    });
}

/// Claim: every call makes the context of its object current, and restores the context that was
/// current before. Guards that make contexts current are forgotten, on this and on other threads:
/// objects still work in their own contexts.
#[test]
fn forgotten_current_context_changes_no_object() {
    Attack::new().with_two_contexts().leaks().run(|case| {
        mem::forget(case.other().context.make_current().unwrap());
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 5);
        thread::scope(|scope| {
            scope.spawn(|| {
                mem::forget(case.context.make_current().unwrap());
                let stream = case.other().stream();
                let there = case.other().filled(&stream, 6);
                case.expect(&there, 6);
            });
        });
        let third = Context::new(case.context.device(), ContextFlags::empty()).unwrap();
        mem::forget(third.make_current().unwrap());
        let there = new_stream(&third);
        let other = DeviceBuffer::from_host(&there, &[1_u32; 8]).unwrap();
        drop((other, there, third));
        let one = case.filled(&case.context.per_thread_stream(), 1);
        case.mix(&stream, buffer.as_mut_slice(), one.as_slice())
            .unwrap();
        case.expect(&buffer, 11);
    });
}

/// Claim: a graph that allocates memory and does not free it cannot be instantiated. The
/// allocation's value is discarded.
#[test]
fn forgotten_graph_allocation_is_no_executable() {
    Attack::new().run(|case| {
        let mut graph = case.graph();
        let allocation = graph.add_alloc_zeroed::<u32>(&[], case.n).unwrap();
        // It has no `Drop`: the graph detects that no node frees it.
        let _ = allocation;
        assert!(graph.instantiate().is_err(), "{}", case.title);
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 1);
        let mut parent = case.graph();
        let fill = parent.add_fill(&[], &mut buffer, 2_u32).unwrap();
        assert!(
            parent.add_child(&[fill.edge()], &graph).is_err(),
            "{}",
            case.title
        );
        parent.instantiate().unwrap().launch(&stream).unwrap();
        case.expect(&buffer, 2);
    });
}

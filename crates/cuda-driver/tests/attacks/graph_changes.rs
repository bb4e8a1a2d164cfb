//! Graphs and executables that change while they are launched.

use cuda_driver::memory::Unpooled;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use cuda_driver::Error;
use cuda_driver::prelude::*;
use cuda_driver::stream::ValueBatch;

use crate::support::{Attack, Case};

/// Claim: a change of a node applies from the next launch on, and the old memory stays alive until
/// launches in flight are done.
#[test]
fn targets_change_under_launches() {
    Attack::new().run(|case| {
        let (stream, owner) = (case.stream(), case.stream());
        let mut graph = case.graph();
        let mut first = case.filled(&owner, 0);
        let node = graph.add_fill(&[], &mut first, 1_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        let mut targets: Vec<_> = (0..4).map(|_| case.filled(&owner, 0)).collect();
        case.launch_late(&exec, &stream);
        for (target, value) in targets.iter_mut().zip(2..) {
            exec.set_fill(node, &mut *target, value).unwrap();
            case.launch_late(&exec, &stream);
        }
        let mut last = case.filled(&owner, 0);
        exec.set_fill(node, &mut last, 70_u32).unwrap();
        // No later launch writes the buffer, and no launch may write memory that is allocated in
        // its place.
        drop((first, graph));
        let next = case.filled(&owner, 50);
        case.expect(&last, 0);
        for (target, value) in targets.iter().zip(2..) {
            case.expect(target, value);
        }
        case.expect(&next, 50);
    });
}

/// Claim: a launch keeps its memory alive, even if the executable no longer uses it. The source of
/// a copy is replaced and dropped while launches that read it are queued.
#[test]
fn sources_are_replaced_and_dropped_under_launches() {
    Attack::new().run(|case| {
        let (stream, owner) = (case.stream(), case.stream());
        let mut results = Vec::new();
        for round in 0..3 {
            let (mut to, from) = (case.filled(&stream, 0), case.filled(&owner, 10 + round));
            let mut graph = case.graph();
            let node = graph.add_copy(&[], &mut to, &from).unwrap();
            let exec = graph.instantiate().unwrap();
            drop(graph);
            case.launch_late(&exec, &stream);
            let (mut other, second) = (case.filled(&stream, 0), case.filled(&owner, 20 + round));
            exec.set_copy(node, &mut other, &second).unwrap();
            drop(from);
            let fresh = case.filled(&owner, 99);
            exec.launch(&stream).unwrap();
            drop((exec, second));
            results.push((to, 10 + round));
            results.push((other, 20 + round));
            results.push((fresh, 99));
        }
        for (buffer, value) in &results {
            case.expect(buffer, *value);
        }
    });
}

/// Claim: executables keep a removed node and its memory. Nodes are removed from the graph while
/// its executables run, and the dependencies through the removed node are preserved.
#[test]
fn nodes_are_removed_under_launches() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 0));
        let mut c = case.filled(&stream, 0);
        let mut graph = case.graph();
        graph.add_fill(&[], &mut a, 2_u32).unwrap();
        let middle = graph.add_copy(&[], &mut b, &a).unwrap();
        graph.add_copy(&[], &mut c, &b).unwrap();
        graph.add_fill(&[], &mut a, 3_u32).unwrap();
        let before = graph.instantiate().unwrap();
        case.launch_late(&before, &stream);
        graph.remove(middle).unwrap();
        assert!(matches!(graph.remove(middle), Err(Error::NodeGone)));
        let after = graph.instantiate().unwrap();
        drop(graph);
        before.launch(&stream).unwrap();
        case.expect(&c, 2);
        b.fill(8).unwrap();
        after.launch(&stream).unwrap();
        case.expect(&c, 8);
        case.expect(&a, 3);
        drop(before);
        case.expect(&b, 8);
    });
}

/// Builds a graph with the same nodes on other buffers.
fn chain(case: &Case, to: &mut DeviceBuffer<u32>, from: &DeviceBuffer<u32>) -> Graph {
    let mut graph = case.graph();
    graph.add_copy(&[], &mut *to, from).unwrap();
    let args = (to, from, case.n as u32);
    // SAFETY: the kernel uses n words of each ← both have n.
    unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
    graph
}

/// Claim: an update takes over the memory of the new nodes, and releases that of the old ones after
/// launches in flight.
#[test]
fn updates_swap_all_memory_under_launches() {
    Attack::new().run(|case| {
        let (stream, owner) = (case.stream(), case.stream());
        let (mut x, y) = (case.filled(&owner, 0), case.filled(&owner, 1));
        let exec = chain(case, &mut x, &y).instantiate().unwrap();
        let mut all = vec![(x, 3)];
        drop(y);
        for round in 2..6 {
            case.launch_late(&exec, &stream);
            let (mut x, y) = (case.filled(&owner, 0), case.filled(&owner, round));
            let graph = chain(case, &mut x, &y);
            exec.update(&graph).unwrap();
            drop((graph, y));
            all.push((x, 3 * round));
        }
        exec.launch(&stream).unwrap();
        drop(exec);
        let fresh = case.filled(&owner, 90);
        for (buffer, value) in &all {
            case.expect(buffer, *value);
        }
        case.expect(&fresh, 90);
    });
}

/// Claim: a graph and an executable each have their own lock. Threads launch, change, update,
/// enable nodes of, clone and instantiate the same graph at once: every launch corresponds to one
/// of the states.
#[test]
fn threads_change_and_launch_at_once() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 1));
        let mut graph = case.graph();
        let fill = graph.add_fill(&[], &mut a, 1_u32).unwrap();
        graph.add_copy(&[fill.edge()], &mut b, &a).unwrap();
        let exec = graph.instantiate().unwrap();
        let mut spare: Vec<_> = (0..4).map(|_| case.filled(&stream, 1)).collect();
        thread::scope(|scope| {
            let (exec, graph) = (&exec, &graph);
            for _ in 0..case.threads {
                scope.spawn(move || {
                    let stream = case.stream();
                    for round in 0..6 {
                        exec.launch(&stream).unwrap();
                        exec.set_enabled(fill, round % 2 == 0).unwrap();
                        let _ = exec.update(graph);
                        let clone = graph.try_clone().unwrap().instantiate().unwrap();
                        clone.launch(&stream).unwrap();
                    }
                });
            }
            for spare in &mut spare {
                scope.spawn(move || {
                    for _ in 0..4 {
                        // Fails if a node without an edge to it uses the same memory.
                        let _ = exec.set_fill(fill, &mut *spare, 1_u32);
                    }
                });
            }
        });
        drop((exec, graph));
        for buffer in spare.iter().chain([&a, &b]) {
            case.expect(buffer, 1);
        }
    });
}

/// Claim: closures are kept until the launches that call them are done. Closures are replaced while
/// launches are queued: each launch calls the closure that it was queued with, and each closure is
/// dropped once.
#[test]
fn closures_are_replaced_under_launches() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let alive = Arc::new(());
        let say = |value: u32| {
            let (log, alive) = (Arc::clone(&log), Arc::clone(&alive));
            move || {
                let _alive = &alive;
                log.lock().unwrap().push(value);
            }
        };
        let mut graph = case.graph();
        let node = graph.add_host(&[], say(0)).unwrap();
        let exec = graph.instantiate().unwrap();
        drop(graph);
        for value in 1..6 {
            case.launch_late(&exec, &stream);
            exec.set_host(node, say(value)).unwrap();
        }
        drop(exec);
        stream.synchronize().unwrap();
        assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3, 4], "{}", case.title);
        case.until("drops the closures", || Arc::strong_count(&alive) == 1);
    });
}

/// Claim: objects that a change drops are dropped while no lock is held. A replaced closure
/// launches and changes its own executable in its drop.
#[test]
fn replaced_closure_launches_its_executable_in_drop() {
    struct Launches(Option<Arc<GraphExec>>, Stream, Arc<AtomicU32>);

    impl Drop for Launches {
        fn drop(&mut self) {
            if let Some(exec) = self.0.take()
                && exec.launch(&self.1).is_ok()
            {
                self.2.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        let launched = Arc::new(AtomicU32::new(0));
        let mut graph = case.graph();
        let node = graph.add_host(&[], || {}).unwrap();
        graph.add_fill(&[], &mut buffer, 4_u32).unwrap();
        let exec = Arc::new(graph.instantiate().unwrap());
        let launches = Launches(
            Some(Arc::clone(&exec)),
            stream.clone(),
            Arc::clone(&launched),
        );
        let held = move || {
            let _launches = &launches;
        };
        exec.set_host(node, held).unwrap();
        exec.set_host(node, || {}).unwrap();
        case.until("drops the closure", || launched.load(Ordering::SeqCst) == 1);
        case.expect(&buffer, 4);
    });
}

/// Claim: bodies of conditional nodes are ordered with the graph around them, even if they change
/// after the graph was instantiated, or are removed with their node.
#[test]
fn conditional_bodies_change_and_go() {
    Attack::new().since(12, 3).run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 0));
        let mut graph = case.graph();
        let handle = graph.conditional_handle(Some(1)).unwrap();
        graph.add_fill(&[], &mut a, 2_u32).unwrap();
        let (node, mut body) = graph.add_if(&[], handle).unwrap();
        body.add_copy(&[], &mut b, &a).unwrap();
        graph.add_fill(&[], &mut a, 3_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        case.launch_late(&exec, &stream);
        // After the copy in the body, and before the fill that follows it.
        body.add_fill(&[], &mut a, 9_u32).unwrap();
        body.add_copy(&[], &mut b, &a).unwrap();
        let second = graph.instantiate();
        case.expect(&b, 2);
        match second {
            Ok(second) => {
                second.launch(&stream).unwrap();
                case.expect(&b, 9);
                case.expect(&a, 3);
            }
            // Driver 580 cannot instantiate a graph with conditional nodes twice.
            Err(error) => assert!(case.simulator.is_none(), "{}: {error}", case.title),
        }
        graph.remove(node).unwrap();
        assert!(body.add_fill(&[], &mut a, 1_u32).is_err(), "{}", case.title);
        drop((graph, body));
        exec.launch(&stream).unwrap();
        case.expect(&b, 2);
        case.expect(&a, 3);
    });
}

/// Claim: a child graph is copied when it is added, and replaced children keep their memory alive
/// until launches are done.
#[test]
fn children_are_replaced_under_launches() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let child = |buffer: &mut DeviceBuffer<u32>, value: u32| {
            let mut graph = case.graph();
            graph.add_fill(&[], buffer, value).unwrap();
            graph
        };
        let mut first = case.filled(&stream, 0);
        let mut graph = case.graph();
        let node = graph.add_child(&[], &child(&mut first, 1)).unwrap();
        let exec = graph.instantiate().unwrap();
        drop(graph);
        let mut all = vec![(first, 1)];
        for value in 2..6 {
            case.launch_late(&exec, &stream);
            let mut next = case.filled(&stream, 0);
            exec.set_child(node, &child(&mut next, value)).unwrap();
            all.push((next, value));
        }
        exec.launch(&stream).unwrap();
        drop(exec);
        let fresh = case.filled(&stream, 90);
        for (buffer, value) in &all {
            case.expect(buffer, *value);
        }
        case.expect(&fresh, 90);
    });
}

/// Claim: words that a batch in a graph writes are kept alive like any memory, and so are the
/// events of its nodes.
#[test]
fn events_and_words_of_nodes_are_dropped() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let event = case.event();
        let event = Arc::new(event);
        let words = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 4).unwrap();
        let mut buffer = case.filled(&stream, 0);
        let mut graph = case.graph();
        let batch = ValueBatch::new().write(&words, 1, 5_u32).unwrap();
        let Ok(node) = graph.add_batch(&[], batch) else {
            // Older drivers do not support such nodes.
            return;
        };
        let record = graph.add_event_record(&[node.edge()], &event).unwrap();
        graph
            .add_fill(&[record.edge()], &mut buffer, 3_u32)
            .unwrap();
        let exec = graph.instantiate().unwrap();
        case.launch_late(&exec, &stream);
        let other = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 4).unwrap();
        let batch = ValueBatch::new().write(&other, 2, 6_u32).unwrap();
        exec.set_batch(node, batch).unwrap();
        drop((words, event, graph));
        exec.launch(&stream).unwrap();
        let fresh = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 4).unwrap();
        drop(exec);
        assert_eq!(other.to_vec().unwrap(), [0, 0, 6, 0], "{}", case.title);
        assert_eq!(fresh.to_vec().unwrap(), [0; 4], "{}", case.title);
        case.expect(&buffer, 3);
    });
}

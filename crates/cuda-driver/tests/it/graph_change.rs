//! Nodes of a graph that get other parameters after they were added.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::Version;
use cuda_driver::error::Error;
use cuda_driver::prelude::*;
use cuda_driver::stream::ValueBatch;
use cuda_sim::Builder;

use crate::support::{MIX, block, everywhere, gpu, has_version, late, software, unpooled};

const N: u32 = 1 << 8;

fn filled(stream: &Stream, value: u32) -> DeviceBuffer<u32> {
    DeviceBuffer::from_host(stream, &vec![value; N as usize]).unwrap()
}

#[track_caller]
fn assert_all(buffer: &DeviceBuffer<u32>, value: u32, name: &str) {
    assert_eq!(buffer.to_vec().unwrap(), vec![value; N as usize], "{name}");
}

#[test]
fn changed_nodes_are_in_new_executables_and_updated_ones() {
    for fixture in everywhere() {
        let (stream, name) = (fixture.stream(), &fixture.name);
        let mix = fixture.kernel(MIX, "mix");
        let (mut x, mut y) = (filled(&stream, 0), filled(&stream, 0));
        let (mut other, source) = (filled(&stream, 0), filled(&stream, 10));
        let calls = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let count = |index: usize| {
            let calls = Arc::clone(&calls);
            move || {
                calls[index].fetch_add(1, Ordering::SeqCst);
            }
        };
        let config = LaunchConfig::new(1, N);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let fill = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let copy = graph.add_copy(&[], &mut y, &source).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let kernel = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        let host = graph.add_host(&[], count(0)).unwrap();
        let old = graph.instantiate().unwrap();

        // x = 2 * 3 + 20 and `other` = x, in another order of the same nodes.
        let twenty = filled(&stream, 20);
        graph.set_fill(fill, &mut x, 3_u32).unwrap();
        graph.set_copy(copy, &mut y, &twenty).unwrap();
        // SAFETY: as above.
        unsafe { graph.set_kernel(kernel, &mix, config, (&mut x, &y, N)) }.unwrap();
        graph.set_host(host, count(1)).unwrap();
        drop(twenty);
        let new = graph.instantiate().unwrap();

        old.launch(&stream).unwrap();
        assert_all(&x, 12, name);
        new.launch(&stream).unwrap();
        assert_all(&x, 26, name);
        stream.synchronize().unwrap();
        assert_eq!([0, 1].map(|i| calls[i].load(Ordering::SeqCst)), [1, 1]);
        old.update(&graph).unwrap();
        old.launch(&stream).unwrap();
        assert_all(&x, 26, name);
        stream.synchronize().unwrap();
        assert_eq!([0, 1].map(|i| calls[i].load(Ordering::SeqCst)), [1, 2]);

        // The nodes release what they no longer use.
        drop((old, new));
        graph.set_fill(fill, &mut other, 8_u32).unwrap();
        graph.set_host(host, || ()).unwrap();
        stream.synchronize().unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&other, 8, name);
    }
}

#[test]
fn closures_of_changed_nodes_are_dropped() {
    let fixture = software(late(1));
    let owner = Arc::new(());
    let kept = Arc::clone(&owner);
    let mut graph = Graph::new(&fixture.context).unwrap();
    let host = graph
        .add_host(&[], move || drop(Arc::clone(&kept)))
        .unwrap();
    assert_eq!(Arc::strong_count(&owner), 2);
    graph.set_host(host, || ()).unwrap();
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn changed_nodes_are_ordered_with_conflicting_ones() {
    for fixture in (0..24).map(|seed| software(late(seed))).chain(gpu()) {
        let (stream, name) = (fixture.stream(), &fixture.name);
        let (mut x, mut y, mut z) = (filled(&stream, 0), filled(&stream, 0), filled(&stream, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let second = graph.add_fill(&[], &mut y, 2_u32).unwrap();
        assert_eq!(graph.edges().unwrap(), []);
        // Both write `y` now: the node that was added later is later.
        graph.set_fill(first, &mut y, 3_u32).unwrap();
        assert_eq!(graph.edges().unwrap().len(), 1);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&y, 2, name);
        assert_all(&x, 0, name);
        // A node that is added now waits for both.
        graph.add_copy(&[], &mut z, &y).unwrap();
        graph.set_fill(second, &mut x, 4_u32).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&z, 3, name);
        assert_all(&x, 4, name);
    }
}

#[test]
fn changed_events_and_values_are_used() {
    for fixture in everywhere() {
        let (stream, blocked) = (fixture.stream(), fixture.stream());
        let event = || Arc::new(Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap());
        let (unused, recorded, awaited) = (event(), event(), event());
        let flag = unpooled(&stream, &[0_u32]);
        let write = |value: u32| ValueBatch::new().write(&flag, 0, value).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let wait = graph.add_event_wait(&[], &unused).unwrap();
        let batch = graph.add_batch(&[wait.edge()], write(5)).unwrap();
        let record = graph.add_event_record(&[batch.edge()], &unused).unwrap();
        graph.set_event_wait(wait, &awaited).unwrap();
        graph.set_batch(batch, write(6)).unwrap();
        graph.set_event_record(record, &recorded).unwrap();
        let exec = graph.instantiate().unwrap();

        let release = block(&blocked);
        recorded.record(&blocked).unwrap();
        awaited.record(&blocked).unwrap();
        exec.launch(&stream).unwrap();
        // The launch waits for the event that the blocked stream has not reached.
        assert!(!stream.is_done().unwrap(), "{}", fixture.name);
        drop(release);
        recorded.synchronize().unwrap();
        assert_eq!(flag.to_vec().unwrap(), [6], "{}", fixture.name);
        // The record of the graph replaced that of the blocked stream.
        let release = block(&blocked);
        recorded.record(&blocked).unwrap();
        assert!(!recorded.is_done().unwrap(), "{}", fixture.name);
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(recorded.is_done().unwrap(), "{}", fixture.name);
        drop(release);
    }
}

#[test]
fn a_child_node_gets_a_graph_of_another_shape() {
    if !has_version((12, 2)) {
        return;
    }
    for fixture in (0..8).map(|seed| software(late(seed))).chain(gpu()) {
        let (stream, name) = (fixture.stream(), &fixture.name);
        if fixture.context.driver().version() < Version::new(12_020) {
            continue;
        }
        let [mut x, mut y, mut z, mut copy] = [(); 4].map(|()| filled(&stream, 0));
        let graph = || Graph::new(&fixture.context).unwrap();
        let (mut old, mut new, mut outer) = (graph(), graph(), graph());
        old.add_fill(&[], &mut x, 1_u32).unwrap();
        new.add_fill(&[], &mut y, 2_u32).unwrap();
        new.add_copy(&[], &mut z, &y).unwrap();
        let child = outer.add_child(&[], &old).unwrap();
        // The new graph writes what this node reads.
        outer.add_copy(&[], &mut copy, &z).unwrap();
        assert_eq!(outer.edges().unwrap(), []);
        let before = outer.instantiate().unwrap();
        outer.set_child(child, &new).unwrap();
        assert_eq!(outer.edges().unwrap().len(), 1);
        drop((old, new));
        outer.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&copy, 2, name);
        assert_all(&x, 0, name);
        before.launch(&stream).unwrap();
        assert_all(&x, 1, name);
    }
}

#[test]
fn an_old_driver_cannot_exchange_child_graphs() {
    let fixture = software(Builder::new().version(12_010));
    let (mut outer, inner) = (
        Graph::new(&fixture.context).unwrap(),
        Graph::new(&fixture.context).unwrap(),
    );
    let child = outer.add_child(&[], &inner).unwrap();
    let error = outer.set_child(child, &inner).unwrap_err().to_string();
    assert!(error.contains("cuGraphNodeSetParams"), "{error}");
    assert!(error.contains("CUDA 12.2"), "{error}");
}

#[test]
fn a_change_that_cannot_be_ordered_is_refused() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, 0), filled(&stream, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let second = graph.add_fill(&[], &mut y, 2_u32).unwrap();
        // The first node depends on the second, which conflicts with it after the change.
        graph.add_edge(second.edge(), first).unwrap();
        let refused = graph.set_fill(first, &mut y, 3_u32);
        assert_eq!(refused, Err(Error::GraphOrderReversed { other: 1 }));
        let refused = graph.set_fill(second, &mut x, 3_u32);
        assert_eq!(refused, Err(Error::GraphOrderReversed { other: 0 }));
        // Nothing has changed.
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 1, &fixture.name);
        assert_all(&y, 2, &fixture.name);
    }
}

#[test]
fn only_nodes_of_the_graph_can_be_changed() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let mut other = Graph::new(&fixture.context).unwrap();
        let node = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let elsewhere = other.set_fill(node, &mut x, 2_u32);
        assert!(matches!(elsewhere, Err(Error::OtherGraph)));
        let odd = graph.set_fill(
            node,
            &mut DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap(),
            1,
        );
        assert!(matches!(odd, Err(Error::Unsupported { .. })), "{odd:?}");
        graph.remove(node).unwrap();
        let gone = graph.set_fill(node, &mut x, 2_u32);
        assert!(matches!(gone, Err(Error::NodeGone)));
        let captured = Graph::capture(&fixture.context, |scope| {
            let node = scope.fill(&mut x, 1_u32)?;
            scope.add_node(|graph, after| {
                let refused = graph.set_fill(node, &mut x, 2_u32);
                assert!(matches!(refused, Err(Error::Capturing { .. })));
                graph.add_empty(after)
            })?;
            Ok(())
        });
        captured.unwrap();
    }
}

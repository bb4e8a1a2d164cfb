//! Graphs that are built node by node.

use std::sync::Arc;

use cuda_driver::Error;
use cuda_driver::context::ContextFlags;
use cuda_driver::graph::{DotFlags, GraphAllocation, GraphHostBuffer, NodeKind};
use cuda_driver::memory::{ManagedBuffer, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};

use crate::support::{
    COPY, Fixture, MIX, assert_all, everywhere, everywhere_since, filled, late, new_stream,
    software, unpooled,
};

const N: u32 = 1 << 10;

#[test]
fn nodes_that_share_memory_run_in_order_of_addition() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let mut result = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        graph.add_fill(&[], &mut x, 3_u32).unwrap();
        graph.add_fill(&[], &mut y, 5_u32).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe {
            graph.add_kernel(
                &[],
                &mix,
                LaunchConfig::for_num_elems(N).unwrap(),
                (&mut x, &y, N),
            )
        }
        .unwrap();
        graph.add_copy(&[], &mut result, &x).unwrap();
        graph.add_fill(&[], &mut x, 1_u32).unwrap();
        // SAFETY: as above.
        unsafe {
            graph.add_kernel(
                &[],
                &mix,
                LaunchConfig::for_num_elems(N).unwrap(),
                (&mut y, &x, N),
            )
        }
        .unwrap();
        assert_eq!(graph.len(), 6);
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
            assert_all(&result, 2 * 3 + 5, &fixture.name);
            assert_all(&x, 1, &fixture.name);
            assert_all(&y, 2 * 5 + 1, &fixture.name);
        }
    }
}

#[test]
fn buffers_and_modules_may_be_dropped_before_the_launches() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let result = filled(&stream, N, 0);
        let exec = {
            let (mix, copy) = (fixture.kernel(MIX, "mix"), fixture.kernel(COPY, "copy"));
            let (mut x, y) = (filled(&stream, N, 0), filled(&stream, N, 1));
            let mut graph = Graph::new(&fixture.context).unwrap();
            let config = LaunchConfig::for_num_elems(N).unwrap();
            // SAFETY: the kernel touches N words of each; each has N.
            let mixed = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
            let mut result = result;
            // SAFETY: as above.
            unsafe { graph.add_kernel(&[mixed.edge()], &copy, config, (&x, &mut result, N)) }
                .unwrap();
            let exec = graph.instantiate().unwrap();
            (exec, result)
        };
        let (exec, result) = exec;
        // These allocations must not reuse the memory of the dropped buffers.
        let others: Vec<_> = (0..4).map(|_| filled(&stream, N, 9)).collect();
        let mut expected = 0_u32;
        for _ in 0..1000 {
            exec.launch(&stream).unwrap();
            expected = expected.wrapping_mul(2).wrapping_add(1);
        }
        assert_all(&result, expected, &fixture.name);
        for other in &others {
            assert_all(other, 9, &fixture.name);
        }
    }
}

#[test]
fn graph_launches_and_streams_wait_for_each_other() {
    for seed in 0..24 {
        let fixture = software(late(seed));
        launches_and_others(&fixture);
    }
    for fixture in everywhere() {
        launches_and_others(&fixture);
    }
}

fn launches_and_others(fixture: &Fixture) {
    let mix = fixture.kernel(MIX, "mix");
    let streams: Vec<Stream> = (0..4).map(|_| fixture.stream()).collect();
    let (mut x, mut y) = (filled(&streams[0], N, 1), filled(&streams[1], N, 3));
    let (mut x_host, mut y_host) = (1_u32, 3_u32);
    let config = LaunchConfig::for_num_elems(N).unwrap();
    let exec_of = |out: &mut DeviceBuffer<u32>, input: &DeviceBuffer<u32>| {
        let mut graph = Graph::new(&fixture.context).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { graph.add_kernel(&[], &mix, config, (out, input, N)) }.unwrap();
        graph.instantiate().unwrap()
    };
    let (to_x, to_y) = (exec_of(&mut x, &y), exec_of(&mut y, &x));
    for step in 0..48_usize {
        let stream = &streams[(step * step + step / 5) % 4];
        match step * 7 % 5 {
            0 | 3 => {
                to_x.launch(stream).unwrap();
                x_host = x_host.wrapping_mul(2).wrapping_add(y_host);
            }
            1 => {
                to_y.launch(stream).unwrap();
                y_host = y_host.wrapping_mul(2).wrapping_add(x_host);
            }
            2 => {
                // SAFETY: as above.
                unsafe { stream.launch(&mix, config, (&mut x, &y, N)) }.unwrap();
                x_host = x_host.wrapping_mul(2).wrapping_add(y_host);
            }
            _ => y
                .as_mut_slice()
                .copy_from(x.as_slice())
                .map(|()| y_host = x_host)
                .unwrap(),
        }
    }
    assert_all(&x, x_host, &fixture.name);
    assert_all(&y, y_host, &fixture.name);
}

#[test]
fn bad_edges_are_errors_and_change_nothing() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let mut other = Graph::new(&fixture.context).unwrap();
        let foreign = other.add_empty(&[]).unwrap();
        let first = graph.add_empty(&[]).unwrap();
        let second = graph.add_empty(&[first.edge()]).unwrap();
        let third = graph.add_fill(&[second.edge()], &mut x, 7_u32).unwrap();
        let before = graph.len();
        assert_eq!(graph.add_empty(&[foreign.edge()]), Err(Error::OtherGraph));
        let refused = graph.add_edge(third.edge(), first);
        assert_eq!(refused, Err(Error::GraphCycle { from: 2, to: 0 }));
        let refused = graph.add_edge(first.edge(), first);
        assert_eq!(refused, Err(Error::GraphCycle { from: 0, to: 0 }));
        assert_eq!(
            graph.add_edge(foreign.edge(), first),
            Err(Error::OtherGraph)
        );
        // Adding an existing edge changes nothing.
        graph.add_edge(first.edge(), second).unwrap();
        graph.add_edge(first.edge(), third).unwrap();
        assert_eq!(graph.len(), before);
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&x, 7, &fixture.name);
    }
}

#[test]
fn child_graphs_and_clones_compute_the_same() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 3));
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let mut inner = Graph::new(&fixture.context).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let kernel = unsafe { inner.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        let mut outer = Graph::new(&fixture.context).unwrap();
        outer.add_fill(&[], &mut x, 1_u32).unwrap();
        outer.add_child(&[], &inner).unwrap();
        outer.add_child(&[], &inner).unwrap();
        outer.add_fill(&[], &mut y, 4_u32).unwrap();
        // Nodes that are added to the child later do not appear in its copy.
        inner.add_fill(&[], &mut x, 100_u32).unwrap();
        let clone = outer.try_clone().unwrap();
        assert_eq!(clone.nodes().unwrap().len(), 4);
        assert_eq!(clone.find_clone(kernel), Err(Error::OtherGraph));
        drop((inner, mix));
        for (graph, other) in [(outer, 3), (clone, 4)] {
            let exec = graph.instantiate().unwrap();
            drop(graph);
            exec.launch(&stream).unwrap();
            // 2 * (2 * 1 + y) + y
            assert_all(&x, 4 + 3 * other, &fixture.name);
            assert_all(&y, 4, &fixture.name);
        }
    }
}

#[test]
fn nodes_and_edges_are_those_of_the_driver() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 3));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let begin = graph.add_empty(&[]).unwrap();
        let fill = graph.add_fill(&[begin.edge()], &mut x, 1_u32).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let kernel = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        let host = graph.add_host(&[begin.edge()], || ()).unwrap();
        let copy = graph.add_copy(&[host.edge()], &mut y, &x).unwrap();
        let kinds = [
            (begin.id(), NodeKind::Empty),
            (fill.id(), NodeKind::Memset),
            (kernel.id(), NodeKind::Kernel),
            (host.id(), NodeKind::Host),
            (copy.id(), NodeKind::Memcpy),
        ];
        assert_eq!(graph.nodes().unwrap(), kinds);
        let edges = [
            (begin.edge(), fill.id()),
            (begin.edge(), host.id()),
            (fill.edge(), kernel.id()),
            (kernel.edge(), copy.id()),
            (host.edge(), copy.id()),
        ];
        assert_eq!(graph.edges().unwrap(), edges, "{}", fixture.name);
        let path = std::env::temp_dir().join(format!("cuda-driver-{}.dot", std::process::id()));
        graph.write_dot(&path, DotFlags::empty()).unwrap();
        let dot = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(dot.starts_with("digraph"), "{dot}");
        assert_eq!(dot.matches("->").count(), edges.len(), "{dot}");
    }
}

#[test]
fn a_kernel_may_begin_when_the_one_before_allows_it() {
    for fixture in everywhere_since((12, 3)) {
        if fixture.context.device().compute_capability().unwrap().major < 9 {
            continue;
        }
        let (stream, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let (x, mut y, mut z) = (
            filled(&stream, N, 5),
            filled(&stream, N, 0),
            filled(&stream, N, 0),
        );
        let mut graph = Graph::new(&fixture.context).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let first = unsafe { graph.add_kernel(&[], &copy, config, (&x, &mut y, N)) }.unwrap();
        // SAFETY: as above; the two kernels share only memory that both read.
        let second = unsafe {
            graph.add_kernel(&[first.programmatic_edge()], &copy, config, (&x, &mut z, N))
        }
        .unwrap();
        let edges = graph.edges().unwrap();
        assert_eq!(edges, [(first.programmatic_edge(), second.id())]);
        graph.add_edge(first.programmatic_edge(), second).unwrap();
        let refused = graph.add_edge(first.edge(), second);
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
        let refused = graph.add_empty(&[first.programmatic_edge()]);
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
        // It depends on the second node, which need not run after the first, so it waits for both.
        let last = graph.add_fill(&[second.edge()], &mut y, 9_u32).unwrap();
        let edges = graph.edges().unwrap();
        assert!(edges.contains(&(first.edge(), last.id())), "{edges:?}");
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&z, 5, &fixture.name);
        assert_all(&y, 9, &fixture.name);
    }
}

#[test]
fn events_in_graphs_are_recorded_and_waited_for() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mut x = filled(&stream, N, 0);
        let event = |stream: &Stream| {
            let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
            event.record(stream).unwrap();
            Arc::new(event)
        };
        let (before, after) = (event(&other), event(&other));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let waited = graph.add_event_wait(&[], &before).unwrap();
        let fill = graph.add_fill(&[waited.edge()], &mut x, 6_u32).unwrap();
        graph.add_event_record(&[fill.edge()], &after).unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let after_raw = Arc::clone(&after);
        drop((before, after, graph));
        after_raw.synchronize().unwrap();
        assert_all(&x, 6, &fixture.name);
        exec.launch(&other).unwrap();
        other.synchronize().unwrap();
        assert!(after_raw.is_done().unwrap());
    }
}

#[test]
fn streams_and_graphs_wait_for_each_other_by_values() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let flag = unpooled(&stream, &[0_u32, 0]);
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let batch = ValueBatch::new()
            .wait(&flag, 0, WaitCondition::EQUAL, 7)
            .unwrap();
        let waited = graph.add_batch(&[], batch).unwrap();
        let fill = graph.add_fill(&[waited.edge()], &mut x, 6_u32).unwrap();
        let batch = ValueBatch::new().write(&flag, 1, 1_u32).unwrap();
        graph.add_batch(&[fill.edge()], batch).unwrap();
        let exec = graph.instantiate().unwrap();
        stream.synchronize().unwrap();
        exec.launch(&stream).unwrap();
        // The launch waits for this write, and the write does not wait for the launch.
        other.write_value(&flag, 0, 7_u32).unwrap();
        assert_all(&x, 6, &fixture.name);
        assert_eq!(flag.to_vec().unwrap(), [7, 1]);
    }
}

#[test]
fn graph_memory_is_allocated_while_it_is_used() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (x, mut result) = (filled(&stream, N, 3), filled(&stream, N, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        // The node with index 0, so that the allocating node has index 1.
        graph.add_empty(&[]).unwrap();
        let mut own: GraphAllocation<u32> = graph.add_alloc_zeroed(&[], N as usize).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        for _ in 0..2 {
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { graph.add_kernel(&[], &mix, config, (&mut own, &x, N)) }.unwrap();
        }
        graph.add_copy(&[], &mut result, &own).unwrap();
        // SAFETY: nothing is launched: the memory is not accessible outside of the graph.
        let refused = unsafe { stream.launch(&mix, config, (&mut own, &x, N)) };
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
        let mut other = Graph::new(&fixture.context).unwrap();
        assert_eq!(other.add_fill(&[], &mut own, 1_u32), Err(Error::OtherGraph));
        let kept = graph.instantiate().unwrap_err();
        assert_eq!(kept, Error::GraphMemoryKept { node: 1 });
        graph.add_free(&[], own).unwrap();
        let device = fixture.context.device();
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
            // 2 * (2 * 0 + 3) + 3
            assert_all(&result, 9, &fixture.name);
        }
        let statistics = device.graph_memory().unwrap();
        assert!(statistics.most_used >= u64::from(N) * 4, "{statistics:?}");
        drop((exec, graph));
        stream.synchronize().unwrap();
        device.trim_graph_memory().unwrap();
        device.reset_graph_memory_peaks().unwrap();
        let statistics = device.graph_memory().unwrap();
        assert!(statistics.most_used <= statistics.most_reserved);
        assert!(statistics.used <= statistics.reserved, "{statistics:?}");
    }
}

#[test]
fn boxes_are_copied_and_filled() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let words: Vec<u32> = (0..7 * 5).collect();
        let mut pitched = PitchedBuffer::<u32>::zeroed(&stream, (7, 5)).unwrap();
        let linear = DeviceBuffer::from_host(&stream, &words).unwrap();
        let mut back = PitchedBuffer::<u32>::zeroed(&stream, (7, 5)).unwrap();
        let pinned = PinnedBuffer::zeroed(&fixture.context, 35, PinnedFlags::default()).unwrap();
        let host = GraphHostBuffer::new(pinned).unwrap();
        host.write().unwrap().copy_from_slice(&words);
        let mut graph = Graph::new(&fixture.context).unwrap();
        graph.add_copy(&[], &mut pitched, &host).unwrap();
        let inner = pitched.as_mut_slice().into_region(1..6, 1..4, ..).unwrap();
        graph.add_fill(&[], inner, 99_u32).unwrap();
        graph.add_copy(&[], &mut back, &pitched).unwrap();
        let refused = graph.add_copy(&[], &mut back, &linear);
        assert!(matches!(refused, Err(Error::ExtentMismatch { .. })));
        graph.add_copy(&[], &host, &back).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let expected: Vec<u32> = (0..35)
            .map(|at| match (at % 7, at / 7) {
                (1..6, 1..4) => 99,
                _ => at,
            })
            .collect();
        assert_eq!(*host.read().unwrap(), expected[..], "{}", fixture.name);
    }
}

#[test]
fn conditional_node_runs_chosen_body_in_order() {
    for fixture in everywhere_since((12, 3)) {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 0));
        for (default, expected) in [(0, 1), (1, 2)] {
            let mut graph = Graph::new(&fixture.context).unwrap();
            let handle = graph.conditional_handle(Some(default)).unwrap();
            let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
            let (node, mut body) = graph.add_if(&[], handle).unwrap();
            let last = graph.add_copy(&[], &mut y, &x).unwrap();
            // Only this node makes the body conflict with both other nodes.
            body.add_fill(&[], &mut x, 2_u32).unwrap();
            let edges = graph.edges().unwrap();
            assert!(edges.contains(&(first.edge(), node.id())), "{edges:?}");
            assert!(edges.contains(&(node.edge(), last.id())), "{edges:?}");
            assert!(matches!(body.instantiate(), Err(Error::Unsupported { .. })));
            let mut other = Graph::new(&fixture.context).unwrap();
            assert_eq!(other.add_if(&[], handle).unwrap_err(), Error::OtherGraph);
            let exec = graph.instantiate().unwrap();
            drop((graph, body));
            exec.launch(&stream).unwrap();
            assert_all(&y, expected, &fixture.name);
        }
    }
}

#[test]
fn memory_that_graphs_cannot_use_is_an_error() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let managed = ManagedBuffer::<u32>::zeroed(&stream, 4).unwrap();
        let (mut x, short) = (
            filled(&stream, N, 0),
            DeviceBuffer::zeroed(&stream, 3).unwrap(),
        );
        let of_host = |error: Error| matches!(error, Error::Unsupported { .. });
        let mut four = x.as_mut_slice().into_slice(..4).unwrap();
        assert!(of_host(
            graph.add_copy(&[], four.reborrow(), &*managed).unwrap_err()
        ));
        let refused = graph.add_copy(&[], four.reborrow(), &short).unwrap_err();
        assert!(matches!(refused, Error::LengthMismatch { .. }));
        let none = short.slice(..0).unwrap();
        let into = four.reborrow().into_slice(..0).unwrap();
        assert!(of_host(graph.add_copy(&[], into, none).unwrap_err()));
        let mut wide = DeviceBuffer::<u64>::zeroed(&stream, 3).unwrap();
        assert!(of_host(graph.add_fill(&[], &mut wide, 1_u64).unwrap_err()));
        let other = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let elsewhere = new_stream(&other);
        let mut foreign = DeviceBuffer::<u32>::zeroed(&elsewhere, 3).unwrap();
        let refused = graph.add_fill(&[], &mut foreign, 1_u32).unwrap_err();
        assert!(matches!(refused, Error::OtherContext { .. }));
        assert!(graph.is_empty());
        graph.add_fill(&[], &mut x, 4_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        assert!(matches!(
            exec.launch(&elsewhere),
            Err(Error::OtherContext { .. })
        ));
        exec.launch(&stream).unwrap();
        assert_all(&x, 4, &fixture.name);
        // Memory that a graph leases cannot be released from its buffer.
        assert!(matches!(x.into_raw(), Err(Error::StillInUse { .. })));
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
}

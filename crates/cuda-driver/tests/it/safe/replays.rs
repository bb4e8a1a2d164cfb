//! Checked launches in graphs: each replay reports its violations once, on its own stream.

use cuda_driver::graph::Node;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeLaunch, Unproven, Violation, ViolationKind};
use cuda_driver::{Error, graph::node_kind};
use cuda_sim::Builder;

use super::reports::TRAP;
use super::{GATHER, STORE, kernel, violation, violations};
use crate::support::{Fixture, assert_all, everywhere, filled, software};

/// One thread.
fn one() -> LaunchConfig {
    LaunchConfig::new(1, 1)
}

/// Returns a graph with one node, which stores 1 at the byte `at` of `x`.
fn storing(
    fixture: &Fixture,
    x: &mut DeviceBuffer<u32>,
    at: u64,
) -> (Graph, Node<node_kind::Kernel>) {
    let store = kernel(fixture, STORE, "store");
    let mut graph = Graph::new(&fixture.context).unwrap();
    let node = graph.add_kernel_safe(&[], &store, one(), (x, at, 1_u32));
    (graph, node.unwrap())
}

#[test]
fn each_replay_reports_its_violation_once() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, 4, 9);
        let (graph, _) = storing(&fixture, &mut x, 100);
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
            assert_eq!(violation(stream.synchronize()).offset, 100);
            stream.synchronize().unwrap();
        }
        let launch = || exec.launch_reported(&stream).unwrap();
        let (first, second, third) = (launch(), launch(), launch());
        assert!(first.is_checked());
        for launch in [&first, &second] {
            let violation = violation(launch.wait());
            assert_eq!((violation.argument, violation.threads), (Some(1), 1));
            launch.wait().unwrap();
        }
        drop(third);
        assert_eq!(violation(stream.synchronize()).offset, 100);
        stream.synchronize().unwrap();
        assert_all(&x, 9, &fixture.name);
    }
}

#[test]
fn a_replay_is_reported_on_its_own_stream() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let gather = kernel(&fixture, GATHER, "gather");
        let mut x = filled(&stream, 4, 9);
        let y = filled(&stream, 4, 5);
        let mut index = DeviceBuffer::from_host(&stream, &[0_u64, 1, 4, 2]).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let config = LaunchConfig::new(1, 32);
        let args = (&mut x, &y, &index, 4_u32);
        graph.add_kernel_safe(&[], &gather, config, args).unwrap();
        let exec = graph.instantiate().unwrap();
        for _ in 0..2 {
            index.copy_from_host(&[0, 1, 4, 2]).unwrap();
            exec.launch(&stream).unwrap();
            index.copy_from_host(&[0, 1, 2, 3]).unwrap();
            exec.launch(&other).unwrap();
            exec.launch_reported(&other).unwrap().wait().unwrap();
            other.synchronize().unwrap();
            let violation = violation(stream.synchronize());
            assert_eq!(violation.kind, ViolationKind::Read);
            assert_eq!((violation.thread, violation.offset), ([2, 0, 0], 16));
            stream.synchronize().unwrap();
            assert_all(&x, 5, &fixture.name);
        }
    }
}

#[test]
fn a_changed_node_is_proven_or_checked_again() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let (mut x, mut short) = (filled(&stream, 4, 9), filled(&stream, 1, 9));
        let (mut graph, node) = storing(&fixture, &mut x, 12);
        let exec = graph.instantiate().unwrap();
        let launch = |exec: &GraphExec| {
            let launch = exec.launch_reported(&stream).unwrap();
            (launch.is_checked(), launch.wait().is_err())
        };
        assert_eq!(launch(&exec), (false, false));
        // The same offset in a shorter buffer, which is dropped by its owner.
        exec.set_kernel_safe(node, &store, one(), (&mut short, 12_u64, 2_u32))
            .unwrap();
        drop(short);
        assert_eq!((launch(&exec), launch(&exec)), ((true, true), (true, true)));
        let strict = store.clone().with_unproven(Unproven::Reject);
        let refused = exec.set_kernel_safe(node, &strict, one(), (&mut x, 16_u64, 3_u32));
        assert!(matches!(refused, Err(Error::SafeLaunch(_))), "{refused:?}");
        exec.set_kernel_safe(node, &strict, one(), (&mut x, 8_u64, 3_u32))
            .unwrap();
        assert_eq!(launch(&exec), (false, false));
        assert_eq!(x.to_vec().unwrap(), [9, 9, 3, 1], "{}", fixture.name);

        graph
            .set_kernel_safe(node, &store, one(), (&mut x, 16_u64, 4_u32))
            .unwrap();
        assert_eq!(launch(&exec), (false, false));
        exec.update(&graph).unwrap();
        assert_eq!(launch(&exec), (true, true));
        graph
            .set_kernel_safe(node, &store, one(), (&mut x, 0_u64, 5_u32))
            .unwrap();
        exec.update(&graph).unwrap();
        assert!(!launch(&exec).1);
        assert_eq!(x.to_vec().unwrap(), [5, 9, 3, 1], "{}", fixture.name);
    }
}

#[test]
fn a_changed_node_needs_an_order_with_its_conflicts() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store");
    let (mut x, mut y) = (filled(&stream, 4, 9), filled(&stream, 4, 9));
    let (mut graph, node) = storing(&fixture, &mut x, 0);
    graph
        .add_kernel_safe(&[], &store, one(), (&mut y, 0_u64, 1_u32))
        .unwrap();
    let exec = graph.instantiate().unwrap();
    for at in [0_u64, 100] {
        let changed = exec.set_kernel_safe(node, &store, one(), (&mut y, at, 2_u32));
        assert!(
            matches!(changed, Err(Error::GraphOrder { .. })),
            "{changed:?}"
        );
    }
    exec.launch(&stream).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1, 9, 9, 9]);
    stream.synchronize().unwrap();
}

#[test]
fn each_checked_node_of_a_replay_is_reported() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let (mut x, mut y) = (filled(&stream, 4, 9), filled(&stream, 4, 9));
        let (mut graph, node) = storing(&fixture, &mut x, 100);
        for at in [200_u64, 4] {
            let edge = [node.edge()];
            let args = (&mut y, at, 1_u32);
            graph.add_kernel_safe(&edge, &store, one(), args).unwrap();
        }
        let exec = graph.instantiate().unwrap();
        let launch = exec.launch_reported(&stream).unwrap();
        let offsets = |mut all: Vec<Violation>| {
            all.sort_by_key(|violation| violation.offset);
            all.iter().map(|it| it.offset).collect::<Vec<_>>()
        };
        let both = offsets(violations(launch.wait()));
        assert_eq!(both, [100, 200], "{}", fixture.name);
        launch.wait().unwrap();
        stream.synchronize().unwrap();
        // The wait for a replay reports the replay before it, too.
        exec.launch(&stream).unwrap();
        let launch = exec.launch_reported(&stream).unwrap();
        let all = offsets(violations(launch.wait()));
        assert_eq!(all, [100, 100, 200, 200], "{}", fixture.name);
        stream.synchronize().unwrap();
        assert_eq!(y.to_vec().unwrap(), [9, 1, 9, 9]);
    }
}

#[test]
fn clones_and_children_report_their_replays() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mut x = filled(&stream, 4, 9);
        let (child, _) = storing(&fixture, &mut x, 100);
        let mut graph = Graph::new(&fixture.context).unwrap();
        for _ in 0..2 {
            graph.add_child(&[], &child).unwrap();
        }
        let clone = child.try_clone().unwrap();
        drop(child);
        // All nodes write the same record.
        let (parent, clone) = (graph.instantiate().unwrap(), clone.instantiate().unwrap());
        drop(graph);
        for _ in 0..3 {
            parent.launch(&stream).unwrap();
            clone.launch(&other).unwrap();
            let threads = violation(stream.synchronize()).threads;
            assert_eq!(threads, 2, "{}", fixture.name);
            stream.synchronize().unwrap();
            assert_eq!(violation(other.synchronize()).threads, 1);
            other.synchronize().unwrap();
        }
        assert_all(&x, 9, &fixture.name);
    }
}

#[test]
fn a_trap_in_a_replay_is_a_violation() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let trap = kernel(&fixture, TRAP, "trap_at");
        let mut out = filled(&stream, 1, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let config = LaunchConfig::new(1, 96);
        let args = (&mut out, 40_u32);
        graph.add_kernel_safe(&[], &trap, config, args).unwrap();
        let exec = graph.instantiate().unwrap();
        for count in [95, 190] {
            let launch = exec.launch_reported(&stream).unwrap();
            assert_eq!(violation(launch.wait()).kind, ViolationKind::Trap);
            assert_all(&out, count, &fixture.name);
        }
    }
}

#[test]
fn captures_take_checked_launches() {
    for fixture in everywhere() {
        let (context, stream) = (&fixture.context, fixture.stream());
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        let all = store.clone().with_unproven(Unproven::CheckAll);
        let captured = Graph::capture(context, |scope| {
            scope.launch_safe(&all, one(), (&mut x, 0_u64, 1_u32))?;
            store
                .launch(scope, one(), (&mut x, 64_u64, 2_u32))
                .map(drop)
        });
        let eager = Graph::capture_eager(&stream, |_| {
            let launch = stream.launch_safe(&store, one(), (&mut x, 32_u64, 3_u32))?;
            assert!(!launch.is_checked());
            store
                .launch(&stream, one(), (&mut x, 4_u64, 4_u32))
                .map(drop)
        });
        for (graph, offset) in [(captured.unwrap(), 64), (eager.unwrap(), 32)] {
            let exec = graph.instantiate().unwrap();
            drop(graph);
            for _ in 0..2 {
                let launch = exec.launch_reported(&stream).unwrap();
                assert_eq!(violation(launch.wait()).offset, offset, "{}", fixture.name);
                launch.wait().unwrap();
            }
        }
        stream.synchronize().unwrap();
        assert_eq!(x.to_vec().unwrap(), [1, 4, 9, 9]);
    }
}

#[test]
fn a_report_outlives_the_executable() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, 4, 9);
        let (graph, _) = storing(&fixture, &mut x, 100);
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let launch: SafeLaunch<'_> = exec.launch_reported(&stream).unwrap();
        drop((exec, graph, x));
        let both = violations(launch.wait());
        assert_eq!([both[0].offset, both[1].offset], [100, 100]);
        stream.synchronize().unwrap();
    }
}

#[test]
fn replays_without_a_wait_keep_their_reports() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mut x = filled(&stream, 4, 9);
    let (graph, _) = storing(&fixture, &mut x, 16);
    let exec = graph.instantiate().unwrap();
    (0..200).for_each(|_| exec.launch(&stream).unwrap());
    let all = violations(stream.synchronize());
    let offsets: Vec<i128> = all.iter().map(|it| it.offset).collect();
    assert_eq!(offsets, [16; 200]);
}

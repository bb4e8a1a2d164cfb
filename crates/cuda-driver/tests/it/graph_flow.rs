//! Graphs: nodes with two bodies, edges between kernels, flags of executables, events in captures,
//! and uninitialized memory.

use std::sync::Arc;

use cuda_driver::graph::{EdgeKind, InstantiateFlags};
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;
use cuda_driver::{Error, Version};

use crate::support::{COPY, everywhere, everywhere_since, filled, unpooled};

const N: u32 = 64;

#[test]
fn if_else_runs_one_of_two_bodies() {
    for fixture in everywhere_since((12, 8)) {
        if fixture.context.driver().version() < Version::new(12_080) {
            continue;
        }
        let stream = fixture.stream();
        for (value, expected) in [(0, 20), (1, 10), (7, 10)] {
            let mut x = filled(&stream, N, 0);
            let mut graph = Graph::new(&fixture.context).unwrap();
            let handle = graph.conditional_handle(Some(value)).unwrap();
            let (_, [mut then, mut otherwise]) = graph.add_if_else(&[], handle).unwrap();
            then.add_fill(&[], &mut x, 10_u32).unwrap();
            otherwise.add_fill(&[], &mut x, 20_u32).unwrap();
            graph.instantiate().unwrap().launch(&stream).unwrap();
            let found = x.to_vec().unwrap();
            assert_eq!(found, [expected; N as usize], "{}, {value}", fixture.name);
        }
    }
}

#[test]
fn launch_order_edges_connect_kernels_only() {
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
        let edge = first.launch_order_edge();
        assert_eq!(edge, first.id().edge_of(EdgeKind::LaunchOrder));
        assert_ne!(edge, first.id().edge_of(EdgeKind::Programmatic));
        assert_eq!(first.edge(), first.id().edge_of(EdgeKind::Full));
        // SAFETY: as above; the two kernels share only memory that both read.
        let second = unsafe { graph.add_kernel(&[edge], &copy, config, (&x, &mut z, N)) }.unwrap();
        assert_eq!(graph.edges().unwrap(), [(edge, second.id())]);
        let refused = graph.add_empty(&[edge]);
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
        graph.instantiate().unwrap().launch(&stream).unwrap();
        for buffer in [y, z] {
            assert_eq!(
                buffer.to_vec().unwrap(),
                [5; N as usize],
                "{}",
                fixture.name
            );
        }
    }
}

#[test]
fn executables_have_their_flags() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        graph.add_fill(&[], &mut x, 3_u32).unwrap();
        let both = InstantiateFlags::AUTO_FREE_ON_LAUNCH | InstantiateFlags::USE_NODE_PRIORITY;
        for flags in [
            InstantiateFlags::empty(),
            InstantiateFlags::USE_NODE_PRIORITY,
            both,
        ] {
            let exec = graph.instantiate_with(flags).unwrap();
            // Driver 580 does not report `USE_NODE_PRIORITY` for this graph.
            let unreported = match fixture.simulator {
                Some(_) => InstantiateFlags::empty(),
                None => InstantiateFlags::USE_NODE_PRIORITY,
            };
            let reported = exec.flags().unwrap();
            assert_eq!(
                reported - unreported,
                flags - unreported,
                "{}",
                fixture.name
            );
            exec.launch(&stream).unwrap();
        }
        assert_eq!(x.to_vec().unwrap(), [3; N as usize]);
        // `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`
        let unknown = InstantiateFlags::from_bits_retain(4);
        let error = graph.instantiate_with(unknown).unwrap_err();
        assert!(
            matches!(error, Error::UnsafeFlags { bits: 4, .. }),
            "{error}"
        );
    }
}

#[test]
fn captured_wait_delays_the_launch() {
    for fixture in everywhere() {
        let (stream, other, third) = (fixture.stream(), fixture.stream(), fixture.stream());
        let flag = unpooled(&stream, &[0_u32]);
        let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
        let event = Arc::new(event);
        let mut x = filled(&stream, N, 0);
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.event_wait(&event)?;
            scope.fill(&mut x, 6_u32).map(drop)
        });
        let exec = graph.unwrap().instantiate().unwrap();
        stream.synchronize().unwrap();
        other.wait_value(&flag, 0, WaitCondition::EQUAL, 1).unwrap();
        event.record(&other).unwrap();
        exec.launch(&stream).unwrap();
        assert!(!stream.is_done().unwrap(), "{}", fixture.name);
        third.write_value(&flag, 0, 1).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(x.to_vec().unwrap(), [6; N as usize], "{}", fixture.name);
    }
}

#[test]
fn uninitialized_memory_of_a_graph_is_written_first() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        // SAFETY: every element must be written before it is read ← the fill writes all of them.
        let own = unsafe { graph.add_alloc::<u32>(&[], N as usize) };
        let mut own = own.unwrap();
        graph.add_fill(&[], &mut own, 8_u32).unwrap();
        graph.add_copy(&[], &mut x, &own).unwrap();
        graph.add_free(&[], own).unwrap();
        let exec = graph.instantiate().unwrap();
        for _ in 0..2 {
            exec.launch(&stream).unwrap();
            assert_eq!(x.to_vec().unwrap(), [8; N as usize], "{}", fixture.name);
            x.fill(0).unwrap();
        }
        // SAFETY: as above; nothing is launched.
        let none = unsafe {
            Graph::new(&fixture.context)
                .unwrap()
                .add_alloc::<u32>(&[], 0)
        };
        assert!(matches!(none, Err(Error::Unsupported { .. })));
    }
}

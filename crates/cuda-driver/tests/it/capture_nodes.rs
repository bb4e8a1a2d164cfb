//! Nodes of every kind in captured graphs, and conditional nodes with captured bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::prelude::*;

use crate::support::{MIX, assert_all, everywhere, everywhere_since, filled};

const CONDITIONAL: &str = include_str!("kernels/conditional.ptx");
const N: u32 = 1 << 8;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

#[test]
fn a_while_node_runs_until_its_counter_is_zero() {
    for fixture in everywhere_since((12, 3)) {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let count_down = fixture.kernel(CONDITIONAL, "count_down");
        let (mut x, y) = (filled(&stream, N, 0), filled(&stream, N, 3));
        let mut counter = DeviceBuffer::from_host(&stream, &[0_u32]).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let condition = graph.conditional_handle(Some(1)).unwrap();
        let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let (_, mut body) = graph.add_while(&[first.edge()], condition).unwrap();
        body.capture_into(&[], |scope| {
            let one = LaunchConfig::new(1, 1);
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }?;
            // SAFETY: the kernel decrements one word and sets the condition of this graph.
            unsafe { scope.launch(&count_down, one, (&mut counter, condition.as_raw())) }
        })
        .unwrap();
        assert_eq!(body.len(), 2);
        let exec = graph.instantiate().unwrap();
        drop((graph, body, mix, count_down));
        for rounds in [1_u32, 7, 20] {
            counter.copy_from_host(&[rounds]).unwrap();
            exec.launch(&stream).unwrap();
            let expected = (0..rounds).fold(1_u32, |x, _| x.wrapping_mul(2).wrapping_add(3));
            assert_all(&x, expected, &fixture.name);
            assert_eq!(counter.to_vec().unwrap(), [0]);
        }
    }
}

#[test]
fn a_switch_node_runs_the_body_that_a_word_on_the_device_names() {
    for fixture in everywhere_since((12, 8)) {
        let stream = fixture.stream();
        let choose = fixture.kernel(CONDITIONAL, "choose");
        let mut x = filled(&stream, N, 0);
        let mut word = DeviceBuffer::from_host(&stream, &[0_u32]).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let condition = graph.conditional_handle(None).unwrap();
        let mut bodies = Vec::new();
        graph
            .capture_into(&[], |scope| {
                scope.fill(&mut x, 1_u32)?;
                let one = LaunchConfig::new(1, 1);
                // SAFETY: the kernel reads one word and sets the condition of this graph.
                unsafe { scope.launch(&choose, one, (&word, condition.as_raw())) }?;
                scope.add_node(|graph, after| {
                    let (node, inside) = graph.add_switch(after, condition, 3)?;
                    bodies = inside;
                    Ok(node)
                })
            })
            .unwrap();
        for (value, body) in [10_u32, 20, 30].into_iter().zip(&mut bodies) {
            body.capture_into(&[], |scope| scope.fill(&mut x, value))
                .unwrap();
        }
        let exec = graph.instantiate().unwrap();
        for (choice, expected) in [(2, 30), (0, 10), (3, 1), (1, 20)] {
            word.copy_from_host(&[choice]).unwrap();
            exec.launch(&stream).unwrap();
            assert_all(&x, expected, &format!("{choice} on {}", fixture.name));
        }
    }
}

#[test]
fn closures_children_events_and_host_memory_are_captured() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let kernel: Kernel<(Writes<u32>, Reads<u32>, u32)> = mix.typed().unwrap();
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 3));
        let pinned = PinnedBuffer::zeroed(&fixture.context, N as usize, PinnedFlags::default());
        let host = GraphHostBuffer::new(pinned.unwrap()).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let event = Arc::new(Event::new(&fixture.context, EventFlags::empty()).unwrap());
        let child = Graph::capture(&fixture.context, |scope| {
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { kernel.launch(scope, config(), (&mut x, &y, N)) }.map(drop)
        })
        .unwrap();
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.child(&child)?;
            scope.copy(&host, &x)?;
            let counted = Arc::clone(&calls);
            scope.host(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            })?;
            scope.event_record(&event)?;
            scope.child(&child).map(drop)
        })
        .unwrap();
        drop(child);
        // Each node depends on the previous one, as on a stream.
        let edges = graph.edges().unwrap();
        assert!(edges.len() >= 4, "{edges:?}");
        let exec = graph.instantiate().unwrap();
        for round in 1..4 {
            exec.launch(&stream).unwrap();
            event.synchronize().unwrap();
            assert_eq!(calls.load(Ordering::Relaxed), round, "{}", fixture.name);
        }
        let after = |rounds: u32| (0..rounds).fold(1_u32, |x, _| 2 * x + 3);
        assert_all(&x, after(6), &fixture.name);
        assert!(host.read().unwrap().iter().all(|word| *word == after(5)));
        exec.check_host().unwrap();
    }
}

#[test]
fn captured_nodes_can_be_updated() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y, z) = (
            filled(&stream, N, 1),
            filled(&stream, N, 3),
            filled(&stream, N, 5),
        );
        let (graph, node) = Graph::capture_with(&fixture.context, |scope| {
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        drop(y);
        // SAFETY: as above.
        unsafe { exec.set_kernel(node, &mix, config(), (&mut x, &z, N)) }.unwrap();
        drop(z);
        exec.launch(&stream).unwrap();
        assert_all(&x, 2 * 5 + 5, &fixture.name);
    }
}

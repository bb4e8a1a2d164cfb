//! Memory that graphs allocate, and graphs that are captured.

use std::mem;

use cuda_driver::graph::NodeKind;
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// A captured graph that allocates memory and copies it to `to`.
fn allocating(case: &Case, to: &mut DeviceBuffer<u32>) -> Graph {
    Graph::capture(&case.context, |scope| {
        scope.add_node(|graph, after| {
            let allocation = graph.add_alloc_zeroed::<u32>(after, case.n)?;
            graph.add_copy(&[], &mut *to, &allocation)?;
            graph.add_free(&[], allocation)
        })?;
        Ok(())
    })
    .unwrap()
}

/// Claim: memory that a graph allocates with `alloc_zeroed` is never read before it is written. The
/// program tries to remove the node that zeroes the memory, and its edges, from a captured and from
/// a built graph.
#[test]
fn zero_fill_of_an_allocation_cannot_be_removed() {
    Attack::new().run(|case| {
        let stream = case.stream();
        // Leaves recognizable words in the memory that the graph will get.
        drop(case.filled(&stream, 0xDEAD));
        for captured in [false, true] {
            let mut to = case.filled(&stream, 1);
            let mut graph = if captured {
                allocating(case, &mut to)
            } else {
                let mut graph = case.graph();
                let allocation = graph.add_alloc_zeroed::<u32>(&[], case.n).unwrap();
                graph.add_copy(&[], &mut to, &allocation).unwrap();
                graph.add_free(&[], allocation).unwrap();
                graph
            };
            for (edge, node) in graph.edges().unwrap() {
                let _ = graph.remove_edge(edge, node);
            }
            for (node, kind) in graph.nodes().unwrap() {
                if kind == NodeKind::Memset {
                    let _ = graph.remove(node);
                }
            }
            if let Ok(exec) = graph.instantiate() {
                exec.launch(&stream).unwrap();
                let words = to.to_vec().unwrap();
                let value = words[0];
                assert!(value == 0 || value == 1, "{}: {value:#x}", case.title);
                case.expect_words(&words, value);
            }
        }
    });
}

/// Claim: an update never makes an executable read memory that another graph allocates. An
/// executable is updated from another graph, which allocates at other addresses.
#[test]
fn update_from_another_allocating_graph() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 1));
        let one = allocating(case, &mut a);
        let other = allocating(case, &mut b);
        let exec = one.instantiate().unwrap();
        let second = other.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        second.launch(&stream).unwrap();
        case.expect(&a, 0);
        case.expect(&b, 0);
        a.fill(5).unwrap();
        b.fill(5).unwrap();
        drop((one, second));
        let updated = exec.update(&other).is_ok();
        drop(other);
        let beside = case.filled(&stream, 9);
        exec.launch(&stream).unwrap();
        case.expect(if updated { &b } else { &a }, 0);
        case.expect(if updated { &a } else { &b }, 5);
        case.expect(&beside, 9);
    });
}

/// Claim: memory that a graph allocates is used by nodes of that graph only. Allocations are used
/// in other graphs and in clones, and freed in other graphs.
#[test]
fn allocations_stay_in_their_graph() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut to = case.filled(&stream, 1);
        let mut own = case.graph();
        let mut other = case.graph();
        let allocation = own.add_alloc_zeroed::<u32>(&[], case.n).unwrap();
        assert!(
            other.add_copy(&[], &mut to, &allocation).is_err(),
            "{}",
            case.title
        );
        let args = (&mut to, &allocation, case.n as u32);
        // SAFETY: the kernel uses n words of each ← both have n, if the call accepts them.
        let refused = unsafe { other.add_kernel(&[], case.mix_kernel(), case.config(), args) };
        assert!(refused.is_err(), "{}", case.title);
        own.add_copy(&[], &mut to, &allocation).unwrap();
        assert!(other.add_free(&[], allocation).is_err(), "{}", case.title);
        assert!(other.is_empty(), "{}", case.title);
        if let Ok(exec) = own.instantiate() {
            exec.launch(&stream).unwrap();
            case.expect(&to, 0);
        }
    });
}

/// Claim: a use of allocated memory runs between the node that allocates and the one that frees it,
/// whichever edges are removed, and overlapping launches do not share it.
#[test]
fn allocations_outlive_their_uses() {
    Attack::new().run(|case| {
        let streams = [case.stream(), case.stream()];
        let mut to = case.filled(&streams[0], 1);
        let mut graph = case.graph();
        let mut first = graph.add_alloc_zeroed::<u32>(&[], case.n).unwrap();
        let mut second = graph.add_alloc_zeroed::<u32>(&[], case.n).unwrap();
        graph.add_fill(&[], &mut first, 3_u32).unwrap();
        graph.add_copy(&[], &mut second, &first).unwrap();
        graph.add_free(&[], first).unwrap();
        let third = graph.add_alloc_zeroed::<u32>(&[], case.n).unwrap();
        let args = (&mut second, &third, case.n as u32);
        // SAFETY: the kernel uses n words of each ← both have n.
        unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
        graph.add_copy(&[], &mut to, &second).unwrap();
        graph.add_free(&[], second).unwrap();
        graph.add_free(&[], third).unwrap();
        for (edge, node) in graph.edges().unwrap() {
            let _ = graph.remove_edge(edge, node);
        }
        if let Ok(exec) = graph.instantiate() {
            for round in 0..4 {
                case.hold_up(&streams[round % 2]);
                exec.launch(&streams[round % 2]).unwrap();
            }
            drop((exec, graph));
            let value = to.to_vec().unwrap()[0];
            assert!(value == 6 || value == 1, "{}: {value}", case.title);
            case.expect(&to, value);
        }
    });
}

/// Claim: the graph that the closure of a capture borrows is the captured one. The closure swaps it
/// with another graph, and drops, launches or keeps the graph that it got.
#[test]
fn captured_graph_is_swapped_away() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 0), case.filled(&stream, 0));
        let mut stolen = None;
        let result = Graph::capture(&case.context, |scope| {
            scope.fill(&mut a, 1_u32)?;
            let _ = scope.add_node(|graph, _| {
                let mut fresh = Graph::new(&case.context)?;
                let node = fresh.add_fill(&[], &mut b, 2_u32)?;
                mem::swap(graph, &mut fresh);
                stolen = Some(fresh);
                Ok(node)
            });
            let _ = stolen.as_ref().unwrap().instantiate();
            let _ = stolen.as_mut().unwrap().add_empty(&[]);
            scope.fill(&mut a, 3_u32)?;
            scope.copy(&mut b, &a).map(drop)
        });
        if let Ok(graph) = &result {
            graph.instantiate().unwrap().launch(&stream).unwrap();
            case.expect(&a, 3);
            case.expect(&b, 3);
        }
        if let Some(mut stolen) = stolen {
            let _ = stolen.add_fill(&[], &mut a, 8_u32);
            if let Ok(exec) = stolen.instantiate() {
                let _ = exec.launch(&stream);
            }
            drop(result);
            drop(stolen);
        }
        a.fill(4).unwrap();
        case.expect(&a, 4);
    });
}

/// Claim: a captured graph is ordered by the bytes that its nodes use. Nodes are removed and added
/// during the capture, and the graph is changed through a graph that was swapped out or cloned.
#[test]
fn captured_graph_is_changed_meanwhile() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 0), case.filled(&stream, 0));
        let mut clone = None;
        let graph = Graph::capture(&case.context, |scope| {
            scope.fill(&mut a, 1_u32)?;
            let node = scope.add_node(|graph, after| graph.add_copy(after, &mut b, &a))?;
            scope.add_node(|graph, after| {
                assert!(graph.remove(node).is_err(), "{}", case.title);
                clone = graph.try_clone().ok();
                let _ = graph.instantiate();
                graph.add_fill(after, &mut a, 2_u32)
            })?;
            scope.add_node(|graph, after| {
                let nodes = graph.nodes()?;
                // The closure claims to have added a node that existed before.
                let (first, _) = nodes[0];
                graph.add_empty(after)?;
                Ok(first)
            })?;
            scope.fill(&mut a, 5_u32)?;
            scope.copy(&mut b, &a).map(drop)
        })
        .unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        case.expect(&b, 5);
        if let Some(exec) = clone.and_then(|clone| clone.instantiate().ok()) {
            exec.launch(&stream).unwrap();
            case.expect(&b, 1);
        }
    });
}

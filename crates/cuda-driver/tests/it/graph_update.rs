//! Updates of executables with conditional nodes, and the checks of updates.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cuda_driver::error::{Error, Status};
use cuda_driver::graph::{Node, node_kind};
use cuda_driver::prelude::*;
use cuda_sim::Rule;

use crate::support::{
    Fixture, assert_all, everywhere, everywhere_since, filled, has_version, late, software,
};

const N: u32 = 1 << 8;

type Fill = Node<node_kind::Memset>;

/// Returns a graph with a conditional node that runs and fills `inner` in its body, and with a fill
/// of `beside` that has no dependencies.
fn conditional(
    fixture: &Fixture,
    inner: &mut DeviceBuffer<u32>,
    beside: &mut DeviceBuffer<u32>,
) -> (Graph, Fill, Fill) {
    let mut graph = Graph::new(&fixture.context).unwrap();
    let handle = graph.conditional_handle(Some(1)).unwrap();
    let (_, mut body) = graph.add_if(&[], handle).unwrap();
    let in_body = body.add_fill(&[], inner, 1_u32).unwrap();
    let beside = graph.add_fill(&[], beside, 2_u32).unwrap();
    (graph, in_body, beside)
}

fn is_race(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::GraphOrder { .. }))
}

#[test]
fn memory_of_updated_body_conflicts_with_other_nodes() {
    for fixture in everywhere_since((12, 3)) {
        let stream = fixture.stream();
        let (mut a, mut b, mut c) = (
            filled(&stream, N, 0),
            filled(&stream, N, 0),
            filled(&stream, N, 0),
        );
        let (graph, _, beside) = conditional(&fixture, &mut a, &mut c);
        let exec = graph.instantiate().unwrap();
        assert!(is_race(exec.set_fill(beside, &mut a, 3_u32)));
        let (other, ..) = conditional(&fixture, &mut b, &mut c);
        if let Err(refused) = exec.update(&other) {
            assert!(fixture.simulator.is_none(), "{refused}");
            assert!(matches!(refused, Error::GraphUpdate(_)), "{refused}");
            continue;
        }
        drop(other);
        assert!(is_race(exec.set_fill(beside, &mut b, 3_u32)));
        exec.set_fill(beside, &mut a, 3_u32).unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&a, 3, &fixture.name);
        assert_all(&b, 1, &fixture.name);
        assert_all(&c, 0, &fixture.name);
    }
}

#[test]
fn body_nodes_change_if_the_driver_supports_it() {
    for fixture in everywhere_since((12, 3)) {
        let stream = fixture.stream();
        let (mut a, mut b, mut c) = (
            filled(&stream, N, 0),
            filled(&stream, N, 0),
            filled(&stream, N, 0),
        );
        let (graph, in_body, beside) = conditional(&fixture, &mut a, &mut c);
        let exec = graph.instantiate().unwrap();
        // The node outside of the conditional node writes this memory.
        assert!(is_race(exec.set_fill(in_body, &mut c, 3_u32)));
        let changed = exec.set_fill(in_body, &mut b, 5_u32);
        if fixture.simulator.is_some() {
            assert_eq!(changed, Ok(()));
        }
        if changed.is_ok() {
            // Now the node outside must not write this memory, and may write the old one.
            assert!(is_race(exec.set_fill(beside, &mut b, 3_u32)));
            exec.set_fill(beside, &mut a, 4_u32).unwrap();
            exec.launch(&stream).unwrap();
            assert_all(&a, 4, &fixture.name);
            assert_all(&b, 5, &fixture.name);
            assert_all(&c, 0, &fixture.name);
        } else {
            exec.launch(&stream).unwrap();
            assert_all(&a, 1, &fixture.name);
            assert_all(&b, 0, &fixture.name);
            assert_all(&c, 2, &fixture.name);
        }
    }
}

#[test]
fn an_edge_that_fails_leaves_no_node_without_it() {
    if !has_version((12, 3)) {
        return;
    }
    for seed in 0..12 {
        let fixture = software(late(seed));
        let (simulator, stream) = (fixture.simulator.as_ref().unwrap(), fixture.stream());
        for failing in [1, 2] {
            let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 0));
            let mut graph = Graph::new(&fixture.context).unwrap();
            let handle = graph.conditional_handle(Some(1)).unwrap();
            graph.add_fill(&[], &mut x, 1_u32).unwrap();
            let (_, mut body) = graph.add_if(&[], handle).unwrap();
            graph.add_copy(&[], &mut y, &x).unwrap();
            let full = Status::CUDA_ERROR_OUT_OF_MEMORY;
            simulator.add_rule(
                Rule::new(full)
                    .function("cuGraphAddDependencies")
                    .nth(failing),
            );
            let refused = body.add_fill(&[], &mut x, 2_u32).unwrap_err();
            simulator.clear_rules();
            assert_eq!(refused.status(), Some(full));
            assert!(body.is_empty() && body.nodes().unwrap().is_empty());
            graph.instantiate().unwrap().launch(&stream).unwrap();
            assert_all(&y, 1, &seed.to_string());
            body.add_fill(&[], &mut x, 2_u32).unwrap();
            assert_eq!(graph.edges().unwrap().len(), 3);
            graph.instantiate().unwrap().launch(&stream).unwrap();
            assert_all(&y, 2, &seed.to_string());
        }
    }
}

#[test]
fn memory_used_in_a_body_creates_no_cycle() {
    for fixture in everywhere_since((12, 3)) {
        let stream = fixture.stream();
        let (mut x, mut y, mut z) = (
            filled(&stream, N, 7),
            filled(&stream, N, 0),
            filled(&stream, N, 0),
        );
        let mut graph = Graph::new(&fixture.context).unwrap();
        let handle = graph.conditional_handle(Some(1)).unwrap();
        let last = graph.add_copy(&[], &mut y, &x).unwrap();
        let (node, mut body) = graph.add_if(&[], handle).unwrap();
        let first = graph.add_copy(&[], &mut z, &x).unwrap();
        // The later node is added first. Both nodes read what the body will write.
        graph.add_edge(first.edge(), last).unwrap();
        body.add_fill(&[], &mut x, 2_u32).unwrap();
        let edges = graph.edges().unwrap();
        assert_eq!(edges, [(last.edge(), node.id()), (first.edge(), last.id())]);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&y, 7, &fixture.name);
        assert_all(&z, 7, &fixture.name);
        assert_all(&x, 2, &fixture.name);
    }
}

/// Queries an executable when it is dropped.
struct Asks(Arc<GraphExec>, mpsc::Sender<()>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.0.check_host().unwrap();
        self.1.send(()).unwrap();
    }
}

#[test]
fn a_refused_closure_may_use_the_executable_in_its_drop() {
    for fixture in everywhere() {
        let (mut graph, mut other) = (
            Graph::new(&fixture.context).unwrap(),
            Graph::new(&fixture.context).unwrap(),
        );
        let gone = graph.add_host(&[], || {}).unwrap();
        let foreign = other.add_host(&[], || {}).unwrap();
        let exec = Arc::new(graph.instantiate().unwrap());
        graph.remove(gone).unwrap();
        let (sender, receiver) = mpsc::channel();
        for (node, error) in [(foreign, Error::OtherGraph), (gone, Error::NodeGone)] {
            let asks = Asks(Arc::clone(&exec), sender.clone());
            let exec = Arc::clone(&exec);
            let changing = thread::spawn(move || {
                exec.set_host(node, move || {
                    let _ = &asks;
                })
            });
            receiver
                .recv_timeout(Duration::from_secs(20))
                .expect("the update waits for itself");
            assert_eq!(changing.join().unwrap(), Err(error), "{}", fixture.name);
        }
    }
}

//! Removing nodes and edges from graphs.

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;

use crate::support::{
    COPY, Fixture, MIX, assert_all, everywhere, everywhere_since, filled, has_version, late,
    software,
};

const N: u32 = 1 << 8;

#[test]
fn remove_reconnects_dependents_to_dependencies() {
    for seed in 0..12 {
        remove_between(&software(late(seed)));
    }
    for fixture in everywhere() {
        remove_between(&fixture);
    }
}

fn remove_between(fixture: &Fixture) {
    let stream = fixture.stream();
    let (mut x, mut y, mut z) = (
        filled(&stream, N, 0),
        filled(&stream, N, 0),
        filled(&stream, N, 0),
    );
    let mut graph = Graph::new(&fixture.context).unwrap();
    let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
    let between = graph.add_fill(&[first.edge()], &mut z, 2_u32).unwrap();
    let last = graph.add_copy(&[between.edge()], &mut y, &x).unwrap();
    let edges = [(first.edge(), between.id()), (between.edge(), last.id())];
    assert_eq!(graph.edges().unwrap(), edges);
    let before = graph.instantiate().unwrap();
    graph.remove(between).unwrap();
    assert_eq!(graph.edges().unwrap(), [(first.edge(), last.id())]);
    assert_eq!((graph.len(), graph.nodes().unwrap().len()), (2, 2));
    assert_eq!(graph.remove(between), Err(Error::NodeGone));
    assert_eq!(graph.add_empty(&[between.edge()]), Err(Error::NodeGone));
    assert_eq!(graph.add_edge(first.edge(), between), Err(Error::NodeGone));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_all(&y, 1, &fixture.name);
    assert_all(&z, 0, &fixture.name);
    // An executable from before still has the node, but cannot change it.
    assert_eq!(
        before.set_fill(between, &mut z, 3_u32),
        Err(Error::NodeGone)
    );
    before.set_fill(first, &mut x, 4_u32).unwrap();
    before.launch(&stream).unwrap();
    assert_all(&y, 4, &fixture.name);
    assert_all(&z, 2, &fixture.name);
}

#[test]
fn removed_node_hands_its_conflicts_on() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let second = graph.add_fill(&[], &mut x, 2_u32).unwrap();
        graph.remove(second).unwrap();
        let last = graph.add_copy(&[], &mut y, &x).unwrap();
        assert_eq!(graph.edges().unwrap(), [(first.edge(), last.id())]);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&y, 1, &fixture.name);
    }
}

#[test]
fn removed_nodes_owners_drop_with_last_executable() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let count = || Some(fixture.simulator.as_ref()?.live().allocations);
        let before = count();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let mut x = filled(&stream, N, 0);
        let node = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let again = graph.add_fill(&[], &mut x, 2_u32).unwrap();
        drop(x);
        let exec = graph.instantiate().unwrap();
        graph.remove(node).unwrap();
        graph.remove(again).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count(), before.map(|before| before + 1));
        exec.launch(&stream).unwrap();
        drop(exec);
        stream.synchronize().unwrap();
        assert_eq!(count(), before, "{}", fixture.name);
        assert!(graph.is_empty());
    }
}

#[test]
fn bodies_are_removed_with_their_node() {
    if !has_version((12, 3)) {
        return;
    }
    'fixtures: for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let handle = graph.conditional_handle(Some(1)).unwrap();
        let inner = graph.conditional_handle(Some(1)).unwrap();
        let (node, mut body) = graph.add_if(&[], handle).unwrap();
        let in_body = body.add_fill(&[], &mut x, 1_u32).unwrap();
        let (_, mut innermost) = body.add_if(&[], inner).unwrap();
        innermost.add_fill(&[], &mut y, 1_u32).unwrap();
        graph.remove(node).unwrap();
        for gone in [&mut body, &mut innermost] {
            assert!(gone.is_empty());
            assert!(gone.add_fill(&[], &mut x, 2_u32).is_err());
            assert_eq!(gone.remove(in_body), Err(Error::OtherGraph));
        }
        // Both condition handles should be reusable.
        for (value, handle) in [(5_u32, handle), (6, inner)] {
            let Ok((_, mut body)) = graph.add_if(&[], handle) else {
                // Drivers are not documented to allow this.
                assert!(fixture.simulator.is_none());
                continue 'fixtures;
            };
            body.add_fill(&[], &mut x, value).unwrap();
        }
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 6, &fixture.name);
        assert_all(&y, 0, &fixture.name);
    }
}

#[test]
fn an_edge_that_prevents_a_race_is_not_removed() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let between = graph.add_empty(&[first.edge()]).unwrap();
        let last = graph.add_copy(&[between.edge()], &mut y, &x).unwrap();
        let raced = Err(Error::GraphOrder { other: 0 });
        assert_eq!(graph.remove_edge(first.edge(), between), raced);
        assert_eq!(graph.remove_edge(between.edge(), last), raced);
        let none = graph.remove_edge(first.edge(), last).unwrap_err();
        assert_eq!(none.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
        assert_eq!(graph.edges().unwrap().len(), 2);
        graph.add_edge(first.edge(), last).unwrap();
        graph.remove_edge(between.edge(), last).unwrap();
        let edges = [(first.edge(), between.id()), (first.edge(), last.id())];
        assert_eq!(graph.edges().unwrap(), edges);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&y, 1, &fixture.name);
    }
}

#[test]
fn removal_of_required_nodes_is_an_error() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let own = graph.add_alloc_zeroed::<u32>(&[], N as usize).unwrap();
        let refused = graph.remove(own.node());
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
        graph.add_free(&[], own).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let mix = fixture.kernel(MIX, "mix");
        let y = filled(&stream, N, 3);
        let captured = Graph::capture(&fixture.context, |scope| {
            let fill = scope.fill(&mut x, 1_u32)?;
            scope
                .add_node(|graph, after| {
                    let refused = graph.remove(fill);
                    assert!(matches!(refused, Err(Error::Capturing { .. })));
                    let config = LaunchConfig::for_num_elems(N).unwrap();
                    // SAFETY: the kernel touches N words of each; each has N.
                    unsafe { graph.add_kernel(after, &mix, config, (&mut x, &y, N)) }
                })
                .map(drop)
        });
        captured
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        assert_all(&x, 5, &fixture.name);
    }
}

#[test]
fn removal_keeps_dependencies_of_partial_edges() {
    for fixture in everywhere_since((12, 3)) {
        if fixture.context.device().compute_capability().unwrap().major < 9 {
            continue;
        }
        let (stream, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let (from, mut x, mut other) = (
            filled(&stream, N, 5),
            filled(&stream, N, 0),
            filled(&stream, N, 0),
        );
        let mut graph = Graph::new(&fixture.context).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let first = unsafe { graph.add_kernel(&[], &copy, config, (&from, &mut x, N)) }.unwrap();
        // SAFETY: as above.
        let middle =
            unsafe { graph.add_kernel(&[first.edge()], &copy, config, (&from, &mut other, N)) }
                .unwrap();
        let early = [middle.programmatic_edge()];
        // SAFETY: as above; this kernel and the previous one share only memory that both read.
        let second =
            unsafe { graph.add_kernel(&early, &copy, config, (&from, &mut x, N)) }.unwrap();
        let last = graph.add_fill(&[], &mut x, 9_u32).unwrap();
        assert!(!graph.edges().unwrap().contains(&(first.edge(), last.id())));
        // The edge exists, but it is of a different type.
        let none = graph.remove_edge(middle.edge(), second).unwrap_err();
        assert_eq!(none.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
        let edges = graph.edges().unwrap();
        assert!(edges.contains(&(early[0], second.id())), "{edges:?}");
        graph.remove(second).unwrap();
        let edges = [(first.edge(), middle.id()), (middle.edge(), last.id())];
        assert_eq!(graph.edges().unwrap(), edges, "{}", fixture.name);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 9, &fixture.name);
        assert_all(&other, 5, &fixture.name);
    }
}

//! Inconsistent trait implementations of the program: ranges and conversions that return different
//! values.

use std::cell::Cell;
use std::ops::{Bound, RangeBounds};

use cuda_driver::Error;
use cuda_driver::graph::{CopySource, CopyTarget, Edge, NodeId};
use cuda_driver::memory::{ManagedBuffer, PitchedBuffer};
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// A range whose bounds differ each time they are queried; the first ones are harmless.
struct Shifting {
    asked: Cell<usize>,
    ends: [usize; 4],
}

impl Shifting {
    fn new(ends: [usize; 4]) -> Self {
        Self {
            asked: Cell::new(0),
            ends,
        }
    }

    fn next(&self) -> &usize {
        let at = self.asked.get();
        self.asked.set(at + 1);
        &self.ends[at % self.ends.len()]
    }
}

impl RangeBounds<usize> for Shifting {
    fn start_bound(&self) -> Bound<&usize> {
        Bound::Included(self.next())
    }

    fn end_bound(&self) -> Bound<&usize> {
        Bound::Excluded(self.next())
    }

    fn contains<U: ?Sized + PartialOrd<usize>>(&self, _: &U) -> bool
    where
        usize: PartialOrd<U>,
    {
        true
    }
}

/// Ranges that return inconsistent bounds for a memory of `n` elements in different ways.
fn shifting(n: usize) -> Vec<Shifting> {
    let far = n * 64;
    let ends = [
        [0, 4, far, far + 4],
        [4, 0, 0, n],
        [n, n, 0, far],
        [0, n, usize::MAX - 1, usize::MAX],
        [n - 1, n, 0, usize::MAX],
        [usize::MAX, usize::MAX, 0, 1],
    ];
    ends.into_iter().map(Shifting::new).collect()
}

/// Claim: a range out of bounds gives `None`, whatever it returns when it is queried again. Views
/// of all kinds of memory are made with such ranges: each lies inside its memory, and only its
/// words are written.
#[test]
fn ranges_that_change_stay_in_bounds() {
    Attack::new().run(|case| {
        let (stream, n) = (case.stream(), case.n);
        let (mut buffer, guard) = (case.filled(&stream, 1), case.filled(&stream, 2));
        let start = buffer.as_raw();
        let end = start + buffer.as_slice().bytes() as u64;
        let inside = |at: u64, bytes: usize| {
            assert!(
                bytes == 0 || at >= start && at + bytes as u64 <= end,
                "{}",
                case.title
            );
        };
        for range in shifting(n) {
            if let Ok(view) = buffer.slice(range) {
                inside(view.as_raw(), view.bytes());
            }
        }
        for range in shifting(n) {
            if let Ok(mut view) = buffer.slice_mut(range) {
                inside(view.as_raw(), view.bytes());
                view.fill(1).unwrap();
            }
        }
        for (range, again) in shifting(n).into_iter().zip(shifting(n)) {
            let view = buffer.as_mut_slice().into_slice(range);
            if let Ok(mut view) = view.and_then(|view| view.into_slice(again)) {
                inside(view.as_raw(), view.bytes());
                view.fill(1).unwrap();
            }
        }
        case.expect(&buffer, 1);
        case.expect(&guard, 2);
    });
}

/// Claim: the copies of a scope stay inside their memory, even for parts given by such ranges.
#[test]
fn scope_parts_that_change_stay_in_bounds() {
    Attack::new().run(|case| {
        let (stream, n) = (case.stream(), case.n);
        let (source, guard) = (case.filled(&stream, 3), case.pinned(9));
        for (range, again) in shifting(n).into_iter().zip(shifting(n)) {
            let (mut down, up) = (case.pinned(3), case.pinned(4));
            let mut target = case.filled(&stream, 4);
            let view = source.slice(..4).unwrap();
            // A range that the scope rejects is an error, and nothing is copied.
            let _ = stream.copy_scope(|scope| {
                let first = scope.copy_to_host_part(view, &mut down, range);
                let mut view = target.slice_mut(..4).unwrap();
                first.and(scope.copy_from_host_part(&mut view, &up, again))
            });
            case.expect_words(&down, 3);
            case.expect(&target, 4);
        }
        case.expect_words(&guard, 9);
    });
}

/// Claim: boxes of pitched memory and pieces of managed memory are checked in the same way.
#[test]
fn pitched_and_managed_ranges_stay_in_bounds() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut pitched = PitchedBuffer::from_host(&stream, (8, 8), &[5_u32; 64]).unwrap();
        let guard = PitchedBuffer::from_host(&stream, (8, 8), &[6_u32; 64]).unwrap();
        let mut managed = ManagedBuffer::from_host(&stream, &vec![5_u32; case.n]).unwrap();
        for ((x, y), z) in shifting(8).into_iter().zip(shifting(8)).zip(shifting(1)) {
            if let Ok(mut view) = pitched.region_mut(x, y, z) {
                let extent = view.extent();
                assert!(extent.width <= 8 && extent.height <= 8 && extent.depth <= 1);
                let words = vec![5; extent.width * extent.height * extent.depth];
                view.copy_from_host(&words).unwrap();
            }
        }
        for range in shifting(case.n) {
            if let Ok(mut view) = managed.slice_mut(range) {
                assert!(view.len() <= case.n);
                view.fill(5).unwrap();
            }
        }
        case.expect_words(&pitched.to_vec().unwrap(), 5);
        case.expect_words(&guard.to_vec().unwrap(), 6);
        case.expect_words(&managed.to_vec().unwrap(), 5);
    });
}

/// An argument that runs code of the program during its conversion.
struct Meddling<'a, F: FnOnce()> {
    buffer: &'a mut DeviceBuffer<u32>,
    meddle: F,
}

impl<'a, F: FnOnce()> From<Meddling<'a, F>> for CopyTarget<'a, u32> {
    fn from(this: Meddling<'a, F>) -> Self {
        (this.meddle)();
        this.buffer.into()
    }
}

/// Reads a buffer that its conversion was given, after it has run other code.
struct Reading<'a, F: FnOnce()>(&'a DeviceBuffer<u32>, F);

impl<'a, F: FnOnce()> From<Reading<'a, F>> for CopySource<'a, u32> {
    fn from(this: Reading<'a, F>) -> Self {
        (this.1)();
        this.0.into()
    }
}

/// An executable that fills `buffer` with `value`, and its node.
fn fill_of(
    case: &Case,
    buffer: &mut DeviceBuffer<u32>,
    value: u32,
) -> (
    GraphExec,
    cuda_driver::graph::Node<cuda_driver::graph::node_kind::Memset>,
) {
    let mut graph = case.graph();
    let node = graph.add_fill(&[], buffer, value).unwrap();
    (graph.instantiate().unwrap(), node)
}

/// Claim: a change of an executable applies from the next launch on. The conversion of the new
/// target launches the executable that is being changed, changes it, and uses its streams.
#[test]
fn conversions_launch_what_is_being_changed() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 0), case.filled(&stream, 0));
        let mut c = case.filled(&stream, 0);
        let (exec, node) = fill_of(case, &mut a, 1);
        let target = Meddling {
            buffer: &mut b,
            meddle: || {
                exec.launch(&stream).unwrap();
                exec.set_fill(node, &mut c, 7_u32).unwrap();
                exec.launch(&stream).unwrap();
            },
        };
        exec.set_fill(node, target, 2_u32).unwrap();
        exec.launch(&stream).unwrap();
        for (buffer, value) in [(&a, 1), (&b, 2), (&c, 7)] {
            case.expect(buffer, value);
        }
    });
}

/// Claim: nodes are ordered by the bytes that they use. While a node is added, the conversions of
/// its arguments add nodes to the same captured graph through a fork.
#[test]
fn conversions_add_nodes_in_between() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 2));
        let mut c = case.filled(&stream, 3);
        let graph = Graph::capture(&case.context, |scope| {
            let fork = scope.fork()?;
            let other = scope.fork()?;
            fork.fill(&mut a, 4_u32)?;
            let target = Meddling {
                buffer: &mut b,
                meddle: || {
                    other.fill(&mut c, 5_u32).unwrap();
                    other.copy(&mut c, &a).unwrap();
                },
            };
            scope.copy(target, Reading(&a, || ()))?;
            scope.copy(&mut b, &c).map(drop)
        });
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        for buffer in [&a, &b, &c] {
            case.expect(buffer, 4);
        }
    });
}

/// Claim: a conversion that panics in the middle of a call leaves the graph and the executable
/// unchanged.
#[test]
fn conversions_panic() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 0), case.filled(&stream, 0));
        let (exec, node) = fill_of(case, &mut a, 1);
        let mut graph = case.graph();
        crate::support::panics("converted", || {
            let meddle = || panic!("converted");
            let _ = exec.set_fill(
                node,
                Meddling {
                    buffer: &mut b,
                    meddle,
                },
                2_u32,
            );
        });
        crate::support::panics("converted", || {
            let _ = graph.add_copy(&[], &mut b, Reading(&a, || panic!("converted")));
        });
        assert!(graph.is_empty(), "{}", case.title);
        exec.launch(&stream).unwrap();
        graph.add_copy(&[], &mut b, &a).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        case.expect(&b, 1);
    });
}

/// Claim: a node of another graph is an error. The conversion of a node returns another node each
/// time.
#[test]
fn nodes_that_change_are_refused() {
    thread_local! {
        static NODES: Cell<[Option<NodeId>; 2]> = const { Cell::new([None; 2]) };
    }

    #[derive(Clone, Copy)]
    struct Lying;

    impl From<Lying> for NodeId {
        fn from(_: Lying) -> Self {
            let [first, second] = NODES.get();
            NODES.set([second, first]);
            first.expect("it is set")
        }
    }

    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 0), case.filled(&stream, 0));
        let mut foreign = case.graph();
        let alien = foreign.add_fill(&[], &mut a, 9_u32).unwrap();
        let mut graph = case.graph();
        let own = graph.add_fill(&[], &mut a, 1_u32).unwrap();
        let copy = graph.add_copy(&[], &mut b, &a).unwrap();
        for nodes in [[alien.id(), own.id()], [own.id(), alien.id()]] {
            NODES.set(nodes.map(Some));
            let edge: Edge = copy.edge();
            let refused = graph.add_edge(edge, Lying);
            assert!(
                matches!(refused, Err(Error::OtherGraph | Error::GraphCycle { .. })),
                "{}: {refused:?}",
                case.title
            );
        }
        NODES.set([Some(alien.id()), Some(own.id())]);
        assert!(matches!(graph.remove(Lying), Err(Error::OtherGraph)));
        // The closure of a capture returns a node that it has not added: one of another graph, and
        // one that existed before.
        let mut before = None;
        let captured = Graph::capture(&case.context, |scope| {
            before = Some(scope.fill(&mut a, 2_u32)?.id());
            NODES.set([Some(alien.id()), before]);
            let refused = scope.add_node(|_, _| Ok(Lying));
            assert!(matches!(refused, Err(Error::OtherGraph)));
            NODES.set([before, Some(alien.id())]);
            let _ = scope.add_node(|_, _| Ok(Lying));
            scope.copy(&mut b, &a).map(drop)
        });
        captured
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        case.expect(&b, 2);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        case.expect(&b, 1);
    });
}

//! Launches of graphs, concurrent with other uses of their memory.

use std::sync::Arc;
use std::thread;

use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// An executable that does `x = 2 * x + y`.
fn mixing(case: &Case, x: &mut DeviceBuffer<u32>, y: &DeviceBuffer<u32>) -> GraphExec {
    let mut graph = case.graph();
    let args = (x, y, case.n as u32);
    // SAFETY: the kernel uses n words of each ← both have n.
    unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
    graph.instantiate().unwrap()
}

/// Claim: launches of one executable run one after the other, on any streams.
#[test]
fn launches_on_several_streams_run_one_after_another() {
    Attack::new().run(|case| {
        let streams: Vec<_> = (0..3).map(|_| case.stream()).collect();
        let (mut x, y) = (case.filled(&streams[0], 0), case.filled(&streams[0], 1));
        let exec = mixing(case, &mut x, &y);
        for round in 0..9 {
            let stream = &streams[round % 3];
            case.launch_late(&exec, stream);
        }
        case.expect(&x, 511);
    });
}

/// Claim: two executables that share memory are ordered, even if several threads launch them.
#[test]
fn executables_share_buffers_between_threads() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut x, one) = (case.filled(&stream, 0), case.filled(&stream, 1));
        let mut y = case.filled(&stream, 0);
        let (a, b) = (mixing(case, &mut x, &one), mixing(case, &mut x, &one));
        let reads = mixing(case, &mut y, &x);
        thread::scope(|scope| {
            for at in 0..case.threads {
                let exec = if at % 2 == 0 { &a } else { &b };
                scope.spawn(move || {
                    let stream = case.stream();
                    for _ in 0..3 {
                        case.launch_late(exec, &stream);
                    }
                });
            }
        });
        reads.launch(&stream).unwrap();
        let expected = (1_u32 << (3 * case.threads)) - 1;
        case.expect(&y, expected);
        case.expect(&x, expected);
    });
}

/// Claim: a use of memory that a graph keeps is ordered with its launches, in both directions and
/// on every stream.
#[test]
fn uses_between_launches_are_in_order() {
    Attack::new().run(|case| {
        let streams: Vec<_> = (0..4).map(|_| case.stream()).collect();
        let (mut x, mut y) = (case.filled(&streams[0], 0), case.filled(&streams[0], 1));
        let exec = mixing(case, &mut x, &y);
        let (mut a, mut b) = (0_u32, 1_u32);
        for _ in 0..12 {
            let stream = &streams[case.pick(4)];
            match case.pick(5) {
                0 | 1 => {
                    exec.launch(stream).unwrap();
                    a = a.wrapping_mul(2).wrapping_add(b);
                }
                2 => {
                    case.mix(stream, y.as_mut_slice(), x.as_slice()).unwrap();
                    b = b.wrapping_mul(2).wrapping_add(a);
                }
                3 => {
                    x.fill(7).unwrap();
                    a = 7;
                }
                _ => case.hold_up(stream),
            }
        }
        case.expect(&x, a);
        case.expect(&y, b);
    });
}

/// Claim: a buffer that a node uses may be dropped, and is freed after the last launch of the last
/// graph that keeps it.
#[test]
fn buffers_dropped_under_launches_stay() {
    Attack::new().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let pool = CachingPool::with_limit(&case.context, 8 * case.n * 4);
        for round in 1..4 {
            let mut x = case.filled(&stream, 0);
            let y = DeviceBuffer::from_host_in(&pool, &stream, &vec![round; case.n]).unwrap();
            let execs = [mixing(case, &mut x, &y), mixing(case, &mut x, &y)];
            drop(y);
            let mut fresh = Vec::new();
            for exec in execs {
                case.launch_late(&exec, &other);
                drop(exec);
                fresh.push(DeviceBuffer::from_host_in(&pool, &stream, &vec![60; case.n]).unwrap());
            }
            case.expect(&x, 3 * round);
            for buffer in &fresh {
                case.expect(buffer, 60);
            }
        }
    });
}

/// Claim: nodes of one graph are ordered on the device by edges, which follow from the bytes that
/// the nodes use. Nodes to which the program adds no edges use overlapping pieces of one buffer.
#[test]
fn overlapping_pieces_are_ordered_by_their_bytes() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let quarter = case.n / 4;
        let mut x = case.filled(&stream, 0);
        let mut model = [0_u32; 4];
        let mut graph = case.graph();
        for value in 1..12 {
            let (from, len) = (case.pick(4), 1 + case.pick(2));
            let to = (from + len).min(4);
            let piece = x.slice_mut(from * quarter..to * quarter).unwrap();
            graph.add_fill(&[], piece, value).unwrap();
            model[from..to].fill(value);
            let (low, high) = x.as_mut_slice().split_at_mut(2 * quarter).unwrap();
            if case.pick(3) == 0 {
                graph.add_copy(&[], low, high.as_slice()).unwrap();
                model.copy_within(2..4, 0);
            }
        }
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let words = x.to_vec().unwrap();
        for (piece, value) in words.chunks(quarter).zip(model) {
            case.expect_words(piece, value);
        }
    });
}

/// Claim: halves of one buffer may be used at once while a launch uses one of them. Each half is
/// written on the per-thread stream of a thread, and a graph uses the lower one.
#[test]
fn halves_on_per_thread_streams_beside_a_graph() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let half = case.n / 2;
        let mut x = case.filled(&stream, 0);
        let one = case.filled(&stream, 1);
        let mut graph = case.graph();
        let low = x.slice_mut(..half).unwrap();
        let args = (low, one.slice(..half).unwrap(), half as u32);
        // SAFETY: the kernel uses half as many words of each as the buffers have ← the pieces have
        // this length.
        unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
        let exec = graph.instantiate().unwrap();
        let (low, high) = x.as_mut_slice().split_at_mut(half).unwrap();
        thread::scope(|scope| {
            let (one, exec) = (&one, &exec);
            for (mut part, launches) in [(low, true), (high, false)] {
                scope.spawn(move || {
                    let own = case.context.per_thread_stream();
                    for _ in 0..4 {
                        let one = one.slice(..half).unwrap();
                        case.mix(&own, part.reborrow(), one).unwrap();
                        if launches {
                            exec.launch(&own).unwrap();
                        }
                    }
                });
            }
        });
        let words = x.to_vec().unwrap();
        case.expect_words(&words[..half], 255);
        case.expect_words(&words[half..], 15);
    });
}

/// Claim: host memory of a graph is accessible only to the graph and to guards. Several threads
/// take guards while launches read and write the memory: no guard shows words of two launches.
#[test]
fn host_guards_never_see_half_a_launch() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut x, one) = (case.filled(&stream, 0), case.filled(&stream, 1));
        let host = GraphHostBuffer::new(case.pinned(0)).unwrap();
        let mut graph = case.graph();
        let args = (&mut x, &one, case.n as u32);
        // SAFETY: the kernel uses n words of each ← both have n.
        unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
        graph.add_copy(&[], &host, &x).unwrap();
        let exec = Arc::new(graph.instantiate().unwrap());
        thread::scope(|scope| {
            for _ in 0..case.threads {
                let (host, exec) = (host.clone(), Arc::clone(&exec));
                scope.spawn(move || {
                    let stream = case.stream();
                    for _ in 0..4 {
                        // Fails while another thread reads.
                        let _ = exec.launch(&stream);
                        let words = host.read().unwrap();
                        let first = words[0];
                        assert_eq!(first & first.wrapping_add(1), 0, "{}", case.title);
                        case.expect_words(&words, first);
                    }
                });
            }
        });
    });
}

/// Claim: dropping an executable lets a launch in flight run to its end; the graph and its clones
/// keep the memory of their own nodes.
#[test]
fn clones_and_children_outlive_their_origin() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut x, y) = (case.filled(&stream, 0), case.filled(&stream, 3));
        let execs = {
            let mut inner = case.graph();
            let args = (&mut x, &y, case.n as u32);
            // SAFETY: the kernel uses n words of each ← both have n.
            unsafe { inner.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
            let mut outer = case.graph();
            outer.add_child(&[], &inner).unwrap();
            // The child is a copy from the time when it was added.
            inner.add_fill(&[], &mut x, 1_000_000_u32).unwrap();
            let clone = outer.try_clone().unwrap();
            drop(inner);
            [outer.instantiate().unwrap(), clone.instantiate().unwrap()]
        };
        drop(y);
        let others: Vec<_> = (0..3).map(|_| case.filled(&stream, 50)).collect();
        for exec in execs {
            case.launch_late(&exec, &stream);
        }
        case.expect(&x, 9);
        for other in &others {
            case.expect(other, 50);
        }
    });
}

//! Closures of the program that panic in the middle of a call.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::{Error, Graph};

use crate::support::{Attack, panics};

/// Claim: a scope waits for its copies when it panics. The borrowed memory is used as soon as the
/// panic has been caught.
#[test]
fn copy_scope_panics_behind_its_copies() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (source, mut target) = (case.filled(&stream, 5), case.filled(&stream, 0));
        let (mut down, mut up) = (case.pinned(0), case.pinned(6));
        case.hold_up(&stream);
        panics("in the scope", || {
            let _: cuda_driver::Result<()> = stream.copy_scope(|scope| {
                scope.copy_to_host(source.as_slice(), &mut down)?;
                scope.copy_from_host(target.as_mut_slice(), &up)?;
                panic!("in the scope");
            });
        });
        case.expect_words(&down, 5);
        down.fill(1);
        up.fill(1);
        case.expect(&target, 6);
        case.expect_words(&down, 1);
    });
}

/// Claim: each scope waits for its own copies. Scopes on several streams are nested, and the
/// innermost one panics.
#[test]
fn nested_copy_scopes_panic_behind_all_copies() {
    Attack::new().run(|case| {
        let streams: Vec<_> = (0..3).map(|_| case.stream()).collect();
        let sources: Vec<_> = (1..4)
            .map(|value| case.filled(&streams[0], value))
            .collect();
        let mut words: Vec<_> = (0..3).map(|_| case.pinned(0)).collect();
        let [a, b, c] = &mut words[..] else {
            unreachable!("there are three")
        };
        streams.iter().for_each(|stream| case.hold_up(stream));
        panics("innermost", || {
            let _: cuda_driver::Result<()> = streams[0].copy_scope(|outer| {
                outer.copy_to_host(sources[0].as_slice(), a)?;
                streams[1].copy_scope(|middle| {
                    middle.copy_to_host(sources[1].as_slice(), b)?;
                    streams[2].copy_scope(|inner| {
                        inner.copy_to_host(sources[2].as_slice(), c)?;
                        panic!("innermost");
                    })
                })
            });
        });
        for (words, value) in words.iter().zip(1..) {
            case.expect_words(words, value);
        }
    });
}

/// Claim: if the closure of a capture panics, the capture ends without a graph. Buffers and later
/// captures work.
#[test]
fn capture_that_panics_leaves_no_graph() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, b) = (case.filled(&stream, 1), case.filled(&stream, 2));
        for _ in 0..3 {
            panics("while capturing", || {
                let _ = Graph::capture(&case.context, |scope| {
                    scope.fill(&mut a, 9_u32)?;
                    let fork = scope.fork()?;
                    fork.copy(&mut a, &b)?;
                    panic!("while capturing");
                });
            });
        }
        case.context.synchronize().unwrap();
        case.expect(&a, 1);
        let graph = Graph::capture(&case.context, |scope| scope.copy(&mut a, &b).map(drop));
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        case.expect(&a, 2);
    });
}

/// Claim: work that was captured into a graph before a panic stays in it, and is ordered.
#[test]
fn capture_into_that_panics_keeps_an_ordered_graph() {
    Attack::new().since(12, 3).run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 2));
        let mut graph = case.graph();
        graph.add_fill(&[], &mut a, 3_u32).unwrap();
        panics("while capturing", || {
            let _: cuda_driver::Result<()> = graph.capture_into(&[], |scope| {
                scope.copy(&mut b, &a)?;
                scope.fork()?.fill(&mut a, 4_u32)?;
                panic!("while capturing");
            });
        });
        let exec = graph.instantiate();
        drop(graph);
        exec.unwrap().launch(&stream).unwrap();
        case.expect(&b, 3);
        case.expect(&a, 4);
    });
}

/// Claim: a panic in a host function is an error of its own call only. Values that panic in their
/// drop are leaked.
#[test]
fn host_functions_panic_in_calls_and_drops() {
    struct Bomb(Arc<AtomicU32>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("a drop");
        }
    }

    Attack::new().run(|case| {
        let (stream, dropped) = (case.stream(), Arc::new(AtomicU32::new(0)));
        let mut buffer = case.filled(&stream, 1);
        for round in 0..3 {
            let bomb = Bomb(Arc::clone(&dropped));
            let panicking = stream.launch_host(|| panic!("a call")).unwrap();
            let bombed = stream.launch_host(move || {
                let _bomb = &bomb;
            });
            buffer.fill(round).unwrap();
            let fine = stream.launch_host(|| {}).unwrap();
            let result = panicking.wait();
            assert!(matches!(result, Err(Error::HostFunctionPanicked { .. })));
            let _ = bombed.unwrap().wait();
            fine.wait().unwrap();
            case.expect(&buffer, round);
        }
        case.until("drops the values", || dropped.load(Ordering::SeqCst) == 3);
    });
}

/// Claim: a panic in a node of a graph never unwinds into C; `check_host` reports it, and the rest
/// of the graph runs.
#[test]
fn host_nodes_panic_and_their_graph_runs_on() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        let mut graph = case.graph();
        let host = graph.add_host(&[], || panic!("in a node")).unwrap();
        graph.add_fill(&[host.edge()], &mut buffer, 3_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            buffer.fill(1).unwrap();
            exec.launch(&stream).unwrap();
            case.expect(&buffer, 3);
            let result = exec.check_host();
            assert!(matches!(result, Err(Error::HostFunctionPanicked { .. })));
        }
    });
}

/// Claim: occupancy callbacks that nest and panic leave the state of the outer call unchanged.
#[test]
fn nested_occupancy_callbacks_panic() {
    Attack::new().run(|case| {
        let kernel = case.copy_kernel();
        let (expected, asked) = (Cell::new(0), Cell::new(0));
        let plain = kernel.max_potential_block_size(
            |_| {
                expected.set(expected.get() + 1);
                0
            },
            0,
        );
        let plain = plain.unwrap();
        let outer = kernel.max_potential_block_size(
            |threads| {
                asked.set(asked.get() + 1);
                // A driver may query every block size, and each inner call would as well.
                if asked.get() > 2 {
                    return 0;
                }
                let inner = catch_unwind(AssertUnwindSafe(|| {
                    kernel.max_potential_block_size(
                        |threads| {
                            assert_eq!(threads, 0, "the inner one");
                            0
                        },
                        0,
                    )
                }));
                assert!(inner.is_err());
                let inner = kernel.max_potential_block_size(|_| 0, threads);
                assert!(inner.is_ok());
                0
            },
            0,
        );
        assert_eq!(outer.unwrap().block, plain.block, "{}", case.title);
        // Each query of the driver reached the closure of its own call.
        assert_eq!(asked.get(), expected.get(), "{}", case.title);
        let nested = Cell::new(false);
        panics("the outer one", || {
            let _ = kernel.max_potential_block_size(
                |_| {
                    if !nested.replace(true) {
                        let _ = kernel.max_potential_block_size(|_| 0, 0);
                    }
                    panic!("the outer one");
                },
                0,
            );
        });
        // The callback uses the context that it is called in. Driver 580 never returns from that.
        if case.simulator.is_none() {
            return;
        }
        let (stream, used_context) = (case.stream(), Cell::new(false));
        let used = kernel.max_potential_block_size(
            |_| {
                if !used_context.replace(true) {
                    let buffer = case.filled(&stream, 2);
                    case.expect(&buffer, 2);
                }
                0
            },
            0,
        );
        assert_eq!(used.unwrap().block, plain.block, "{}", case.title);
    });
}

/// Claim: during the closure of `CaptureScope::add_node` the scope is in a consistent state: a
/// panic there leaves a scope that can still be used.
#[test]
fn node_closures_panic_inside_a_capture() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 0));
        let graph = Graph::capture(&case.context, |scope| {
            scope.fill(&mut a, 2_u32)?;
            panics("adds nothing", || {
                let _ = scope.add_node(
                    |graph, _| -> cuda_driver::Result<cuda_driver::graph::NodeId> {
                        graph.add_empty(&[])?;
                        panic!("adds nothing");
                    },
                );
            });
            scope.copy(&mut b, &a).map(drop)
        });
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        case.expect(&b, 2);
    });
}

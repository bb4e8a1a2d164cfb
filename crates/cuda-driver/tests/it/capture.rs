//! Graphs created by stream capture.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cuda_driver::error::{Error, Status};
use cuda_driver::graph::Capture;
use cuda_driver::prelude::*;
use cuda_driver::stream::CaptureStatus;

use crate::support::{
    COPY, Fixture, MIX, assert_all, everywhere, everywhere_since, filled, has_version,
};

const N: u32 = 1 << 10;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

#[test]
fn captured_buffers_may_be_dropped_before_1000_launches() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut result = filled(&stream, N, 0);
        let exec = {
            let (mix, copy) = (fixture.kernel(MIX, "mix"), fixture.kernel(COPY, "copy"));
            let (mut x, y) = (filled(&stream, N, 0), filled(&stream, N, 1));
            let mut z = filled(&stream, N, 7);
            let graph = Graph::capture(&fixture.context, |scope| {
                scope.fill(&mut z, 3_u32)?;
                // SAFETY: the kernel touches N words of each; each has N.
                unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }?;
                // SAFETY: as above.
                unsafe { scope.launch(&mix, config(), (&mut z, &x, N)) }?;
                // SAFETY: as above.
                unsafe { scope.launch(&copy, config(), (&z, &mut result, N)) }?;
                Ok(())
            })
            .unwrap();
            assert_eq!(graph.len(), 4, "{}", fixture.name);
            graph.instantiate().unwrap()
        };
        // These allocations must not reuse the memory of the dropped buffers.
        let others: Vec<_> = (0..4).map(|_| filled(&stream, N, 9)).collect();
        // The captured work did not run during the capture.
        let mut x = 0_u32;
        for _ in 0..1000 {
            exec.launch(&stream).unwrap();
            x = x.wrapping_mul(2).wrapping_add(1);
        }
        assert_all(&result, x.wrapping_add(6), &fixture.name);
        for other in &others {
            assert_all(other, 9, &fixture.name);
        }
    }
}

#[test]
fn branches_run_concurrently_unless_they_share_memory() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, mut y, mut z) = (
            filled(&stream, N, 1),
            filled(&stream, N, 2),
            filled(&stream, N, 3),
        );
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.fill(&mut z, 10_u32)?;
            let side = scope.fork()?;
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { side.launch(&mix, config(), (&mut x, &z, N)) }?;
            // SAFETY: as above.
            unsafe { scope.launch(&mix, config(), (&mut y, &z, N)) }?;
            // SAFETY: as above. The branch has not been joined and its own order is not enough: the
            // kernel reads what the other branch writes.
            unsafe { scope.launch(&mix, config(), (&mut y, &x, N)) }?;
            scope.join(&side)?;
            // This fill writes what the forked branch reads.
            scope.fill(&mut z, 20_u32)?;
            let late = side.fork()?;
            late.copy(&mut x, &y)?;
            Ok(())
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        for round in 0..3 {
            exec.launch(&stream).unwrap();
            let _ = round;
        }
        let (mut a, mut b) = (1_u32, 2_u32);
        for _ in 0..3 {
            a = 2 * a + 10;
            b = 2 * b + 10;
            b = 2 * b + a;
            a = b;
        }
        assert_all(&x, a, &fixture.name);
        assert_all(&y, b, &fixture.name);
        assert_all(&z, 20, &fixture.name);
    }
}

#[test]
fn lines_may_be_captured_by_several_threads() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let mut buffers: Vec<_> = (0..4).map(|value| filled(&stream, N, value)).collect();
        let shared = filled(&stream, N, 5);
        let graph = Graph::capture(&fixture.context, |scope| {
            let lines: Vec<_> = (0..4).map(|_| scope.fork().unwrap()).collect();
            thread::scope(|threads| {
                for (line, buffer) in lines.into_iter().zip(&mut buffers) {
                    let (mix, shared) = (&mix, &shared);
                    threads.spawn(move || {
                        for _ in 0..8 {
                            // SAFETY: the kernel touches N words of each; each has N.
                            unsafe { line.launch(mix, config(), (&mut *buffer, shared, N)) }
                                .unwrap();
                        }
                    });
                }
            });
            Ok(())
        })
        .unwrap();
        assert_eq!(graph.len(), 32);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        for (value, buffer) in (0..4_u32).zip(&buffers) {
            let expected = (0..8).fold(value, |sum, _| 2 * sum + 5);
            assert_all(buffer, expected, &fixture.name);
        }
    }
}

#[test]
fn an_error_and_a_panic_end_the_capture() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 1));
        let refused = Graph::capture(&fixture.context, |scope| {
            scope.fill(&mut x, 9_u32)?;
            let _line = scope.fork()?;
            // SAFETY: the number of arguments is wrong, so nothing is launched.
            unsafe { scope.launch(&mix, config(), (&mut x,)) }?;
            Ok(())
        });
        assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Graph::capture(&fixture.context, |scope| {
                scope.fill(&mut x, 9_u32)?;
                panic!("in a capture");
            })
        }));
        assert!(panicked.is_err());
        drop(Capture::begin(&fixture.context).unwrap());
        // The capture has ended, and none of the captured work has run.
        fixture.context.synchronize().unwrap();
        assert_all(&x, 1, &fixture.name);
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { stream.launch(&mix, config(), (&mut x, &y, N)) }.unwrap();
        assert_all(&x, 3, &fixture.name);
    }
}

#[test]
fn calls_that_break_captures_are_refused_or_deferred() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 4));
        let (context, gone) = (&fixture.context, fixture.kernel(COPY, "copy"));
        let mut gone = Some(gone);
        let graph = Graph::capture(context, |scope| {
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }?;
            let refused = context.synchronize();
            assert!(matches!(refused, Err(Error::Capturing { .. })));
            thread::scope(|threads| {
                let other = threads.spawn(|| {
                    assert!(context.synchronize().is_err());
                    // This is the last handle of its module.
                    drop(gone.take());
                    drop(fixture.kernel(COPY, "copy"));
                });
                other.join().unwrap();
            });
            // Allocations, streams and copies work as usual.
            let other = fixture.stream();
            let words = filled(&other, N, 6);
            assert_all(&words, 6, &fixture.name);
            other.synchronize()?;
            assert!(scope.is_capturing()?);
            let inner = Graph::capture(context, |scope| {
                // SAFETY: as above.
                unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }.map(drop)
            })?;
            assert_eq!(inner.len(), 1);
            let early = scope.add_node(|graph, after| {
                let refused = graph.instantiate();
                assert!(matches!(refused, Err(Error::Capturing { .. })));
                graph.add_empty(after)
            });
            early.map(drop)
        })
        .unwrap();
        context.synchronize().unwrap();
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::Inactive));
        assert_eq!(graph.len(), 2);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 6, &fixture.name);
    }
}

#[test]
fn capture_broken_by_other_code_leaves_all_usable() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 1);
        let table = fixture.context.driver().library().table();
        let broken = Graph::capture(&fixture.context, |scope| {
            scope.fill(&mut x, 9_u32)?;
            // SAFETY: the stream is alive; a query of its state is illegal during capture.
            let status = unsafe { table.cuStreamQuery(scope.as_raw()) };
            assert_eq!(status, Status::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            assert!(!scope.is_capturing()?);
            let refused = scope.fill(&mut x, 9_u32);
            let invalidated = Status::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            assert_eq!(refused.unwrap_err().status(), Some(invalidated));
            Ok(())
        });
        let invalidated = Status::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        assert_eq!(broken.unwrap_err().status(), Some(invalidated));
        fixture.context.synchronize().unwrap();
        let graph = Graph::capture(&fixture.context, |scope| scope.fill(&mut x, 8).map(drop));
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        assert_all(&x, 8, &fixture.name);
    }
}

/// An error of a program.
#[derive(Debug, PartialEq)]
enum ProgramError {
    Cuda(Error),
    Own(u32),
}

impl From<Error> for ProgramError {
    fn from(error: Error) -> Self {
        Self::Cuda(error)
    }
}

#[test]
fn closures_fail_with_errors_of_the_caller() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 1);
        let mut capture = |own: Option<u32>| {
            Graph::try_capture(&fixture.context, |scope| {
                let node = scope.fill(&mut x, 9_u32)?;
                own.map_or(Ok(node), |own| Err(ProgramError::Own(own)))
            })
        };
        assert_eq!(capture(Some(4)).unwrap_err(), ProgramError::Own(4));
        let (graph, _) = capture(None).unwrap();
        assert_eq!(graph.len(), 1);
        // Errors of the crate are converted.
        let outside = Graph::try_capture(&fixture.context, |scope| {
            Ok::<_, ProgramError>(scope.fill(x.slice_mut(N as usize + 1..)?, 9_u32)?)
        });
        assert!(matches!(
            outside,
            Err(ProgramError::Cuda(Error::OutOfRange(_)))
        ));
        assert_all(&x, 1, &fixture.name);
        let flags = PinnedFlags::empty();
        let mut target = PinnedBuffer::<u32>::zeroed(&fixture.context, N as usize, flags).unwrap();
        let copied = stream.try_copy_scope(|scope| {
            scope.copy_to_host(x.as_slice(), &mut target)?;
            Err::<(), _>(ProgramError::Own(5))
        });
        assert_eq!(copied, Err(ProgramError::Own(5)));
        // The scope has waited for the copy.
        assert!(target.iter().all(|word| *word == 1), "{}", fixture.name);
        if has_version((12, 3)) {
            let mut graph = Graph::new(&fixture.context).unwrap();
            let result = graph.try_capture_into(&[], |scope| {
                scope.fill(&mut x, 2_u32)?;
                Err::<(), _>(ProgramError::Own(6))
            });
            assert_eq!(result, Err(ProgramError::Own(6)));
            // The calls before the error are in the graph.
            assert_eq!(graph.len(), 1);
        }
    }
}

#[test]
fn calls_are_captured_into_an_existing_graph() {
    for fixture in everywhere_since((12, 3)) {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 2));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 5_u32).unwrap();
        let last = graph
            .capture_into(&[first.edge()], |scope| {
                // SAFETY: the kernel touches N words of each; each has N.
                unsafe { scope.launch(&mix, config(), (&mut y, &x, N)) }?;
                // SAFETY: as above.
                unsafe { scope.launch(&mix, config(), (&mut y, &x, N)) }
            })
            .unwrap();
        graph.add_copy(&[last.edge()], &mut x, &y).unwrap();
        assert_eq!(graph.len(), 4);
        let mut other = Graph::new(&fixture.context).unwrap();
        let foreign = other.capture_into(&[first.edge()], |_| Ok(()));
        assert_eq!(foreign, Err(Error::OtherGraph));
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 2 * (2 * 2 + 5) + 5, &fixture.name);
    }
}

#[test]
fn broken_capture_ends_graph_but_not_executables() {
    for fixture in everywhere_since((12, 3)) {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, N, 1), filled(&stream, N, 2));
        let table = fixture.context.driver().library().table();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 5_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        let broken = graph.capture_into(&[first.edge()], |scope| {
            scope.copy(&mut y, &x)?;
            // SAFETY: the stream is alive; a query of its state is illegal during capture.
            let status = unsafe { table.cuStreamQuery(scope.as_raw()) };
            assert_eq!(status, Status::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            Ok(())
        });
        let invalidated = Status::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        assert_eq!(broken.unwrap_err().status(), Some(invalidated));
        assert!(graph.capture_into(&[], |_| Ok(())).is_err());
        assert!(graph.instantiate().is_err());
        assert!(graph.add_fill(&[], &mut x, 6_u32).is_err());
        assert!(exec.set_fill(first, &mut x, 6_u32).is_err());
        exec.launch(&stream).unwrap();
        assert_all(&x, 5, &fixture.name);
        assert_all(&y, 2, &fixture.name);
    }
}

#[test]
fn nodes_added_by_raw_calls_are_ordered() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 0), filled(&stream, N, 2));
        let driver = fixture.context.driver().clone();
        let mut capture = Capture::begin(&fixture.context).unwrap();
        let scope = capture.scope();
        scope.fill(&mut x, 5_u32).unwrap();
        for _ in 0..3 {
            // SAFETY: the stream is capturing, and `x` has N words, which the previous node keeps
            // alive.
            let status = unsafe {
                driver
                    .library()
                    .table()
                    .cuMemsetD32Async(x.as_raw(), 7, N as usize, scope.as_raw())
            };
            assert_eq!(status, Status::CUDA_SUCCESS);
        }
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { scope.launch(&mix, config(), (&mut x, &y, N)) }.unwrap();
        assert_eq!(scope.after().unwrap().len(), 1);
        let graph = capture.end().unwrap();
        assert_eq!(graph.len(), 5);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 2 * 7 + 2, &fixture.name);
    }
}

#[test]
fn launches_with_attributes_are_captured() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 2));
        let event = cuda_driver::Event::new(&fixture.context, Default::default()).unwrap();
        let graph = Graph::capture(&fixture.context, |scope| {
            let attributes = LaunchAttributes::new().priority(0);
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { scope.launch_with(&mix, config(), &attributes, (&mut x, &y, N)) }?;
            let attributes = LaunchAttributes::new().completion_event(&event);
            // SAFETY: as above.
            let refused =
                unsafe { scope.launch_with(&mix, config(), &attributes, (&mut x, &y, N)) };
            assert!(matches!(refused, Err(Error::Unsupported { .. })));
            Ok(())
        })
        .unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 4, &fixture.name);
    }
}

#[test]
fn objects_of_other_captures_and_contexts_are_refused() {
    let other = crate::support::software(cuda_sim::Builder::new());
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 1);
        let foreign: &Fixture = &other;
        let mut elsewhere = filled(&foreign.stream(), N, 1);
        let mix = foreign.kernel(MIX, "mix");
        let graph = Graph::capture(&fixture.context, |scope| {
            let filled = scope.fill(&mut elsewhere, 2_u32);
            assert!(matches!(filled, Err(Error::OtherContext { .. })));
            // SAFETY: the kernel belongs to another context, so nothing is launched.
            let launched = unsafe { scope.launch(&mix, config(), (&mut x, &elsewhere, N)) };
            assert!(matches!(launched, Err(Error::OtherContext { .. })));
            let mut second = Capture::begin(&fixture.context)?;
            let joined = scope.join(&second.scope());
            assert_eq!(joined, Err(Error::OtherGraph));
            let mut graph = Graph::new(&fixture.context)?;
            let node = scope.add_node(|_, _| graph.add_empty(&[]));
            assert_eq!(node, Err(Error::OtherGraph));
            scope.fill(&mut x, 4_u32).map(drop)
        })
        .unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 4, &fixture.name);
    }
}

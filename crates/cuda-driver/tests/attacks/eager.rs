//! Captures of eager calls on a stream of the program.

use std::thread;

use cuda_driver::Error;
use cuda_driver::graph::EagerCapture;
use cuda_driver::prelude::*;

use crate::support::Attack;

/// Whether `result` is the error of a call on a stream whose calls another thread captures.
fn is_elsewhere<T>(result: &cuda_driver::Result<T>) -> bool {
    result.as_ref().err().is_some_and(|error| {
        matches!(
            error,
            Error::EagerCapture {
                is_elsewhere: true,
                ..
            }
        )
    })
}

/// Claim: only calls of the capturing thread get into the graph, and no other thread breaks the
/// capture. Other threads use and drop buffers of the captured stream, and capture on it
/// themselves, before, during and after the capture.
#[test]
fn other_threads_do_not_reach_the_captured_graph() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut x, one) = (case.filled(&stream, 0), case.filled(&stream, 1));
        let given: Vec<_> = (0..case.threads)
            .map(|_| (case.filled(&stream, 7), case.filled(&stream, 1)))
            .collect();
        let graph = thread::scope(|scope| {
            for (mut own, ones) in given {
                let stream = &stream;
                scope.spawn(move || {
                    let mut expected = 7_u32;
                    for _ in 0..12 {
                        let used = case.mix(stream, own.as_mut_slice(), ones.as_slice());
                        if used.is_ok() {
                            expected = expected.wrapping_mul(2).wrapping_add(1);
                        } else {
                            assert!(is_elsewhere(&used), "{}: {used:?}", case.title);
                        }
                        let captured = Graph::capture_eager(stream, |_| own.fill(1));
                        let is_right = captured.is_ok() || is_elsewhere(&captured);
                        assert!(is_right, "{}: {captured:?}", case.title);
                        thread::yield_now();
                    }
                    // Another stream can use the buffer at all times.
                    let side = case.stream();
                    let mut words = vec![0; case.n];
                    own.copy_to_host_on(&mut words, &side).unwrap();
                    case.expect_words(&words, expected);
                });
            }
            let capture = loop {
                match EagerCapture::begin(&stream) {
                    Ok(capture) => break capture,
                    refused => assert!(is_elsewhere(&refused), "{}: {refused:?}", case.title),
                }
            };
            for _ in 0..5 {
                let temporary = one.try_clone().unwrap();
                case.mix(&stream, x.as_mut_slice(), temporary.as_slice())
                    .unwrap();
            }
            capture.end().unwrap()
        });
        drop(one);
        let beside = case.filled(&stream, 9);
        let exec = graph.instantiate().unwrap();
        case.launch_late(&exec, &stream);
        case.expect(&x, 31);
        case.expect(&beside, 9);
    });
}

/// Claim: memory that a captured buffer has is used only between the nodes that allocate and free
/// it. Buffers are kept after the capture, sent to another thread, and used on other streams.
#[test]
fn buffers_of_a_capture_do_not_escape() {
    Attack::new().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let mut x = case.filled(&other, 1);
        let mut kept = None;
        let failed = Graph::capture_eager(&stream, |capture| {
            let mut temporary = DeviceBuffer::filled(&stream, case.n, 3_u32)?;
            thread::scope(|scope| {
                let away = || case.mix(&other, x.as_mut_slice(), temporary.as_slice());
                let used = scope.spawn(away).join().expect("the thread does not panic");
                assert_eq!(used, Err(Error::MemoryOfCapture), "{}", case.title);
            });
            let used = capture.outside(|| temporary.fill(5));
            assert_eq!(used, Err(Error::MemoryOfCapture), "{}", case.title);
            kept = Some(temporary);
            Ok(())
        });
        assert!(
            matches!(failed, Err(Error::OutlivesCapture { .. })),
            "{}: {failed:?}",
            case.title
        );
        let mut kept = kept.expect("the closure has set it");
        let beside = case.filled(&stream, 9);
        assert_eq!(x.copy_from(&kept), Err(Error::MemoryOfCapture));
        assert_eq!(kept.copy_from(&x), Err(Error::MemoryOfCapture));
        let captured = Graph::capture_eager(&stream, |_| kept.fill(5));
        assert!(
            matches!(captured, Err(Error::MemoryOfCapture)),
            "{}: {captured:?}",
            case.title
        );
        drop(kept);
        case.expect(&x, 1);
        case.expect(&beside, 9);
    });
}

/// Claim: nothing but the captured graph uses the memory of an output before the graph is launched,
/// and every use after that waits for the launch. Threads read, write, copy and capture an output
/// while another thread launches the graph.
#[test]
fn outputs_are_not_seen_before_their_launch() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (x, one) = (case.filled(&stream, 20), case.filled(&stream, 1));
        let (graph, output) = Graph::capture_eager_with(&stream, |capture| {
            let mut output = capture.outputs(|| x.try_clone())?;
            case.mix(&stream, output.as_mut_slice(), one.as_slice())?;
            Ok(output)
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        // Memory that is freed and allocated again must not be that of the output.
        drop((graph, x));
        let beside = case.filled(&stream, 9);
        thread::scope(|scope| {
            for _ in 0..case.threads {
                scope.spawn(|| {
                    let side = case.stream();
                    let mut copy = case.filled(&side, 0);
                    loop {
                        let captured = Graph::capture_eager(&side, |_| copy.copy_from(&output));
                        let used = match captured {
                            Ok(graph) => graph.instantiate().and_then(|it| it.launch(&side)),
                            Err(error) => Err(error),
                        };
                        match used.and_then(|()| copy.copy_from(&output)) {
                            Ok(()) => break,
                            Err(error) => {
                                assert_eq!(error, Error::NotYetWritten, "{}", case.title);
                            }
                        }
                        thread::yield_now();
                    }
                    case.expect(&copy, 41);
                });
            }
            case.launch_late(&exec, &stream);
        });
        case.expect(&output, 41);
        case.expect(&beside, 9);
        // The last owner of the memory is a launch in flight.
        exec.launch(&stream).unwrap();
        drop((output, exec));
        let after = case.filled(&stream, 5);
        case.expect(&after, 5);
    });
}

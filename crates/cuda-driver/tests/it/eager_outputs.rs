//! Buffers that are created in an eager capture and outlive it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_driver::Error;
use cuda_driver::graph::{EagerCapture, NodeKind};
use cuda_driver::memory::ThreadBuffer;
use cuda_driver::prelude::*;

use crate::eager_capture::{N, count, expect_live, live, mix};
use crate::support::{MIX, assert_all, everywhere, filled, late_devices};

/// Returns `2 * x + 1` in a new buffer: code that knows nothing about graphs.
fn step(
    kernel: &Function,
    stream: &Stream,
    x: &DeviceBuffer<u32>,
) -> cuda_driver::Result<DeviceBuffer<u32>> {
    let one = DeviceBuffer::filled(stream, N as usize, 1_u32)?;
    let mut result = x.try_clone()?;
    mix(kernel, stream, &mut result, &one)?;
    Ok(result)
}

#[test]
fn an_output_has_the_result_of_the_last_launch() {
    for fixture in late_devices(24) {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(MIX, "mix");
        let mut x = filled(&stream, N, 3);
        let (graph, result) = Graph::capture_eager_with(&stream, |capture| {
            // The second step reads the output of the first one.
            let first = capture.outputs(|| step(&kernel, &stream, &x))?;
            capture.outputs(|| step(&kernel, &stream, &first))
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        let mut copied = filled(&other, N, 0);
        for value in [3, 5, 8] {
            x.fill_on(value, &other).unwrap();
            exec.launch(&stream).unwrap();
            copied.copy_from_on(&result, &other).unwrap();
            assert_all(&copied, 4 * value + 3, &fixture.name);
        }
        // An output is an ordinary buffer after the first launch.
        let mut result = result;
        result.fill_on(7, &other).unwrap();
        assert_all(&result, 7, &fixture.name);
        exec.launch(&other).unwrap();
        assert_all(&result, 4 * 8 + 3, &fixture.name);
    }
}

#[test]
fn memory_of_outputs_is_ordinary_and_leased() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        stream.synchronize().unwrap();
        let kernel = fixture.kernel(MIX, "mix");
        let before = live(&fixture);
        let x = filled(&stream, N, 3);
        let (graph, result) = Graph::capture_eager_with(&stream, |capture| {
            let dropped = capture.outputs(|| step(&kernel, &stream, &x))?;
            let result = capture.outputs(|| step(&kernel, &stream, &dropped))?;
            // A temporary buffer is memory of the graph also between outputs.
            let two = DeviceBuffer::filled(&stream, N as usize, 2_u32)?;
            drop((dropped, two));
            Ok(result)
        })
        .unwrap();
        assert_eq!(count(&graph, NodeKind::Alloc), 1);
        assert_eq!(count(&graph, NodeKind::Free), 1);
        let exec = graph.instantiate().unwrap();
        drop((graph, x));
        exec.launch(&stream).unwrap();
        assert_all(&result, 15, &fixture.name);
        // The graph keeps the memory of an output that the program drops.
        drop(result);
        let others: Vec<_> = (0..4).map(|_| filled(&stream, N, 9)).collect();
        exec.launch(&stream).unwrap();
        others
            .iter()
            .for_each(|it| assert_all(it, 9, &fixture.name));
        drop((exec, others));
        stream.synchronize().unwrap();
        expect_live(&fixture, before);
    }
}

#[test]
fn outputs_without_temporaries_allow_several_executables() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let kernel = fixture.kernel(MIX, "mix");
        let mut x = filled(&stream, N, 3);
        let (graph, result) = Graph::capture_eager_with(&stream, |capture| {
            capture.outputs(|| step(&kernel, &stream, &x))
        })
        .unwrap();
        assert_eq!(count(&graph, NodeKind::Alloc), 0);
        let execs = [graph.instantiate().unwrap(), graph.instantiate().unwrap()];
        for (exec, value) in execs.iter().zip([3, 4]) {
            x.fill(value).unwrap();
            exec.launch(&stream).unwrap();
            assert_all(&result, 2 * value + 1, &fixture.name);
        }
    }
}

#[test]
fn an_output_is_not_used_before_the_first_launch() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(MIX, "mix");
        let mut x = filled(&stream, N, 3);
        let y = filled(&other, N, 1);
        let (graph, mut result) = Graph::capture_eager_with(&stream, |capture| {
            let result = capture.outputs(|| step(&kernel, &stream, &x))?;
            let used = capture.outside(|| result.to_vec());
            assert_eq!(used, Err(Error::NotYetWritten));
            Ok(result)
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        let early = Err(Error::NotYetWritten);
        assert_eq!(result.to_vec().map(drop), early);
        assert_eq!(result.fill(1), early);
        assert_eq!(result.fill_on(1, &other), early);
        assert_eq!(result.try_clone().map(drop), early);
        assert_eq!(x.copy_from(&result), early);
        assert_eq!(mix(&kernel, &other, &mut x, &result), early);
        assert_eq!(mix(&kernel, &stream, &mut result, &y), early);
        // SAFETY: the closure queues nothing.
        assert_eq!(unsafe { stream.using((&result,), |_| ()) }, early);
        // Nor by another graph, whichever way it is made.
        let captured = Graph::capture_eager(&stream, |_| x.copy_from(&result));
        assert_eq!(captured.map(drop), early);
        let mut another = Graph::new(&fixture.context).unwrap();
        assert_eq!(another.add_copy(&[], &mut x, &result).map(drop), early);
        assert_all(&x, 3, &fixture.name);

        exec.launch(&other).unwrap();
        assert_all(&result, 7, &fixture.name);
        another.add_copy(&[], &mut x, &result).unwrap();
        another.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 7, &fixture.name);
    }
}

#[test]
fn an_output_without_its_graph_stays_unwritten() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        stream.synchronize().unwrap();
        let before = live(&fixture);
        let create = |capture: &EagerCapture| {
            capture.outputs(|| DeviceBuffer::filled(&stream, N as usize, 5_u32))
        };
        let (graph, kept) = Graph::capture_eager_with(&stream, create).unwrap();
        drop(graph);
        assert_eq!(kept.to_vec(), Err(Error::NotYetWritten));
        assert_eq!(kept.into_raw().map(drop), Err(Error::NotYetWritten));
        let mut kept = None;
        let failed = Graph::capture_eager(&stream, |capture| {
            kept = Some(create(capture)?);
            Err(Error::NodeGone)
        });
        assert_eq!(failed.map(drop), Err(Error::NodeGone));
        assert_eq!(kept.unwrap().to_vec(), Err(Error::NotYetWritten));
        stream.synchronize().unwrap();
        expect_live(&fixture, before);
    }
}

#[test]
fn outputs_end_with_their_closure() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut kept = None;
        let panicked = |capture: &EagerCapture| {
            let outputs = || capture.outputs(|| panic!("the program"));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(outputs)).is_err()
        };
        let failed = Graph::capture_eager(&stream, |capture| {
            assert!(panicked(capture));
            kept = Some(DeviceBuffer::filled(&stream, N as usize, 5_u32)?);
            Ok(())
        });
        assert!(matches!(failed, Err(Error::OutlivesCapture { .. })));
    }
}

#[test]
fn thread_buffers_can_be_outputs() {
    for fixture in everywhere() {
        let stream = fixture.context.thread_stream();
        let mut x = ThreadBuffer::filled(&stream, N as usize, 1_u32).unwrap();
        let (graph, output) = Graph::capture_eager_with(&stream, |capture| {
            capture.outputs(|| ThreadBuffer::filled(&stream, N as usize, 5_u32))
        })
        .unwrap();
        assert_eq!(x.copy_from(&output), Err(Error::NotYetWritten));
        graph.instantiate().unwrap().launch(&stream).unwrap();
        x.copy_from(&output).unwrap();
        assert_eq!(x.to_vec().unwrap(), [5; N as usize]);
    }
}

#[test]
fn threads_read_an_output_only_after_its_launch() {
    for fixture in late_devices(24) {
        let stream = fixture.stream();
        let kernel = fixture.kernel(MIX, "mix");
        let x = filled(&stream, N, 3);
        let (graph, result) = Graph::capture_eager_with(&stream, |capture| {
            capture.outputs(|| step(&kernel, &stream, &x))
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        let has_read = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let own = fixture.stream();
                    let mut words = vec![0; N as usize];
                    loop {
                        match result.copy_to_host_on(&mut words, &own) {
                            Ok(()) => break,
                            Err(error) => assert_eq!(error, Error::NotYetWritten),
                        }
                        thread::yield_now();
                    }
                    assert_eq!(words, [7; N as usize]);
                    has_read.store(true, Ordering::Relaxed);
                });
            }
            exec.launch(&stream).unwrap();
        });
        assert!(has_read.into_inner());
    }
}

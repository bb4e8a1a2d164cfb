//! Captures of eager calls on a stream of the program.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::graph::{EagerCapture, NodeKind};
use cuda_driver::launch::{ArgList, Queue};
use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_sim::Live;

use crate::support::{COPY, Fixture, MIX, assert_all, everywhere, filled, launch_copy};

pub(crate) const N: u32 = 1 << 8;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

/// Queues `x = 2 * x + y`.
pub(crate) fn mix(
    kernel: &Function,
    stream: &Stream,
    x: &mut DeviceBuffer<u32>,
    y: &DeviceBuffer<u32>,
) -> cuda_driver::Result<()> {
    // SAFETY: the kernel must use N words of each ← the callers pass the kernel of `MIX` and
    // buffers of N words.
    unsafe { stream.launch(kernel, config(), (x, y, N)) }
}

/// Returns the number of nodes of this kind.
pub(crate) fn count(graph: &Graph, kind: NodeKind) -> usize {
    let nodes = graph.nodes().unwrap();
    nodes.iter().filter(|(_, it)| *it == kind).count()
}

#[test]
fn temporaries_become_allocation_and_free_nodes() {
    for fixture in everywhere() {
        let (stream, kernel) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let mut x = filled(&stream, N, 3);
        let graph = Graph::capture_eager(&stream, |_| {
            let mut sum = DeviceBuffer::filled(&stream, N as usize, 1_u32)?;
            for _ in 0..2 {
                let copy = x.try_clone()?;
                mix(&kernel, &stream, &mut sum, &copy)?;
            }
            x.copy_from(&sum)
        })
        .unwrap();
        assert_all(&x, 3, &fixture.name);
        assert_eq!(count(&graph, NodeKind::Alloc), 3);
        assert_eq!(count(&graph, NodeKind::Free), 3);
        assert_eq!(count(&graph, NodeKind::Kernel), 2);
        let exec = graph.instantiate().unwrap();
        let mut expected = 3_u32;
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
            expected = 2 * (2 + expected) + expected;
        }
        assert_all(&x, expected, &fixture.name);
        // The driver allows one executable of a graph that allocates memory.
        assert!(matches!(graph.instantiate(), Err(Error::Instantiate(_))));
        drop(exec);
        graph.instantiate().unwrap().launch(&stream).unwrap();
    }
}

/// The number of steps of [`program`], which launches 4 kernels in each.
const STEPS: u32 = 75;

/// Runs a program of 300 launches with temporary buffers: an inner loop of code that knows nothing
/// about graphs.
fn program(
    kernels: (&Function, &Function),
    stream: &Stream,
    x: &mut DeviceBuffer<u32>,
    input: &DeviceBuffer<u32>,
) -> cuda_driver::Result<()> {
    let (mix_kernel, copy) = kernels;
    for step in 0..STEPS {
        let mut sum = DeviceBuffer::filled(stream, N as usize, step)?;
        mix(mix_kernel, stream, &mut sum, input)?;
        mix(mix_kernel, stream, &mut sum, x)?;
        let mut next = DeviceBuffer::<u32>::zeroed(stream, N as usize)?;
        launch_copy(copy, stream, &sum, &mut next)?;
        drop(sum);
        launch_copy(copy, stream, &next, x)?;
    }
    Ok(())
}

/// Returns what `rounds` runs of [`program`] add to `x`, if the input is 3.
fn added_by(rounds: u32) -> u32 {
    let once: u32 = (0..STEPS).map(|step| 2 * (2 * step + 3)).sum();
    once.wrapping_mul(rounds)
}

pub(crate) fn live(fixture: &Fixture) -> Option<[usize; 4]> {
    let Live {
        modules,
        graphs,
        graph_execs,
        allocations,
        ..
    } = fixture.simulator.as_ref()?.live();
    Some([modules, graphs, graph_execs, allocations])
}

/// Waits until as many objects are live as before.
pub(crate) fn expect_live(fixture: &Fixture, before: Option<[usize; 4]>) {
    let start = Instant::now();
    while live(fixture) != before {
        let now = live(fixture);
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{now:?}, not {before:?}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// `CUDA_FULL=1` replays the program 10,000 times.
#[test]
fn a_long_program_replays_as_it_runs_eagerly() {
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    for fixture in everywhere() {
        let rounds: u32 = match fixture.simulator {
            Some(_) if !is_full => 20,
            _ => 10_000,
        };
        let stream = fixture.stream();
        stream.synchronize().unwrap();
        let before = live(&fixture);
        let (mix_kernel, copy) = (fixture.kernel(MIX, "mix"), fixture.kernel(COPY, "copy"));
        let mut eager = filled(&stream, N, 1);
        let mut x = filled(&stream, N, 1);
        let input = filled(&stream, N, 3);
        let kept = filled(&stream, N, 3);
        let graph = Graph::capture_eager(&stream, |_| {
            program((&mix_kernel, &copy), &stream, &mut x, &input)?;
            // The graph keeps the memory.
            drop(input);
            Ok(())
        })
        .unwrap();
        assert_eq!(count(&graph, NodeKind::Kernel), 300);
        let exec = graph.instantiate().unwrap();
        drop(graph);
        // This must not get the memory of the dropped buffer.
        let other = filled(&stream, N, 9);
        let start = Instant::now();
        for round in 0..rounds {
            exec.launch(&stream).unwrap();
            if round < 20 {
                program((&mix_kernel, &copy), &stream, &mut eager, &kept).unwrap();
                let words = x.to_vec().unwrap();
                assert_eq!(words, eager.to_vec().unwrap(), "{round}");
            }
            // A late software device would otherwise keep the work of all rounds.
            if round % 20 == 0 {
                stream.synchronize().unwrap();
            }
        }
        let taken = start.elapsed();
        println!(
            "{rounds} replays of 300 launches in {taken:?}: {}",
            fixture.name
        );
        assert_all(&x, added_by(rounds).wrapping_add(1), &fixture.name);
        assert_all(&other, 9, &fixture.name);
        drop((exec, x, eager, kept, other, mix_kernel, copy));
        stream.synchronize().unwrap();
        expect_live(&fixture, before);
    }
}

#[test]
fn frees_of_dropped_buffers_are_never_captured() {
    for fixture in everywhere() {
        let (stream, kernel) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        stream.synchronize().unwrap();
        let before = live(&fixture);
        let mut x = filled(&stream, N, 1);
        let (used, unused) = (filled(&stream, N, 5), filled(&stream, N, 6));
        let graph = Graph::capture_eager(&stream, |_| {
            mix(&kernel, &stream, &mut x, &used)?;
            drop((used, unused));
            Ok(())
        })
        .unwrap();
        assert_eq!(graph.len(), 1);
        let exec = graph.instantiate().unwrap();
        drop(graph);
        let others: Vec<_> = (0..4).map(|_| filled(&stream, N, 9)).collect();
        exec.launch(&stream).unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&x, 2 * 7 + 5, &fixture.name);
        drop((exec, x, others));
        stream.synchronize().unwrap();
        let kernels = live(&fixture).map(|[modules, ..]| modules);
        expect_live(
            &fixture,
            before.map(|[_, a, b, c]| [kernels.unwrap(), a, b, c]),
        );
    }
}

#[test]
fn buffers_of_a_capture_are_used_only_in_it() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mut x = filled(&other, N, 1);
        let mut outlives = None;
        let error = Graph::capture_eager(&stream, |capture| {
            let temporary = DeviceBuffer::filled(&stream, N as usize, 3_u32)?;
            // A copy on another stream, which is not captured.
            assert_eq!(x.copy_from(&temporary), Err(Error::MemoryOfCapture));
            let elsewhere = capture.outside(|| temporary.to_vec());
            assert_eq!(elsewhere.unwrap_err(), Error::MemoryOfCapture);
            let mut graph = Graph::new(&fixture.context)?;
            let added = graph.add_copy(&[], &mut x, &temporary);
            assert_eq!(added.unwrap_err(), Error::MemoryOfCapture);
            outlives = Some(temporary);
            Ok(())
        });
        let bytes = 4 * N as usize;
        assert_eq!(
            error.unwrap_err(),
            Error::OutlivesCapture { buffers: 1, bytes }
        );
        let mut outlives = outlives.unwrap();
        assert_eq!(outlives.to_vec(), Err(Error::MemoryOfCapture));
        assert_eq!(outlives.fill(1), Err(Error::MemoryOfCapture));
        let raw = outlives.into_raw();
        assert_eq!(raw.unwrap_err(), Error::MemoryOfCapture);
        assert_all(&x, 1, &fixture.name);
    }
}

#[test]
fn a_buffer_made_outside_outlives_the_capture() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut result = None;
        let graph = Graph::capture_eager(&stream, |capture| {
            let mut made = capture.outside(|| DeviceBuffer::<u32>::zeroed(&stream, N as usize))?;
            let sent = DeviceBuffer::filled(&stream, N as usize, 8_u32)?;
            made.copy_from(&sent)?;
            // A buffer that is dropped on another thread, or outside, is freed at the end.
            thread::spawn(move || drop(sent)).join().unwrap();
            let dropped = DeviceBuffer::<u32>::zeroed(&stream, N as usize)?;
            capture.outside(|| drop(dropped));
            result = Some(made);
            Ok(())
        })
        .unwrap();
        let result = result.unwrap();
        assert_all(&result, 0, &fixture.name);
        assert_eq!(count(&graph, NodeKind::Alloc), 2);
        assert_eq!(count(&graph, NodeKind::Free), 2);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&result, 8, &fixture.name);
    }
}

#[test]
fn every_kind_of_captured_call_replays() {
    for fixture in everywhere() {
        let (stream, kernel) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let driver = fixture.context.driver().clone();
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 5));
        let (mut copied, joined) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let mut rows = PitchedBuffer::<u32>::zeroed(&stream, (5, 3)).unwrap();
        let mut same = PitchedBuffer::<u32>::zeroed(&stream, (5, 3)).unwrap();
        let mut triples = DeviceBuffer::<[u32; 3]>::zeroed(&stream, 9).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&calls);
        let bytes = 4 * N as usize;
        let graph = Graph::capture_eager(&stream, |capture| {
            let mut args = ArgList::new();
            args.push(&mut x).push(&y).push(N);
            // SAFETY: the kernel uses N words of each; each has N.
            unsafe { stream.launch(&kernel, config(), &args) }?;
            let (to, from) = (copied.as_raw(), x.as_raw());
            let queue = |raw| {
                // SAFETY: both buffers have as many bytes.
                unsafe { driver.library().cuMemcpyDtoDAsync_v2(to, from, bytes, raw) }
            };
            // SAFETY: the copy reads `x` and writes `copied`, on the stream that it receives.
            let status = unsafe { stream.using((&mut copied, &x), queue) }?;
            assert_eq!(status, Status::CUDA_SUCCESS);
            let to = joined.as_raw();
            let queue = |raw| {
                // SAFETY: as above.
                unsafe { driver.library().cuMemcpyDtoDAsync_v2(to, from, bytes, raw) }
            };
            // SAFETY: as above; both buffers live until the end of this program.
            let status = unsafe { capture.foreign(queue) }?;
            assert_eq!(status, Status::CUDA_SUCCESS);
            rows.fill(7)?;
            same.as_mut_slice().copy_from(&rows.as_slice())?;
            // A value that takes several driver calls.
            triples.fill([1, 2, 3])?;
            Queue::host(&stream, move || {
                seen.fetch_add(1, Ordering::SeqCst);
            })?;
            capture
                .with_scope(|scope| scope.fill(&mut x, 2_u32))
                .map(drop)
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        for round in 1..4 {
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            let expected = if round == 1 { 7 } else { 9 };
            assert_all(&copied, expected, &fixture.name);
            assert_all(&joined, expected, &fixture.name);
            assert_all(&x, 2, &fixture.name);
            assert_eq!(same.to_vec().unwrap(), [7; 15]);
            assert_eq!(triples.to_vec().unwrap(), [[1, 2, 3]; 9]);
            assert_eq!(calls.load(Ordering::SeqCst), round);
            // A use between the launches is ordered with them.
            copied.fill(0).unwrap();
        }
    }
}

#[test]
fn a_panic_ends_the_capture() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Graph::capture_eager(&stream, |_| {
                x.fill(2)?;
                // SAFETY: the closure queues nothing.
                unsafe { stream.using((&x,), |_| panic!("other code")) }
            })
        }));
        assert!(panicked.is_err());
        x.fill(3).unwrap();
        assert_all(&x, 3, &fixture.name);
        // A capture can begin again, and an error of the program ends it.
        let failed = Graph::capture_eager(&stream, |_| {
            x.fill(4)?;
            Err(Error::NodeGone)
        });
        assert_eq!(failed.unwrap_err(), Error::NodeGone);
        assert_all(&x, 3, &fixture.name);
        let capture = EagerCapture::begin(&stream).unwrap();
        // SAFETY: the closure queues nothing.
        let ended = unsafe { stream.using((&x,), |_| capture.end()) };
        assert!(matches!(ended, Ok(Err(Error::StillInUse { .. }))));
        assert_all(&x, 3, &fixture.name);
    }
}

#[test]
fn default_streams_can_be_captured() {
    for fixture in everywhere() {
        for stream in [
            fixture.context.default_stream().unwrap(),
            fixture.context.legacy_stream(),
            fixture.context.per_thread_stream(),
        ] {
            let mut x = filled(&stream, N, 1);
            let graph = Graph::capture_eager(&stream, |_| {
                let two = DeviceBuffer::filled(&stream, N as usize, 2_u32)?;
                x.copy_from(&two)
            })
            .unwrap();
            assert_all(&x, 1, &fixture.name);
            graph.instantiate().unwrap().launch(&stream).unwrap();
            assert_all(&x, 2, &fixture.name);
        }
    }
}

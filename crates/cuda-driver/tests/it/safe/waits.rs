//! Every call in which the host waits returns the violations of the launches that it waited for.

use std::time::Duration;

use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::memory::{ManagedBuffer, PinnedFlags};
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeKernel, SafeLaunch};
use cuda_driver::stream::StreamPool;
use cuda_driver::{Error, Result};

use super::surfaces::MARK;
use super::{STORE, kernel, violation, violations};
use crate::support::{Fixture, block, everywhere, filled};
use crate::task::{LIMIT, block_on};

/// A time limit that is never reached.
const LONG: Duration = Duration::from_secs(20);

/// A stream, a kernel that stores 1, and 4 words that are 9.
struct Bench<'a> {
    fixture: &'a Fixture,
    stream: &'a Stream,
    store: SafeKernel,
    x: DeviceBuffer<u32>,
}

impl<'a> Bench<'a> {
    fn new(fixture: &'a Fixture, stream: &'a Stream) -> Self {
        Self {
            fixture,
            stream,
            store: kernel(fixture, STORE, "store"),
            x: filled(stream, 4, 9),
        }
    }

    /// Launches a kernel that tries to store outside of `x`, at byte 100.
    fn violate(&mut self) -> SafeLaunch<'a> {
        violate(self.stream, &self.store, &mut self.x)
    }

    fn pinned(&self, value: u32) -> PinnedBuffer<u32> {
        let words = [value; 4];
        PinnedBuffer::from_host(&self.fixture.context, &words, PinnedFlags::DEFAULT).unwrap()
    }
}

/// Launches a kernel that tries to store outside of `x`, at byte 100.
fn violate<'a>(
    stream: &'a Stream,
    store: &SafeKernel,
    x: &mut DeviceBuffer<u32>,
) -> SafeLaunch<'a> {
    let args = (x, 100_u64, 1_u32);
    let launch = stream.launch_safe(store, LaunchConfig::new(1, 1), args);
    let launch = launch.unwrap();
    assert!(launch.is_checked());
    launch
}

/// A call that waits. Returns the results of two waits after a launch with one violation, and
/// asserts that the first one did its work.
type Call = fn(&mut Bench<'_>) -> [Result<()>; 2];

/// Fails unless the words are those that the kernel did not change.
fn expect_words(words: Result<Vec<u32>>) -> Result<()> {
    words.map(|words| assert_eq!(words, [9; 4]))
}

/// The calls that wait for a stream, an event, a context or a launch.
const POINTS: &[(&str, Call)] = &[
    ("SafeLaunch::wait", |bench| {
        let launch = bench.violate();
        [launch.wait(), launch.wait()]
    }),
    ("SafeLaunch::wait_timeout", |bench| {
        let launch = bench.violate();
        let wait = || launch.wait_timeout(LONG).map(|is_done| assert!(is_done));
        [wait(), wait()]
    }),
    ("SafeLaunch", |bench| {
        let launch = bench.violate();
        let first = block_on((&launch).into_future(), LIMIT);
        [first, block_on(launch.into_future(), LIMIT)]
    }),
    ("SafeLaunch::completion", |bench| {
        let launch = bench.violate();
        [launch.completion().wait(), launch.completion().wait()]
    }),
    ("Stream::synchronize", |bench| {
        bench.violate();
        [bench.stream.synchronize(), bench.stream.synchronize()]
    }),
    ("Stream::synchronize_timeout", |bench| {
        bench.violate();
        let wait = || bench.stream.synchronize_timeout(LONG);
        [wait(), wait()].map(|result| result.map(|is_done| assert!(is_done)))
    }),
    ("Stream::completion", |bench| {
        bench.violate();
        let completion = || bench.stream.completion();
        [completion().wait(), completion().wait()]
    }),
    ("Stream", |bench| {
        bench.violate();
        let stream = bench.stream;
        let wait = || block_on(stream.into_future(), LIMIT);
        [wait(), wait()]
    }),
    ("StreamPool::synchronize", |bench| {
        let pool = StreamPool::new(&bench.fixture.context, 2, 0).unwrap();
        let [one, other] = pool.streams() else {
            panic!("two streams");
        };
        drop(violate(other, &bench.store, &mut bench.x));
        drop(violate(one, &bench.store, &mut bench.x));
        let both = violations(pool.synchronize());
        assert_eq!(both.len(), 2);
        bench.violate();
        [bench.stream.synchronize(), pool.synchronize()]
    }),
    ("Event::synchronize", |bench| {
        bench.violate();
        let event = bench.stream.record_event().unwrap();
        [event.synchronize(), event.synchronize()]
    }),
    ("Event::synchronize_timeout", |bench| {
        bench.violate();
        let event = bench.stream.record_event().unwrap();
        let wait = || event.synchronize_timeout(LONG);
        [wait(), wait()].map(|result| result.map(|is_done| assert!(is_done)))
    }),
    ("Event::completion", |bench| {
        bench.violate();
        let event = bench.stream.record_event().unwrap();
        [event.completion().wait(), event.completion().wait()]
    }),
    ("Event", |bench| {
        bench.violate();
        let event = bench.stream.record_event().unwrap();
        let wait = || block_on((&event).into_future(), LIMIT);
        [wait(), wait()]
    }),
    ("Context::synchronize", |bench| {
        bench.violate();
        let context = &bench.fixture.context;
        [context.synchronize(), context.synchronize()]
    }),
    ("HostCall::wait", |bench| {
        bench.violate();
        let call = || bench.stream.launch_host(|| {}).unwrap().wait();
        [call(), call()]
    }),
    ("HostCall", |bench| {
        bench.violate();
        let call = || block_on(bench.stream.launch_host(|| {}).unwrap(), LIMIT);
        [call(), call()]
    }),
];

/// The calls that read memory which a launch used, or wait for it.
const READS: &[(&str, Call)] = &[
    ("DeviceBuffer::to_vec", |bench| {
        bench.violate();
        [(); 2].map(|()| expect_words(bench.x.to_vec()))
    }),
    ("DeviceBuffer::copy_to_host", |bench| {
        bench.violate();
        let mut words = [0; 4];
        let first = bench.x.copy_to_host(&mut words);
        assert_eq!(words, [9; 4]);
        [first, bench.x.copy_to_host(&mut words)]
    }),
    ("DeviceBuffer::copy_to_host_on", |bench| {
        bench.violate();
        let other = bench.fixture.stream();
        let mut words = [0; 4];
        let first = bench.x.copy_to_host_on(&mut words, &other);
        assert_eq!(words, [9; 4]);
        [first, bench.x.copy_to_host_on(&mut words, &other)]
    }),
    ("a view of another part", |bench| {
        let mut part = bench.x.slice_mut(..2).unwrap();
        let args = (&mut part, 100_u64, 1_u32);
        let launch = bench
            .stream
            .launch_safe(&bench.store, LaunchConfig::new(1, 1), args);
        drop(launch.unwrap());
        [(); 2].map(|()| {
            let words = bench.x.slice(2..).unwrap().to_vec();
            words.map(|words| assert_eq!(words, [9; 2]))
        })
    }),
    ("DeviceBuffer::copy_to_pinned", |bench| {
        bench.violate();
        let mut words = bench.pinned(0);
        let first = bench.x.copy_to_pinned(&mut words);
        assert_eq!(words[..], [9; 4]);
        [first, bench.x.copy_to_pinned(&mut words)]
    }),
    ("DeviceBuffer::copy_from_pinned", |bench| {
        bench.violate();
        let words = bench.pinned(9);
        let first = bench.x.copy_from_pinned(&words);
        [first, bench.x.copy_from_pinned(&words)]
    }),
    ("Transfer::wait", |bench| {
        bench.violate();
        let words = bench.pinned(0);
        let first = bench.x.copy_to_pinned_async(words, bench.stream).unwrap();
        let error = first.wait().unwrap_err();
        let first = Err(error.error().clone());
        // The copy is complete, and its memory is not in use.
        let words = error.into_memory().unwrap();
        assert_eq!(words[..], [9; 4]);
        let second = bench.x.copy_to_pinned_async(words, bench.stream).unwrap();
        [first, second.wait().map(drop).map_err(Error::from)]
    }),
    ("Transfer", |bench| {
        bench.violate();
        let words = bench.pinned(0);
        let first = bench.x.copy_to_pinned_async(words, bench.stream).unwrap();
        let error = block_on(first, LIMIT).unwrap_err();
        let first = Err(error.error().clone());
        let words = error.into_memory().unwrap();
        assert_eq!(words[..], [9; 4]);
        let second = bench.x.copy_to_pinned_async(words, bench.stream).unwrap();
        let second = block_on(second, LIMIT);
        [first, second.map(drop).map_err(Error::from)]
    }),
    ("a transfer within the device", |bench| {
        bench.violate();
        let mut y = filled(bench.stream, 4, 0);
        let mut copy = || y.copy_from_async(&bench.x, bench.stream).unwrap();
        let results = [copy(), copy()].map(|copy| copy.wait().map_err(Error::from));
        expect_words(y.to_vec()).unwrap();
        results
    }),
    ("Stream::copy_scope", |bench| {
        bench.violate();
        let mut words = bench.pinned(0);
        let copy = |words: &mut PinnedBuffer<u32>| {
            bench
                .stream
                .copy_scope(|scope| scope.copy_to_host(&bench.x, words))
        };
        let first = copy(&mut words);
        assert_eq!(words[..], [9; 4]);
        [first, copy(&mut words)]
    }),
    ("CopyScope::batch", |bench| {
        bench.violate();
        let mut words = bench.pinned(0);
        let copy = |words: &mut PinnedBuffer<u32>| {
            bench.stream.copy_scope(|scope| {
                let mut batch = scope.batch();
                batch.copy_to_host(&bench.x, words)?;
                batch.queue()
            })
        };
        let first = copy(&mut words);
        assert_eq!(words[..], [9; 4]);
        [first, copy(&mut words)]
    }),
];

fn try_all(calls: &[(&str, Call)], is_elsewhere: bool) {
    for fixture in everywhere() {
        for (name, call) in calls {
            let (stream, other) = (fixture.stream(), fixture.stream());
            let mut bench = Bench::new(&fixture, &stream);
            if is_elsewhere {
                // The launch is on a stream that is not that of the buffer.
                bench.stream = &other;
            }
            let name = format!("{}: {name}", fixture.name);
            println!("{name}");
            let [first, second] = call(&mut bench);
            assert_eq!(violation(first).offset, 100, "{name}");
            assert!(second.is_ok(), "{name}: {second:?}");
            // No other call reports it again.
            expect_words(bench.x.to_vec()).unwrap();
            stream.synchronize().unwrap();
            other.synchronize().unwrap();
        }
    }
}

#[test]
fn waits_for_points_report_once() {
    try_all(POINTS, false);
}

#[test]
fn reads_report_once_and_do_their_work() {
    try_all(READS, false);
}

#[test]
fn reads_report_launches_on_other_streams() {
    try_all(READS, true);
}

#[test]
fn the_host_of_managed_memory_gets_violations() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let store = kernel(&fixture, STORE, "store");
        let mut x = ManagedBuffer::from_host(&stream, &[9_u32; 4]).unwrap();
        if fixture
            .context
            .device()
            .has_concurrent_managed_access()
            .unwrap()
        {
            for stream in [&stream, &other] {
                let config = LaunchConfig::new(1, 1);
                let violate = |x: &mut ManagedBuffer<u32>| {
                    let launch = stream.launch_safe(&store, config, (x, 100_u64, 1_u32));
                    assert!(launch.unwrap().is_checked());
                };
                violate(&mut x);
                assert_eq!(violation(x.host()).offset, 100, "{}", fixture.name);
                assert_eq!(x.host().unwrap(), [9; 4]);
                violate(&mut x);
                assert_eq!(violation(x.host_mut()).offset, 100);
                assert_eq!(x.host_mut().unwrap(), [9; 4]);
            }
        }
        let launch = other.launch_safe(&store, LaunchConfig::new(1, 1), (&mut x, 100_u64, 1_u32));
        drop(launch.unwrap());
        let sum = |x: &mut ManagedBuffer<u32>| x.with_host(|words| words.iter().sum::<u32>());
        assert_eq!(violation(sum(&mut x)).offset, 100, "{}", fixture.name);
        assert_eq!(sum(&mut x).unwrap(), 36);
    }
}

#[test]
fn reading_an_array_reports_the_launches_that_used_it() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mark = kernel(&fixture, MARK, "mark");
        let shape = cuda_driver::texture::ArrayShape::two_d(4, 4);
        let mut array =
            super::surfaces::counted(&stream, &shape, cuda_driver::texture::ArrayFlags::SURFACE);
        let at = DeviceBuffer::from_host(&other, &[0_u32, 0, 16, 0]).unwrap();
        let before = array.to_vec().unwrap();
        let surface = array.surface_mut().unwrap();
        let launch = other.launch_safe(&mark, LaunchConfig::new(1, 32), (surface, &at, 2_u32));
        assert!(launch.unwrap().is_checked());
        assert_eq!(violation(array.to_vec()).thread, [1, 0, 0]);
        let after = array.to_vec().unwrap();
        assert_eq!((after[0], &after[1..]), (1, &before[1..]));
    }
}

#[test]
fn the_host_buffer_of_a_graph_reports_its_replays() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        let words = PinnedBuffer::from_host(&fixture.context, &[0_u32; 4], PinnedFlags::DEFAULT);
        let words = GraphHostBuffer::new(words.unwrap()).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let args = (&mut x, 100_u64, 1_u32);
        let config = LaunchConfig::new(1, 1);
        graph.add_kernel_safe(&[], &store, config, args).unwrap();
        graph.add_copy(&[], &words, &x).unwrap();
        let exec = graph.instantiate().unwrap();
        for _ in 0..2 {
            exec.launch(&stream).unwrap();
            assert_eq!(violation(words.read().map(drop)).offset, 100);
            assert_eq!(words.read().unwrap()[..], [9; 4]);
            stream.synchronize().unwrap();
        }
        // The memory of the kernel, on another stream.
        let other = fixture.stream();
        exec.launch(&other).unwrap();
        assert_eq!(violation(x.to_vec()).offset, 100);
        expect_words(x.to_vec()).unwrap();
        other.synchronize().unwrap();
    }
}

#[test]
fn waits_report_only_what_they_waited_for() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mut bench = Bench::new(&fixture, &stream);
        let before = stream.record_event().unwrap();
        drop(bench.violate());
        let after = stream.record_event().unwrap();
        let y = filled(&other, 4, 9);
        // An earlier event, another stream, and memory that the launch did not use.
        before.synchronize().unwrap();
        other.synchronize().unwrap();
        expect_words(y.to_vec()).unwrap();
        let launch = violate(&other, &bench.store, &mut filled(&other, 4, 9));
        assert_eq!(violation(after.synchronize()).offset, 100);
        stream.synchronize().unwrap();
        assert_eq!(violation(launch.wait()).offset, 100);
        fixture.context.synchronize().unwrap();
    }
}

#[test]
fn queries_and_drops_report_nothing() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut bench = Bench::new(&fixture, &stream);
        let launch = bench.violate();
        let event = stream.record_event().unwrap();
        let completion = stream.completion();
        let call = stream.launch_host(|| {}).unwrap();
        let copy = bench.x.copy_to_pinned_async(bench.pinned(0), &stream);
        let copy = copy.unwrap();
        while !(stream.is_done().unwrap() && copy.is_done().unwrap()) {
            std::thread::yield_now();
        }
        assert!(event.is_done().unwrap());
        assert!(call.is_done() || !call.is_done());
        completion.is_done().unwrap();
        drop((launch, event, completion, call, copy));
        bench.x.copy_from_host(&[9; 4]).unwrap();
        assert_eq!(violation(stream.synchronize()).offset, 100);
    }
}

#[test]
fn a_wait_ends_before_later_work_that_waits_for_the_host() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut bench = Bench::new(&fixture, &stream);
        let first = bench.violate();
        let second = bench.violate();
        let event = stream.record_event().unwrap();
        let sender = block(&stream);
        let behind = bench.violate();
        let short = Duration::from_millis(5);
        assert!(!behind.wait_timeout(short).unwrap(), "{}", fixture.name);
        // All these would hang if they waited for the stream.
        assert_eq!(violation(first.wait()).offset, 100);
        assert_eq!(violation(event.synchronize()).offset, 100);
        second.wait().unwrap();
        assert!(!behind.wait_timeout(short).unwrap());
        drop(sender);
        assert_eq!(violation(behind.wait()).offset, 100);
        stream.synchronize().unwrap();
    }
}

#[test]
fn an_unchecked_launch_can_be_waited_for() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut bench = Bench::new(&fixture, &stream);
        drop(bench.violate());
        let args = (&mut bench.x, 4_u64, 1_u32);
        let launch = stream.launch_safe(&bench.store, LaunchConfig::new(1, 1), args);
        let launch = launch.unwrap();
        assert!(!launch.is_checked());
        // The launch before it.
        assert_eq!(
            violation(block_on((&launch).into_future(), LIMIT)).offset,
            100
        );
        launch.wait().unwrap();
        assert!(launch.wait_timeout(LONG).unwrap());
        assert_eq!(bench.x.to_vec().unwrap(), [9, 1, 9, 9]);
    }
}

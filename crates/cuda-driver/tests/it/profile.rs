//! The profiler, on software devices and on a GPU.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::memory::MemoryPool;
use cuda_driver::prelude::*;
use cuda_driver::profile::{Profile, Profiler};
use cuda_driver::stream::WorkKind;
use cuda_sim::Builder;

use crate::support::{
    COPY, Fixture, count_calls, everywhere, filled, late, launch_copy, new_stream, software,
};
use crate::trace_check;

/// Returns how often each kind of work was observed.
fn counts(profile: &Profile) -> BTreeMap<WorkKind, usize> {
    let mut counts = BTreeMap::new();
    for operation in profile.operations() {
        *counts.entry(operation.kind()).or_default() += 1;
    }
    counts
}

/// Queues work of each kind on `stream`.
pub(crate) fn work(fixture: &Fixture, stream: &Stream) {
    let copy = fixture.kernel(COPY, "copy");
    let mut pinned =
        PinnedBuffer::<u32>::zeroed(&fixture.context, 1024, PinnedFlags::empty()).unwrap();
    let mut from = DeviceBuffer::<u32>::zeroed(stream, 1024).unwrap();
    from.as_mut_slice().copy_from_pinned(&pinned).unwrap();
    let mut to = filled(stream, 1024, 3);
    for _ in 0..5 {
        launch_copy(&copy, stream, &from, &mut to).unwrap();
    }
    to.as_mut_slice().copy_from_on(&from, stream).unwrap();
    to.as_slice().copy_to_pinned(&mut pinned).unwrap();
    stream.launch_host(|| ()).unwrap().wait().unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    let config = LaunchConfig::new(4, 256);
    // SAFETY: the kernel reads 1024 words of `from`, and writes as many of `to`.
    unsafe { graph.add_kernel(&[], &copy, config, (&from, &mut to, 1024_u32)) }.unwrap();
    graph.instantiate().unwrap().launch(stream).unwrap();
}

#[test]
fn each_kind_of_work_is_observed_and_timed() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let profiler = Profiler::start(&fixture.context).unwrap();
        work(&fixture, &stream);
        let profile = profiler.finish().unwrap();
        let expected = BTreeMap::from([
            (WorkKind::Kernel, 5),
            // The words of `filled` come from a slice.
            (WorkKind::CopyToDevice, 2),
            (WorkKind::CopyToHost, 1),
            (WorkKind::CopyOnDevice, 1),
            (WorkKind::Fill, 1),
            (WorkKind::Graph, 1),
            (WorkKind::HostFunction, 1),
        ]);
        assert_eq!(counts(&profile), expected, "{}", fixture.name);
        assert_eq!((profile.streams().len(), profile.threads().len()), (1, 1));
        for operation in profile.operations() {
            assert!(operation.duration().is_some(), "{operation:?}");
            assert!(
                operation.start().unwrap() >= operation.queued(),
                "{operation:?}"
            );
            assert!(operation.call() > Duration::ZERO);
            assert_eq!(
                (operation.stream(), operation.thread(), operation.range()),
                (0, 0, None)
            );
        }
        let summaries = profile.summaries();
        let of = |name: &str| summaries.iter().find(|it| it.name() == name).unwrap();
        let copy = of("copy");
        assert_eq!(
            (copy.count(), copy.kind(), copy.bytes()),
            (5, WorkKind::Kernel, 5 * 8192)
        );
        let function = fixture.kernel(COPY, "copy");
        assert_eq!(copy.registers(), Some(function.registers().unwrap()));
        assert_eq!(copy.local_bytes(), Some(function.local_bytes().unwrap()));
        assert_eq!(
            copy.shared_bytes(),
            Some(function.static_shared_bytes().unwrap())
        );
        let shape = copy.config().unwrap();
        assert_eq!(shape, LaunchConfig::for_num_elems(1024).unwrap());
        let blocks = function.max_active_blocks(256, 0).unwrap() * 256;
        let most = fixture
            .context
            .device()
            .max_threads_per_multiprocessor()
            .unwrap();
        let occupancy = copy.occupancy().unwrap();
        assert!(
            (occupancy - blocks as f32 / most as f32).abs() < 1e-6,
            "{occupancy}"
        );
        assert!(copy.min() <= copy.mean() && copy.mean() <= copy.max() && copy.p95() <= copy.max());
        assert_eq!(of("fill").bytes(), 4096);
        assert_eq!(of("a graph (copy)").count(), 1);
        let table = profile.table();
        assert!(
            table.contains("a graph (copy)") && table.contains("host function"),
            "{table}"
        );
    }
}

/// The profiler adds calls for events only, and waits for nothing until it is finished.
#[test]
fn a_profiler_waits_for_nothing_and_keeps_the_order() {
    let calls = |is_on: bool| {
        let fixture = software(late(5).trace(true));
        let stream = fixture.stream();
        let copy = fixture.kernel(COPY, "copy");
        let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
        stream.synchronize().unwrap();
        let profiler = is_on.then(|| Profiler::start(&fixture.context).unwrap());
        let simulator = fixture.simulator.as_ref().unwrap();
        drop(simulator.take_trace());
        for _ in 0..20 {
            launch_copy(&copy, &stream, &from, &mut to).unwrap();
            to.as_mut_slice().copy_from_on(&from, &stream).unwrap();
        }
        let names: Vec<_> = simulator
            .take_trace()
            .iter()
            .map(|it| it.function.base)
            .collect();
        stream.synchronize().unwrap();
        let profile = profiler.map(|it| it.finish().unwrap());
        assert_eq!(profile.map(|it| it.operations().len()), is_on.then_some(40));
        names
    };
    let (without, with) = (calls(false), calls(true));
    assert!(
        with.iter().all(|name| !name.contains("Synchronize")),
        "{with:?}"
    );
    // The profiler queries the resources of a kernel at its first launch.
    const OF_PROFILER: [&str; 6] = [
        "cuFuncGetAttribute",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuDeviceGetAttribute",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
    ];
    let is_of_profiler = |name: &&&'static str| {
        let is_known = OF_PROFILER.iter().any(|it| *it == **name);
        name.starts_with("cuEvent") || is_known || name.contains("CaptureMode")
    };
    let others: Vec<_> = with.iter().filter(|name| !is_of_profiler(name)).collect();
    let expected: Vec<_> = without
        .iter()
        .filter(|name| !is_of_profiler(name))
        .collect();
    assert_eq!(others, expected);
    assert_eq!(
        with.iter().filter(|name| **name == "cuEventRecord").count(),
        80
    );
}

#[test]
fn nothing_is_left_when_a_profiler_ends() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let simulator = fixture.simulator.as_ref().unwrap();
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    let before = count_calls(simulator, "cuEventCreate");
    let profiler = Profiler::start(&fixture.context).unwrap();
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    drop(profiler);
    let created = count_calls(simulator, "cuEventCreate") - before;
    assert!(created > 0);
    let recorded = count_calls(simulator, "cuEventRecord");
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    assert_eq!(count_calls(simulator, "cuEventRecord"), recorded);
    // Its events were destroyed.
    assert_eq!(count_calls(simulator, "cuEventDestroy_v2"), created);
    Profiler::start(&fixture.context).unwrap().finish().unwrap();
}

#[test]
fn ranges_nest_and_add_up() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = filled(&stream, 1024, 1);
        let profiler = Profiler::start(&fixture.context).unwrap();
        profiler.range("outer", || {
            buffer.fill(1).unwrap();
            profiler.range("inner", || buffer.fill(2).unwrap());
            buffer.fill(3).unwrap();
        });
        buffer.fill(4).unwrap();
        let profile = profiler.finish().unwrap();
        let [outer, inner] = profile.ranges() else {
            panic!("{:?}", profile.ranges())
        };
        assert_eq!((outer.name(), inner.name()), ("outer", "inner"));
        assert_eq!((outer.parent(), inner.parent()), (None, Some(0)));
        assert!(outer.start() <= inner.start() && inner.duration() <= outer.duration());
        let ranges: Vec<_> = profile.operations().iter().map(|it| it.range()).collect();
        assert_eq!(ranges, [Some(0), Some(1), Some(0), None]);
        let times = profile.operations()[..3]
            .iter()
            .map(|it| it.duration().unwrap());
        assert_eq!(profile.time_of_range(0), times.sum());
        let own = profile.operations()[1].duration().unwrap();
        assert_eq!(profile.time_of_range(1), own);
        assert!(profile.table().contains("  inner"));
    }
}

#[test]
fn memory_of_a_pool_is_counted_in_a_profile() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let pool = MemoryPool::new(fixture.context.device()).unwrap();
        let profiler = Profiler::start(&fixture.context).unwrap();
        drop(DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 64).unwrap());
        let profile = profiler.finish().unwrap();
        let changes: Vec<i64> = profile.memory().iter().map(|it| it.change()).collect();
        assert_eq!(changes, [256, -256], "{}", fixture.name);
    }
}

#[test]
fn the_trace_of_two_streams_is_valid() {
    for fixture in everywhere() {
        let profiler = Profiler::start(&fixture.context).unwrap();
        // These streams are created after the profiler.
        let (one, two) = (fixture.stream(), fixture.stream());
        work(&fixture, &one);
        work(&fixture, &two);
        let buffer = filled(&one, 1 << 18, 1);
        drop(buffer);
        let profile = profiler.finish().unwrap();
        assert_eq!(profile.streams().len(), 2, "{}", fixture.name);
        let trace = profile.trace();
        serde_json::from_str::<serde_json::Value>(&trace).unwrap();
        let counts = trace_check::check(&trace).unwrap();
        let operations = profile.operations().len();
        assert_eq!((counts["s"], counts["f"]), (operations, operations));
        assert_eq!(
            (counts["X"], counts["C"]),
            (2 * operations, profile.memory().len())
        );
        let changes: i64 = profile.memory().iter().map(|it| it.change()).sum();
        assert_eq!(profile.memory().last().unwrap().allocated(), changes);
        let most = profile.memory().iter().map(|it| it.allocated()).max();
        assert!(most.unwrap() >= 1 << 20);
        let mut file = Vec::new();
        profile.write_trace(&mut file).unwrap();
        assert_eq!(file, trace.as_bytes());
        assert!(
            profile
                .html()
                .contains(profile.device().split('"').next().unwrap())
        );
    }
}

#[test]
fn a_profiler_of_a_stream_ignores_other_streams() {
    for fixture in everywhere() {
        let (one, two) = (fixture.stream(), fixture.stream());
        let (mut a, mut b) = (filled(&one, 64, 1), filled(&two, 64, 1));
        let profiler = Profiler::start_on(&one).unwrap();
        a.fill(2).unwrap();
        b.fill(2).unwrap();
        assert_eq!(profiler.finish().unwrap().operations().len(), 1);
    }
}

#[test]
fn default_streams_of_c_are_observed() {
    for fixture in everywhere() {
        let legacy = fixture.context.legacy_stream();
        let profiler = Profiler::start(&fixture.context).unwrap();
        let per_thread = fixture.context.per_thread_stream();
        for stream in [&legacy, &per_thread] {
            drop(filled(stream, 64, 1));
        }
        let profile = profiler.finish().unwrap();
        assert_eq!(
            profile.streams().len(),
            2,
            "{}: {:?}",
            fixture.name,
            profile.streams()
        );
        assert_eq!(profile.streams()[0], "legacy stream");
        assert!(
            profile
                .operations()
                .iter()
                .all(|it| it.duration().is_some())
        );
    }
}

#[test]
fn a_second_profiler_of_a_context_is_an_error() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let profiler = Profiler::start(&fixture.context).unwrap();
    let error = Profiler::start(&fixture.context).unwrap_err();
    assert!(error.to_string().contains("a second profiler"), "{error}");
    Profiler::start_on(&stream).unwrap_err();
    drop(profiler);
    Profiler::start_on(&stream).unwrap();
}

#[test]
fn collect_returns_what_is_complete() {
    let fixture = software(late(2));
    let stream = fixture.stream();
    let mut buffer = filled(&stream, 64, 1);
    stream.synchronize().unwrap();
    let profiler = Profiler::start(&fixture.context).unwrap();
    let gate = crate::support::block(&stream);
    buffer.fill(2).unwrap();
    assert_eq!(profiler.collect().operations().len(), 0);
    drop(gate);
    stream.synchronize().unwrap();
    assert_eq!(profiler.collect().operations().len(), 2);
    assert_eq!(profiler.finish().unwrap().operations().len(), 2);
}

#[test]
fn threads_are_observed_at_the_same_time() {
    for fixture in everywhere() {
        let profiler = Profiler::start(&fixture.context).unwrap();
        let shared = fixture.stream();
        thread::scope(|scope| {
            for at in 0..16_u32 {
                let (context, shared, profiler) = (&fixture.context, &shared, &profiler);
                scope.spawn(move || {
                    let own = new_stream(context);
                    let mut buffers = [filled(&own, 64, at), filled(shared, 64, at)];
                    for _ in 0..20 {
                        profiler.range("step", || {
                            buffers.iter_mut().for_each(|it| it.fill(at).unwrap());
                        });
                    }
                });
            }
        });
        let profile = profiler.finish().unwrap();
        assert_eq!(
            counts(&profile)[&WorkKind::Fill],
            16 * 2 * 20,
            "{}",
            fixture.name
        );
        assert_eq!((profile.threads().len(), profile.streams().len()), (16, 17));
        assert_eq!(profile.ranges().len(), 16 * 20);
        trace_check::check(&profile.trace()).unwrap();
    }
}

#[test]
fn a_lost_device_ends_the_profiler_with_the_fault() {
    let fixture = software(late(1));
    let stream = fixture.stream();
    let trap = fixture.kernel(include_str!("kernels/trap.ptx"), "late_trap");
    let profiler = Profiler::start(&fixture.context).unwrap();
    // SAFETY: the kernel touches no memory. It traps, which loses the software device.
    unsafe { stream.launch(&trap, LaunchConfig::new(1, 1), (10_u64,)) }.unwrap();
    let error = profiler.finish().unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(error.to_string().contains("late_trap"), "{error}");
}

#[test]
fn a_stream_that_other_code_captures_is_not_timed() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = filled(&stream, 64, 1);
        stream.synchronize().unwrap();
        let profiler = Profiler::start(&fixture.context).unwrap();
        let driver = fixture.context.driver().library();
        let mode = cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        let status = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
        assert!(status.is_success());
        let filled = buffer.fill(2);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive, and the pointer is to a local.
        let status = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
        println!("{}: {filled:?}, {status}", fixture.name);
        if !graph.is_null() {
            // SAFETY: the graph was created just now.
            let _ = unsafe { driver.cuGraphDestroy(graph) };
        }
        let profile = profiler.finish().unwrap();
        assert!(
            profile
                .operations()
                .iter()
                .all(|it| it.duration().is_none())
        );
    }
}

/// Once 4,096 operations of a stream are pending, a thread reads earlier ones.
#[test]
fn a_long_run_is_read_while_it_is_queued() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let mut buffer = filled(&stream, 64, 1);
    let profiler = Profiler::start(&fixture.context).unwrap();
    let mut at = 0_u32;
    let mut fill = |count: u32| {
        for _ in 0..count {
            at += 1;
            buffer.fill(at).unwrap();
        }
        stream.synchronize().unwrap();
    };
    let read = || count_calls(simulator, "cuEventElapsedTime");
    fill(4000);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(read(), 0);
    fill(1000);
    let start = Instant::now();
    // The first 4,000 had run when the thread was woken. Of the others it reads those that had.
    while read() < 2 * 4000 {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{} reads",
            read()
        );
        thread::sleep(Duration::from_millis(1));
    }
    // The events that were read are recorded again.
    fill(4000);
    let created = count_calls(simulator, "cuEventCreate");
    assert!(created < 11_000, "{created} events");
    let profile = profiler.finish().unwrap();
    let operations = profile.operations();
    assert_eq!(operations.len(), 9000);
    assert!(operations.iter().all(|it| it.duration().is_some()));
    let starts: Vec<_> = operations.iter().map(|it| it.start().unwrap()).collect();
    assert!(starts.is_sorted());
}

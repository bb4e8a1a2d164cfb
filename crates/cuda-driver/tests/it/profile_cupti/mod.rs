//! The profiler with CUPTI: a library that the test builds in its place, and the real one on a GPU.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cuda_driver::error::Error;
use cuda_driver::prelude::*;
use cuda_driver::profile::{Backend, Cupti, Operation, Origin, Profile, Profiler};
use cuda_driver::stream::WorkKind;
use cuda_sim::Builder;
use cuda_sys::{CUresult, Version};

use self::device::{COPY_IN, FILL, KERNEL, NODE, build, fake, observed_device, open};
use crate::support::{COPY, Fixture, filled, gpu, launch_copy, new_stream, skip, software};
use crate::trace_check;

mod device;

/// CUPTI has one user per process.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_origin(profile: &Profile, origin: Origin) -> Vec<&Operation> {
    let all = profile.operations().iter();
    all.filter(|it| it.origin() == origin).collect()
}

fn nanos(operation: &Operation) -> u64 {
    operation.duration().unwrap().as_nanos() as u64
}

#[test]
fn times_are_those_of_the_activity_records() {
    let _lock = one_at_a_time();
    let Some((fixture, cupti)) = observed_device() else {
        return;
    };
    assert_eq!(cupti.version(), Version::new(13_000));
    let stream = fixture.stream();
    let kernel = fixture.kernel(COPY, "copy");
    let mut graph = Graph::new(&fixture.context).unwrap();
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    graph.add_host(&[], || ()).unwrap();
    let graph = graph.instantiate().unwrap();
    let profiler = Profiler::start_with_cupti(&fixture.context, &cupti).unwrap();
    assert_eq!(profiler.backend(), Backend::Cupti);
    let pinned = PinnedBuffer::<u8>::zeroed(&fixture.context, 256, PinnedFlags::empty()).unwrap();
    let mut bytes = DeviceBuffer::<u8>::zeroed(&stream, 256).unwrap();
    profiler.range("copies", || {
        bytes.as_mut_slice().copy_from_pinned(&pinned).unwrap();
        for _ in 0..30 {
            launch_copy(&kernel, &stream, &from, &mut to).unwrap();
        }
    });
    profiler.range("graph", || graph.launch(&stream).unwrap());
    stream.launch_host(|| ()).unwrap().wait().unwrap();
    // Other code fills a buffer.
    let table = fixture.context.driver().library();
    let address = bytes.as_raw();
    // SAFETY: the buffer has this size, and is not used at the same time.
    let status = unsafe { table.cuMemsetD8Async.unwrap()(address, 1, 256, stream.as_raw()) };
    assert_eq!(status, CUresult::CUDA_SUCCESS);
    let collected = profiler.collect();
    let profile = profiler.finish().unwrap();
    assert_eq!(collected.operations().len(), profile.operations().len());
    assert_eq!(profile.backend(), Backend::Cupti);

    let calls = of_origin(&profile, Origin::Call);
    let mut times = BTreeMap::new();
    for operation in &calls {
        let time = operation.duration().map(|_| nanos(operation));
        if operation.kind() != WorkKind::HostFunction {
            *times.entry((operation.kind(), time.unwrap())).or_insert(0) += 1;
        }
        assert!(operation.start().unwrap() >= operation.queued());
    }
    let expected = [
        ((WorkKind::Kernel, KERNEL), 30),
        ((WorkKind::CopyToDevice, COPY_IN), 1),
        ((WorkKind::Fill, FILL), 1),
        ((WorkKind::Graph, 3 * NODE), 1),
    ];
    assert_eq!(times, BTreeMap::from(expected));
    let host = calls.iter().find(|it| it.kind() == WorkKind::HostFunction);
    assert!(host.unwrap().duration().is_some());

    let nodes = of_origin(&profile, Origin::GraphNode);
    let described: Vec<_> = nodes
        .iter()
        .map(|it| {
            (
                it.name(),
                it.bytes(),
                nanos(it),
                &*profile.streams()[it.stream()],
            )
        })
        .collect();
    let first = "graph nodes of stream 0";
    let second = "graph nodes of stream 0 (2)";
    let expected = [
        ("node_a", 0, NODE, first),
        ("node_b", 0, NODE, second),
        ("copy on device", 4096, NODE, first),
    ];
    assert_eq!(described, expected);

    let others = of_origin(&profile, Origin::OtherCode);
    assert_eq!((others.len(), nanos(others[0])), (1, FILL));
    assert_eq!(profile.streams()[others[0].stream()], "stream 0");
    assert_eq!(profile.threads()[others[0].thread()], "other code");

    let summaries = profile.summaries();
    let node = summaries.iter().find(|it| it.name() == "node_a").unwrap();
    assert_eq!(
        (node.registers(), node.shared_bytes()),
        (Some(21), Some(96))
    );
    assert_eq!((node.local_bytes(), node.occupancy()), (Some(16), None));
    assert_eq!(node.config().unwrap().grid, Dim3 { x: 4, y: 5, z: 6 });
    let ranges = [0, 1].map(|range| profile.time_of_range(range));
    let expected = [COPY_IN + 30 * KERNEL, 3 * NODE].map(Duration::from_nanos);
    assert_eq!(ranges, expected);
    assert!(
        profile.table().contains("times from CUPTI"),
        "{}",
        profile.table()
    );
    let counts = trace_check::check(&profile.trace()).unwrap();
    assert_eq!(counts["s"], calls.len());
    // SAFETY: no arguments.
    let buffers = unsafe { (fake().buffers)() };
    // SAFETY: no arguments.
    let enabled = unsafe { (fake().enabled)() };
    assert!(buffers > 1, "{buffers} buffers");
    assert_eq!(enabled, 0, "what was enabled is still enabled");
}

#[test]
fn a_stream_is_observed_without_other_streams() {
    let _lock = one_at_a_time();
    let Some((fixture, cupti)) = observed_device() else {
        return;
    };
    let (one, other) = (fixture.stream(), new_stream(&fixture.context));
    let kernel = fixture.kernel(COPY, "copy");
    let buffers = |stream| (filled(stream, 64, 1), filled(stream, 64, 2));
    let ((a, mut b), (c, mut d)) = (buffers(&one), buffers(&other));
    let profiler = Profiler::start_on_with_cupti(&one, &cupti).unwrap();
    launch_copy(&kernel, &one, &a, &mut b).unwrap();
    launch_copy(&kernel, &other, &c, &mut d).unwrap();
    let profile = profiler.finish().unwrap();
    let sources: Vec<_> = profile.operations().iter().map(|it| it.origin()).collect();
    assert_eq!(sources, [Origin::Call]);
}

#[test]
fn work_before_the_profiler_is_not_in_the_profile() {
    let _lock = one_at_a_time();
    let Some((fixture, cupti)) = observed_device() else {
        return;
    };
    let stream = fixture.stream();
    for _ in 0..3 {
        let profiler = Profiler::start_with_cupti(&fixture.context, &cupti).unwrap();
        let buffer = DeviceBuffer::<u8>::zeroed(&stream, 256).unwrap();
        drop(buffer);
        let profile = profiler.finish().unwrap();
        assert_eq!(profile.operations().len(), 1, "{:?}", profile.operations());
    }
}

#[test]
fn a_second_user_of_cupti_is_refused() {
    let _lock = one_at_a_time();
    let Some((fixture, cupti)) = observed_device() else {
        return;
    };
    let other = Fixture::of(fixture.context.driver(), None);
    let first = Profiler::start_on_with_cupti(&fixture.stream(), &cupti).unwrap();
    let error = Profiler::start_on_with_cupti(&other.stream(), &cupti).unwrap_err();
    assert!(matches!(error, Error::Cupti(_)));
    assert!(
        error
            .to_string()
            .contains("another profiler of this process"),
        "{error}"
    );
    drop(first);
    let second = Profiler::start_on_with_cupti(&other.stream(), &cupti).unwrap();
    second.finish().unwrap();
}

#[test]
fn another_tool_is_named_in_the_error() {
    let _lock = one_at_a_time();
    let Some((fixture, _)) = observed_device() else {
        return;
    };
    for (status, expected) in [
        (
            39,
            "another tool uses CUPTI in this process, such as Nsight Systems",
        ),
        (12, "another tool uses CUPTI in this process"),
        (35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (CUPTI status 35)"),
        (15, "needs NVIDIA's driver"),
    ] {
        let subscribe = format!("SUBSCRIBE={status}");
        let name = format!("taken-{status}");
        let Some(path) = build(&name, &["VERSION=28", &subscribe]) else {
            return;
        };
        let cupti = open(&path).unwrap();
        let error = Profiler::start_with_cupti(&fixture.context, &cupti).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        // The context can still be observed.
        Profiler::start(&fixture.context).unwrap().finish().unwrap();
    }
}

#[test]
fn unknown_versions_are_refused() {
    for (version, expected) in [
        ("130600", "this is version 130600 of CUPTI"),
        ("29", "this is version 29 of CUPTI"),
        ("18", "the oldest supported version is 12.0"),
    ] {
        let definition = format!("VERSION={version}");
        let Some(path) = build(&format!("version-{version}"), &[&definition, "SUBSCRIBE=0"]) else {
            return;
        };
        let error = open(&path).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_library_that_is_not_cupti_is_refused() {
    let Some(path) = build(
        "older",
        &["VERSION=28", "SUBSCRIBE=0", "cuptiGetTimestamp=other"],
    ) else {
        return;
    };
    let error = open(&path).unwrap_err();
    assert!(
        error.to_string().contains("no function cuptiGetTimestamp"),
        "{error}"
    );
    let error = open(Path::new("/nowhere/libcupti.so")).unwrap_err();
    assert!(
        error.to_string().contains("CUPTI could not be loaded"),
        "{error}"
    );
}

#[test]
fn software_devices_are_timed_with_events() {
    let fixture = software(Builder::new());
    let profiler = Profiler::start_best(&fixture.context).unwrap();
    assert_eq!(profiler.backend(), Backend::Events);
}

#[test]
fn a_gpu_with_cupti_times_each_kind_of_work() {
    let _lock = one_at_a_time();
    let Some(fixture) = gpu() else { return };
    let cupti = match Cupti::load(fixture.context.driver()) {
        Ok(cupti) => cupti,
        Err(error) => return skip(&format!("no CUPTI: {error}")),
    };
    let stream = fixture.stream();
    let kernel = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 1024, 1), filled(&stream, 1024, 2));
    let profiler = Profiler::start_with_cupti(&fixture.context, &cupti).unwrap();
    for _ in 0..100 {
        launch_copy(&kernel, &stream, &from, &mut to).unwrap();
    }
    to.as_mut_slice().copy_from_on(&from, &stream).unwrap();
    let profile = profiler.finish().unwrap();
    let calls = of_origin(&profile, Origin::Call);
    assert_eq!(calls.len(), 101);
    let best = Profiler::start_best(&fixture.context).unwrap();
    assert_eq!(best.backend(), Backend::Cupti);
    for operation in calls {
        assert!(
            operation.duration().unwrap() > Duration::ZERO,
            "{operation:?}"
        );
    }
}

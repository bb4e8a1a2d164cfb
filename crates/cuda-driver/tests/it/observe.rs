//! The memory that a program holds, and snapshots.

use std::sync::{Arc, Mutex};
use std::thread;

use cuda_driver::diagnostics::MemoryKind;
use cuda_driver::error::HistoryOptions;
use cuda_driver::memory::{
    CachingPool, GrowableBuffer, ManagedBuffer, MemoryPool, PitchedBuffer, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, block, everywhere, filled, late, launch_copy, software};

#[test]
fn live_memory_is_listed_by_the_place_that_made_it() {
    for fixture in everywhere() {
        let (stream, context) = (fixture.stream(), &fixture.context);
        let before = filled(&stream, 64, 1);
        // On a GPU, all tests use one context, which lives on if a test leaks a buffer.
        context.track_memory(false);
        assert_eq!(context.memory_report(), Default::default());
        context.track_memory(true);
        let mut buffers = Vec::new();
        let line = line!() + 2;
        for _ in 0..3 {
            buffers.push(DeviceBuffer::<u32>::zeroed(&stream, 100).unwrap());
        }
        let other = DeviceBuffer::<u8>::filled(&stream, 1000, 1).unwrap();
        let empty = DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap();
        drop(DeviceBuffer::<u8>::zeroed(&stream, 5000).unwrap());
        drop(before);
        let report = context.memory_report();
        assert_eq!(
            (report.live(), report.count()),
            (2200, 4),
            "{}",
            fixture.name
        );
        assert_eq!(report.peak(), 7200);
        let [three, one] = report.sites() else {
            panic!("{report}")
        };
        assert_eq!(
            (three.count(), three.bytes(), three.location().line()),
            (3, 1200, line)
        );
        assert!(three.location().file().ends_with("observe.rs"));
        assert_eq!(
            (one.count(), one.bytes(), one.kind()),
            (1, 1000, MemoryKind::StreamOrdered)
        );
        assert_eq!(report.streams(), [(stream.as_raw().addr() as u64, 2200)]);
        assert!(
            report.to_string().contains(&format!("observe.rs:{line}:")),
            "{report}"
        );
        drop((buffers, other, empty));
        let report = context.memory_report();
        assert_eq!((report.live(), report.count(), report.peak()), (0, 0, 7200));
        context.track_memory(false);
        let _untracked = filled(&stream, 64, 1);
        assert_eq!(context.memory_report(), Default::default());
    }
}

#[test]
fn each_kind_of_memory_names_its_place() {
    let fixture = software(Builder::new());
    let (stream, context) = (fixture.stream(), &fixture.context);
    let pool = MemoryPool::new(context.device()).unwrap();
    let cache = CachingPool::new(context);
    context.track_memory(true);
    let first = line!() + 1;
    let plain = DeviceBuffer::<u8>::zeroed_in(&Unpooled, &stream, 512).unwrap();
    let pooled = DeviceBuffer::<u8>::filled_in(&pool, &stream, 512, 1).unwrap();
    let cached = DeviceBuffer::<u8>::from_host_in(&cache, &stream, &[1; 512]).unwrap();
    let managed = ManagedBuffer::<u8>::zeroed(&stream, 512).unwrap();
    let pitched = PitchedBuffer::<u8>::zeroed(&stream, (512, 1)).unwrap();
    let clone = plain.try_clone().unwrap();
    let report = context.memory_report();
    let mut sites: Vec<_> = report.sites().iter().collect();
    sites.sort_by_key(|site| site.location().line());
    let found: Vec<_> = sites
        .iter()
        .map(|it| (it.location().line() - first, it.kind()))
        .collect();
    let expected = [
        (0, MemoryKind::Unpooled),
        (1, MemoryKind::Pool),
        (2, MemoryKind::CachingPool),
        (3, MemoryKind::Managed),
        (4, MemoryKind::Unpooled),
        (5, MemoryKind::StreamOrdered),
    ];
    assert_eq!(found, expected, "{report}");
    assert!(
        report
            .sites()
            .iter()
            .all(|it| it.location().file().ends_with("observe.rs"))
    );
    let unpooled = 512 + pitched.pitch();
    let mut pools: Vec<_> = report.pools().iter().collect();
    pools.sort_by_key(|it| it.kind());
    let found: Vec<_> = pools
        .iter()
        .map(|it| (it.kind(), it.count(), it.bytes()))
        .collect();
    let expected = [
        (MemoryKind::StreamOrdered, 1, 512),
        (MemoryKind::Unpooled, 2, unpooled),
        (MemoryKind::Managed, 1, 512),
        (MemoryKind::Pool, 1, 512),
        (MemoryKind::CachingPool, 1, 512),
    ];
    assert_eq!(found, expected, "{report}");
    assert_eq!(pools[3].pool(), pool.as_raw().addr() as u64);
    assert!(pools[4].pool() != 0 && pools[0].pool() == 0);
    let line = format!("512 bytes in 1: memory pool {:#x}", pools[3].pool());
    assert!(report.to_string().contains(&line), "{report}");
    drop((plain, pooled, cached, managed, pitched, clone));
    // A block that the caching pool keeps is not held by the program.
    assert_eq!(context.memory_report().live(), 0);
}

#[test]
fn memory_of_growable_buffers_follows_their_length() {
    let fixture = software(Builder::new());
    let (stream, context) = (fixture.stream(), &fixture.context);
    context.track_memory(true);
    let line = line!() + 1;
    let mut buffer = GrowableBuffer::<u8>::new(&stream, 1 << 24).unwrap();
    assert_eq!(context.memory_report().count(), 0);
    let step = buffer.granularity();
    for (len, bytes) in [(1, step), (step, step), (step + 1, 2 * step)] {
        buffer.grow_to(len).unwrap();
        let report = context.memory_report();
        let [site] = report.sites() else {
            panic!("{report}")
        };
        assert_eq!(
            (site.location().line(), site.kind()),
            (line, MemoryKind::Mapped)
        );
        assert_eq!(
            (site.count(), site.bytes(), report.live()),
            (1, bytes, bytes)
        );
    }
    buffer.shrink_to(1).unwrap();
    assert_eq!(context.memory_report().live(), step);
    buffer.shrink_to(0).unwrap();
    assert_eq!(context.memory_report().count(), 0);
    buffer.grow_to(1).unwrap();
    assert_eq!(context.memory_report().live(), step);
    drop(buffer);
    let report = context.memory_report();
    assert_eq!((report.live(), report.peak()), (0, 2 * step));
}

#[test]
fn memory_is_listed_by_stream_and_by_pool() {
    for fixture in everywhere() {
        let (one, two, context) = (fixture.stream(), fixture.stream(), &fixture.context);
        let pools = [(); 2].map(|()| MemoryPool::new(context.device()).unwrap());
        context.track_memory(true);
        let in_pool = |pool, stream, len| DeviceBuffer::<u8>::zeroed_in(pool, stream, len).unwrap();
        let held = [
            in_pool(&pools[0], &one, 1000),
            in_pool(&pools[0], &two, 500),
            in_pool(&pools[1], &two, 200),
        ];
        let report = context.memory_report();
        let address = |stream: &Stream| stream.as_raw().addr() as u64;
        assert_eq!(
            report.streams(),
            [(address(&one), 1000), (address(&two), 700)],
            "{}",
            fixture.name
        );
        let found: Vec<_> = report
            .pools()
            .iter()
            .map(|it| (it.kind(), it.pool(), it.count(), it.bytes()))
            .collect();
        let handle = |pool: &MemoryPool| pool.as_raw().addr() as u64;
        let expected = [
            (MemoryKind::Pool, handle(&pools[0]), 2, 1500),
            (MemoryKind::Pool, handle(&pools[1]), 1, 200),
        ];
        assert_eq!(found, expected);
        let json = serde_json::to_value(context.snapshot().unwrap()).unwrap();
        assert_eq!(json["held"]["pools"][0]["bytes"], 1500);
        let text = report.to_string();
        let line = format!("700 bytes of Stream({:#x})", address(&two));
        assert!(text.contains(&line), "{text}");
        drop(held);
        assert!(context.memory_report().pools().is_empty());
    }
}

#[test]
fn leaks_are_reported_when_the_check_ends() {
    for fixture in everywhere() {
        let (stream, context) = (fixture.stream(), &fixture.context);
        let reports = Arc::new(Mutex::new(Vec::new()));
        let check = |name: &'static str| {
            let reports = Arc::clone(&reports);
            context.check_leaks(move |it| reports.lock().unwrap().push((name, it.clone())))
        };
        let clean = check("clean");
        drop(filled(&stream, 64, 1));
        drop(clean);
        assert!(reports.lock().unwrap().is_empty(), "{}", fixture.name);

        let check = check("leaky");
        let line = line!() + 1;
        let leaked = DeviceBuffer::<u32>::zeroed(&stream, 100).unwrap();
        let (address, len) = (leaked.as_raw(), leaked.len());
        std::mem::forget(leaked);
        drop(check);
        let reports = reports.lock().unwrap();
        let [(name, report)] = &reports[..] else {
            panic!("{reports:?}")
        };
        assert_eq!(
            (*name, report.live(), report.count()),
            ("leaky", 4 * len, 1)
        );
        assert_eq!(report.sites()[0].location().line(), line);
        assert_ne!(address, 0);
        // Memory was tracked for the check only.
        assert_eq!(context.memory_report(), Default::default());
    }
}

#[test]
fn a_leak_check_does_not_end_tracking_that_was_on() {
    let fixture = software(Builder::new());
    let (stream, context) = (fixture.stream(), &fixture.context);
    context.track_memory(true);
    let buffer = filled(&stream, 64, 1);
    drop(context.check_leaks(|_| ()));
    assert_eq!(context.memory_report().live(), 256);
    drop(buffer);
}

#[test]
fn memory_of_16_threads_adds_up() {
    let fixture = software(Builder::new());
    fixture.context.track_memory(true);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let stream = fixture.stream();
                for _ in 0..50 {
                    let _buffers = [filled(&stream, 64, 1), filled(&stream, 32, 1)];
                }
            });
        }
    });
    let report = fixture.context.memory_report();
    assert_eq!((report.live(), report.count()), (0, 0));
    assert!(
        (384..=16 * 384).contains(&report.peak()),
        "{}",
        report.peak()
    );
}

#[test]
fn a_snapshot_lists_streams_kernels_memory_and_errors() {
    let fixture = software(late(1));
    let (stream, context) = (fixture.stream(), &fixture.context);
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    context.track_memory(true);
    let options = HistoryOptions::new().backtraces(true);
    context.driver().record_errors(options);
    DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
    let held = filled(&stream, 128, 1);
    let gate = block(&stream);
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    let snapshot = context.snapshot().unwrap();
    assert_eq!(
        (snapshot.ordinal, &*snapshot.device.name),
        (0, &*context.device().name().unwrap())
    );
    assert_eq!(snapshot.memory.1, context.memory_info().unwrap().1);
    let own = snapshot
        .streams
        .iter()
        .find(|it| it.handle == stream.as_raw().addr() as u64);
    let own = own.unwrap();
    assert!(
        !own.is_done && own.launches.kernels().eq(["copy"]),
        "{own:?}"
    );
    assert!(snapshot.kernels.contains(&"copy".to_owned()));
    assert_eq!(snapshot.contexts, [context.as_raw().addr() as u64]);
    let [module] = &snapshot.modules[..] else {
        panic!("{snapshot:?}")
    };
    assert_eq!(module.kernels, ["copy"]);
    assert_eq!(snapshot.held.as_ref().unwrap().live(), 512);
    assert_eq!(snapshot.errors.total(), 1);
    assert!(snapshot.pool.unwrap().1 >= 512);
    let text = snapshot.to_string();
    for part in [
        "busy; launches, latest first: copy",
        "512 bytes in 1 allocations",
        "out of memory",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json["held"]["live"], 512);
    assert_eq!(json["errors"][0]["name"], "CUDA_ERROR_OUT_OF_MEMORY");
    let error = &json["last_errors"][0];
    assert_eq!(error["status"], 2);
    assert_eq!(
        (&error["device"], &error["call"]),
        (&0.into(), &json["errors"][0]["call"])
    );
    assert!(error["backtrace"].is_string() && error["time"].is_f64());
    assert_eq!(error["thread"], format!("{:?}", thread::current().id()));
    assert_eq!(json["device"]["name"], snapshot.device.name);
    assert_eq!(json["modules"][0]["handle"], module.handle);
    assert!(
        text.contains(&format!("Module({:#x}): copy", module.handle)),
        "{text}"
    );
    let streams = json["streams"].as_array().unwrap();
    assert!(
        streams
            .iter()
            .any(|it| it["launches"][0] == "copy" && it["recent"][0] == "copy"),
        "{json}"
    );
    drop((gate, held));
    stream.synchronize().unwrap();
    // The module is unloaded with its last kernel.
    drop(copy);
    let snapshot = context.snapshot().unwrap();
    assert!(snapshot.streams.iter().all(|it| it.is_done) && snapshot.modules.is_empty());
    // Complete launches are no longer in flight, but remembered.
    let handle = stream.as_raw().addr() as u64;
    let own = snapshot.streams.iter().find(|it| it.handle == handle);
    let own = own.unwrap();
    assert!(own.launches.is_empty() && own.recent == ["copy"], "{own:?}");
    let text = snapshot.to_string();
    assert!(text.contains("idle; the last launch was copy"), "{text}");
}

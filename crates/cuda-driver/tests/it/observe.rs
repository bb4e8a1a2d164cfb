//! The memory that a program holds, snapshots, and events of the crate `tracing`.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use cuda_driver::diagnostics::MemoryKind;
use cuda_driver::error::HistoryOptions;
use cuda_driver::memory::{CachingPool, ManagedBuffer, MemoryPool, PitchedBuffer, Unpooled};
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event as TracingEvent, Metadata, Subscriber};

use crate::support::{COPY, block, everywhere, filled, late, launch_copy, software};

#[test]
fn live_memory_is_listed_by_the_place_that_made_it() {
    for fixture in everywhere() {
        let (stream, context) = (fixture.stream(), &fixture.context);
        let before = filled(&stream, 64, 1);
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
        (1, MemoryKind::Owned),
        (2, MemoryKind::Owned),
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
    drop((plain, pooled, cached, managed, pitched, clone));
    // A block that the caching pool keeps is not held by the program.
    assert_eq!(context.memory_report().live(), 0);
}

#[test]
fn memory_of_16_threads_adds_up() {
    let fixture = software(Builder::new());
    fixture.context.track_memory(true);
    std::thread::scope(|scope| {
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
    context.driver().record_errors(HistoryOptions::new());
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
    assert_eq!(json["device"]["name"], snapshot.device.name);
    let streams = json["streams"].as_array().unwrap();
    assert!(
        streams.iter().any(|it| it["launches"][0] == "copy"),
        "{json}"
    );
    drop((gate, held));
    stream.synchronize().unwrap();
    let snapshot = context.snapshot().unwrap();
    assert!(snapshot.streams.iter().all(|it| it.is_done));
}

/// A subscriber that keeps the events of one thread as text, and the names of the spans.
///
/// It is the subscriber of the whole process. With a subscriber of this thread only, `tracing`
/// switches an event off for good if a test on another thread is the first to reach it.
#[derive(Clone)]
struct Texts {
    thread: ThreadId,
    list: Arc<Mutex<Vec<String>>>,
}

impl Texts {
    fn push(&self, text: String) {
        if thread::current().id() == self.thread {
            self.list.lock().unwrap().push(text);
        }
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Texts {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_driver"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        self.push(format!("SPAN {name}"));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &TracingEvent<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn tracing_sees_loads_allocations_copies_launches_and_faults() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let texts = Texts {
        thread: thread::current().id(),
        list: Arc::default(),
    };
    tracing::subscriber::set_global_default(texts.clone()).unwrap();
    {
        let copy = fixture.kernel(COPY, "copy");
        let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
        launch_copy(&copy, &stream, &from, &mut to).unwrap();
        to.fill(3).unwrap();
        DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
        drop(from);
        // SAFETY: none: the addresses are invalid, which is the point of this test. It runs on a
        // software device.
        unsafe { stream.launch(&copy, LaunchConfig::new(1, 1), (64_u64, 64_u64, 1_u32)) }.unwrap();
        stream.synchronize().unwrap_err();
    }
    let texts = texts.list.lock().unwrap();
    let handle = stream.as_raw().addr();
    for expected in [
        "SPAN load".to_owned(),
        "DEBUG message=allocate bytes=256".to_owned(),
        format!(
            "TRACE message=work kind=\"copy to device\" name=\"copy to device\" bytes=256 stream={handle}"
        ),
        format!("TRACE message=launch kernel=\"copy\" stream={handle} blocks=1 threads=256"),
        "TRACE message=work kind=\"fill\"".to_owned(),
        "DEBUG message=error: cuMemAlloc".to_owned(),
        "DEBUG message=free bytes=256".to_owned(),
        "ERROR message=fault: cuStreamSynchronize".to_owned(),
    ] {
        let is_found = texts.iter().any(|text| text.starts_with(&expected));
        assert!(is_found, "{expected} is not in:\n{}", texts.join("\n"));
    }
}

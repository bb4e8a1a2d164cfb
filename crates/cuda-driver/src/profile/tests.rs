use std::collections::HashMap;
use std::env;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cuda_sim::Builder;

use super::cupti::Backend;
use super::names::Names;
use super::recorder::Recorder;
use super::result::{MemoryChange, Operation, Origin, Profile, UserRange};
use super::wake::READ_NOW;
use crate::observer::Observer;
use crate::types::WorkKind;
use crate::{DeviceBuffer, Driver};

#[path = "../../tests/it/trace_check.rs"]
mod trace_check;

fn operation(kind: WorkKind, name: &str, stream: u32, at: u64, duration: u64) -> Operation {
    Operation {
        kind,
        origin: Origin::Call,
        correlation: 0,
        name: Arc::from(name),
        stream,
        thread: 0,
        range: None,
        bytes: 1000,
        queued: at,
        call: 100,
        run: Some((at.cast_signed() + 500, duration)),
    }
}

fn profile(operations: Vec<Operation>) -> Profile {
    let streams = operations.iter().map(|it| it.stream).max().unwrap_or(0) + 1;
    Profile {
        device: "Device 0: \"<test>\"".to_owned(),
        backend: Backend::Events,
        operations,
        streams: (0..streams).map(|it| format!("stream {it}")).collect(),
        threads: vec!["main".to_owned()],
        kernels: HashMap::new(),
        ranges: Vec::new(),
        memory: Vec::new(),
    }
}

#[test]
fn statistics_are_those_of_the_sorted_times() {
    let times = (1..=100).rev().map(|it| it * 1000);
    let operations = times
        .enumerate()
        .map(|(at, time)| operation(WorkKind::Fill, "fill", 0, at as u64, time));
    let mut operations: Vec<_> = operations.collect();
    operations.push(operation(WorkKind::Kernel, "a", 0, 200, 1));
    operations[100].run = None;
    let summaries = profile(operations).summaries();
    let [fill, kernel] = &*summaries else {
        panic!("{summaries:?}")
    };
    let micros = Duration::from_micros;
    assert_eq!((fill.min(), fill.max()), (micros(1), micros(100)));
    assert_eq!((fill.p95(), fill.mean()), (micros(95), micros(101) / 2));
    assert_eq!((fill.total(), fill.count()), (micros(5050), 100));
    let rate = fill.gigabytes_per_second().unwrap();
    assert!((rate - 100_000.0 / 5_050_000.0).abs() < 1e-9, "{rate}");
    assert_eq!((kernel.count(), kernel.timed()), (1, 0));
    assert_eq!(
        (kernel.p95(), kernel.gigabytes_per_second()),
        (Duration::ZERO, None)
    );
}

#[test]
fn no_work_begins_before_it_is_queued() {
    let mut early = operation(WorkKind::Fill, "fill", 0, 1000, 50);
    early.run = Some((-300, 50));
    let mut profile = profile(vec![early, operation(WorkKind::Fill, "fill", 0, 3000, 50)]);
    profile.prepare(9000);
    assert_eq!(profile.operations[0].run, Some((1000, 50)));
    assert_eq!(profile.operations[1].run, Some((4800, 50)));
}

#[test]
fn names_are_stored_once() {
    let mut names = Names::default();
    let texts: Vec<String> = (0..100).map(|it| format!("kernel {it}")).collect();
    let first: Vec<_> = texts.iter().map(|it| names.get(it).text).collect();
    names.mark_kernel(&texts[7]);
    for (at, text) in texts.iter().enumerate() {
        // Other text at another address, and then other text at the same address.
        for copy in [text, &text.clone()] {
            let name = names.get(copy);
            assert!(Arc::ptr_eq(&name.text, &first[at]));
            assert_eq!(name.is_kernel, at == 7);
        }
    }
    let mut text = "first".to_owned();
    assert_eq!(&*names.get(&text).text, "first");
    text.replace_range(.., "other");
    assert_eq!(&*names.get(&text).text, "other");
}

/// Without the thread that reads events, or if it cannot keep up, calls read some.
#[test]
fn calls_read_events_if_too_many_are_pending() {
    let simulator = Builder::new().build().unwrap();
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = context.default_stream().unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
    let recorder = Arc::new(Recorder::new(&context, Backend::Events).unwrap());
    let observer: Arc<dyn Observer> = Arc::<Recorder>::clone(&recorder);
    stream.state().set_observer(Some(observer));
    let pending = || {
        let inner = recorder.lock();
        (inner.rows[0].pending.len(), inner.operations.len())
    };
    for _ in 0..READ_NOW {
        buffer.fill(1).unwrap();
    }
    assert_eq!(pending(), (READ_NOW, 0));
    stream.synchronize().unwrap();
    for _ in 0..100 {
        buffer.fill(2).unwrap();
    }
    stream.state().set_observer(None);
    assert_eq!(pending(), (READ_NOW, 100));
    recorder.wait().unwrap();
    assert_eq!(pending(), (0, READ_NOW + 100));
}

#[test]
fn work_that_overlaps_on_a_stream_is_cut() {
    let profile = profile(vec![
        operation(WorkKind::Fill, "fill", 0, 0, 1000),
        operation(WorkKind::Fill, "fill", 0, 200, 1000),
        operation(WorkKind::Fill, "fill", 0, 300, 100),
    ]);
    let rows = profile.rows();
    let times: Vec<_> = rows[0].iter().map(|it| (it.1, it.2)).collect();
    assert_eq!(times, [(500, 1000), (1500, 200), (1700, 0)]);
    trace_check::check(&profile.trace()).unwrap();
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let good = profile(vec![
        operation(WorkKind::Fill, "fill", 0, 0, 1000),
        operation(WorkKind::Fill, "fill", 0, 2000, 1000),
    ])
    .trace();
    assert_eq!(trace_check::check(&good).unwrap()["s"], 2);
    for (from, to, expected) in [
        ("\"ph\":\"f\"", "\"ph\":\"s\"", "begins twice"),
        ("\"ts\":2.500", "\"ts\":0.100", "before the event above"),
        ("\"dur\":1.000", "\"dur\":2.500", "after the outer slice"),
        ("\"bp\":\"e\"", "\"bp\":\"x\"", "does not end at the start"),
        ("\"thread_name\"", "\"other\"", "has no name"),
        ("\"pid\":2", "\"pid\":\"2\"", "not a number"),
        (",\n{", "\n{", "no comma"),
    ] {
        let bad = good.replacen(from, to, if from.contains("thread") { 9 } else { 1 });
        let error = trace_check::check(&bad).unwrap_err();
        assert!(error.contains(expected), "{from}: {error}");
    }
    let (cut, _) = good.rsplit_once("\"ph\":\"f\"").unwrap();
    let (cut, _) = cut.rsplit_once(",\n").unwrap();
    let error = trace_check::check(&format!("{cut}\n]}}\n")).unwrap_err();
    assert!(error.contains("1 flows have no end"), "{error}");
}

/// `CUDA_FULL=1` writes and checks a million events.
#[test]
fn a_long_trace_is_written_and_checked() {
    let is_full = env::var("CUDA_FULL").is_ok_and(|it| it == "1");
    let events = if is_full { 1_000_000 } else { 20_000 };
    let count = events / 4;
    let start = Instant::now();
    let names = ["gemm", "relu", "softmax", "copy to device"];
    let operations = (0..count).map(|at| {
        let kind = if at % 4 == 3 {
            WorkKind::CopyToDevice
        } else {
            WorkKind::Kernel
        };
        operation(kind, names[at % 4], at as u32 % 8, at as u64 * 1000, 7000)
    });
    let mut profile = profile(operations.collect());
    profile.ranges = vec![UserRange {
        name: Arc::from("epoch"),
        thread: 0,
        parent: None,
        start: 0,
        end: events as u64 * 1000,
    }];
    profile.memory = vec![MemoryChange {
        time: 5,
        change: 7,
        allocated: 7,
    }];
    let text = profile.trace();
    let written = start.elapsed();
    let counts = trace_check::check(&text).unwrap();
    let all = start.elapsed();
    assert_eq!(
        (counts["X"], counts["s"], counts["f"]),
        (2 * count + 1, count, count)
    );
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "{events} events, {} MiB: written in {written:?}, checked after {all:?}; peak memory {}",
        text.len() >> 20,
        peak.unwrap_or("unknown").trim()
    );
    if is_full && !cfg!(debug_assertions) {
        assert!(all < Duration::from_secs(10), "{all:?}");
        let peak: Option<u64> = peak.and_then(|it| it.trim().strip_suffix(" kB")?.parse().ok());
        assert!(peak.is_none_or(|kib| kib < 1 << 20), "{peak:?} KiB");
    }
}

#[test]
fn exports_escape_names() {
    let mut profile = profile(vec![operation(
        WorkKind::Kernel,
        "a<\"b\",\n</script>",
        0,
        0,
        1,
    )]);
    profile.threads = vec!["\\\u{1}é".to_owned()];
    let json: serde_json::Value = serde_json::from_str(&profile.json()).unwrap();
    assert_eq!(json["operations"][0]["name"], "a<\"b\",\n</script>");
    assert_eq!(json["threads"][0], "\\\u{1}é");
    assert_eq!(json["device"], "Device 0: \"<test>\"");
    assert!(profile.csv().contains("\"a<\"\"b\"\",\n</script>\""));
    let page = profile.html();
    assert_eq!(
        page.matches("</script>").count(),
        1,
        "the name ends the script"
    );
    assert!(!page.contains("/*DATA*/"));
    // The page loads nothing.
    for part in ["http:", "https:", " src=", "import", "<link"] {
        assert!(!page.contains(part), "{part}");
    }
}

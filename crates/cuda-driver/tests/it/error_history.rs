//! The history of errors, the log of the driver, and what errors say about themselves.

use std::sync::Barrier;
use std::thread;
use std::time::SystemTime;

use cuda_driver::error::{Category, Error, HistoryOptions, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{everywhere_since, software};

const NO_ATTRIBUTE: cuda_sys::CUdevice_attribute = cuda_sys::CUdevice_attribute(99_999);

#[test]
fn history_is_off_at_first_and_bounded() {
    let fixture = software(Builder::new());
    let driver = fixture.context.driver().clone();
    let device = fixture.context.device();
    device.attribute(NO_ATTRIBUTE).unwrap_err();
    assert_eq!(driver.error_history().total(), 0);

    driver.record_errors(HistoryOptions::new().capacity(3));
    for _ in 0..5 {
        device.attribute(NO_ATTRIBUTE).unwrap_err();
    }
    let stream = fixture.stream();
    let too_large = DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
    let history = driver.error_history();
    assert_eq!((history.errors().len(), history.total()), (3, 6));
    assert_eq!(
        history.errors()[2].error().status(),
        too_large.status().unwrap()
    );
    assert_eq!(history.errors()[2].thread(), thread::current().id());
    assert!(history.errors()[0].backtrace().is_none());
    let first = history.counts()[0];
    assert_eq!(
        (first.count(), first.status()),
        (5, Status::CUDA_ERROR_INVALID_VALUE)
    );
    assert_eq!(
        (first.call().base, first.category()),
        ("cuDeviceGetAttribute", Category::Argument)
    );
    assert!(first.first() <= first.last() && first.last() <= history.errors()[2].time());
    assert!(
        history
            .to_string()
            .starts_with("6 errors\n       5 × cuDeviceGetAttribute")
    );

    driver.stop_recording_errors();
    device.attribute(NO_ATTRIBUTE).unwrap_err();
    assert_eq!(driver.error_history().total(), 6);
    // Another start discards what was recorded.
    driver.record_errors(HistoryOptions::new().backtraces(true));
    device.attribute(NO_ATTRIBUTE).unwrap_err();
    let history = driver.error_history();
    assert_eq!(history.total(), 1);
    assert!(history.to_string().starts_with("1 error\n"));
    assert!(history.errors()[0].backtrace().is_some());
}

#[test]
fn history_ignores_queries_of_unfinished_work() {
    let fixture = software(crate::support::late(1));
    let driver = fixture.context.driver();
    driver.record_errors(HistoryOptions::new());
    let stream = fixture.stream();
    let gate = crate::support::block(&stream);
    let event = stream.record_event().unwrap();
    assert!(!event.is_done().unwrap());
    drop(gate);
    event.synchronize().unwrap();
    assert_eq!(driver.error_history().total(), 0);
}

/// Half of the threads fail in one call and half in another, while a thread reads the history.
#[test]
fn history_counts_the_errors_of_16_threads() {
    const THREADS: usize = 16;
    const EACH: u64 = 100;
    let fixture = software(Builder::new());
    let driver = fixture.context.driver();
    driver.record_errors(HistoryOptions::new().capacity(64));
    let start = Barrier::new(THREADS + 1);
    let began = SystemTime::now();
    let fail = |at: usize| {
        let stream = fixture.stream();
        start.wait();
        for _ in 0..EACH {
            if at.is_multiple_of(2) {
                let device = fixture.context.device();
                device.attribute(NO_ATTRIBUTE).unwrap_err();
            } else {
                DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
            }
        }
        thread::current().id()
    };
    let all = THREADS as u64 * EACH;
    let threads: Vec<_> = thread::scope(|scope| {
        let fail = &fail;
        let threads: Vec<_> = (0..THREADS)
            .map(|at| scope.spawn(move || fail(at)))
            .collect();
        start.wait();
        let mut last = 0;
        while last < all {
            let history = driver.error_history();
            assert!(history.total() >= last, "{} after {last}", history.total());
            last = history.total();
            assert_eq!(history.errors().len() as u64, last.min(64));
            assert!(history.counts().len() <= 2);
        }
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let ended = SystemTime::now();
    let history = driver.error_history();
    assert_eq!((history.total(), history.errors().len()), (all, 64));
    let mut counts: Vec<_> = history
        .counts()
        .iter()
        .map(|it| (it.call().base, it.status(), it.count()))
        .collect();
    counts.sort_by_key(|it| it.0);
    let expected = [
        (
            "cuDeviceGetAttribute",
            Status::CUDA_ERROR_INVALID_VALUE,
            all / 2,
        ),
        ("cuMemAllocAsync", Status::CUDA_ERROR_OUT_OF_MEMORY, all / 2),
    ];
    assert_eq!(counts, expected);
    for count in history.counts() {
        assert!(began <= count.first() && count.first() <= count.last() && count.last() <= ended);
    }
    // The calls of a thread are of one kind, and the ring has each error with its own thread.
    for error in history.errors() {
        let at = threads.iter().position(|it| *it == error.thread()).unwrap();
        assert_eq!(error.error().call().base, expected[at % 2].0);
        assert!(began <= error.time() && error.time() <= ended);
    }
}

#[test]
fn explain_adds_advice_and_the_log_of_the_driver() {
    for fixture in everywhere_since((12, 9)) {
        let driver = fixture.context.driver();
        let stream = fixture.stream();
        let mut position = driver.log_position().unwrap();
        let error = driver
            .explain(|| DeviceBuffer::<u8>::zeroed(&stream, 1 << 50))
            .unwrap_err();
        assert!(error.error().is_out_of_memory());
        let text = error.to_string();
        assert!(
            text.contains("\nadvice: free memory"),
            "{}: {text}",
            fixture.name
        );
        let name = fixture.context.device().name().unwrap();
        assert_eq!(error.device(), Some((0, &*name)));
        assert!(text.contains(&format!("\ndevice 0: {name}")), "{text}");
        if fixture.simulator.is_some() {
            assert!(error.log().contains("out of memory"), "{text}");
            assert!(text.contains("\ndriver: [CUDA][E] cuMemAlloc"), "{text}");
        }
        assert_eq!(driver.log_since(&mut position).unwrap(), error.log());
        // The position has advanced.
        assert_eq!(driver.log_since(&mut position).unwrap_or_default(), "");
        assert_eq!(driver.explain(|| Ok(7)).unwrap(), 7);
        assert!(Error::from(error).is_out_of_memory());
    }
}

#[test]
fn explain_works_without_a_log() {
    let fixture = software(Builder::new().version(12_080));
    let driver = fixture.context.driver();
    let stream = fixture.stream();
    let error = driver.explain(|| DeviceBuffer::<u8>::zeroed(&stream, 1 << 50));
    assert_eq!(error.unwrap_err().log(), "");
    let error = driver.log_position().unwrap_err();
    assert!(
        error.to_string().contains("requires a driver of CUDA 12.9"),
        "{error}"
    );
}

#[test]
fn errors_name_their_category_advice_and_device() {
    let fixture = software(Builder::new().devices(2));
    let context = fixture
        .context
        .driver()
        .device(1)
        .unwrap()
        .primary_context()
        .unwrap();
    let stream = crate::support::new_stream(&context);
    let error = DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
    let call = error.driver_error().unwrap();
    assert_eq!(
        (error.category(), call.category()),
        (Category::Memory, Category::Memory)
    );
    assert_eq!(call.device(), Some(1));
    let text = error.to_string();
    assert!(
        text.contains("on device 1 while allocating 1125899906842624 bytes"),
        "{text}"
    );
    assert!(error.is_out_of_memory() && call.is_out_of_memory() && !error.is_sticky());
    assert!(error.advice().unwrap().contains("free memory"));

    let error = context.driver().device(7).unwrap_err();
    assert_eq!(
        (error.category(), error.driver_error()),
        (Category::Device, None)
    );
    // Advice of the call comes before that of the status.
    let event = Event::new(&context, EventFlags::DISABLE_TIMING).unwrap();
    let error = event.milliseconds_since(&event).unwrap_err();
    assert!(
        error.advice().unwrap().contains("record both events"),
        "{error}"
    );
}

#[test]
fn the_report_of_a_lost_device_names_graphs() {
    let fixture = software(crate::support::late(3));
    let stream = fixture.stream();
    let trap = fixture.kernel(include_str!("kernels/trap.ptx"), "late_trap");
    let mut graph = Graph::new(&fixture.context).unwrap();
    // SAFETY: the kernel touches no memory. It traps, which loses the software device.
    unsafe { graph.add_kernel(&[], &trap, LaunchConfig::new(1, 1), (10_u64,)) }.unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_sticky());
    let loss = error.loss().unwrap();
    let launches: Vec<_> = loss.launches()[0].kernels().collect();
    assert_eq!(launches, ["a graph (late_trap)"]);
    assert!(
        error.to_string().contains("a graph (late_trap) on Stream("),
        "{error}"
    );
}

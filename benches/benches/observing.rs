//! The cost of observing while it is on: launches with a profiler, allocations with tracked memory,
//! and errors with a history.
//!
//! Runs on the null driver and on a GPU if there is one. `OBSERVING_PAIRS` is the number of pairs
//! of each row (default: 200,000). What the same features cost while they are off is measured by
//! `launch_pairs`, which is compiled with them if it is built with `--all-features`.

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use benches::{Pairs, empty_kernels, empty_kernels_ptx, number_of_pairs, on_each_driver};
use cuda_driver::error::HistoryOptions;
use cuda_driver::prelude::*;
use cuda_driver::profile::Profiler;

/// The number of runs in a row: each allocates, or records two events.
const ROW: u32 = 64;

/// A stream with the kernel of 4 parameters, and two buffers for it.
struct Launches {
    stream: Stream,
    kernel: Function,
    buffers: [DeviceBuffer<u64>; 2],
}

impl Launches {
    fn new(context: &Context) -> cuda_driver::Result<Self> {
        let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        let [_, kernel, _, _] = empty_kernels(context)?;
        let buffer = || DeviceBuffer::zeroed(&stream, 1);
        Ok(Self {
            buffers: [buffer()?, buffer()?],
            kernel,
            stream,
        })
    }

    fn launch(&mut self) {
        let [a, b] = &mut self.buffers;
        let arguments = (&*a, b, 1_u64, 2_u64);
        // SAFETY: the kernel does nothing.
        let launched = unsafe {
            self.stream
                .launch(&self.kernel, LaunchConfig::new(1, 32), arguments)
        };
        launched.expect("the launch succeeds");
    }

    fn synchronize(&self) {
        self.stream.synchronize().expect("the kernels do nothing");
    }
}

/// A launch, and the same launch on a stream that a profiler observes.
fn profiled(context: &Context, number: u32) -> cuda_driver::Result<Pairs> {
    let (mut plain, mut observed) = (Launches::new(context)?, Launches::new(context)?);
    let other = observed.stream.clone();
    let profiler = Profiler::start_on(&observed.stream)?;
    observed.launch();
    let drain_plain = plain.stream.clone();
    let pairs = Pairs::measure_rows(
        number,
        ROW,
        || plain.launch(),
        || observed.launch(),
        || {
            for stream in [&drain_plain, &other] {
                stream.synchronize().expect("the kernels do nothing");
            }
        },
    );
    let profile = profiler.finish()?;
    assert_eq!(profile.operations().len(), pairs.count() + 1);
    Ok(pairs)
}

/// A launch, and the same launch between two records of an event by raw calls, which is the least
/// that any timing by events can cost.
fn raw_events(context: &Context, number: u32) -> cuda_driver::Result<Pairs> {
    timed(context, number, |_, _| ())
}

/// A launch, and the same launch between two records of an event, followed by the calls that read
/// the times of an earlier one.
fn raw_events_and_reads(context: &Context, number: u32) -> cuda_driver::Result<Pairs> {
    let library = context.driver().library();
    timed(context, number, |start, end| {
        let mut milliseconds = 0.0;
        // SAFETY: the event is alive.
        let queried = unsafe { library.cuEventQuery(end.as_raw()) };
        for _ in 0..2 {
            let time = &raw mut milliseconds;
            // SAFETY: the events are alive, and the pointer is to a local.
            let _ = unsafe { library.cuEventElapsedTime(time, start.as_raw(), end.as_raw()) };
        }
        let _ = black_box((queried, milliseconds));
    })
}

fn timed(
    context: &Context,
    number: u32,
    read: impl Fn(&Event, &Event),
) -> cuda_driver::Result<Pairs> {
    /// More events than a group of rows records, so that those that are read are complete.
    const EVENTS: usize = 1024;
    let (mut plain, mut timed) = (Launches::new(context)?, Launches::new(context)?);
    let events: Vec<Event> = (0..EVENTS)
        .map(|_| Event::new(context, EventFlags::empty()))
        .collect::<cuda_driver::Result<_>>()?;
    let record = context.driver().library().cuEventRecord;
    let record = record.expect("every driver has cuEventRecord");
    let raw_stream = timed.stream.as_raw();
    let record = |event: &Event| {
        // SAFETY: the event and the stream are alive.
        assert!(unsafe { record(event.as_raw(), raw_stream) }.is_success());
    };
    events.iter().for_each(record);
    context.synchronize()?;
    let next = Cell::new(0);
    let streams = [plain.stream.clone(), timed.stream.clone()];
    Ok(Pairs::measure_rows(
        number,
        ROW,
        || plain.launch(),
        || {
            let at = next.get();
            next.set((at + 2) % EVENTS);
            record(&events[at]);
            timed.launch();
            record(&events[at + 1]);
            let old = (at + EVENTS / 2) % EVENTS;
            read(&events[old], &events[old + 1]);
        },
        || {
            for stream in &streams {
                stream.synchronize().expect("the kernels do nothing");
            }
        },
    ))
}

/// Measures `run` while something is off and while it is on.
fn off_and_on(number: u32, set_on: impl Fn(bool), mut run: impl FnMut()) -> Pairs {
    let is_on = Cell::new(None);
    let ensure = |wanted: bool| {
        if is_on.replace(Some(wanted)) != Some(wanted) {
            set_on(wanted);
        }
    };
    let run = RefCell::new(&mut run);
    let pairs = Pairs::measure_rows(
        number,
        ROW,
        || {
            ensure(false);
            run.borrow_mut()();
        },
        || {
            ensure(true);
            run.borrow_mut()();
        },
        || (),
    );
    set_on(false);
    pairs
}

/// An allocation and its free, and the same while memory is tracked.
fn tracked(context: &Context, number: u32) -> cuda_driver::Result<Pairs> {
    let launches = Launches::new(context)?;
    let pairs = off_and_on(
        number,
        |is_on| context.track_memory(is_on),
        // SAFETY: nothing reads the memory.
        || drop(unsafe { DeviceBuffer::<u64>::uninit(&launches.stream, 100) }),
    );
    launches.synchronize();
    Ok(pairs)
}

/// A call that fails, and the same while errors are recorded.
fn recorded(context: &Context, number: u32) -> cuda_driver::Result<Pairs> {
    let driver = context.driver();
    let ptx = Ptx::new(empty_kernels_ptx()).expect("the text has no NUL byte");
    let module = Module::load(context, &ptx)?;
    Ok(off_and_on(
        number,
        |is_on| match is_on {
            true => driver.record_errors(HistoryOptions::new()),
            false => driver.stop_recording_errors(),
        },
        || drop(module.function("missing").expect_err("there is none")),
    ))
}

fn main() {
    let number = number_of_pairs("OBSERVING_PAIRS", 200_000);
    on_each_driver(|_, driver| {
        println!(
            "what is on                off ns    more ns  (95 % of it)              bar, pairs"
        );
        let context = driver
            .device(0)
            .and_then(|device| device.primary_context())
            .expect("the device has a context");
        type Measure = fn(&Context, u32) -> cuda_driver::Result<Pairs>;
        let rows: [(&str, Measure, Option<f64>); 5] = [
            ("raw events at launches", raw_events, None),
            ("raw events, and reads", raw_events_and_reads, None),
            ("profiler at launches", profiled, Some(500.0)),
            ("tracking at allocations", tracked, None),
            ("history at errors", recorded, None),
        ];
        for (what, measure, bar) in rows {
            let pairs = measure(&context, number).expect("the bench runs");
            let (first, more) = (pairs.first(), pairs.difference());
            let verdict = match bar {
                Some(bar) if more.median <= bar => format!("{bar} ns kept"),
                Some(bar) => format!("{bar} ns MISSED"),
                None => "-".to_owned(),
            };
            println!(
                "{what:<24} {:>8.1}  {:>9.1}  ({:>8.1} to {:>8.1})  {verdict}, {}",
                first.median,
                more.median,
                more.low,
                more.high,
                pairs.count(),
            );
        }
    });
}

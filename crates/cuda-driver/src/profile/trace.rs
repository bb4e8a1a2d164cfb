//! The timeline in the trace event format of Chrome, which Perfetto and speedscope read too.
//!
//! The host is one process with a row for each thread, and the device another with a row for each
//! stream. An arrow (a flow) leads from each call to the work that it queued.

use std::fmt;
use std::io::{self, Write};

use super::export::Json;
use super::result::{MemoryChange, Operation, Origin, Profile, UserRange};

/// The process id of the host in the trace.
const HOST: u32 = 1;
/// The process id of the device in the trace.
const DEVICE: u32 = 2;

/// An event of the trace, without its time.
#[derive(Clone, Copy)]
enum Event<'a> {
    Range(&'a UserRange),
    /// A call that queues work, and the id of its flow if it has one.
    Call(&'a Operation, Option<usize>),
    /// The start of a flow at a call.
    FlowStart(&'a Operation, usize),
    /// The work on the device.
    Run(&'a Operation),
    /// The end of a flow at the work.
    FlowEnd(&'a Operation, usize),
    Memory(&'a MemoryChange),
}

/// The time and the duration of an event in nanoseconds.
struct At<'a>(u64, u64, Event<'a>);

/// Nanoseconds as microseconds, the unit of the format.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Timelines.
impl Profile {
    /// Returns the timeline in the trace event format of Chrome. Open it in
    /// <https://ui.perfetto.dev> or `chrome://tracing`.
    #[must_use]
    pub fn trace(&self) -> String {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = self.write_trace(&mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// Writes the timeline that [`trace`](Self::trace) returns.
    ///
    /// # Errors
    ///
    /// The errors of `to`.
    pub fn write_trace(&self, mut to: impl Write) -> io::Result<()> {
        write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        self.write_names(&mut to)?;
        for At(time, duration, event) in self.events() {
            write!(to, ",\n{{\"ts\":{},", Micros(time))?;
            write_event(&mut to, duration, event)?;
            write!(to, "}}")?;
        }
        writeln!(to, "\n]}}")
    }

    /// Writes the names of the processes and the rows.
    fn write_names(&self, to: &mut impl Write) -> io::Result<()> {
        let mut separator = "";
        let mut name = |kind: &str, process: u32, row: usize, name: &str| {
            let before = std::mem::replace(&mut separator, ",");
            write!(
                to,
                "{before}\n{{\"ts\":0,\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{process},\
                 \"tid\":{row},\"args\":{{\"name\":{}}}}}",
                Json(name)
            )
        };
        name("process_name", HOST, 0, "Host")?;
        name("process_name", DEVICE, 0, &self.device)?;
        for (row, thread) in self.threads.iter().enumerate() {
            name("thread_name", HOST, row, thread)?;
        }
        for (row, stream) in self.streams.iter().enumerate() {
            name("thread_name", DEVICE, row, stream)?;
        }
        Ok(())
    }

    /// Returns the events in the order of time. Of events at the same time, an outer one comes
    /// before an inner one, and a flow after the slices that it connects.
    fn events(&self) -> Vec<At<'_>> {
        let mut events = Vec::with_capacity(self.operations.len() * 4 + self.memory.len());
        for range in &self.ranges {
            events.push(At(
                range.start,
                range.end.saturating_sub(range.start),
                Event::Range(range),
            ));
        }
        let mut flow = 0;
        for row in self.rows() {
            for (operation, start, duration) in row {
                let start = start.max(0).unsigned_abs();
                if operation.origin != Origin::Call {
                    events.push(At(start, duration, Event::Run(operation)));
                    continue;
                }
                let call = Event::Call(operation, Some(flow));
                events.push(At(operation.queued, operation.call, call));
                events.push(At(operation.queued, 0, Event::FlowStart(operation, flow)));
                events.push(At(start, duration, Event::Run(operation)));
                events.push(At(start, 0, Event::FlowEnd(operation, flow)));
                flow += 1;
            }
        }
        let is_call = |it: &&Operation| it.origin == Origin::Call && it.run.is_none();
        for operation in self.operations.iter().filter(is_call) {
            let call = Event::Call(operation, None);
            events.push(At(operation.queued, operation.call, call));
        }
        let memory = self.memory.iter();
        events.extend(memory.map(|change| At(change.time, 0, Event::Memory(change))));
        let rank = |event: &Event<'_>| match event {
            Event::Range(_) => 0,
            Event::Call(..) | Event::Run(_) => 1,
            Event::FlowStart(..) => 2,
            Event::FlowEnd(..) => 3,
            Event::Memory(_) => 4,
        };
        let key =
            |At(time, duration, event): &At<'_>| (*time, rank(event), std::cmp::Reverse(*duration));
        events.sort_by_key(key);
        events
    }
}

fn write_event(to: &mut impl Write, duration: u64, event: Event<'_>) -> io::Result<()> {
    let duration = Micros(duration);
    match event {
        Event::Range(range) => write!(
            to,
            "\"ph\":\"X\",\"cat\":\"range\",\"name\":{},\"pid\":{HOST},\"tid\":{},\"dur\":{duration}",
            Json(range.name()),
            range.thread,
        ),
        Event::Call(operation, flow) => {
            write!(
                to,
                "\"ph\":\"X\",\"cat\":\"call\",\"name\":{},\"pid\":{HOST},\"tid\":{},\
                 \"dur\":{duration},\"args\":{{\"stream\":{}",
                Json(operation.name()),
                operation.thread,
                operation.stream,
            )?;
            match flow {
                Some(_) => write!(to, "}}"),
                None => write!(to, ",\"time\":\"unknown\"}}"),
            }
        }
        Event::FlowStart(operation, id) => write!(
            to,
            "\"ph\":\"s\",\"cat\":\"queue\",\"name\":\"queue\",\"id\":{id},\"pid\":{HOST},\
             \"tid\":{}",
            operation.thread,
        ),
        Event::FlowEnd(operation, id) => write!(
            to,
            "\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"queue\",\"name\":\"queue\",\"id\":{id},\
             \"pid\":{DEVICE},\"tid\":{}",
            operation.stream,
        ),
        Event::Run(operation) => write!(
            to,
            "\"ph\":\"X\",\"cat\":{},\"name\":{},\"pid\":{DEVICE},\"tid\":{},\"dur\":{duration},\
             \"args\":{{\"bytes\":{}}}",
            Json(operation.kind.name()),
            Json(operation.name()),
            operation.stream,
            operation.bytes,
        ),
        Event::Memory(change) => write!(
            to,
            "\"ph\":\"C\",\"name\":\"memory\",\"pid\":{DEVICE},\"tid\":0,\
             \"args\":{{\"allocated\":{}}}",
            change.allocated,
        ),
    }
}

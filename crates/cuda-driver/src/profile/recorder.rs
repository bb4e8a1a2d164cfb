//! What a profiler records: events around each piece of work, which are read once they are
//! complete.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Instant;

use cuda_sys::{CUevent, CUresult};

use super::cupti::{self, Backend};
use super::result::{Kernel, MemoryChange, Operation, Origin, Profile, UserRange};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::fence::RawEvent;
use crate::handle::Handle;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::observer::{Observer, Site, Ticket, Work};
use crate::types::WorkKind;

/// The longest time in nanoseconds from the event to which the times of a stream refer. After it, a
/// newer event takes the place of that event: the driver reports milliseconds as `f32`, which has a
/// resolution of 60 ns at one second.
const NEW_ANCHOR: i64 = 1_000_000_000;
/// Once a stream has more pending operations than this, each new one also reads some of them.
/// Reading takes as long as recording, and a call that queues work should not pay for it.
const READ_FROM: usize = 4096;
/// The number of operations that each new one then reads.
const READ_AT_ONCE: usize = 4;

pub(super) struct Recorder {
    /// The time at which all times are 0.
    origin: Instant,
    driver: Driver,
    /// An event, and its time in nanoseconds.
    base: (Handle<RawEvent>, i64),
    backend: Backend,
    inner: Mutex<Inner, { rank::PROFILE }>,
}

#[derive(Default)]
struct Inner {
    names: HashSet<Arc<str>>,
    /// The streams by the ids of their queues.
    streams: HashMap<u64, usize>,
    rows: Vec<Row>,
    threads: HashMap<ThreadId, u32>,
    thread_names: Vec<String>,
    kernels: HashMap<Arc<str>, Kernel>,
    operations: Vec<Operation>,
    ranges: Vec<UserRange>,
    memory: Vec<MemoryChange>,
    allocated: i64,
    /// Events that can be recorded again.
    free: Vec<Handle<RawEvent>>,
}

/// The operations of a stream.
struct Row {
    name: String,
    pending: VecDeque<Pending>,
    /// A later event than the base, and its time in nanoseconds.
    anchor: Option<(Handle<RawEvent>, i64)>,
}

/// An operation whose events have not been read.
struct Pending {
    operation: Operation,
    start: Handle<RawEvent>,
    end: Handle<RawEvent>,
}

thread_local! {
    /// The open ranges of this thread: the recorder, and the index of the range.
    static OPEN: RefCell<Vec<(usize, u32)>> = const { RefCell::new(Vec::new()) };
}

/// An open range, which ends when it is dropped.
pub(super) struct OpenRange<'a> {
    recorder: &'a Recorder,
    index: u32,
}

impl Recorder {
    /// Compares the clocks of the host and the device, with an event on an idle stream.
    pub(super) fn new(context: &Context, backend: Backend) -> Result<Self> {
        let stream = context.take_side_stream()?;
        let driver = context.driver().clone();
        let event = context.create_event(0)?;
        let origin = Instant::now();
        let recorded = stream.queueing(context).and_then(|queueing| {
            // SAFETY: the event and the stream must be alive ← both are owned here.
            unsafe { call!(driver, cuEventRecord(event.raw().0, queueing.raw())) }
        });
        let waited = recorded.and_then(|()| stream.synchronize(context));
        let between = nanoseconds(origin.elapsed()) / 2;
        context.keep_side_stream(stream);
        waited?;
        Ok(Self {
            origin,
            driver,
            base: (event, between),
            backend,
            inner: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Returns the time since the start in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        nanoseconds(self.origin.elapsed()).unsigned_abs()
    }

    fn address(&self) -> usize {
        (&raw const *self).addr()
    }

    pub(super) fn open_range(&self, name: &str) -> OpenRange<'_> {
        let start = self.now();
        let mut inner = self.lock();
        let index = u32::try_from(inner.ranges.len()).unwrap_or(u32::MAX);
        let (name, thread) = (inner.name(name), inner.thread());
        inner.ranges.push(UserRange {
            name,
            thread,
            parent: self.open(),
            start,
            end: start,
        });
        drop(inner);
        OPEN.with_borrow_mut(|open| open.push((self.address(), index)));
        OpenRange {
            recorder: self,
            index,
        }
    }

    /// The innermost open range of this thread.
    fn open(&self) -> Option<u32> {
        let address = self.address();
        OPEN.with_borrow(|open| {
            let own = open.iter().rev().find(|(recorder, _)| *recorder == address);
            own.map(|(_, index)| *index)
        })
    }

    /// Reads the events of all operations that are complete.
    pub(super) fn read(&self) {
        let mut inner = self.lock();
        for row in 0..inner.rows.len() {
            self.read_row(&mut inner, row, usize::MAX);
        }
    }

    /// Waits for all operations, and reads their events.
    pub(super) fn wait(&self) -> Result<()> {
        let mut result = Ok(());
        loop {
            self.read();
            let mut inner = self.lock();
            let mut rows = inner.rows.iter_mut();
            let Some(first) = rows.find_map(|row| row.pending.pop_front()) else {
                return Ok(result?);
            };
            drop(inner);
            // Waits without the lock.
            let _relaxed = self.driver.relaxed();
            // SAFETY: the event must be alive ← `first` owns it.
            let waited = unsafe { call!(self.driver, cuEventSynchronize(first.end.raw().0)) };
            let is_captured =
                |error: &DriverError| error.status() == CUresult::CUDA_ERROR_CAPTURED_EVENT;
            let row = first.operation.stream as usize;
            let mut inner = self.lock();
            let times = match waited {
                Ok(()) => self.times(&inner, row, &first).ok(),
                Err(error) if is_captured(&error) => None,
                Err(error) => {
                    result = result.and(Err(error));
                    None
                }
            };
            self.give_back(&mut inner, first, times);
        }
    }

    /// Reads at most `most` operations of a row. Stops at the first that is not complete.
    fn read_row(&self, inner: &mut Inner, row: usize, most: usize) {
        let _relaxed = self.driver.relaxed();
        for _ in 0..most {
            let Some(front) = inner.rows.get(row).and_then(|row| row.pending.front()) else {
                return;
            };
            let times = match self.times(inner, row, front) {
                Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => return,
                times => times.ok(),
            };
            let Some(pending) = inner
                .rows
                .get_mut(row)
                .and_then(|row| row.pending.pop_front())
            else {
                return;
            };
            self.give_back(inner, pending, times);
        }
    }

    /// Stores the operation with its start and its duration in nanoseconds, if they are known, and
    /// keeps its events for later.
    fn give_back(&self, inner: &mut Inner, pending: Pending, times: Option<(i64, u64)>) {
        let Pending {
            mut operation,
            start,
            end,
        } = pending;
        operation.run = times;
        let row = operation.stream as usize;
        inner.operations.push(operation);
        let anchor = inner.rows.get_mut(row).map(|row| &mut row.anchor);
        if let (Some((time, _)), Some(anchor)) = (times, anchor)
            && time - anchor.as_ref().map_or(self.base.1, |(_, at)| *at) > NEW_ANCHOR
        {
            let former = anchor.replace((start, time));
            inner.free.extend(former.map(|(event, _)| event));
        } else {
            inner.free.push(start);
        }
        inner.free.push(end);
    }

    /// Returns the start and the duration of an operation. Fails if it is not complete.
    fn times(
        &self,
        inner: &Inner,
        row: usize,
        pending: &Pending,
    ) -> Result<(i64, u64), DriverError> {
        let anchor = inner.rows.get(row).and_then(|row| row.anchor.as_ref());
        let (anchor, time) = anchor.unwrap_or(&self.base);
        let (start, end) = (pending.start.raw().0, pending.end.raw().0);
        let duration = self.elapsed(start, end)?;
        let until_start = self.elapsed(anchor.raw().0, start)?;
        Ok((time + until_start, duration.max(0).unsigned_abs()))
    }

    /// Returns the nanoseconds between two events. Fails if one of them is not complete.
    fn elapsed(&self, from: CUevent, to: CUevent) -> Result<i64, DriverError> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: the pointer must be writable and both events alive ← it is to a local, and the
        // callers own the events.
        unsafe {
            call!(
                self.driver,
                cuEventElapsedTime(&raw mut milliseconds, from, to)
            )
        }?;
        Ok((f64::from(milliseconds) * 1e6).round() as i64)
    }

    /// Takes an idle event or creates one, and records it.
    fn record(&self, site: &Site<'_>) -> Option<Handle<RawEvent>> {
        let free = self.lock().free.pop();
        let event = match free {
            Some(event) => event,
            None => (site.create)().ok()?,
        };
        // SAFETY: the event and the stream must be alive, and the context current if the stream is
        // a default stream ← `event` is owned, and the caller of the observer guarantees the rest.
        unsafe { call!(site.driver, cuEventRecord(event.raw().0, site.raw)) }.ok()?;
        Some(event)
    }

    pub(super) fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns whether CUPTI records when such work runs. It does not record host functions.
    fn is_recorded(&self, kind: WorkKind) -> bool {
        self.backend == Backend::Cupti && kind != WorkKind::HostFunction
    }

    /// Returns a copy of what was recorded and read. `add` adds the records of CUPTI.
    pub(super) fn profile(&self, context: &Context, add: impl FnOnce(&mut Profile)) -> Profile {
        let device = context.device();
        let name = device
            .name()
            .unwrap_or_else(|_| "unknown device".to_owned());
        let inner = self.lock();
        let mut profile = Profile {
            device: format!("Device {}: {name}", device.ordinal()),
            backend: self.backend,
            operations: inner.operations.clone(),
            streams: inner.rows.iter().map(|row| row.name.clone()).collect(),
            threads: inner.thread_names.clone(),
            kernels: inner.kernels.clone(),
            ranges: inner.ranges.clone(),
            memory: inner.memory.clone(),
        };
        let now = self.now();
        drop(inner);
        add(&mut profile);
        profile.prepare(now);
        profile
    }
}

impl Inner {
    /// Returns a shared copy of a name.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    /// Returns the index of this thread.
    fn thread(&mut self) -> u32 {
        let thread = thread::current();
        let next = self.thread_names.len() as u32;
        let index = *self.threads.entry(thread.id()).or_insert(next);
        if index == next {
            let name = thread
                .name()
                .map_or_else(|| format!("thread {next}"), str::to_owned);
            self.thread_names.push(name);
        }
        index
    }

    /// Returns the index of a stream.
    fn row(&mut self, site: &Site<'_>) -> usize {
        let next = self.rows.len();
        let row = *self.streams.entry(site.id).or_insert(next);
        if row == next {
            self.rows.push(Row {
                name: match site.raw.addr() {
                    1 => "legacy stream".to_owned(),
                    2 => format!("per-thread stream of {:?}", thread::current().id()),
                    _ => format!("stream {next}"),
                },
                pending: VecDeque::new(),
                anchor: None,
            });
        }
        row
    }
}

impl Observer for Recorder {
    fn begin(&self, site: &Site<'_>, work: &Work<'_>) -> Ticket {
        let start = if self.is_recorded(work.kind) {
            // An id of an earlier call would be taken for that of this one.
            cupti::take_correlation();
            None
        } else {
            self.record(site)
        };
        Ticket {
            start,
            begun: Instant::now(),
        }
    }

    fn end(&self, site: &Site<'_>, work: &Work<'_>, ticket: Ticket, is_queued: bool) {
        let call = ticket.begun.elapsed();
        let start = ticket.start;
        let correlation = match self.is_recorded(work.kind) {
            true => cupti::take_correlation(),
            false => 0,
        };
        if !is_queued {
            self.lock().free.extend(start);
            return;
        }
        let end = start.is_some().then(|| self.record(site)).flatten();
        let queued = nanoseconds(ticket.begun.duration_since(self.origin)).unsigned_abs();
        let mut inner = self.lock();
        let name = inner.name(work.name);
        let is_new = work.kernel.is_some() && !inner.kernels.contains_key(&name);
        if let (true, Some(launch)) = (is_new, &work.kernel) {
            drop(inner);
            let kernel = Kernel {
                config: launch.config,
                resources: (launch.resources)(),
                has_occupancy: true,
            };
            inner = self.lock();
            inner.kernels.insert(Arc::clone(&name), kernel);
        }
        let row = inner.row(site);
        let operation = Operation {
            kind: work.kind,
            origin: Origin::Call,
            correlation,
            name,
            stream: row as u32,
            thread: inner.thread(),
            range: self.open(),
            bytes: work.bytes,
            queued,
            call: nanoseconds(call).unsigned_abs(),
            run: None,
        };
        match (start, end) {
            (Some(start), Some(end)) => {
                let pending = Pending {
                    operation,
                    start,
                    end,
                };
                if let Some(row) = inner.rows.get_mut(row) {
                    row.pending.push_back(pending);
                }
            }
            (start, _) => {
                inner.operations.push(operation);
                inner.free.extend(start);
            }
        }
        let count = inner.rows.get(row).map_or(0, |row| row.pending.len());
        if count > READ_FROM {
            self.read_row(&mut inner, row, READ_AT_ONCE);
        }
    }

    fn memory(&self, change: i64) {
        let time = self.now();
        let mut inner = self.lock();
        inner.allocated += change;
        let allocated = inner.allocated;
        inner.memory.push(MemoryChange {
            time,
            change,
            allocated,
        });
    }
}

impl Drop for OpenRange<'_> {
    fn drop(&mut self) {
        let end = self.recorder.now();
        let key = (self.recorder.address(), self.index);
        OPEN.with_borrow_mut(|open| open.retain(|it| *it != key));
        let mut inner = self.recorder.lock();
        if let Some(range) = inner.ranges.get_mut(self.index as usize) {
            range.end = end.max(range.start + 1);
        }
    }
}

fn nanoseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

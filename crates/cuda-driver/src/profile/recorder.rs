//! The recorder of a profiler, which records events around each piece of work.
//! [`reading`](super::reading) reads them once they are complete.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::Instant;

use super::cupti::{self, Backend};
use super::names::Names;
use super::result::{Kernel, MemoryChange, Operation, Origin, Profile, UserRange};
use super::wake::{READ_NOW, Wake};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::Result;
use crate::fence::RawEvent;
use crate::handle::Handle;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::observer::{Observer, Site, Ticket, Work};
use crate::types::WorkKind;

/// The number of events that are created at once.
const NEW_EVENTS: usize = 64;
/// The number of operations that a call reads if the thread for it cannot keep up.
const READ_AT_ONCE: usize = 4;

pub(super) struct Recorder {
    /// A number that no other recorder of the process has.
    id: u64,
    /// The time at which all times are 0.
    origin: Instant,
    pub(super) driver: Driver,
    /// An event, and its time in nanoseconds.
    pub(super) base: (Handle<RawEvent>, i64),
    backend: Backend,
    /// The thread that reads events while work is being queued.
    pub(super) wake: Wake,
    /// Held by the thread that reads events.
    pub(super) reading: Mutex<(), { rank::PROFILE_READING }>,
    inner: Mutex<Inner, { rank::PROFILE }>,
}

#[derive(Default)]
pub(super) struct Inner {
    names: Names,
    /// The streams by the ids of their queues.
    streams: HashMap<u64, usize>,
    /// The stream that was found last.
    last_stream: Option<(u64, usize)>,
    pub(super) rows: Vec<Row>,
    threads: HashMap<ThreadId, u32>,
    thread_names: Vec<String>,
    kernels: HashMap<Arc<str>, Kernel>,
    pub(super) operations: Vec<Operation>,
    ranges: Vec<UserRange>,
    memory: Vec<MemoryChange>,
    allocated: i64,
    /// Events that can be recorded again.
    pub(super) free: Vec<Handle<RawEvent>>,
}

/// The operations of a stream.
pub(super) struct Row {
    name: String,
    pub(super) pending: VecDeque<Pending>,
    /// A later event than the base, and its time in nanoseconds.
    pub(super) anchor: Option<(Handle<RawEvent>, i64)>,
}

/// An operation whose events have not been read.
pub(super) struct Pending {
    pub(super) operation: Operation,
    pub(super) start: Handle<RawEvent>,
    pub(super) end: Handle<RawEvent>,
}

thread_local! {
    /// The open ranges of this thread: the id of the recorder, and the index of the range.
    static OPEN: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
    /// The index of this thread: the id of the recorder that saw it last, and the index.
    static THREAD: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// An open range, which ends when it is dropped.
pub(super) struct OpenRange<'a> {
    recorder: &'a Recorder,
    index: u32,
}

impl Recorder {
    /// Compares the clocks of the host and the device, with an event on an idle stream.
    pub(super) fn new(context: &Context, backend: Backend) -> Result<Self> {
        let stream = context.take_internal_stream()?;
        let driver = context.driver().clone();
        let event = context.create_event(0)?;
        let origin = Instant::now();
        let recorded = stream.queueing(context).and_then(|queueing| {
            // SAFETY: the event and the stream must be alive ← both are owned here.
            unsafe { call!(driver, cuEventRecord(event.raw().0, queueing.raw())) }
        });
        let waited = recorded.and_then(|()| stream.synchronize(context));
        let between = nanoseconds(origin.elapsed()) / 2;
        context.keep_internal_stream(stream);
        waited?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            origin,
            driver,
            base: (event, between),
            backend,
            wake: Wake::default(),
            reading: Mutex::default(),
            inner: Mutex::default(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Returns the time since the start in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        nanoseconds(self.origin.elapsed()).unsigned_abs()
    }

    pub(super) fn open_range(&self, name: &str) -> OpenRange<'_> {
        let start = self.now();
        let mut inner = self.lock();
        let index = u32::try_from(inner.ranges.len()).unwrap_or(u32::MAX);
        let (name, thread) = (inner.names.get(name).text, inner.thread(self.id));
        inner.ranges.push(UserRange {
            name,
            thread,
            parent: self.open(),
            start,
            end: start,
        });
        drop(inner);
        // While the thread ends, nothing is queued within the range.
        let _ = OPEN.try_with(|open| open.borrow_mut().push((self.id, index)));
        OpenRange {
            recorder: self,
            index,
        }
    }

    /// The innermost open range of this thread.
    fn open(&self) -> Option<u32> {
        let innermost = OPEN.try_with(|open| {
            let open = open.borrow();
            let own = open.iter().rev().find(|(recorder, _)| *recorder == self.id);
            own.map(|(_, index)| *index)
        });
        innermost.ok().flatten()
    }

    /// Takes two idle events, or creates some, and records the first.
    fn record_start(&self, site: &Site<'_>) -> Option<(Handle<RawEvent>, Handle<RawEvent>)> {
        let mut inner = self.lock();
        let (start, end) = match (inner.free.pop(), inner.free.pop()) {
            (Some(start), Some(end)) => (start, end),
            (one, _) => {
                drop(inner);
                let mut new = (site.create)(NEW_EVENTS).ok()?;
                new.extend(one);
                let taken = (new.pop()?, new.pop()?);
                self.lock().free.append(&mut new);
                taken
            }
        };
        match self.record(site, &start) {
            Some(()) => Some((start, end)),
            None => {
                self.lock().free.extend([start, end]);
                None
            }
        }
    }

    fn record(&self, site: &Site<'_>, event: &Handle<RawEvent>) -> Option<()> {
        // SAFETY: the event and the stream must be alive, and the context current if the stream is
        // a default stream ← `event` is borrowed, and the caller of the observer guarantees the
        // rest.
        unsafe { call!(site.driver, cuEventRecord(event.raw().0, site.raw)) }.ok()
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
    /// Returns the index of this thread. `recorder` is the id of the recorder.
    fn thread(&mut self, recorder: u64) -> u32 {
        let (last, index) = THREAD.try_with(Cell::get).unwrap_or((0, 0));
        if last == recorder {
            return index;
        }
        let thread = thread::current();
        let next = self.thread_names.len() as u32;
        let index = *self.threads.entry(thread.id()).or_insert(next);
        if index == next {
            let name = thread
                .name()
                .map_or_else(|| format!("thread {next}"), str::to_owned);
            self.thread_names.push(name);
        }
        let _ = THREAD.try_with(|it| it.set((recorder, index)));
        index
    }

    /// Returns the index of a stream.
    fn row(&mut self, site: &Site<'_>) -> usize {
        if let Some((id, row)) = self.last_stream
            && id == site.id
        {
            return row;
        }
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
        self.last_stream = Some((site.id, row));
        row
    }
}

impl Observer for Recorder {
    fn begin(&self, site: &Site<'_>, work: &Work<'_>) -> Ticket {
        let events = if self.is_recorded(work.kind) {
            // An id of an earlier call would be taken for that of this one.
            cupti::take_correlation();
            None
        } else {
            self.record_start(site)
        };
        Ticket {
            events,
            begun: Instant::now(),
        }
    }

    fn end(&self, site: &Site<'_>, work: &Work<'_>, ticket: Ticket, is_queued: bool) {
        let call = ticket.begun.elapsed();
        let mut events = ticket.events;
        let correlation = match self.is_recorded(work.kind) {
            true => cupti::take_correlation(),
            false => 0,
        };
        if let Some((start, end)) =
            events.take_if(|(_, end)| !is_queued || self.record(site, end).is_none())
        {
            self.lock().free.extend([start, end]);
        }
        if !is_queued {
            return;
        }
        let queued = nanoseconds(ticket.begun.duration_since(self.origin)).unsigned_abs();
        let range = self.open();
        let mut inner = self.lock();
        let name = inner.names.get(work.name);
        if let (false, Some(launch)) = (name.is_kernel, &work.kernel) {
            drop(inner);
            let kernel = Kernel {
                config: launch.config,
                resources: (launch.resources)(),
                has_occupancy: true,
            };
            inner = self.lock();
            inner
                .kernels
                .entry(Arc::clone(&name.text))
                .or_insert(kernel);
            inner.names.mark_kernel(&name.text);
        }
        let row = inner.row(site);
        let operation = Operation {
            kind: work.kind,
            origin: Origin::Call,
            correlation,
            name: name.text,
            stream: row as u32,
            thread: inner.thread(self.id),
            range,
            bytes: work.bytes,
            queued,
            call: nanoseconds(call).unsigned_abs(),
            run: None,
        };
        let Some((start, end)) = events else {
            return inner.operations.push(operation);
        };
        let Some(pending) = inner.rows.get_mut(row).map(|row| &mut row.pending) else {
            return;
        };
        pending.push_back(Pending {
            operation,
            start,
            end,
        });
        let count = pending.len();
        drop(inner);
        if count > READ_NOW {
            self.read_row(row, READ_AT_ONCE);
        } else {
            self.wake.wake(count);
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
        let key = (self.recorder.id, self.index);
        let _ = OPEN.try_with(|open| open.borrow_mut().retain(|it| *it != key));
        let mut inner = self.recorder.lock();
        if let Some(range) = inner.ranges.get_mut(self.index as usize) {
            range.end = end.max(range.start + 1);
        }
    }
}

fn nanoseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

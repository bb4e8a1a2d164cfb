//! The data of a stream that its context can own: the handle of the driver, an id, an epoch and a
//! tail. The methods of `StreamState` that need the context, and its checkpoints, are in
//! `stream/state`.

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cuda_sys::{CUstream, CUstream_st};
use once_cell::sync::OnceCell;

use crate::driver::{Driver, call};
use crate::error::DriverError;
use crate::fence::Fence;
use crate::handle::{Destroy, Handle};
use crate::launch_log::{ContextLaunches, RecentLaunches};
use crate::lock::{Mutex, MutexGuard, rank};
#[cfg(feature = "profile")]
use crate::observer::Observer;
use crate::observer::ObserverSlot;
use crate::reports::Reports;
use crate::types::SendPtr;

/// `CU_STREAM_LEGACY`
pub(crate) const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`
pub(crate) const PER_THREAD: usize = 2;

/// The streams that a context shares among all its handles.
#[derive(Default)]
pub(crate) struct ContextStreams {
    pub(crate) default: OnceCell<Arc<StreamState>>,
    pub(crate) legacy: OnceCell<Arc<StreamState>>,
    pub(crate) per_thread: OnceCell<Arc<StreamState>>,
    /// The streams that the program or other code created, by the address of the raw stream. The
    /// driver uses an address again after the stream was destroyed, so there are at most as many
    /// entries as streams existed at the same time.
    by_address: Mutex<HashMap<usize, Weak<StreamState>>, { rank::STREAMS_BY_ADDRESS }>,
    /// The legacy stream and the streams that it waits for.
    blocking: Mutex<Vec<Weak<StreamState>>, { rank::BLOCKING_STREAMS }>,
    /// The observer of all streams of the program, including those that are created later.
    #[cfg_attr(
        not(feature = "profile"),
        allow(dead_code, reason = "set by the profiler")
    )]
    pub(crate) observer: ObserverSlot,
    /// Idle streams for internal work.
    pub(crate) internal: Mutex<Vec<Arc<StreamState>>, { rank::INTERNAL_STREAMS }>,
}

impl ContextStreams {
    pub(crate) fn add_blocking(&self, stream: &Arc<StreamState>) {
        let mut blocking = self.blocking.lock();
        blocking.retain(|stream| stream.strong_count() > 0);
        blocking.push(Arc::downgrade(stream));
    }

    /// Registers a stream, so that [`find_or_add`](Self::find_or_add) finds it.
    pub(crate) fn register(&self, stream: &Arc<StreamState>) {
        let address = stream.raw().addr();
        self.by_address
            .lock()
            .insert(address, Arc::downgrade(stream));
        self.inherit_observer(stream);
    }

    /// Gives a stream the observer of the context.
    pub(crate) fn inherit_observer(&self, stream: &StreamState) {
        #[cfg(feature = "profile")]
        if self.observer.is_set() && !stream.observer.is_set() {
            stream.set_observer(self.observer.get());
        }
        #[cfg(not(feature = "profile"))]
        let _ = stream;
    }

    /// Returns the streams of the program.
    pub(crate) fn of_program(&self) -> Vec<Arc<StreamState>> {
        let by_address = self.by_address.lock();
        let mut streams: Vec<_> = by_address.values().filter_map(Weak::upgrade).collect();
        drop(by_address);
        let of_c = [&self.legacy, &self.per_thread];
        streams.extend(of_c.iter().filter_map(|cell| cell.get()).map(Arc::clone));
        streams
    }

    /// Returns the state of the stream `raw`, or creates it with `make`.
    pub(crate) fn find_or_add(
        &self,
        raw: CUstream,
        make: impl FnOnce() -> Arc<StreamState>,
    ) -> Arc<StreamState> {
        let mut by_address = self.by_address.lock();
        if let Some(known) = by_address.get(&raw.addr()).and_then(Weak::upgrade) {
            return known;
        }
        let stream = make();
        by_address.insert(raw.addr(), Arc::downgrade(&stream));
        stream
    }

    pub(crate) fn blocking(&self) -> Vec<Arc<StreamState>> {
        self.blocking
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

/// The state of a stream. The methods that need the context are in the module `stream`.
pub(crate) struct StreamState {
    raw: SendPtr<CUstream_st>,
    /// Incremented by each checkpoint. Queued work belongs to the epoch that is read after queueing
    /// it.
    epoch: AtomicU64,
    kind: Kind,
    /// Why launches need further work even if their arguments need no wait: 0, or a combination of
    /// `ALWAYS`, `OBSERVED`, `CAPTURABLE` and `RECORDED`.
    indirect: AtomicU8,
    /// Whether an eager capture of this stream exists.
    has_recorder: AtomicBool,
    /// Sees the work that is queued, if there is a profiler.
    observer: ObserverSlot,
    launches: Arc<RecentLaunches>,
    /// Never reused in a process, unlike the handle.
    id: u64,
    /// Whether this is a blocking stream in the sense of CUDA: it and the legacy stream wait for
    /// each other.
    is_blocking: bool,
    /// Used only for the legacy stream: whether it was used since its last checkpoint.
    is_used: AtomicBool,
    tail: Mutex<Tail, { rank::STREAM_TAIL }>,
    /// The reports of checked launches. The handles of the stream own them: a report owns memory,
    /// and that owns this state.
    reports: Mutex<Weak<Reports>, { rank::STREAM_REPORTS }>,
    /// `None` for the default streams of C, which are never destroyed.
    handle: Option<Handle<RawStream>>,
    driver: Driver,
}

/// The origin of a stream, which decides what its handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stream that this crate or other code created. Its handle refers to the same stream
    /// everywhere.
    Own,
    /// `CU_STREAM_LEGACY`: the stream depends on the current context.
    Legacy,
    /// `CU_STREAM_PER_THREAD`: the stream depends on the current context and on the calling thread.
    PerThread,
}

/// The known state of the end of a stream. Locked while an event is recorded there.
#[derive(Default)]
pub(crate) struct Tail {
    /// The number of use events that were recorded. The numbers follow the order of the stream.
    pub(crate) turn: u64,
    /// All work of epochs before this one is complete.
    pub(crate) completed: u64,
    /// The epochs that ended since, each with the event recorded after its work.
    pub(crate) checkpoints: Vec<(u64, Fence)>,
}

/// Every launch needs further work: the stream is a default stream of C, or the driver asks for the
/// memory of launches.
const ALWAYS: u8 = 1;
/// An observer sees the work on the stream.
#[cfg(feature = "profile")]
const OBSERVED: u8 = 2;
/// Other code may capture the stream.
const CAPTURABLE: u8 = 4;
/// An eager capture captures the calls on the stream.
const RECORDED: u8 = 8;

/// Returns whether launches on a new stream need no further work if their arguments need no wait.
fn can_launch_directly(kind: Kind, driver: &Driver) -> bool {
    kind == Kind::Own && driver.library().launch_uses().is_none()
}

pub(crate) struct RawStream;

impl Destroy for RawStream {
    type Raw = SendPtr<CUstream_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // A stream of a context that was reset and retained again would crash the process.
        driver.look_for_reset();
        // SAFETY: the stream must be alive ← the handle owns it, and no call is made if its context
        // was reset. Work that is still queued runs to its end.
        unsafe { call!(driver, cuStreamDestroy_v2(raw.0)) }
    }
}

/// Returns a stream id that was never used before.
fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the number of this thread. Numbers start at 1.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl StreamState {
    /// Creates the state of a stream that is not a default stream of C.
    pub(crate) fn of_handle(
        handle: Handle<RawStream>,
        is_blocking: bool,
        launches: &ContextLaunches,
    ) -> Self {
        let (raw, driver) = (handle.raw(), handle.driver().clone());
        Self::new(raw, Kind::Own, is_blocking, launches, Some(handle), driver)
    }

    /// Creates the state of a default stream of C.
    pub(crate) fn of_default(kind: Kind, launches: &ContextLaunches, driver: &Driver) -> Self {
        let raw = match kind {
            Kind::PerThread => PER_THREAD,
            Kind::Legacy | Kind::Own => LEGACY,
        };
        let raw = SendPtr(ptr::without_provenance_mut(raw));
        Self::new(raw, kind, true, launches, None, driver.clone())
    }

    fn new(
        raw: SendPtr<CUstream_st>,
        kind: Kind,
        is_blocking: bool,
        launches: &ContextLaunches,
        handle: Option<Handle<RawStream>>,
        driver: Driver,
    ) -> Self {
        Self {
            raw,
            epoch: AtomicU64::new(0),
            kind,
            indirect: AtomicU8::new(if can_launch_directly(kind, &driver) {
                0
            } else {
                ALWAYS
            }),
            has_recorder: AtomicBool::new(false),
            observer: ObserverSlot::default(),
            launches: launches.of_stream(raw.0),
            id: fresh_id(),
            is_blocking,
            is_used: AtomicBool::new(false),
            tail: Mutex::default(),
            reports: Mutex::default(),
            handle,
            driver,
        }
    }

    /// Returns the reports that all handles of this stream share.
    pub(crate) fn reports(&self) -> Arc<Reports> {
        let mut shared = self.reports.lock();
        shared.upgrade().unwrap_or_else(|| {
            let reports = Arc::default();
            *shared = Arc::downgrade(&reports);
            reports
        })
    }

    /// The handle for calls that queue nothing, and for calls inside
    /// [`queue_host_wait`](Self::queue_host_wait).
    pub(crate) fn raw(&self) -> CUstream {
        self.raw.0
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    #[inline]
    pub(crate) fn launches(&self) -> &RecentLaunches {
        &self.launches
    }

    #[inline]
    pub(crate) fn launches_directly(&self) -> bool {
        self.indirect.load(Ordering::Relaxed) == 0
    }

    /// Returns whether other code may capture the stream. Then each call asks first whether it
    /// does.
    #[inline]
    pub(crate) fn may_capture(&self) -> bool {
        self.indirect.load(Ordering::Relaxed) & CAPTURABLE != 0
    }

    /// Returns whether launches need further work only because other code may capture the stream.
    #[inline]
    pub(crate) fn may_only_be_captured(&self) -> bool {
        self.indirect.load(Ordering::Relaxed) == CAPTURABLE
    }

    /// Makes each later call ask whether other code captures the stream.
    pub(crate) fn allow_capture(&self) {
        self.indirect.fetch_or(CAPTURABLE, Ordering::Relaxed);
    }

    /// Returns whether an eager capture captures the calls on the stream.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.indirect.load(Ordering::Relaxed) & RECORDED != 0
    }

    /// Sets whether an eager capture captures the calls on the stream.
    pub(crate) fn set_recorded(&self, is_recorded: bool) {
        if is_recorded {
            self.indirect.fetch_or(RECORDED, Ordering::Relaxed);
        } else {
            self.indirect.fetch_and(!RECORDED, Ordering::Relaxed);
        }
    }

    /// Claims the stream for an eager capture. Returns `false` if another one exists.
    pub(crate) fn claim_recorder(&self) -> bool {
        !self.has_recorder.swap(true, Ordering::AcqRel)
    }

    /// Ends the claim of an eager capture.
    pub(crate) fn release_recorder(&self) {
        self.set_recorded(false);
        self.has_recorder.store(false, Ordering::Release);
    }

    #[inline]
    pub(crate) fn observer(&self) -> &ObserverSlot {
        &self.observer
    }

    /// Sets the observer of the work on this stream.
    #[cfg(feature = "profile")]
    pub(crate) fn set_observer(&self, observer: Option<Arc<dyn Observer>>) {
        let is_observed = observer.is_some();
        self.observer.set(observer);
        if is_observed {
            self.indirect.fetch_or(OBSERVED, Ordering::Relaxed);
        } else {
            self.indirect.fetch_and(!OBSERVED, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the id of the queue as seen by this thread. It is the same on all threads, except
    /// for the per-thread stream.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        if self.kind == Kind::PerThread {
            self.id_of_this_thread()
        } else {
            self.id
        }
    }

    #[cold]
    fn id_of_this_thread(&self) -> u64 {
        match (u32::try_from(self.id), u32::try_from(this_thread())) {
            (Ok(stream), Ok(thread)) => {
                1 << 63 | u64::from(stream & 0x7FFF_FFFF) << 32 | u64::from(thread)
            }
            // The numbers are too large to combine. A fresh id makes each use look like another
            // queue, which only costs unnecessary waits.
            _ => fresh_id(),
        }
    }

    /// Returns the id that all threads share.
    #[inline]
    pub(crate) fn shared_id(&self) -> u64 {
        self.id
    }

    /// Returns the epoch of the work that was queued so far.
    ///
    /// If the driver queued a call of this thread before a checkpoint, this returns the epoch that
    /// the checkpoint ended, or an earlier one. Reason: the epoch is incremented before the
    /// checkpoint is recorded, and two calls on one stream take effect in the order in which they
    /// happen.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Acquire);
        if self.kind == Kind::Legacy {
            // This store follows the read of the epoch: a checkpoint that misses the store ends
            // this epoch or a later one.
            self.is_used.store(true, Ordering::Release);
        }
        epoch
    }

    /// Ends the epoch, and returns its number.
    pub(crate) fn end_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel)
    }

    /// Returns whether the stream was used since the last call. Only for the legacy stream.
    pub(crate) fn take_used(&self) -> bool {
        self.is_used.swap(false, Ordering::AcqRel)
    }

    /// Records a use. Only for the legacy stream.
    pub(crate) fn set_used(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// Returns whether the stream and the legacy stream wait for each other.
    pub(crate) fn is_blocking(&self) -> bool {
        self.is_blocking
    }

    /// Locks the tail. Where several tails are locked, the order is that of their addresses.
    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Returns the address of the lock of the tail.
    pub(crate) fn tail_address(&self) -> usize {
        (&raw const self.tail).addr()
    }

    /// Returns whether other code owns the stream.
    pub(crate) fn is_foreign(&self) -> bool {
        self.handle.as_ref().is_some_and(Handle::is_foreign)
    }

    /// Destroys the stream, unless it is a default stream of C or other code owns it.
    pub(crate) fn close(self) -> Result<(), DriverError> {
        self.handle.map_or(Ok(()), Handle::close)
    }

    /// Calls `wait`. If it succeeds, records that all earlier launches are complete.
    pub(crate) fn mark_complete_after<R, E>(
        &self,
        wait: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let count = self.launches.count();
        let result = wait()?;
        // On the per-thread stream, only the work of this thread is complete.
        if self.kind != Kind::PerThread {
            self.launches.mark_complete(count);
        }
        Ok(result)
    }
}

impl Tail {
    /// Looks up the end of `epoch` without recording an event. Returns the event after it and the
    /// last epoch that the event covers; the inner value is `None` if all of that work is complete.
    pub(crate) fn find(&self, epoch: u64) -> Option<Option<(Fence, u64)>> {
        if epoch < self.completed {
            return Some(None);
        }
        let found = self.checkpoints.iter().find(|(ended, _)| *ended >= epoch);
        found.map(|(ended, event)| Some((event.clone(), *ended)))
    }
}

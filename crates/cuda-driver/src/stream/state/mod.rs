//! The part of a stream that dependency tracking needs: a queue with an id, a tail, and
//! checkpoints.
//!
//! A use without an event of its own is waited for by an event at the tail of its stream. That is
//! wrong if the tail comes after an operation that waits for the program: a value, or a host
//! function. So an event, called a checkpoint, is recorded before each of those, and starts a new
//! epoch of the stream. A use remembers the epoch in which it was queued, and a wait for the use
//! waits for the checkpoint that ended that epoch.

mod checkpoint;

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cuda_sys::{CUstream, CUstream_st};

use super::{StreamFlags, default};
use crate::context::{Context, Current};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::event::UseEvent;
use crate::handle::{Destroy, Handle, SendPtr};
use crate::launch_log::RecentLaunches;
use crate::lock::{Mutex, MutexGuard, rank};

/// A stream without its context, so that the context itself can own it.
pub(crate) struct StreamState {
    raw: SendPtr<CUstream_st>,
    /// Incremented by each checkpoint. Queued work belongs to the epoch that is read after queueing
    /// it.
    epoch: AtomicU64,
    kind: Kind,
    launches: Arc<RecentLaunches>,
    /// Never reused in a process, unlike the handle.
    id: u64,
    /// Whether the stream and the legacy stream wait for each other.
    is_blocking: bool,
    /// Used only for the legacy stream: whether it was used since its last checkpoint.
    is_used: AtomicBool,
    tail: Mutex<Tail, { rank::STREAM_TAIL }>,
    /// `None` for the default streams of C, which are never destroyed.
    handle: Option<Handle<RawStream>>,
    driver: Driver,
}

/// The origin of a stream, which decides what its handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stream that was created. Its handle refers to the same stream everywhere.
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
    turn: u64,
    /// All work of epochs before this one is complete.
    settled: u64,
    /// The epochs that ended since, each with the event recorded after its work.
    checkpoints: Vec<(u64, UseEvent)>,
}

pub(crate) struct RawStream;

impl Destroy for RawStream {
    type Raw = SendPtr<CUstream_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the stream must be alive ← the handle owns it. Work that is still queued runs to
        // its end.
        unsafe { call!(driver, cuStreamDestroy_v2(raw.0)) }
    }
}

/// The handle of a stream for a call that queues work: see [`StreamState::queueing`].
pub(crate) struct Queueing<'a> {
    raw: CUstream,
    /// Keeps the context current during the call, if the handle depends on it.
    current: Option<Current<'a>>,
}

impl<'a> Queueing<'a> {
    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(crate) fn into_current(self) -> Option<Current<'a>> {
        self.current
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
    /// `cuStreamCreateWithPriority(flags, priority)`—Creates a stream.
    pub(crate) fn create(context: &Context, flags: u32, priority: i32) -> Result<Arc<Self>> {
        let driver = context.driver();
        let mut raw = ptr::null_mut();
        let current = context.enter()?;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe {
            call!(
                driver,
                cuStreamCreateWithPriority(&raw mut raw, flags, priority)
            )
        }?;
        drop(current);
        // SAFETY: the handle must be the only owner ← the stream was created just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let is_blocking = !StreamFlags::from_bits_retain(flags).contains(StreamFlags::NON_BLOCKING);
        let this = Arc::new(Self {
            raw: SendPtr(raw),
            epoch: AtomicU64::new(0),
            kind: Kind::Own,
            launches: context.launches().of_stream(raw),
            id: fresh_id(),
            is_blocking,
            is_used: AtomicBool::new(false),
            tail: Mutex::default(),
            handle: Some(handle),
            driver: driver.clone(),
        });
        if is_blocking {
            context.streams().add_blocking(&this);
        }
        Ok(this)
    }

    /// Creates the state of a default stream of C.
    pub(super) fn default_of(context: &Context, kind: Kind) -> Arc<Self> {
        let raw = match kind {
            Kind::PerThread => default::PER_THREAD,
            Kind::Legacy | Kind::Own => default::LEGACY,
        };
        let raw = ptr::without_provenance_mut(raw);
        let this = Arc::new(Self {
            raw: SendPtr(raw),
            epoch: AtomicU64::new(0),
            kind,
            launches: context.launches().of_stream(raw),
            id: fresh_id(),
            is_blocking: true,
            is_used: AtomicBool::new(false),
            tail: Mutex::default(),
            handle: None,
            driver: context.driver().clone(),
        });
        if kind == Kind::Legacy {
            context.streams().add_blocking(&this);
        }
        this
    }

    /// The handle for calls that queue nothing, and for calls inside [`block`](Self::block).
    pub(super) fn raw(&self) -> CUstream {
        self.raw.0
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    #[inline]
    pub(crate) fn launches(&self) -> &RecentLaunches {
        &self.launches
    }

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

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Prepares a call that queues work on this stream: returns the handle for it, and makes
    /// `context`, which must be the stream's, current if the handle needs that.
    ///
    /// Work on the legacy stream waits for the blocking streams, and later work on those waits for
    /// it. So if a stream may be waiting for the program, each blocking stream gets a checkpoint
    /// first, so that earlier uses on it can still be waited for separately. A default stream
    /// cannot be used without a current context, and only this function and
    /// [`bind_to_ask`](Self::bind_to_ask) provide one, so no call that queues work can skip the
    /// step.
    #[inline]
    pub(crate) fn queueing<'a>(&self, context: &'a Context) -> Result<Queueing<'a>, DriverError> {
        let current = match self.kind {
            Kind::Own => None,
            Kind::Legacy | Kind::PerThread => {
                let current = self.bind_to_ask(context)?;
                if self.holds_up_others() {
                    self.with_tails(context, |_| Ok(()))?;
                }
                current
            }
        };
        Ok(Queueing {
            raw: self.raw(),
            current,
        })
    }

    /// Returns whether work that is queued here may wait for the program and make other streams
    /// wait too.
    fn holds_up_others(&self) -> bool {
        self.kind == Kind::Legacy && self.driver.may_block()
    }

    /// Makes `context`, which must be the stream's, current for a call that needs it and queues
    /// nothing.
    #[inline]
    pub(crate) fn bind_to_ask<'a>(
        &self,
        context: &'a Context,
    ) -> Result<Option<Current<'a>>, DriverError> {
        if self.kind == Kind::Own {
            Ok(None)
        } else {
            context.enter().map(Some)
        }
    }

    /// Destroys the stream, unless it is a default stream of C.
    pub(super) fn close(self) -> Result<(), DriverError> {
        self.handle.map_or(Ok(()), Handle::close)
    }

    /// Waits until all queued work is complete. Used where the program did not ask for the wait, so
    /// the call must not break a capture of other code.
    pub(crate) fn synchronize(&self, context: &Context) -> Result<(), DriverError> {
        let _relaxed = self.driver.relaxed();
        self.synchronize_by_name(context)
    }

    /// Waits until all queued work is complete, where the program explicitly asked for the wait.
    pub(crate) fn synchronize_by_name(&self, context: &Context) -> Result<(), DriverError> {
        let _current = self.bind_to_ask(context)?;
        self.settle_after(|| {
            // SAFETY: the stream must be alive ← `self` owns it.
            unsafe { call!(self.driver, cuStreamSynchronize(self.raw())) }
        })
    }

    /// Returns whether all queued work is known to be complete.
    pub(crate) fn is_done(&self, context: &Context) -> bool {
        let Ok(_current) = self.bind_to_ask(context) else {
            return false;
        };
        let _relaxed = self.driver.relaxed();
        // SAFETY: the stream must be alive ← `self` owns it.
        unsafe { call!(self.driver, cuStreamQuery(self.raw())) }.is_ok()
    }

    /// Calls `wait`. If it succeeds, records that all earlier launches are complete.
    pub(crate) fn settle_after<R, E>(&self, wait: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let count = self.launches.count();
        let result = wait()?;
        // On the per-thread stream, only the work of this thread is complete.
        if self.kind != Kind::PerThread {
            self.launches.settle(count);
        }
        Ok(result)
    }

    /// Makes the stream wait for a raw event.
    pub(crate) fn wait(
        &self,
        context: &Context,
        event: cuda_sys::CUevent,
    ) -> Result<(), DriverError> {
        if self.driver.may_block() {
            // The work before the event may wait for the program.
            self.block(context, || self.wait_at_once(context, event))
        } else {
            self.wait_at_once(context, event)
        }
    }

    /// Makes the stream wait for a raw event without a checkpoint. Only for a stream without uses
    /// that other streams may have to wait for, and while no stream may wait for the program.
    pub(crate) fn wait_at_once(
        &self,
        context: &Context,
        event: cuda_sys::CUevent,
    ) -> Result<(), DriverError> {
        let _current = self.bind_to_ask(context)?;
        // SAFETY: the stream and the event must be alive during the call ← `self` owns the stream,
        // and the caller owns the event; the driver captures the state of the event during the
        // call.
        unsafe { call!(self.driver, cuStreamWaitEvent(self.raw(), event, 0)) }
    }
}

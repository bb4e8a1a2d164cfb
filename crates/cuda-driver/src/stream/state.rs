//! What a stream is to the order of uses: a queue with an identity, a tail, and checkpoints.
//!
//! A use that is not recorded is waited for by the tail of its stream. That is wrong where the tail
//! stands behind something that waits for the program: a value, or a host function. So an event, a
//! checkpoint, is recorded before each of those, and begins a new epoch of the stream. A use
//! remembers the epoch in which it was queued, and whoever has to wait for it waits for the
//! checkpoint that ended that epoch.

mod checkpoint;

use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cuda_sys::{CUstream, CUstream_st};

use super::{StreamFlags, default};
use crate::context::{Context, Current};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::event::UseEvent;
use crate::handle::{Destroy, Handle};
use crate::launch::RecentLaunches;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::planted::Fault;

/// A stream without its context: what the context itself can hold.
pub(crate) struct StreamState {
    raw: SendPtr<CUstream_st>,
    /// Moves on with each checkpoint; what is queued belongs to the one that is read behind it.
    epoch: AtomicU64,
    kind: Kind,
    launches: Arc<RecentLaunches>,
    /// Never used twice in a process, unlike the handle.
    id: u64,
    /// Whether the legacy stream waits for it, and it for the legacy stream.
    is_blocking: bool,
    /// Only of the legacy stream: whether it was used since its last checkpoint.
    is_used: AtomicBool,
    tail: Mutex<Tail, { rank::STREAM_TAIL }>,
    /// `None` for the default streams of C, which nobody destroys.
    handle: Option<Handle<RawStream>>,
    driver: Driver,
}

/// Whose stream it is, and what its handle means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One that was created: its handle means the same everywhere.
    Own,
    /// `CU_STREAM_LEGACY`: of the context that is current.
    Legacy,
    /// `CU_STREAM_PER_THREAD`: of the context that is current, and of the thread that calls.
    PerThread,
}

/// What is known of the end of a stream. Locked while something is recorded there.
#[derive(Default)]
pub(crate) struct Tail {
    /// How many use events were recorded. Numbers are in the stream's order.
    turn: u64,
    /// All that was queued in epochs before this one is done.
    settled: u64,
    /// The epochs that ended since, and the events behind what was queued in them.
    checkpoints: Vec<(u64, UseEvent)>,
}

pub(crate) struct RawStream;

impl Destroy for RawStream {
    type Raw = SendPtr<CUstream_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the stream must be alive ← the handle owns it. Work still in it runs to its end.
        unsafe { call!(driver, cuStreamDestroy_v2(raw.0)) }
    }
}

/// The handle of a stream for a call that queues something: see [`StreamState::queueing`].
pub(crate) struct Queueing<'a> {
    raw: CUstream,
    /// Current for the call, if the handle means nothing without it.
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

/// A raw handle that may go to another thread.
pub(crate) struct SendPtr<T>(pub(crate) *mut T);

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SendPtr<T> {}

impl<T> fmt::Debug for SendPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: the pointer is never followed here, it only names an object of the driver, which is
// thread safe (docs/safety.md, Threads).
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SendPtr<T> {}

/// The next identity of a stream.
fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number for this thread, from 1 on.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if Fault::PerThreadAsOne.is_planted() {
        return 1;
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl StreamState {
    /// `cuStreamCreateWithPriority(flags, priority)`.
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
        // SAFETY: nobody else must destroy it ← it was made just now.
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

    /// A default stream of C.
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

    /// Which queue it is, for this thread: the same for all threads, unless it is the per-thread
    /// stream.
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
            // Too many to be told apart: a new queue each time, which is waited for once too often.
            _ => fresh_id(),
        }
    }

    /// The identity that all threads share.
    #[inline]
    pub(crate) fn shared_id(&self) -> u64 {
        self.id
    }

    /// The epoch that what was queued so far belongs to.
    ///
    /// If the driver has put a call of this thread before a checkpoint, this is the epoch that the
    /// checkpoint ended, or one before: the epoch moves before the checkpoint is recorded, and what
    /// two calls on one stream do is in the order in which they happen.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Acquire);
        if self.kind == Kind::Legacy {
            // After the epoch was read: a checkpoint that misses this ends this epoch or a later
            // one.
            self.is_used.store(true, Ordering::Release);
        }
        epoch
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Prepares a call that queues something on this stream: gives the handle for it, and makes
    /// `context`, which must be the stream's, current if the handle needs that.
    ///
    /// Work on the legacy stream waits for the blocking streams, and later work on those waits for
    /// it. So if a stream may be waiting for the program, each blocking stream gets a checkpoint
    /// first: earlier uses on it can still be waited for on their own. A default stream cannot be
    /// used without a current context, and only this function and
    /// [`bind_to_ask`](Self::bind_to_ask) provide one, so no call that queues can skip the step.
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

    /// Whether work queued here may wait for the program and make other streams wait with it.
    fn holds_up_others(&self) -> bool {
        self.kind == Kind::Legacy && self.driver.may_block()
    }

    /// Makes `context`, which must be that of the stream, current for a call that needs it and
    /// queues nothing.
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

    /// Destroys the stream if it is one that was created.
    pub(super) fn close(self) -> Result<(), DriverError> {
        self.handle.map_or(Ok(()), Handle::close)
    }

    /// Waits until all that was queued is done, without a call of the program that names the wait.
    pub(crate) fn synchronize(&self, context: &Context) -> Result<(), DriverError> {
        let _relaxed = self.driver.relaxed();
        self.synchronize_by_name(context)
    }

    /// Waits until all that was queued is done, as the program asked by name.
    pub(crate) fn synchronize_by_name(&self, context: &Context) -> Result<(), DriverError> {
        let _current = self.bind_to_ask(context)?;
        self.settle_after(|| {
            // SAFETY: the stream must be alive ← `self` owns it.
            unsafe { call!(self.driver, cuStreamSynchronize(self.raw())) }
        })
    }

    /// Whether all that was queued is known to be done.
    pub(crate) fn is_done(&self, context: &Context) -> bool {
        let Ok(_current) = self.bind_to_ask(context) else {
            return false;
        };
        let _relaxed = self.driver.relaxed();
        // SAFETY: the stream must be alive ← `self` owns it.
        unsafe { call!(self.driver, cuStreamQuery(self.raw())) }.is_ok()
    }

    /// Calls `wait`; if it succeeds, all launches before are done.
    pub(crate) fn settle_after<R, E>(&self, wait: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let count = self.launches.count();
        let result = wait()?;
        // The per-thread stream is done for this thread only.
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
            // What the event stands for may wait for the program.
            self.block(context, || self.wait_at_once(context, event))
        } else {
            self.wait_at_once(context, event)
        }
    }

    /// The same for a stream on which nothing was used that others may have to wait for, and where
    /// no stream may wait for the program.
    pub(crate) fn wait_at_once(
        &self,
        context: &Context,
        event: cuda_sys::CUevent,
    ) -> Result<(), DriverError> {
        let _current = self.bind_to_ask(context)?;
        // SAFETY: stream and event must be alive for the call ← the caller has the event, `self`
        // the stream; what the event stands for is taken over by the driver at the call.
        unsafe { call!(self.driver, cuStreamWaitEvent(self.raw(), event, 0)) }
    }
}

//! The scope of one call that uses buffers.

use std::cell::OnceCell;

use super::uses::Removed;
use super::{Blocked, Tracker, retry};
use crate::context::{Current, ReplayGuard};
use crate::error::{DriverError, Error, Result};
use crate::fence::Fence;
use crate::stream::{Queueing, Stream};
use crate::stream_state::Kind;

/// The uses of one call, which is a launch or a copy. They share one fence.
///
/// While the scope lives, the context is current if calls on the stream need that. If the call uses
/// memory in the locked state (leased by a graph, or with aliases), the scope holds the replay lock
/// of the context; the thread must then wait neither for the device nor for other threads of the
/// program.
pub(crate) struct Scope<'a> {
    pub(crate) stream: &'a Stream,
    /// The id of `stream`, cached; `NOWHERE` if the context could not be made current.
    pub(crate) id: u64,
    /// The epoch in which the call was queued; `UNKNOWN` until it is first needed.
    epoch: u64,
    /// `None` for most scopes, so that a use on the owning stream costs only this check.
    more: OnceCell<Box<More<'a>>>,
}

/// The state of a scope that is needed only away from the owning stream, or on a default stream of
/// C.
#[derive(Default)]
struct More<'a> {
    fence: OnceCell<Fence>,
    bound: Option<Result<Current<'a>, DriverError>>,
    /// Set if the scope has taken the replay lock.
    replay_guard: OnceCell<ReplayGuard<'a>>,
    /// Dropped after the replay lock is released: the last use of a stream of other code drops the
    /// owner of that stream, which may call anything.
    removed: Removed,
}

/// Never a valid id: the ids of per-thread queues have a non-zero low half, and the counter of the
/// other ids cannot reach 2^63.
const NOWHERE: u64 = 1 << 63;
/// Never a valid epoch: the counter cannot reach it.
const UNKNOWN: u64 = u64::MAX;

impl<'a> Scope<'a> {
    #[inline]
    pub(crate) fn new(stream: &'a Stream) -> Self {
        if stream.state().kind() != Kind::Own || stream.state().may_capture() {
            return Self::of_default(stream);
        }
        Self {
            stream,
            id: stream.state().shared_id(),
            epoch: UNKNOWN,
            more: OnceCell::new(),
        }
    }

    /// Creates a scope on a default stream of C, or on a stream that other code may capture. Makes
    /// the context current for a default stream.
    #[cold]
    fn of_default(stream: &'a Stream) -> Self {
        let bound = stream.queueing().map(Queueing::into_current).transpose();
        Self {
            stream,
            id: match &bound {
                Some(Err(_)) => NOWHERE,
                _ => stream.state().id(),
            },
            epoch: UNKNOWN,
            more: OnceCell::from(Box::new(More {
                bound,
                ..More::default()
            })),
        }
    }

    /// Creates a scope on `stream` in which `acquire` has acquired all memory that a call uses. If
    /// `acquire` meets a conflicting use that is unfenced or made by a closure of other code, waits
    /// for that use and calls `acquire` again.
    ///
    /// The caller holds no lock. Between acquiring and committing the uses, the scope may hold the
    /// replay lock.
    ///
    /// # Errors
    ///
    /// [`Error::EagerCapture`], which names `call`, if an eager capture captures the calls on the
    /// stream.
    #[inline]
    pub(crate) fn acquire(
        stream: &'a Stream,
        call: &'static str,
        acquire: impl Fn(&Self) -> Result<(), Blocked<Error>>,
    ) -> Result<Self> {
        stream.expect_direct(call)?;
        retry(|| {
            let scope = Self::new(stream);
            acquire(&scope)?;
            Ok(scope)
        })
    }

    /// Returns the epoch in which the call was queued. Only to be called after queueing it.
    #[inline]
    pub(crate) fn epoch(&mut self) -> u64 {
        if self.epoch == UNKNOWN {
            self.epoch = self.stream.state().epoch();
        }
        self.epoch
    }

    /// Takes the replay lock of the context until the scope is dropped.
    pub(super) fn lock_replays(&self) {
        let stream = self.stream;
        let more = self.more.get_or_init(Box::default);
        more.replay_guard
            .get_or_init(|| stream.context().replay_lock().lock());
    }

    /// Releases the replay lock, if this scope has taken it.
    pub(crate) fn unlock_replays(&mut self) {
        if let Some(more) = self.more.get_mut() {
            drop(more.replay_guard.take());
        }
    }

    /// Takes the replay lock if uses of the memory need it. A call that uses several pieces of
    /// memory does this for all of them before it acquires the first. Otherwise it could acquire a
    /// first piece, whose uses do not need the lock yet, and then wait for the lock because of a
    /// second piece. Meanwhile another thread could create an alias of the first piece and queue a
    /// write.
    #[inline]
    pub(crate) fn lock_replays_if_needed(&self, tracker: &Tracker) {
        if tracker.needs_replay_lock() {
            self.lock_replays();
        }
    }

    /// Returns whether this scope has taken the replay lock.
    pub(crate) fn has_locked_replays(&self) -> bool {
        self.more
            .get()
            .is_some_and(|more| more.replay_guard.get().is_some())
    }

    /// Fails if calls on the stream cannot be made.
    #[inline]
    pub(crate) fn ready(&self) -> Result<(), DriverError> {
        if self.id != NOWHERE {
            return Ok(());
        }
        match self.more.get().and_then(|more| more.bound.as_ref()) {
            Some(Err(error)) => Err(*error),
            _ => Ok(()),
        }
    }

    /// Returns whether the fence after the work of this scope is recorded.
    pub(super) fn has_fence(&self) -> bool {
        self.more
            .get()
            .is_some_and(|more| more.fence.get().is_some())
    }

    /// Returns the fence after the work of this scope, or `None` if it cannot be recorded.
    pub(crate) fn fence(&mut self) -> Option<Fence> {
        let more = self.more.get_or_init(Box::default);
        if more.fence.get().is_none() {
            let _ = more.fence.set(self.tail()?);
        }
        more.fence.get().cloned()
    }

    /// Keeps uses that were removed from a list until the scope has released its lock.
    pub(super) fn keep_removed(&mut self, removed: Removed) {
        if removed.is_empty() {
            return;
        }
        self.more.get_or_init(Box::default);
        if let Some(more) = self.more.get_mut() {
            more.removed.extend(removed);
        }
    }

    /// Records a fence at the tail of the stream, or returns `None` if it cannot be recorded.
    pub(super) fn tail(&self) -> Option<Fence> {
        self.stream.state().record(self.stream.context()).ok()
    }
}

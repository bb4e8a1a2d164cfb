//! The kinds of buffer accesses, and the scope of one call that makes uses.

use std::cell::OnceCell;

use crate::context::{Current, ReplayGuard};
use crate::error::DriverError;
use crate::fence::Fence;
use crate::stream::{Queueing, Stream};
use crate::stream_state::Kind;

/// How a use accesses a buffer, and which other uses the borrow checker allows at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(super) write: bool,
    /// Whether the buffer was split, so that another part of it may be written at the same time.
    pub(super) part: bool,
    /// Whether the use is an atomic access to one word: a stream waits for its value, or writes it
    /// for a stream that waits.
    pub(super) signal: bool,
}

impl Access {
    /// A read through a shared borrow of the buffer: there may be other readers, but no writer.
    pub(crate) const READ: Self = Self {
        write: false,
        part: false,
        signal: false,
    };
    /// A write through an exclusive borrow of the buffer.
    pub(crate) const WRITE: Self = Self {
        write: true,
        part: false,
        signal: false,
    };
    /// A stream waits for a value. Not ordered with the writes of the value that it waits for.
    pub(crate) const AWAIT: Self = Self {
        write: false,
        part: true,
        signal: true,
    };
    /// A stream writes a value. Not ordered with the waits for the value.
    pub(crate) const SIGNAL: Self = Self {
        write: true,
        part: true,
        signal: true,
    };

    /// Combines the accesses of two nodes of a graph to one buffer. A buffer with both signal and
    /// ordinary accesses is ordered like an ordinary one, as it is on streams.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            write: self.write || other.write,
            part: true,
            // A conflict with either access is a conflict with the result, so combining only adds
            // conflicts.
            signal: self.signal && other.signal,
        }
    }

    /// Returns whether the access may change the memory.
    pub(crate) const fn is_write(self) -> bool {
        self.write
    }

    /// Returns whether the access waits for a value or writes one.
    pub(crate) const fn is_signal(self) -> bool {
        self.signal
    }

    /// Returns this access for a part of a buffer that was split.
    pub(crate) const fn of_part(self) -> Self {
        Self { part: true, ..self }
    }
}

/// Returns whether two accesses conflict: whichever comes later has to wait for the other.
pub(crate) const fn matters(one: Access, other: Access) -> bool {
    (one.write || other.write) && !(one.signal && other.signal)
}

/// The uses of one call, which is a launch or a copy. They share one event.
///
/// While the scope lives, the context is current if calls on the stream need that. If the call uses
/// memory that graphs hold, the scope is inside the gate of the context; the thread must then not
/// wait for the device, nor for the program.
pub(crate) struct Scope<'a> {
    pub(super) stream: &'a Stream,
    /// The id of `stream`, cached; `NOWHERE` if the context could not be made current.
    pub(crate) id: u64,
    /// The epoch in which the call was queued; `UNKNOWN` until it is first needed.
    epoch: u64,
    /// `None` for most scopes, so that a use on the home stream costs only this check.
    more: OnceCell<Box<More<'a>>>,
}

/// The state of a scope that is needed only away from the home stream, or on a default stream of C.
#[derive(Default)]
struct More<'a> {
    event: OnceCell<Fence>,
    bound: Option<Result<Current<'a>, DriverError>>,
    /// Set if the scope has entered the gate.
    entered: OnceCell<ReplayGuard<'a>>,
}

/// Never a valid id: the ids of per-thread queues have a non-zero low half, and the counter of the
/// other ids cannot reach 2^63.
const NOWHERE: u64 = 1 << 63;
/// Never a valid epoch: the counter cannot reach it.
const UNKNOWN: u64 = u64::MAX;

impl<'a> Scope<'a> {
    #[inline]
    pub(crate) fn new(stream: &'a Stream) -> Self {
        if stream.state().kind() != Kind::Own {
            return Self::of_default(stream);
        }
        Self {
            stream,
            id: stream.state().shared_id(),
            epoch: UNKNOWN,
            more: OnceCell::new(),
        }
    }

    /// Creates a scope on a default stream of C. Makes the context current.
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

    /// Returns the epoch in which the call was queued. Only to be called after queueing it.
    #[inline]
    pub(crate) fn epoch(&mut self) -> u64 {
        if self.epoch == UNKNOWN {
            self.epoch = self.stream.state().epoch();
        }
        self.epoch
    }

    /// Enters the gate of the context until the scope is dropped.
    pub(super) fn enter(&self) {
        let stream = self.stream;
        let more = self.more.get_or_init(Box::default);
        more.entered
            .get_or_init(|| stream.context().replay_lock().lock());
    }

    /// Returns whether this thread is inside the gate, through this scope or another one.
    pub(super) fn is_inside(&self) -> bool {
        self.stream.context().replay_lock().is_held()
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

    /// Returns whether the event after the work of this scope is recorded.
    pub(super) fn has_event(&self) -> bool {
        self.more
            .get()
            .is_some_and(|more| more.event.get().is_some())
    }

    /// Returns the event after the work of this scope, or `None` if it cannot be recorded.
    pub(super) fn event(&mut self) -> Option<Fence> {
        let more = self.more.get_or_init(Box::default);
        if more.event.get().is_none() {
            let _ = more.event.set(self.tail()?);
        }
        more.event.get().cloned()
    }

    pub(super) fn tail(&self) -> Option<Fence> {
        self.stream.state().record(self.stream.context()).ok()
    }
}

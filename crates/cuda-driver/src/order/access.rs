//! What uses do to a buffer, and the uses that one call makes.

use std::cell::OnceCell;

use super::Entered;
use crate::context::Current;
use crate::error::DriverError;
use crate::event::UseEvent;
use crate::stream::{Kind, Queueing, Stream};

/// What a use does to a buffer, and what other uses the borrow checker allows at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(super) write: bool,
    /// Another part of the buffer may be written at the same time: it was split.
    pub(super) part: bool,
    /// One word, atomically: a stream waits for its value, or sets it for one that waits.
    pub(super) signal: bool,
}

impl Access {
    /// Through a shared borrow of the buffer: others may read it, nobody writes.
    pub(crate) const READ: Self = Self {
        write: false,
        part: false,
        signal: false,
    };
    /// Through an exclusive borrow of the buffer.
    pub(crate) const WRITE: Self = Self {
        write: true,
        part: false,
        signal: false,
    };
    /// A stream waits for a value. Not ordered with those that set it, for which it waits.
    pub(crate) const AWAIT: Self = Self {
        write: false,
        part: true,
        signal: true,
    };
    /// A value is set. Not ordered with those that wait for it.
    pub(crate) const SIGNAL: Self = Self {
        write: true,
        part: true,
        signal: true,
    };

    /// Both: what two nodes of a graph do to a buffer. What is waited for or set and used otherwise
    /// too is ordered as a use, as it is on streams.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            write: self.write || other.write,
            part: true,
            // What matters to one of them matters to both, so that what is known of it only grows.
            signal: self.signal && other.signal,
        }
    }

    /// Whether the memory may be changed.
    pub(crate) const fn is_write(self) -> bool {
        self.write
    }

    /// Whether it waits for a value, or sets one.
    pub(crate) const fn is_signal(self) -> bool {
        self.signal
    }

    /// The same, of a part of a buffer that was split.
    pub(crate) const fn of_part(self) -> Self {
        Self { part: true, ..self }
    }
}

/// Whether one has to wait for the other, whichever comes first.
pub(crate) const fn matters(one: Access, other: Access) -> bool {
    (one.write || other.write) && !(one.signal && other.signal)
}

/// The uses that one call makes: a launch, or a copy. They share one event.
///
/// As long as it lives, the context is current if calls on the stream need it. If it uses memory
/// that graphs hold it is inside the gate of the context: it must not wait for the device, nor for
/// the program.
pub(crate) struct Scope<'a> {
    pub(super) stream: &'a Stream,
    /// The identity of `stream`, at hand; `NOWHERE` if the context could not be made current.
    pub(crate) id: u64,
    /// The epoch in which the call was queued; `UNKNOWN` until somebody asks.
    epoch: u64,
    /// `None` for most scopes: all that a use at home costs is to see that.
    more: OnceCell<Box<More<'a>>>,
}

/// What a scope needs that is not of one buffer at home on one of our streams.
#[derive(Default)]
struct More<'a> {
    event: OnceCell<UseEvent>,
    bound: Option<Result<Current<'a>, DriverError>>,
    /// Set if it is inside the gate.
    entered: OnceCell<Entered<'a>>,
}

/// No stream has this identity: those of threads have a stream and a thread in them, and others do
/// not get there.
const NOWHERE: u64 = 1 << 63;
/// No stream gets to this epoch.
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

    /// On a default stream of C: makes the context current.
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

    /// The epoch in which the call was queued. To be asked after it was.
    #[inline]
    pub(crate) fn epoch(&mut self) -> u64 {
        if self.epoch == UNKNOWN {
            self.epoch = self.stream.state().epoch();
        }
        self.epoch
    }

    /// Enters the gate of the context, until the scope goes.
    pub(super) fn enter(&self) {
        let stream = self.stream;
        let more = self.more.get_or_init(Box::default);
        more.entered.get_or_init(|| stream.context().gate().enter());
    }

    /// Whether this thread is inside the gate, by this scope or by another.
    pub(super) fn is_inside(&self) -> bool {
        self.stream.context().gate().is_inside()
    }

    /// An error if calls on the stream cannot be made.
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

    /// Whether the event behind what the scope has queued is recorded.
    pub(super) fn has_event(&self) -> bool {
        self.more
            .get()
            .is_some_and(|more| more.event.get().is_some())
    }

    /// The event behind what the scope has queued; `None` if it cannot be recorded.
    pub(super) fn event(&mut self) -> Option<UseEvent> {
        let more = self.more.get_or_init(Box::default);
        if more.event.get().is_none() {
            let _ = more.event.set(self.tail()?);
        }
        more.event.get().cloned()
    }

    pub(super) fn tail(&self) -> Option<UseEvent> {
        UseEvent::record(self.stream.context(), self.stream.state()).ok()
    }
}

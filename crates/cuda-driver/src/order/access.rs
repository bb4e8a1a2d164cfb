//! What uses do to a buffer, and the uses that one call makes.

use crate::context::Current;
use crate::error::DriverError;
use crate::event::UseEvent;
use crate::stream::Stream;

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

    /// The same, of a part of a buffer that was split.
    pub(crate) const fn of_part(self) -> Self {
        Self { part: true, ..self }
    }
}

/// The uses that one call makes: a launch, or a copy. They share one event.
///
/// As long as it lives, the context is current if calls on the stream need it.
pub(crate) struct Scope<'a> {
    pub(super) stream: &'a Stream,
    /// The identity of `stream`, at hand; 0, which no stream has, if the context could not be made current.
    pub(super) id: u64,
    pub(super) event: Option<UseEvent>,
    bound: Result<Option<Current<'a>>, DriverError>,
}

impl<'a> Scope<'a> {
    #[inline]
    pub(crate) fn new(stream: &'a Stream) -> Self {
        let bound = stream.bind();
        Self {
            stream,
            id: if bound.is_ok() {
                stream.state().id()
            } else {
                0
            },
            event: None,
            bound,
        }
    }

    /// An error if calls on the stream cannot be made.
    #[inline]
    pub(crate) fn ready(&self) -> Result<(), DriverError> {
        match &self.bound {
            Ok(_) => Ok(()),
            Err(error) => Err(*error),
        }
    }

    /// The event behind what the scope has queued; `None` if it cannot be recorded.
    pub(super) fn event(&mut self) -> Option<UseEvent> {
        if self.event.is_none() {
            self.event = self.tail();
        }
        self.event.clone()
    }

    pub(super) fn tail(&self) -> Option<UseEvent> {
        UseEvent::record(self.stream.context(), self.stream.state()).ok()
    }
}

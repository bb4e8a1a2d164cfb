//! The kinds of buffer accesses, and which of them conflict.

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

    /// Combines the accesses of two nodes of a graph to one buffer. The result is a signal only if
    /// both are: a signal and an ordinary access together conflict with other signals, as they do
    /// on streams. The result is an access to a part, because each node may use another part.
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
    #[inline]
    pub(crate) const fn is_write(self) -> bool {
        self.write
    }

    /// Returns whether the access waits for a value or writes one.
    pub(crate) const fn is_signal(self) -> bool {
        self.signal
    }

    /// Returns this access as an ordinary one, which conflicts with signals as well.
    pub(super) const fn without_signal(self) -> Self {
        Self {
            signal: false,
            ..self
        }
    }

    /// Returns this access for a part of a buffer that was split.
    pub(crate) const fn of_part(self) -> Self {
        Self { part: true, ..self }
    }
}

/// Returns whether two accesses conflict: the later one has to wait for the earlier one.
pub(crate) const fn conflict(one: Access, other: Access) -> bool {
    (one.write || other.write) && !(one.signal && other.signal)
}

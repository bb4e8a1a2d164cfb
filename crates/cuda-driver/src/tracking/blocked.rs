//! The reasons why memory could not be acquired, and the retry after they have passed.

use crate::context::KeptContext;
use crate::error::{DriverError, Error};

/// The reason why memory could not be acquired.
pub(crate) enum Blocked<E = DriverError> {
    /// A conflicting use has no fence, because the event could not be recorded. Only a wait for all
    /// work of this context shows that the use is complete.
    ///
    /// This wait can last as long as the program likes. So the thread has to release its locks
    /// first, wait, and then start again: see [`retry`].
    UnfencedUse(KeptContext),
    /// Other code uses the memory in a closure on another thread, in a way that conflicts. The
    /// thread has to release its locks, wait until the closure has returned, and start again.
    ForeignUse {
        /// The context of the memory.
        context: KeptContext,
        /// The identity of its tracker.
        memory: usize,
        /// Whether the access of this thread is a write.
        is_write: bool,
    },
    /// A call failed.
    Failed(E),
}

impl<E: From<DriverError>> From<DriverError> for Blocked<E> {
    fn from(error: DriverError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Error> for Blocked<Error> {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Blocked> for Blocked<Error> {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::UnfencedUse(context) => Self::UnfencedUse(context),
            Blocked::ForeignUse {
                context,
                memory,
                is_write,
            } => Self::ForeignUse {
                context,
                memory,
                is_write,
            },
            Blocked::Failed(error) => Self::Failed(error.into()),
        }
    }
}

/// Calls `attempt` until no unfenced use and no use by other code blocks it. After each unfenced
/// use, waits for all work of its context; after each use by other code, for its closure.
///
/// The caller must hold no lock, and `attempt` must have released its locks when it returns an
/// error.
pub(crate) fn retry<R, E: From<DriverError>>(
    mut attempt: impl FnMut() -> Result<R, Blocked<E>>,
) -> Result<R, E> {
    loop {
        match attempt() {
            Ok(result) => return Ok(result),
            Err(Blocked::Failed(error)) => return Err(error),
            Err(Blocked::UnfencedUse(context)) => context.wait_for_unfenced()?,
            Err(Blocked::ForeignUse {
                context,
                memory,
                is_write,
            }) => context.replay_lock().foreign().wait(memory, is_write),
        }
    }
}

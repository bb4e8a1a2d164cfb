//! The reasons why memory could not be acquired, and the retry after an unfenced use.

use crate::context::KeptContext;
use crate::error::{DriverError, Error};

/// The reason why memory could not be acquired.
pub(crate) enum Blocked<E = DriverError> {
    /// A conflicting use has no fence, because the event could not be recorded. Only a wait for all
    /// work of this context shows that the use is complete.
    ///
    /// Such a wait can last as long as the program likes. So the thread has to release its locks
    /// first, wait, and then start again: see [`retry`].
    UnfencedUse(KeptContext),
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
            Blocked::Failed(error) => Self::Failed(error.into()),
        }
    }
}

/// Calls `attempt` until no unfenced use blocks it. After each unfenced use, waits for all work of
/// its context.
///
/// Neither the caller nor, after it has failed, `attempt` holds a lock.
pub(crate) fn retry<R, E: From<DriverError>>(
    mut attempt: impl FnMut() -> Result<R, Blocked<E>>,
) -> Result<R, E> {
    loop {
        match attempt() {
            Ok(result) => return Ok(result),
            Err(Blocked::Failed(error)) => return Err(error),
            Err(Blocked::UnfencedUse(context)) => context.wait_for_unfenced()?,
        }
    }
}

//! The error of a transfer.

use std::fmt;

use crate::error::Error;

/// The error of a copy that was not started or whose end could not be waited for, with the host
/// memory if it is not in use.
pub struct TransferError<P> {
    pub(super) error: Error,
    pub(super) memory: Option<P>,
}

impl<P> TransferError<P> {
    /// Returns the cause of the failure.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the memory if it is not in use: if no copy was started, if the copy has completed
    /// and the error is [`Error::Violation`], or if the borrowed context of the copy was declared
    /// dead. After any other failed copy the memory is leaked, because the copy may still be
    /// running.
    #[must_use]
    pub fn into_memory(self) -> Option<P> {
        self.memory
    }
}

impl<P> From<TransferError<P>> for Error {
    fn from(error: TransferError<P>) -> Self {
        error.error
    }
}

impl<P> fmt::Display for TransferError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        if self.memory.is_none() && !matches!(self.error, Error::AlreadyTaken { .. }) {
            f.write_str(
                "; the host memory of the copy stays allocated, as it may still be in use",
            )?;
        }
        Ok(())
    }
}

impl<P> fmt::Debug for TransferError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<P> std::error::Error for TransferError<P> {}

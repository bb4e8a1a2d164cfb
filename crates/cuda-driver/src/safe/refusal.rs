//! Errors from the refusals of the analysis.

use cuda_ptx::analysis::Refusal;

use crate::error::{Error, SafeLaunchError};

/// An [`Error::SafeLaunch`].
pub(super) fn refused(error: SafeLaunchError) -> Error {
    Error::SafeLaunch(Box::new(error))
}

pub(super) fn of_refusal(refusal: Refusal) -> Error {
    refused(error_of_refusal(refusal))
}

/// The reason for which a kernel or a launch cannot be safe.
pub(super) fn error_of_refusal(refusal: Refusal) -> SafeLaunchError {
    SafeLaunchError::Refused {
        kernel: refusal.kernel,
        line: refusal.line,
        reason: refusal.reason,
    }
}

//! Errors of images, which convert into the error of this crate.

use std::ffi::NulError;

use cuda_sys::image::LoadableError;

use super::{DriverError, Error, JitError};
use crate::types::JitLog;

/// The error of [`Ptx::new`](crate::Ptx::new).
impl From<NulError> for Error {
    fn from(error: NulError) -> Self {
        Self::NulByte {
            what: "the PTX text",
            position: error.nul_position(),
        }
    }
}

/// The error of `cuda_sys::image::Loadable::from_bytes`.
impl From<LoadableError> for Error {
    fn from(error: LoadableError) -> Self {
        Self::Image(Box::new(error))
    }
}

impl JitError {
    /// Converts the error to an [`Error`]. A call that was not made because its context was
    /// declared dead has no log, and becomes [`Error::ContextGone`].
    pub(crate) fn error(
        source: DriverError,
        log: JitLog,
        ptx_version: Option<(u32, u32)>,
    ) -> Error {
        match Error::from(source) {
            Error::Driver(source) => Error::Jit(Box::new(Self {
                source,
                log,
                ptx_version,
            })),
            gone => gone,
        }
    }
}

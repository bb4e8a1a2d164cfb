//! Errors of images and allocations, which convert into the error of this crate.

use std::ffi::NulError;

use cuda_sys::CUresult;
use cuda_sys::image::LoadableError;

use super::{AllocationKind, DriverError, Error, JitError};
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

impl Error {
    /// Converts the error of an allocation; adds the number of bytes if memory ran out.
    pub(crate) fn of_allocation(error: DriverError, bytes: usize, kind: AllocationKind) -> Self {
        match error.status() {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Self::OutOfMemory {
                kind,
                bytes,
                free: 0,
                total: 0,
                source: error,
            },
            _ => error.into(),
        }
    }

    /// Converts the error of a call that page-locks memory of the host.
    pub(crate) fn of_page_locking(error: DriverError, bytes: usize) -> Self {
        Self::of_allocation(error, bytes, AllocationKind::Host)
    }
}

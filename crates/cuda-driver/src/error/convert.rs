//! Errors of images, which convert into the error of this crate.

use std::ffi::NulError;

use cuda_sys::image::LoadableError;

use super::Error;

/// The error of [`Ptx::new`](crate::Ptx::new).
impl From<NulError> for Error {
    fn from(error: NulError) -> Self {
        Self::NulByte {
            what: "the text",
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

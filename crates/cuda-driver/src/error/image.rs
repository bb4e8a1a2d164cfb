//! An image that was not loaded.

use std::fmt;

use cuda_sys::CUresult;
use cuda_sys::image::newest_ptx;

use super::{DriverError, Error};
use crate::module::JitLog;

/// An image that the driver would not load or link, with what its compiler or linker said.
#[derive(Clone, PartialEq, Eq)]
pub struct JitError {
    pub(super) source: DriverError,
    log: JitLog,
    ptx_version: Option<(u32, u32)>,
}

impl JitError {
    /// As an [`Error`]: a context that is gone has no compiler.
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

    /// The call that failed.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// What the driver's compiler or linker wrote.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        &self.log
    }

    /// The version that the PTX states.
    #[must_use]
    pub fn ptx_version(&self) -> Option<(u32, u32)> {
        self.ptx_version
    }
}

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let driver = self.source.driver_version();
        if self.source.status() == CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            && let (Some((major, minor)), Some((top, sub))) = (self.ptx_version, newest_ptx(driver))
        {
            write!(
                f,
                ": it is of PTX {major}.{minor}, and this driver, of CUDA {driver}, reads up to PTX {top}.{sub}; \
                 compile to a cubin for the device, or with an NVRTC no newer than the driver"
            )?;
        }
        for line in self.log.to_string().lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for JitError {}

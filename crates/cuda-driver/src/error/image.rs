//! An image that was not loaded.

use std::fmt;

use cuda_sys::CUresult;
use cuda_sys::image::newest_ptx;

use super::DriverError;

/// An image that the driver would not load, with what its compiler said.
#[derive(Clone, PartialEq, Eq)]
pub struct JitError {
    pub(crate) source: DriverError,
    pub(crate) log: String,
    pub(crate) ptx_version: Option<(u32, u32)>,
}

impl JitError {
    /// The call that failed.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// What the driver's compiler wrote.
    #[must_use]
    pub fn log(&self) -> &str {
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
        for line in self.log.lines() {
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

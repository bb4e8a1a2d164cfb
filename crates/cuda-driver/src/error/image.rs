//! Errors of loading and linking images.

use std::fmt;

use cuda_sys::CUresult;
use cuda_sys::image::newest_ptx;

use super::DriverError;
use crate::types::JitLog;

/// The driver failed to load or link an image. Contains the log of its compiler or linker.
#[derive(Clone, PartialEq, Eq)]
pub struct JitError {
    pub(super) source: DriverError,
    pub(super) log: JitLog,
    pub(super) ptx_version: Option<(u32, u32)>,
}

impl JitError {
    /// The call that failed.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// The log of the driver's compiler or linker.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        &self.log
    }

    /// The PTX version that the image declares, if the image is PTX.
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
                ": the image is PTX {major}.{minor}, but this driver (CUDA {driver}) supports PTX \
                 up to {top}.{sub}; \
                 compile to a cubin for the device, or use an NVRTC that is not newer than the driver"
            )?;
        }
        if matches!(
            self.source.status(),
            CUresult::CUDA_ERROR_INVALID_IMAGE | CUresult::CUDA_ERROR_INVALID_PTX
        ) && self.ptx_version.is_none()
        {
            f.write_str(
                ": it is no cubin, no fat binary, and no PTX text, which begins with `.version`; \
                 CUDA C++ is compiled with `Module::from_source`",
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

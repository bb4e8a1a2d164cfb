//! A call that failed.

use std::fmt;

use cuda_sys::{CUresult, Function, Version};

use super::loss::{DeviceLoss, LossId};

/// A C call that answered something else than success.
///
/// Small and `Copy`: made without asking the driver anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DriverError {
    status: CUresult,
    call: &'static Function,
    driver: Version,
    loss: Option<LossId>,
    /// The call was not made: its context was borrowed, and its owner has it no more.
    pub(super) is_gone: bool,
}

impl DriverError {
    pub(crate) fn new(status: CUresult, call: &'static Function, driver: Version) -> Self {
        Self {
            status,
            call,
            driver,
            loss: None,
            is_gone: false,
        }
    }

    /// Of a call that was not made, as its context is gone.
    pub(crate) fn gone(call: &'static Function, driver: Version) -> Self {
        Self {
            is_gone: true,
            ..Self::new(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, call, driver)
        }
    }

    /// The same with what is known of the device that it tells is lost.
    pub(crate) fn with_loss(self, loss: Option<LossId>) -> Self {
        Self { loss, ..self }
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> CUresult {
        self.status
    }

    /// The C function that answered it.
    #[must_use]
    pub fn call(&self) -> &'static Function {
        self.call
    }

    /// The version of the driver that was called.
    #[must_use]
    pub fn driver_version(&self) -> Version {
        self.driver
    }

    /// Whether the device is lost to this process: every later call on it answers the same code,
    /// and only a new process gets it back.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(
            self.status,
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
                | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
                | CUresult::CUDA_ERROR_ASSERT
                | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
                | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUresult::CUDA_ERROR_INVALID_PC
                | CUresult::CUDA_ERROR_LAUNCH_FAILED
                | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
                | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
        )
    }

    /// What is known of the device that this error tells is lost: every such error of one device
    /// has the same.
    #[must_use]
    pub fn loss(&self) -> Option<DeviceLoss> {
        self.loss?.loss()
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            call,
            driver,
            loss: _,
            is_gone,
        } = self;
        if *is_gone {
            return write!(
                f,
                "{call} was not called: the owner of its context has declared the context dead"
            );
        }
        if *status == CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER && call.since() > *driver {
            return write!(
                f,
                "{call} needs a driver of CUDA {}, this one is of CUDA {driver}",
                call.since()
            );
        }
        write!(f, "{call}: {status}")?;
        match self.loss() {
            Some(loss) => write!(f, "; {loss}"),
            None if self.is_sticky() => f.write_str("; the device is lost to this process"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DriverError {}

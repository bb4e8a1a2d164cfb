//! Errors of driver calls.

use std::fmt;

use cuda_sys::{CUresult, Function, Version, calls};

use super::category;
use super::loss::{DeviceLoss, LossId};

/// A C call that returned a status other than success.
///
/// It is small and `Copy`, and creating it makes no driver call.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::error::Status;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let error = DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
/// let error = error.driver_error().ok_or("no driver call failed")?;
/// assert_eq!(error.status(), Status::CUDA_ERROR_OUT_OF_MEMORY);
/// assert_eq!(error.call().name, "cuMemAllocAsync");
/// // The context is usable.
/// assert!(!error.is_sticky());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DriverError {
    status: CUresult,
    call: &'static Function,
    driver: Version,
    loss: Option<LossId>,
    /// The ordinal of the device; `u16::MAX` if the call did not concern a device.
    device: u16,
    /// Whether the call has shown that other code has reset the context.
    is_reset: bool,
    /// Why the call was not made. If it was made, `status` is what it returned.
    pub(super) not_made: Option<NotMade>,
}

/// Why a call was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotMade {
    /// Its borrowed context was declared dead.
    ContextGone,
    /// Other code captures the stream.
    Capturing,
    /// The process was forked after the driver was created.
    Forked,
    /// Other code has reset the primary context.
    Reset,
    /// A subscriber of `tracing` has made the call while it received an event.
    #[cfg_attr(
        not(feature = "tracing"),
        allow(dead_code, reason = "only `tracing` has subscribers")
    )]
    InEvent,
}

/// The message for a call of a subscriber of `tracing`.
pub(super) const IN_EVENT: &str = "a subscriber of `tracing` has made the call while it received an \
                                   event of cuda-driver; make it after the event, for example on \
                                   another thread";

/// The message for a call in a child process.
pub(super) const FORKED: &str = "this process was forked after the CUDA driver was loaded, and a \
                                 child process cannot use it; fork before the first use of CUDA, \
                                 or start a new program with `std::process::Command`";

/// The message for a call in a context that was reset.
pub(super) const RESET: &str = "other code has reset the primary context of the device \
                                (`cudaDeviceReset`, `cuDevicePrimaryCtxReset`), which destroys \
                                everything in it; drop the context and its objects, and call \
                                `Device::primary_context` again";

const NO_DEVICE: u16 = u16::MAX;

impl DriverError {
    pub(crate) fn new(status: CUresult, call: &'static Function, driver: Version) -> Self {
        Self {
            status,
            call,
            driver,
            loss: None,
            device: NO_DEVICE,
            is_reset: false,
            not_made: None,
        }
    }

    /// Adds the ordinal of the device that the call concerned.
    pub(crate) fn on_device(self, ordinal: Option<u32>) -> Self {
        let device = ordinal.and_then(|ordinal| u16::try_from(ordinal).ok());
        Self {
            device: device.unwrap_or(NO_DEVICE),
            ..self
        }
    }

    /// Creates the error of a call that was not made, because its context was declared dead.
    pub(crate) fn gone(call: &'static Function, driver: Version) -> Self {
        Self {
            not_made: Some(NotMade::ContextGone),
            ..Self::new(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, call, driver)
        }
    }

    /// Creates the error of a call that was not made, because this process is a child that was
    /// forked from the one with the driver.
    pub(crate) fn forked(call: &'static Function, driver: Version) -> Self {
        Self {
            not_made: Some(NotMade::Forked),
            ..Self::new(CUresult::CUDA_ERROR_NOT_INITIALIZED, call, driver)
        }
    }

    /// Creates the error of a call that was not made, because other code has reset the context.
    pub(crate) fn reset(call: &'static Function, driver: Version) -> Self {
        Self {
            not_made: Some(NotMade::Reset),
            ..Self::new(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, call, driver)
        }
    }

    /// Adds that the call has shown that other code has reset the context.
    pub(crate) fn after_reset(self) -> Self {
        Self {
            is_reset: true,
            ..self
        }
    }

    /// Creates the error of a call that was not made, because a subscriber of `tracing` has made it
    /// while it received an event.
    #[cfg(feature = "tracing")]
    #[cold]
    pub(crate) fn in_event(call: &'static Function, driver: Version) -> Self {
        Self {
            not_made: Some(NotMade::InEvent),
            ..Self::new(CUresult::CUDA_ERROR_NOT_PERMITTED, call, driver)
        }
    }

    /// Creates the error of a call that was not made, because other code captures the stream.
    pub(crate) fn of_capture(driver: Version) -> Self {
        let status = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        Self {
            not_made: Some(NotMade::Capturing),
            ..Self::new(status, calls::cuStreamIsCapturing, driver)
        }
    }

    /// Returns whether [`of_capture`](Self::of_capture) created the error.
    pub(crate) fn is_of_capture(&self) -> bool {
        self.not_made == Some(NotMade::Capturing)
    }

    /// Attaches the report on the device, if this error means that the device is lost.
    pub(crate) fn with_loss(self, loss: Option<LossId>) -> Self {
        Self { loss, ..self }
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> CUresult {
        self.status
    }

    /// The C function that returned the status.
    #[must_use]
    pub fn call(&self) -> &'static Function {
        self.call
    }

    /// The CUDA version of the driver that was called.
    #[must_use]
    pub fn driver_version(&self) -> Version {
        self.driver
    }

    /// The ordinal of the device, if the call was made for a context or an object of one.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        (self.device != NO_DEVICE).then_some(self.device.into())
    }

    /// Whether this process can no longer use the device. If so, every later call on the device
    /// returns the same status, and only a new process can use the device again.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        category::is_sticky(self.status)
    }

    /// The report on the lost device, if this error means that the device is lost. All such errors
    /// of one device share one report.
    #[must_use]
    pub fn loss(&self) -> Option<DeviceLoss> {
        self.loss?.loss()
    }
}

impl DriverError {
    /// Returns advice for an error whose status does not imply it.
    pub(super) fn next_step(&self) -> Option<&'static str> {
        if self.is_reset {
            return Some(RESET);
        }
        if self.status == CUresult::CUDA_ERROR_ILLEGAL_ADDRESS {
            return Some(
                "to find the access, launch the kernel safely, use the software device, or run \
                 compute-sanitizer",
            );
        }
        if !self.call.name.starts_with("cuEventElapsedTime") {
            return None;
        }
        match self.status {
            CUresult::CUDA_ERROR_NOT_READY => {
                Some("synchronize `end`, the later event, before you ask for the time")
            }
            CUresult::CUDA_ERROR_INVALID_HANDLE => Some(
                "record both events first, and create them without `EventFlags::DISABLE_TIMING`",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            call,
            driver,
            loss: _,
            device: _,
            is_reset: _,
            not_made,
        } = self;
        let why_not = match not_made {
            Some(NotMade::ContextGone) => {
                Some("the owner of the borrowed context has declared it dead")
            }
            Some(NotMade::Capturing) => Some("other code captures the stream"),
            Some(NotMade::Forked) => Some(FORKED),
            Some(NotMade::Reset) => Some(RESET),
            Some(NotMade::InEvent) => Some(IN_EVENT),
            None => None,
        };
        if let Some(why_not) = why_not {
            return write!(f, "{call} was not called: {why_not}");
        }
        if *status == CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER && call.since() > *driver {
            return write!(
                f,
                "{call} requires a driver of CUDA {} or newer; this driver is of CUDA {driver}",
                call.since()
            );
        }
        write!(f, "{call}: {status}")?;
        let loss = self.loss();
        // The report of a loss names the device.
        if let (Some(device), None) = (self.device(), &loss) {
            write!(f, " on device {device}")?;
        }
        if let Some(step) = self.next_step() {
            write!(f, "; {step}")?;
        }
        match loss {
            Some(loss) => write!(f, "; {loss}"),
            None if self.is_sticky() => f.write_str("; this process can no longer use the device"),
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

//! Reports of a driver about errors: a history of them, and the text of the driver's own log
//! (`cuLogs*`).

use std::fmt;

use cuda_sys::{CUlogIterator, calls};

use crate::driver::{Driver, call};
use crate::error::{Error, ErrorHistory, HistoryOptions, Result};

/// A position in the log of a driver: see [`Driver::log_position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition(CUlogIterator);

/// An error with the name of the device, and what the driver wrote to its log during the call: see
/// [`Driver::explain`].
#[derive(Clone, PartialEq, Eq)]
pub struct ExplainedError {
    error: Error,
    device: Option<(u32, String)>,
    log: String,
}

impl ExplainedError {
    /// The error.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The ordinal and the name of the device, if the call that failed concerned a device.
    #[must_use]
    pub fn device(&self) -> Option<(u32, &str)> {
        let (ordinal, name) = self.device.as_ref()?;
        Some((*ordinal, name))
    }

    /// The lines that were written to the log of the driver during the call, including those of
    /// other threads. Empty if the driver wrote none or has no log.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }
}

impl fmt::Display for ExplainedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)?;
        if let Some((ordinal, name)) = self.device() {
            write!(f, "\ndevice {ordinal}: {name}")?;
        }
        if let Some(advice) = self.error.advice() {
            write!(f, "\nadvice: {advice}")?;
        }
        for line in self.log.lines() {
            write!(f, "\ndriver: {line}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ExplainedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ExplainedError {}

impl From<ExplainedError> for Error {
    fn from(explained: ExplainedError) -> Self {
        explained.error
    }
}

/// Errors of the past, and the log of the driver.
impl Driver {
    /// Starts to record the errors that calls of this driver return, through any of its handles.
    /// What was recorded before is discarded.
    ///
    /// Recording is off at first. While it is off, it costs one load per error. It never costs
    /// anything for a call that succeeds.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    /// use cuda_driver::error::{Category, HistoryOptions};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// driver.record_errors(HistoryOptions::new());
    /// let stream = driver.device(0)?.primary_context()?.default_stream()?;
    /// assert!(DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).is_err());
    ///
    /// let history = driver.error_history();
    /// assert_eq!(history.counts()[0].category(), Category::Memory);
    /// println!("{history}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_errors(&self, options: HistoryOptions) {
        self.history().start(options);
    }

    /// Stops recording errors. The recorded errors stay available.
    pub fn stop_recording_errors(&self) {
        self.history().stop();
    }

    /// Returns the errors that were recorded since [`record_errors`](Self::record_errors).
    #[must_use]
    pub fn error_history(&self) -> ErrorHistory {
        self.history().get()
    }

    /// `cuLogsCurrent()`—Returns the end of the driver's log, for [`log_since`](Self::log_since).
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.9.
    #[doc(alias = "cuLogsCurrent")]
    #[doc(alias = "cudaLogsCurrent")]
    pub fn log_position(&self) -> Result<LogPosition> {
        let mut position = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self, cuLogsCurrent(&raw mut position, 0)) }?;
        Ok(LogPosition(position))
    }

    /// `cuLogsDumpToMemory()`—Returns the lines that were written to the driver's log since
    /// `position`, and advances it. The driver keeps a limited number of lines.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.9.
    #[doc(alias = "cuLogsDumpToMemory")]
    #[doc(alias = "cudaLogsDumpToMemory")]
    pub fn log_since(&self, position: &mut LogPosition) -> Result<String> {
        /// The recommended size of the buffer.
        const CAPACITY: usize = 25_601;
        let mut text = vec![0_u8; CAPACITY];
        let mut written = text.len();
        // SAFETY: the pointers must be writable, the buffer for `written` bytes ← they are to
        // locals, and the buffer has that length.
        unsafe {
            call!(
                self,
                cuLogsDumpToMemory(
                    &raw mut position.0,
                    text.as_mut_ptr().cast(),
                    &raw mut written,
                    0
                )
            )
        }?;
        text.truncate(written);
        let end = text.iter().position(|&byte| byte == 0);
        text.truncate(end.unwrap_or(text.len()));
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Calls `call`. If it fails, adds the name of the device, the lines that were written to the
    /// driver's log in the meantime, and advice.
    ///
    /// Drivers older than CUDA 12.9 have no log; the error then has none.
    ///
    /// ```
    /// # use cuda_driver::DeviceBuffer;
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let stream = driver.device(0)?.primary_context()?.default_stream()?;
    /// let buffer = driver.explain(|| DeviceBuffer::<u8>::zeroed(&stream, 1 << 50));
    /// println!("{}", buffer.unwrap_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `call`.
    pub fn explain<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T, ExplainedError> {
        let has_log = self.version() >= calls::cuLogsCurrent.since();
        let before = has_log.then(|| self.log_position().ok()).flatten();
        call().map_err(|error| {
            let log = before.and_then(|mut position| self.log_since(&mut position).ok());
            let ordinal = error.driver_error().and_then(|error| error.device());
            let device = ordinal.and_then(|ordinal| {
                let name = self.device(ordinal).and_then(|device| device.name());
                Some((ordinal, name.ok()?))
            });
            ExplainedError {
                error,
                device,
                log: log.unwrap_or_default(),
            }
        })
    }
}

//! The variants of a program that a tuner compiles.

use cuda_nvrtc::{Compiled, Cubin};

use super::error::CompileError;
use super::load::Job;
use crate::error::{Error, Result};
use crate::function::Function;

/// One value for each constant, and the program compiled with them.
pub(super) struct Choice<'a> {
    pub(super) defines: Vec<(String, String)>,
    pub(super) job: Job<'a>,
    pub(super) cubin: Result<Compiled<Cubin>, CompileError>,
}

impl Choice<'_> {
    /// Loads the kernel. The inner error is the reason why it could not be loaded; the outer error
    /// means that the device is lost.
    pub(super) fn load(&self, kernel: &str) -> Result<Result<Function, String>> {
        let cubin = match &self.cubin {
            Ok(cubin) => cubin,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let loaded = self.job.load_cubin(cubin);
        match loaded.and_then(|module| Ok(module.function(kernel)?)) {
            Err(CompileError::Driver(error)) if is_lost(&error) => Err(error),
            other => Ok(other.map_err(|error| error.to_string())),
        }
    }
}

/// Returns whether the device can no longer be used.
pub(super) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Driver(error) if error.is_sticky())
}

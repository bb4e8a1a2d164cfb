//! What needs both a compiler and a device: the architecture to compile for, source to module in
//! one call, and the tuner.

mod load;
mod remembered;
mod tune;
mod tuning;

use std::fmt;

use cuda_nvrtc::Arch;

pub use tune::{TuneError, Tuner};
pub use tuning::{Candidate, Outcome, Trial, Tuning};

use crate::device::Device;
use crate::error::Result;

/// Why source could not be made into a module.
///
/// `Debug` prints what `Display` prints: that is what `main` and `unwrap` show.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// It did not compile.
    #[error(transparent)]
    Nvrtc(#[from] cuda_nvrtc::Error),
    /// The driver did not load what was compiled, or could not tell its device.
    #[error(transparent)]
    Driver(#[from] crate::Error),
}

impl fmt::Debug for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// With the feature `nvrtc`.
impl Device {
    /// The real architecture of the device, to compile machine code for:
    /// [`Options::arch`](cuda_nvrtc::Options::arch).
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::sm(capability.major, capability.minor))
    }

    /// The virtual architecture of the device, to compile PTX for:
    /// [`Options::arch`](cuda_nvrtc::Options::arch).
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn virtual_arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::compute(capability.major, capability.minor))
    }
}

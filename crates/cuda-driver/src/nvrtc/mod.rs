//! What needs both a compiler and a device: the architecture to compile for, source to module in one call, and
//! the tuner.

mod tune;

use std::fmt;

use cuda_nvrtc::{Arch, Options, Program};

pub use tune::{Candidate, Outcome, Trial, TuneError, Tuner, Tuning};

use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use crate::module::Module;

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
    /// The real architecture of the device, to compile machine code for: [`Options::arch`].
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::sm(capability.major, capability.minor))
    }

    /// The virtual architecture of the device, to compile PTX for: [`Options::arch`].
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn virtual_arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::compute(capability.major, capability.minor))
    }
}

/// With the feature `nvrtc`.
impl Module {
    /// Compiles `program` for the device of `context` and loads it.
    ///
    /// To a cubin, which loads at once and whatever the versions of NVRTC and driver are; to PTX for a driver that
    /// takes no cubin. An architecture in `options` is replaced by the device's.
    ///
    /// # Errors
    ///
    /// What the compiler or the driver says.
    pub fn compile(
        context: &Context,
        program: &Program,
        options: &Options,
    ) -> Result<Self, CompileError> {
        let device = context.device();
        let cubin = program
            .compile_cubin(&options.clone().arch(device.arch()?))?
            .image;
        match Self::load(context, &cubin) {
            Err(error) if error.status() == Some(crate::Status::CUDA_ERROR_NO_BINARY_FOR_GPU) => {
                let options = options.clone().arch(device.virtual_arch()?);
                Ok(Self::load(context, &program.compile_ptx(&options)?.image)?)
            }
            result => Ok(result?),
        }
    }
}

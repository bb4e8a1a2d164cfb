//! Operations that need both a compiler and a device: compiling and loading a module in one call
//! ([`Module::from_source`](crate::Module::from_source)), the architecture to compile for, and the
//! [`Tuner`].

// On the page of `Module`, rustdoc lists the methods in the order of these modules.
mod source;

mod choice;
mod load;
mod remembered;
mod safe;
mod tune;
mod tuning;

use std::fmt;

// A program that compiles and launches needs no dependency on cuda-nvrtc.
pub use cuda_nvrtc::{Arch, Cache, CacheMode, CppType, CudaHeaders, Nvrtc, Options, Program};

pub use source::Source;
pub use tune::{TuneError, Tuner};
pub use tuning::{Candidate, Outcome, Trial, Tuning};

use crate::device::Device;
use crate::error::Result;

/// The error of compiling and loading a program.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program did not compile.
    #[error(transparent)]
    Nvrtc(#[from] cuda_nvrtc::Error),
    /// The program includes a header that was not found, and CUDA's own headers, which
    /// [`Module::from_source`](crate::Module::from_source) searches for, were not found either.
    #[error("{compile}\n{headers}")]
    NoCudaHeaders {
        /// The error of the compilation, which names the header.
        compile: Box<cuda_nvrtc::Error>,
        /// The places where CUDA's headers were searched for.
        headers: Box<cuda_nvrtc::Error>,
    },
    /// The driver did not load the compiled program, or did not return the architecture of the
    /// device.
    #[error(transparent)]
    Driver(#[from] crate::Error),
}

/// A function that compiles and launches can return [`crate::Result`]. The text stays; only
/// [`CompileError`] gives access to the messages of the compiler one by one.
impl From<CompileError> for crate::Error {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Driver(error) => error,
            other => Self::Compile {
                message: other.to_string().into(),
            },
        }
    }
}

impl fmt::Debug for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Available with the feature `nvrtc`.
impl Device {
    /// Returns the real architecture of the device, for machine code:
    /// [`Options::arch`](cuda_nvrtc::Options::arch).
    pub fn arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::sm(capability.major, capability.minor))
    }

    /// Returns the virtual architecture of the device, for PTX:
    /// [`Options::arch`](cuda_nvrtc::Options::arch).
    pub fn virtual_arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::compute(capability.major, capability.minor))
    }
}

//! Operations that need both a compiler and a device: compiling and loading a module in one call
//! ([`Module::from_source`](crate::Module::from_source)), the architecture to compile for, and the
//! [`Tuner`].

// On the page of `Module`, rustdoc lists the methods in the order of these modules.
mod source;

mod arch;
mod choice;
mod error;
mod load;
mod pointees;
mod remembered;
mod safe;
mod tune;
mod tuning;

// A program that compiles and launches needs no dependency on cuda-nvrtc.
pub use cuda_nvrtc::{Arch, Cache, CacheMode, CppType, CudaHeaders, Nvrtc, Options, Program};

pub use error::CompileError;
pub use source::Source;
pub use tune::{TuneError, Tuner};
pub use tuning::{Candidate, Outcome, Trial, Tuning};

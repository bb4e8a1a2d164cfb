#![doc = include_str!("../README.md")]

mod committed;
mod compile;
mod error;
mod generate;
mod kernels;
mod mangled;
mod signature;
mod types;

pub use cuda_nvrtc::{Arch, CppStandard, Options};
pub use error::Error;
pub use kernels::Kernels;

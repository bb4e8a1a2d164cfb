//! A CUDA driver written in software: device memory in host memory and an interpreter for PTX, so that
//! code which talks to the driver can be tested on a machine without a GPU.
//!
//! It is for testing and learning. It holds no NVIDIA code, implements public specifications only (`cuda.h` and
//! the PTX ISA), and is not a way to run CUDA applications off NVIDIA hardware.

#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod ptx;
#[doc(hidden)]
pub mod vm;

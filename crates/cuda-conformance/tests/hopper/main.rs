//! Instructions of compute capability 9.0 that compilers use and CUDA C++ has no functions for:
//! `wgmma` and `tensormap.replace`.
//!
//! The kernels are PTX, which the tests generate. Results on the software device and on the GPU, if
//! there is one, are compared with those that the host computes. The formulas for layouts in memory
//! and for the elements of a thread are those of the PTX manual, and they are not shared with the
//! software device. All of them pass on an H100.

mod case;
mod fixture;
mod kernel;
mod layout;
mod maps;
mod model;
mod products;
mod sums;
mod types;

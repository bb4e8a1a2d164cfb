//! CUDA C++ kernels, compiled by NVRTC and run through the safe layer, compared with results of the
//! host.
//!
//! They run on software devices of four compute capabilities, which together accept both dialects
//! of PTX that NVRTC writes, and on the GPU if there is one.

mod arithmetic;
mod async_copies;
mod atomics;
mod clusters;
mod collective;
mod control;
mod differential;
mod faults;
mod findings;
mod halves;
mod integers;
mod libraries;
mod math;
mod memory;
mod mistakes;
mod objects;
mod support;
mod tensor_cores;
mod textures;

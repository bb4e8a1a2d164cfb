//! A warp-lockstep interpreter for PTX.
//!
//! ```text
//! cuda_ptx::parse(text) -> Module     syntax
//! Program::load(&[module], &target)   decoded once: flat code, symbols, layouts
//! Program::instantiate(&arena)        variables placed in device memory -> Image (one per cuModuleLoad)
//! launch(&image, kernel, &params)     runs to the end or to the first Fault, on the calling thread and a pool
//! ```
//!
//! The driver side owns an [`Arena`](crate::memory::Arena) per device, hands its
//! [`map`](crate::memory::Arena::map) to each launch, and calls [`Image::release`] when the module
//! is unloaded. A `launch` blocks; the driver side implements streams.
//!
//! # Execution
//!
//! A warp stores each register as 32 lanes and executes an instruction for all lanes of a mask.
//! If lanes diverge, the warp splits into fragments, each with its mask, program counter and
//! call frames. The fragment with the most call frames runs next, and among those the one with the
//! lowest program counter. Fragments that reach the same place merge. Every `SLICE` instructions
//! another fragment gets a turn, so a lane that spins on a lock does not starve the lane that holds
//! it. A block is a state machine that can be suspended anywhere: barriers and spinning never block
//! a host thread.
//!
//! The type of a PTX register determines only its width. 8- and 16-bit values are kept
//! zero-extended.

mod access;
mod address;
mod atomic;
mod barrier;
mod block;
mod builtin;
mod bulk;
mod check;
mod cluster;
mod code;
mod decode;
mod fault;
mod helpers;
mod image;
mod lane_fault;
mod lanes;
mod launch;
mod launch_params;
mod lines;
mod load_store;
mod matrix;
mod mbarrier;
mod neighbours;
mod program;
mod rounding;
mod run;
mod space;
mod special;
mod stuck;
mod sync;
mod tensor;
pub(crate) mod tensor_map;
mod tensor_replace;
#[cfg(test)]
mod tests;
mod texture;
mod vector;
mod warp;

pub use builtin::is_of_the_device;
pub use check::Checks;
pub use fault::{Detail, Fault, FaultKind, LoadError};
pub use image::Image;
pub use launch::{LaunchStats, launch};
pub use launch_params::LaunchParams;
pub(crate) use program::product;
pub use program::{Global, GlobalSpace, Kernel, Param, Program, TargetInfo};
pub use texture::{AddressMode, Channel, Elements, Level, Sampler, Shape, Texture};

/// The number of instructions that a fragment runs before another fragment of its warp gets a turn.
const SLICE: u32 = 4096;

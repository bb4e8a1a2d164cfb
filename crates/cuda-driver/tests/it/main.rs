//! What the safe layer promises, on the software device and, where there is one, on a GPU.

mod allocation;
mod bad_input;
mod borrowed;
mod caching_pool;
mod calls;
mod context;
mod current;
mod device;
mod error;
mod fault;
mod global;
mod kernel;
mod launch;
mod leaks;
mod library;
mod linker;
mod managed;
mod memory;
mod module;
#[cfg(feature = "nvrtc")]
mod nvrtc;
mod order;
mod owned;
mod peer;
mod pinned;
mod pitched;
mod pointer;
mod pool;
mod random_programs;
mod staging;
mod support;
mod traits;
mod ui;
mod unsound;

#![doc = include_str!("../README.md")]

pub mod context;
mod copy_threads;
mod deferred;
pub mod device;
mod driver;
pub mod error;
pub mod event;
mod fence;
mod function;
mod global;
pub mod graph;
mod handle;
pub mod jit;
pub mod launch;
mod launch_log;
mod launch_macro;
mod library;
mod linker;
mod lock;
mod lto;
mod memop;
pub mod memory;
mod module;
#[cfg(feature = "nvrtc")]
pub mod nvrtc;
mod pending;
pub mod prelude;
mod staging_pool;
pub mod stream;
mod stream_state;
pub mod tensor_map;
mod tracking;
mod transfer;
mod types;
pub mod vector;

pub use context::Context;
pub use cuda_sys::Version;
pub use cuda_sys::image::Ptx;
pub use device::Device;
pub use driver::Driver;
pub use error::{Error, Result};
pub use event::Event;
pub use function::Function;
pub use graph::{Graph, GraphExec};
pub use launch::Kernel;
pub use library::Library;
pub use memory::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, PinnedBuffer};
pub use module::Module;
pub use stream::Stream;
pub use types::{Dim3, LaunchConfig};

/// The items that the expansion of the derive macro uses.
#[cfg(feature = "derive")]
#[doc(hidden)]
pub mod derive {
    pub use bytemuck::{Pod, Zeroable};
}

/// Returns the source of the raw bindings, and the newest CUDA version that they cover.
#[must_use]
pub fn bindings() -> cuda_sys::Bindings {
    cuda_sys::BINDINGS
}

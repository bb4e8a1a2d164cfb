#![doc = include_str!("../README.md")]
#![allow(
    clippy::module_inception,
    reason = "the main type of a folder is in the file with the name of the folder"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// On the page of a type, rustdoc lists the impl blocks in the order of these modules: the one that
// defines the type comes first, then those that add the most used methods.
mod types;

mod driver;

pub mod device;

pub mod context;

pub mod stream;

pub mod event;

pub mod memory;

mod module;

mod function;

pub mod launch;

pub mod graph;

pub mod safe;

mod copy_threads;
mod deferred;
pub mod diagnostics;
#[cfg(feature = "dlpack")]
pub mod dlpack;
pub mod error;
mod external_semaphore;
mod fence;
mod global;
mod handle;
pub mod jit;
mod launch_log;
mod launch_macro;
mod library;
mod linker;
mod lock;
mod lto;
mod memop;
mod memory_ledger;
#[cfg(feature = "nvrtc")]
pub mod nvrtc;
mod observer;
mod pending;
pub mod prelude;
#[cfg(feature = "profile")]
pub mod profile;
mod reports;
mod staging_pool;
mod stream_attribute;
mod stream_state;
mod subscriber;
pub mod tensor_map;
pub mod texture;
mod topology;
mod tracking;
mod transfer;
pub mod vector;
#[cfg(not(feature = "nvrtc"))]
#[doc(hidden)]
pub mod without_nvrtc;

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

    pub use crate::launch::by_value::{Block, ByValue};
    pub use crate::memory::padding::{expect_no_end_gap, expect_no_gap};
}

/// Returns the source of the raw bindings, and the newest CUDA version that they cover.
#[must_use]
pub fn bindings() -> cuda_sys::Bindings {
    cuda_sys::BINDINGS
}

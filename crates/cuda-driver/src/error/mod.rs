//! The errors of this crate.
//!
//! Each error of a driver call is a [`DriverError`], which names the C function, its status code
//! and the version of the driver. CUDA runs work asynchronously, so any call can also return an
//! error of work that was queued earlier. Printing an error makes no driver call.

mod error;

mod allocation;
mod array;
mod call;
mod category;
mod classify;
mod convert;
mod cupti;
mod debug;
mod described;
mod display;
mod exchange;
mod graph;
mod history;
mod image;
mod kernels;
mod launch;
mod limit;
mod loss;
mod lto;
mod ptx;
mod range;
mod safe;
mod tensor;

pub use allocation::AllocationKind;
pub use array::ArrayError;
pub use call::DriverError;
pub use category::{Category, advice};
pub use cuda_sys::{CUresult as Status, LoadError};
pub use cupti::CuptiError;
pub(crate) use described::Described;
pub use error::{Error, Result};
pub use exchange::ExchangeError;
pub use graph::{GraphUpdateError, InstantiateError};
pub(crate) use history::History;
pub use history::{ErrorCount, ErrorHistory, HistoryOptions, RecordedError};
pub use image::JitError;
pub(crate) use launch::list_of;
pub use launch::{ArgumentError, LaunchConfigError};
pub use limit::LaunchLimitError;
pub use loss::DeviceLoss;
pub(crate) use loss::LossId;
pub use lto::LtoError;
pub use ptx::PtxError;
pub use range::RangeError;
pub use safe::{
    SafeLaunchError, SurfacePlace, VariablePlace, Violation, ViolationKind, Violations,
};
pub use tensor::TensorMapError;

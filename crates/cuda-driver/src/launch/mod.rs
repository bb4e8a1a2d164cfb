//! Kernel launches: `cuLaunchKernel` and `cuLaunchKernelEx`.
//!
//! Unlike C, a launch takes a typed tuple of arguments (or an [`ArgList`]). It checks the number
//! and types of the arguments and the launch configuration before it calls the driver, and adds the
//! dependencies on other uses of the buffers among the arguments.

mod launch;

mod arg_table;
mod args;
mod attributes;
#[cfg(feature = "derive")]
pub(crate) mod by_value;
mod conflict;
mod elements;
mod foreign;
mod in_flight;
mod kernel;
mod limits;
mod list;
mod occupancy;
mod prepared;
mod queue;
mod raw;
mod raw_rows;
mod recorded;
mod slice_arg;
mod thread_arg;
mod tracked;
mod using;

// Types of other modules that belong to this chapter of the API.
pub use crate::types::{
    AccessProperty, ArgType, ClusterScheduling, Dim3, LaunchConfig, LaunchesInFlight,
    MemSyncDomain, Number, PortableClusterMode, SharedMemoryMode,
};

pub use args::{KernelArg, KernelArgs};
pub(crate) use args::{Values, tracked_arg};
pub use attributes::LaunchAttributes;
pub(crate) use conflict::expect_no_array_conflict;
pub use cuda_driver_derive::KernelArg;
pub use foreign::ForeignUse;
pub use kernel::{Accepts, Kernel, KernelParam, KernelParams, Reads, Writes};
pub use list::ArgList;
pub use occupancy::BlockSize;
pub use prepared::{ParamType, PreparedArgs, PreparedKernel};
pub use queue::Queue;
pub(crate) use queue::sealed as queue_sealed;
pub use raw_rows::RawRows;
pub use slice_arg::SliceArg;
pub use tracked::Tracked;
pub(crate) use tracked::{Keep, ObjectArg};
pub use using::Using;

//! Plain values that several modules and the errors use. Nothing here calls the driver.

mod arg_type;
mod enums;
mod extent;
mod in_flight;
mod jit_log;
mod launch_config;
pub(crate) mod node;
mod send_ptr;
mod work;

pub use arg_type::{ArgType, Number};
pub(crate) use enums::raw;
pub use enums::{
    AccessProperty, ClusterScheduling, MemSyncDomain, PortableClusterMode, SharedMemoryMode,
};
pub use extent::Extent;
pub use in_flight::LaunchesInFlight;
pub use jit_log::JitLog;
pub use launch_config::{Dim3, LaunchConfig};
pub(crate) use node::{NodeId, NodeKind};
pub(crate) use send_ptr::SendPtr;
pub use work::WorkKind;

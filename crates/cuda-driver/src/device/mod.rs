//! Devices, their attributes and their properties.
//!
//! C has one call that takes one of 160 attributes. Here each common attribute also has a method.

mod device;

mod atomics;
mod attributes;
mod luid;
mod peer;
mod properties;
mod resource;

// Types of other modules that belong to this chapter of the API.
pub use crate::context::DevicePool;
pub use crate::topology::{
    BoundThread, Connection, NvLink, NvLinkRemote, PciPath, Topology, TopologyDevice,
    TopologySources,
};

pub use atomics::AtomicCapabilities;
pub use cuda_sys::CUatomicOperation as AtomicOperation;
pub use cuda_sys::CUdevice_attribute as DeviceAttribute;
pub use device::{ComputeCapability, Device};
pub use luid::Luid;
pub use peer::{PeerAttribute, PeerAttributes};
pub use properties::DeviceProperties;
pub use resource::{SmGroup, SmResource, SmSplit, SmSplitFlags, WorkqueueConfig, WorkqueueScope};

//! The connections of the devices of a machine: PCI Express, NVLink and NUMA nodes.
//!
//! The CUDA driver knows which devices can access each other. The rest comes from the management
//! library NVML, if the feature `nvml` is enabled and the library is installed, and from the files
//! that Linux has about PCI devices.

mod topology;

mod affinity;
mod best;
mod graph;
#[cfg(feature = "nvml")]
mod nvml;
mod pci;
mod text;

pub use affinity::BoundThread;
pub use pci::PciPath;
pub use topology::{Connection, NvLink, NvLinkRemote, Topology, TopologyDevice, TopologySources};

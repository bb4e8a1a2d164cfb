//! Graphs: work that is described once and launched many times.
//!
//! Graphs in C are bare handles whose nodes hold raw pointers. The types of this module own what
//! their nodes use: the memory, modules and closures of a node live until the last graph,
//! executable and launch that uses them is done, even if the program drops its own handles earlier.
//! Launches of a graph also take part in the dependency tracking of its buffers, as every kernel
//! launch does.
//!
//! Every method here that calls the driver can fail with [`Error::Driver`](crate::Error::Driver);
//! `# Errors` sections list the other errors.

// On the page of `Graph`, rustdoc lists the methods in the order of these modules.
mod graph;

mod exec;

mod capture;

mod kernel;
mod kernel_attributes;

mod copy;
mod event;
mod fill;
mod host;
mod memory;

mod array_copy;
mod batch;
mod build;
mod change;
mod checked;
mod child;
mod conditional;
mod conflicts;
mod device_node;
mod host_buffer;
mod lease;
mod limits;
mod list;
mod owners;
mod params;
mod parts;
mod remove;
mod replay;
mod safe;
mod semaphore;
mod state;
mod switch;
mod update;

// Types of other modules that belong to this chapter of the API.
pub use crate::types::node::{Edge, EdgeKind, Node, NodeId, NodeKind, node_kind};

pub use capture::{Capture, CaptureScope, EagerCapture};
pub use conditional::ConditionalHandle;
pub use copy::{CopySource, CopyTarget};
pub use device_node::DeviceNode;
pub use exec::{GraphExec, InstantiateFlags};
pub use graph::Graph;
pub use host_buffer::{GraphHostBuffer, HostRead, HostWrite};
pub use kernel_attributes::KernelAttributes;
pub use list::DotFlags;
pub use memory::{GraphAllocation, GraphMemoryStatistics};
pub(crate) use owners::Owners;
pub(crate) use parts::Root;
pub use switch::Switchable;

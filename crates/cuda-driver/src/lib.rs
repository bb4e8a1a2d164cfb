#![doc = include_str!("../README.md")]

mod context;
mod copy_threads;
mod deferred;
mod device;
mod driver;
mod error;
mod event;
mod fence;
mod function;
mod global;
mod graph;
mod handle;
mod launch;
mod launch_log;
mod launch_macro;
mod library;
mod linker;
mod lock;
mod lto;
mod memop;
mod memory;
mod module;
#[cfg(feature = "nvrtc")]
pub mod nvrtc;
mod pending;
pub mod prelude;
mod staging_pool;
mod stream;
mod stream_state;
mod tensor_map;
mod tracking;
mod transfer;
mod types;
pub mod vector;

pub use context::{
    CacheConfig, Context, ContextFlags, CurrentContext, DevicePool, Limit, PrimaryContextState,
};
#[cfg(feature = "derive")]
pub use cuda_driver_derive::DeviceRepr;
pub use cuda_sys::image::{Archive, Cubin, Fatbin, LtoIr, Object, Parameter, Ptx};
pub use cuda_sys::log::{Diagnostic, Log, Severity};
pub use cuda_sys::{CUdevice_attribute as DeviceAttribute, CUresult as Status, LoadError, Version};
pub use device::{ComputeCapability, Device, DeviceProperties, PeerAttribute, PeerAttributes};
pub use driver::{Driver, LivenessToken};
pub use error::{
    ArgumentError, DeviceLoss, DriverError, Error, JitError, LaunchConfigError, LtoError, Result,
    TensorMapError,
};
pub use error::{GraphUpdateError, InstantiateError};
pub use event::{Event, EventFlags};
pub use function::{Function, FunctionAttribute};
pub use global::Global;
pub use graph::{Capture, CaptureScope};
pub use graph::{
    ConditionalHandle, DotFlags, GraphAllocation, GraphHostBuffer, GraphMemoryStatistics,
};
pub use graph::{CopySource, CopyTarget, DeviceNode, Graph, GraphExec, InstantiateFlags};
pub use graph::{HostRead, HostWrite, KernelAttributes, Switchable};
pub use launch::{
    Accepts, ArgList, BlockSize, Kernel, KernelArg, KernelArgs, KernelParam, KernelParams,
    LaunchAttributes, Reads, Using, Writes,
};
pub use library::{Library, LibraryKernel};
pub use linker::{LinkFile, LinkInput, Linked, Linker};
pub use lto::LtoLinker;
pub use memop::{StreamWord, ValueBatch, WaitCondition};
pub use memory::{Advice, ManagedAttachment, ManagedBuffer, MemoryLocation};
pub use memory::{Allocator, Unpooled};
pub use memory::{CachingPool, CachingPoolStatistics, PinnedCachingPool};
pub use memory::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut};
pub use memory::{MemoryPool, MemoryPoolStatistics, PoolAccess, PoolReuse};
pub use memory::{MemoryType, PointerAttributes};
pub use memory::{
    PageLocked, PinnedBuffer, PinnedFlags, RegisterError, RegisterFlags, RegisteredBuffer,
};
pub use memory::{PitchedBuffer, PitchedSlice, PitchedSliceMut};
pub use module::{
    Image, JitCacheMode, JitFallback, JitOptions, JitTarget, LoadingMode, Module, OptimizationLevel,
};
pub use pending::{Completion, HostCall};
pub use stream::{AccessPolicyWindow, CaptureStatus, MemSyncDomainMap, SynchronizationPolicy};
pub use stream::{Stream, StreamFlags, StreamPool};
pub use tensor_map::{
    Im2col, Im2colWide, TensorDataType, TensorFill, TensorInterleave, TensorL2Promotion,
    TensorLayout, TensorMap, TensorMapArg, TensorSwizzle, WidePixels,
};
pub use transfer::{CopyScope, Transfer, TransferError};
pub use types::node::{Edge, EdgeKind, Node, NodeId, NodeKind, node_kind};
pub use types::{
    AccessProperty, ClusterScheduling, Dim3, Extent, JitLog, LaunchConfig, LaunchesInFlight,
    MemSyncDomain, PortableClusterMode, SharedMemoryMode,
};

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

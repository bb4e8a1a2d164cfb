//! Enums of launch and stream attributes, and their constants of `cuda.h`.

use cuda_sys::{
    CUaccessProperty, CUclusterSchedulingPolicy, CUlaunchAttributePortableClusterMode,
    CUlaunchMemSyncDomain, CUsharedMemoryMode,
};

/// How the L2 cache treats a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccessProperty {
    /// The default treatment.
    #[default]
    Normal,
    /// The line is unlikely to be accessed again.
    Streaming,
    /// The line is likely to be accessed again.
    Persisting,
}

/// How the clusters of a launch are spread over the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClusterScheduling {
    /// The driver decides.
    #[default]
    Default,
    /// Spread the clusters over as many multiprocessors as possible.
    Spread,
    /// Place clusters wherever there is room, balanced by the hardware.
    LoadBalancing,
}

/// Whether clusters may have a size that not every device of a compute capability supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortableClusterMode {
    /// The attributes of the function decide.
    #[default]
    Default,
    /// Only portable sizes are allowed.
    RequirePortable,
    /// Non-portable sizes are allowed.
    AllowNonPortable,
}

/// How much shared memory a block may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SharedMemoryMode {
    /// The attributes of the function decide.
    #[default]
    Default,
    /// At most as much as every device of the compute capability has.
    RequirePortable,
    /// At most as much as this device has.
    AllowNonPortable,
}

/// A memory synchronization domain: the fences of a kernel wait only for accesses of kernels in the
/// same domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemSyncDomain {
    /// The domain of most kernels.
    #[default]
    Default,
    /// The domain of kernels whose fences need not wait for accesses of other domains.
    Remote,
}

/// Converts each variant of an enum to its constant of `cuda.h`.
macro_rules! raw {
    ($name:ident is $raw:ident: $($variant:ident = $constant:ident),*) => {
        impl $name {
            pub(crate) const fn raw(self) -> $raw {
                match self {
                    $(Self::$variant => $raw::$constant),*
                }
            }
        }
    };
}

pub(crate) use raw;

raw!(AccessProperty is CUaccessProperty:
    Normal = CU_ACCESS_PROPERTY_NORMAL,
    Streaming = CU_ACCESS_PROPERTY_STREAMING,
    Persisting = CU_ACCESS_PROPERTY_PERSISTING);
raw!(ClusterScheduling is CUclusterSchedulingPolicy:
    Default = CU_CLUSTER_SCHEDULING_POLICY_DEFAULT,
    Spread = CU_CLUSTER_SCHEDULING_POLICY_SPREAD,
    LoadBalancing = CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
raw!(PortableClusterMode is CUlaunchAttributePortableClusterMode:
    Default = CU_LAUNCH_PORTABLE_CLUSTER_MODE_DEFAULT,
    RequirePortable = CU_LAUNCH_PORTABLE_CLUSTER_MODE_REQUIRE_PORTABLE,
    AllowNonPortable = CU_LAUNCH_PORTABLE_CLUSTER_MODE_ALLOW_NON_PORTABLE);
raw!(SharedMemoryMode is CUsharedMemoryMode:
    Default = CU_SHARED_MEMORY_MODE_DEFAULT,
    RequirePortable = CU_SHARED_MEMORY_MODE_REQUIRE_PORTABLE,
    AllowNonPortable = CU_SHARED_MEMORY_MODE_ALLOW_NON_PORTABLE);
raw!(MemSyncDomain is CUlaunchMemSyncDomain:
    Default = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT,
    Remote = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);

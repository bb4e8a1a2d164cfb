//! The values of `cuDeviceGetAttribute` by compute capability.
//!
//! The limits are those that the CUDA C++ Programming Guide lists for each compute capability.
//! Values that no table defines (clock rates, the number of multiprocessors) describe a plausible
//! small device. Features that the software device does not have are 0.

use cuda_sys::CUdevice_attribute as A;

use crate::machine::{MachineDevice, ManagedAccess};
use crate::memory::shared_file;

/// The type of the handles of this operating system: `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, or
/// `CU_MEM_HANDLE_TYPE_WIN32`.
pub(super) const HANDLE_TYPE: u32 = if cfg!(windows) { 2 } else { 1 };

/// The values that depend on the compute capability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) multiprocessors: i32,
    pub(super) threads_per_sm: i32,
    pub(super) blocks_per_sm: i32,
    pub(super) shared_per_sm: i32,
    pub(super) shared_per_block: i32,
    pub(super) shared_optin: i32,
    /// The shared memory that the system reserves in each block, in bytes.
    pub(super) shared_reserved: i32,
    pub(super) l2_bytes: i32,
    pub(super) clock_khz: i32,
}

impl Limits {
    pub(super) fn of(device: &MachineDevice) -> Self {
        let (major, minor) = device.capability;
        let (threads, blocks, shared_kib, optin_kib, l2_mib) = match (major, minor) {
            (7, 5) => (1024, 16, 64, 64, 4),
            (7, _) => (2048, 32, 96, 96, 6),
            (8, 0) => (2048, 32, 164, 163, 40),
            (8, 7) => (1536, 16, 164, 163, 4),
            (8, 9) => (1536, 24, 100, 99, 48),
            (8, _) => (1536, 16, 100, 99, 6),
            (9, _) => (2048, 32, 228, 227, 50),
            (10, _) => (2048, 32, 228, 227, 126),
            (12, _) => (1536, 24, 100, 99, 64),
            _ => (2048, 32, 228, 227, 64),
        };
        Self {
            multiprocessors: device.multiprocessors as i32,
            threads_per_sm: threads,
            blocks_per_sm: blocks,
            shared_per_sm: shared_kib << 10,
            shared_per_block: 48 << 10,
            shared_optin: optin_kib << 10,
            shared_reserved: if major >= 8 { 1024 } else { 0 },
            l2_bytes: l2_mib << 20,
            clock_khz: device.clock_khz as i32,
        }
    }
}

/// The alignment in bytes of linear memory that is bound to a texture, and of its pitch.
pub(super) const TEXTURE_ALIGN: i32 = 512;
pub(super) const TEXTURE_PITCH_ALIGN: i32 = 32;

/// The alignment of allocations in bytes, which is the one that textures need.
pub(super) const ALIGN: u64 = TEXTURE_ALIGN as u64;
/// The largest textures on linear memory: elements in one dimension, elements and rows in two
/// dimensions, and the pitch in bytes.
pub(super) const LINEAR_WIDTH: i32 = 1 << 28;
pub(super) const LINEAR_PLANE: [i32; 2] = [131_072, 65_000];
pub(super) const LINEAR_PITCH: i32 = 2_097_120;

/// Returns the largest extents of textures and surfaces, as the programming guide lists them from
/// Turing on.
fn extent(attribute: A) -> Option<i32> {
    Some(match attribute {
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH => LINEAR_WIDTH,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH => LINEAR_PLANE[0],
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT => LINEAR_PLANE[1],
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH => LINEAR_PITCH,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH => 131_072,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT => 65_536,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH => 32_768,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH => 16_384,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS => 2048,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS
        | A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS => 2046,
        _ => return None,
    })
}

/// Returns the value of an attribute that depends on how the host accesses managed memory; `None`
/// for any other attribute.
pub(super) fn managed(attribute: A, access: ManagedAccess) -> Option<i32> {
    match attribute {
        A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS => {
            Some(i32::from(access != ManagedAccess::Exclusive))
        }
        A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
        | A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED => {
            Some(i32::from(access == ManagedAccess::Coherent))
        }
        _ => None,
    }
}

/// Returns the value of an attribute, or `None` if `cuda.h` has no such attribute.
pub(super) fn value(attribute: A, limits: &Limits, (major, minor): (u32, u32)) -> Option<i32> {
    // `CU_DEVICE_ATTRIBUTE_MAX` is not used, because its value depends on the version of the header
    // from which the bindings were generated.
    let last = A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED;
    if attribute.0 == 0 || attribute.0 > last.0 {
        return None;
    }
    Some(match attribute {
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
        | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => 1024,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X | A::CU_DEVICE_ATTRIBUTE_MAX_PITCH => i32::MAX,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y | A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65535,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => limits.shared_per_block,
        A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY => 65536,
        A::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
        | A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => 65536,
        A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE => limits.clock_khz,
        A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => 2_000_000,
        A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => 256,
        A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => limits.l2_bytes,
        A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT | A::CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT => {
            TEXTURE_ALIGN
        }
        A::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT => TEXTURE_PITCH_ALIGN,
        A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => limits.multiprocessors,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => limits.threads_per_sm,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => limits.blocks_per_sm,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => limits.shared_per_sm,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => limits.shared_optin,
        A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => limits.shared_reserved,
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => major as i32,
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => minor as i32,
        A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 2,
        A::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        // Features that the software device has.
        A::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP
        | A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY
        | A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS
        | A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
        | A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
        | A::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        | A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
        | A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR
        | A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1
        | A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1
        | A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1
        | A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
        | A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT => 1,
        A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES if shared_file::EXISTS => {
            HANDLE_TYPE as i32
        }
        A::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED => i32::from(shared_file::EXISTS),
        A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED => {
            i32::from(cfg!(target_os = "linux"))
        }
        A::CU_DEVICE_ATTRIBUTE_NUMA_ID | A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID => -1,
        A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
        | A::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED => i32::from(major >= 9),
        _ => extent(attribute).unwrap_or(0),
    })
}

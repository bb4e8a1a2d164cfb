//! The attributes of devices, each as a method.

use cuda_sys::CUdevice_attribute as Attribute;

use super::Device;
use crate::error::Result;

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident: $attribute:ident;)*) => {
        /// Attributes with a numeric value.
        ///
        /// If the driver is older than an attribute, the method fails with
        /// `CUDA_ERROR_INVALID_VALUE`.
        impl Device {
            $(
                $(#[$doc])*
                pub fn $name(&self) -> Result<u32> {
                    let value = self.attribute(Attribute::$attribute)?;
                    Ok(u32::try_from(value).unwrap_or(0))
                }
            )*
        }
    };
}

attributes! {
    /// The number of streaming multiprocessors.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")]
    multiprocessor_count: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    /// The number of threads in a warp.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_WARP_SIZE")]
    warp_size: CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    /// The maximum number of threads in a block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK")]
    max_threads_per_block: CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    /// The maximum number of threads resident on a multiprocessor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR")]
    max_threads_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    /// The maximum number of blocks resident on a multiprocessor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR")]
    max_blocks_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR;
    /// The maximum number of blocks in the first dimension of a grid.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X")]
    max_grid_dim_x: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;
    /// The maximum number of blocks in the second dimension of a grid.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y")]
    max_grid_dim_y: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;
    /// The maximum number of blocks in the third dimension of a grid.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z")]
    max_grid_dim_z: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;
    /// The maximum number of threads in the first dimension of a block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X")]
    max_block_dim_x: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;
    /// The maximum number of threads in the second dimension of a block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y")]
    max_block_dim_y: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;
    /// The maximum number of threads in the third dimension of a block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z")]
    max_block_dim_z: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;
    /// The amount of shared memory of a block in bytes, without opting in to more.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK")]
    max_shared_memory_per_block: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;
    /// The maximum amount of shared memory in bytes that a block can opt in to.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")]
    max_shared_memory_per_block_optin: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    /// The amount of shared memory of a multiprocessor in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")]
    max_shared_memory_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;
    /// The amount of shared memory in bytes that the driver reserves for each block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK")]
    reserved_shared_memory_per_block: CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK;
    /// The maximum number of 32-bit registers of a block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK")]
    max_registers_per_block: CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK;
    /// The number of 32-bit registers of a multiprocessor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR")]
    max_registers_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR;
    /// The amount of constant memory for the variables of a module, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY")]
    total_constant_memory: CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY;
    /// The size of the L2 cache in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE")]
    l2_cache_size: CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
    /// The maximum number of bytes of the L2 cache that can be set aside for persisting accesses.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE")]
    max_persisting_l2_cache_size: CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE;
    /// The maximum size in bytes of an access policy window, whose accesses can persist in the L2
    /// cache.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE")]
    max_access_policy_window_size: CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE;
    /// The peak clock rate of the multiprocessors in kHz.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CLOCK_RATE")]
    clock_rate: CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
    /// The peak clock rate of the memory in kHz.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE")]
    memory_clock_rate: CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
    /// The width of the memory bus in bits.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH")]
    memory_bus_width: CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
    /// The number of copy engines, which run concurrently with kernels.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT")]
    async_engine_count: CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
    /// The ratio of `f32` throughput to `f64` throughput.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO")]
    single_to_double_performance_ratio: CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO;
    /// The maximum pitch in bytes: the distance between rows in a copy of two or three dimensions.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_PITCH")]
    max_pitch: CU_DEVICE_ATTRIBUTE_MAX_PITCH;
    /// The alignment of textures in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT")]
    texture_alignment: CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT;
    /// The alignment of the rows of textures in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT")]
    texture_pitch_alignment: CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT;
    /// The alignment of surfaces in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT")]
    surface_alignment: CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT;
    /// The maximum number of elements of a texture in linear memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH")]
    max_texture_1d_linear_width: CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH;
    /// The number of memory synchronization domains to which launches can be assigned.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT")]
    mem_sync_domain_count: CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT;
    /// The kinds of handles by which memory pools can be shared, as a bit mask.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES")]
    mem_pool_handle_types: CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
    /// The scope in which GPUDirect RDMA writes are ordered without a flush: 0 for none, 100 for
    /// this device, 200 for all devices.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING")]
    gpu_direct_rdma_writes_ordering: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
    /// The ways to flush GPUDirect RDMA writes, as a bit mask.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS")]
    gpu_direct_rdma_flush_options: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;
    /// The algorithms that the decompression engine supports, as a bit mask. Blackwell has this
    /// engine.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK")]
    decompress_algorithm_mask: CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;
    /// The maximum number of bytes of one operation of the decompression engine.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH")]
    max_decompress_length: CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH;
    /// The identifier of the board, which all devices of one board share.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID")]
    multi_gpu_board_group: CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID;
    /// The domain of the PCI address.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID")]
    pci_domain: CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
    /// The bus of the PCI address.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID")]
    pci_bus: CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
    /// The device of the PCI address.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID")]
    pci_device: CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident: $attribute:ident;)*) => {
        /// Attributes that state whether the device has a feature.
        impl Device {
            $(
                $(#[$doc])*
                pub fn $name(&self) -> Result<bool> {
                    Ok(self.attribute(Attribute::$attribute)? != 0)
                }
            )*
        }
    };
}

features! {
    /// Whether error correction (ECC) of the memory is on.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_ECC_ENABLED")]
    has_ecc: CU_DEVICE_ATTRIBUTE_ECC_ENABLED;
    /// Whether the device is integrated and shares its memory with the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_INTEGRATED")]
    is_integrated: CU_DEVICE_ATTRIBUTE_INTEGRATED;
    /// Whether the device is on a board with other devices.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD")]
    is_multi_gpu_board: CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD;
    /// Whether the device has a unified address space with the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING")]
    has_unified_addressing: CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    /// Whether the device supports managed memory, which migrates between host and device when it
    /// is used.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY")]
    has_managed_memory: CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    /// Whether the host can access managed memory while kernels run.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS")]
    has_concurrent_managed_access: CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    /// Whether kernels can access pageable memory of the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS")]
    has_pageable_memory_access: CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
    /// Whether kernels access pageable memory through the page tables of the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES")]
    uses_host_page_tables: CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    /// Whether the host can access managed memory on the device without migration.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST")]
    has_direct_managed_access_from_host: CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
    /// Whether the link to the host supports native atomic operations.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED")]
    has_host_native_atomics: CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED;
    /// Whether pinned memory can be mapped into the address space of the device.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY")]
    can_map_host_memory: CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY;
    /// Whether registered memory has the same address on the device as on the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM")]
    can_use_host_pointer_for_registered_memory: CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
    /// Whether existing host memory can be registered, that is, page-locked.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED")]
    can_register_host_memory: CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED;
    /// Whether read-only host memory can be registered.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED")]
    can_register_read_only_host_memory: CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
    /// Whether copies can run concurrently with kernels.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_OVERLAP")]
    can_overlap_copies: CU_DEVICE_ATTRIBUTE_GPU_OVERLAP;
    /// Whether kernels can run concurrently with each other.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS")]
    has_concurrent_kernels: CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS;
    /// Whether the run time of kernels is limited.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT")]
    has_kernel_timeout: CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT;
    /// Whether kernels can be preempted.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED")]
    has_compute_preemption: CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED;
    /// Whether the device supports stream priorities.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED")]
    has_stream_priorities: CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED;
    /// Whether the device supports cooperative launches, in which all blocks can wait for each
    /// other.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH")]
    has_cooperative_launch: CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
    /// Whether blocks can be launched in clusters; this is new in Hopper.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH")]
    has_cluster_launch: CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
    /// Whether the device supports stream-ordered allocation and memory pools.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED")]
    has_memory_pools: CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    /// Whether addresses can be reserved and mapped independently of memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED")]
    has_virtual_memory: CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    /// Whether the device supports compressible memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED")]
    has_compressible_memory: CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED;
    /// Whether one write can go to several devices (multicast); this is new in Hopper.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED")]
    has_multicast: CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;
    /// Whether kernels can copy tiles of tensors described by tensor maps; this is new in Hopper.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED")]
    has_tensor_maps: CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED;
    /// Whether device functions have the same address on all devices.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS")]
    has_unified_function_pointers: CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS;
    /// Whether memory can be shared with devices of other machines by fabric handles.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED")]
    has_fabric_handles: CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
    /// Whether memory can be shared by POSIX file descriptors.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED")]
    has_file_descriptor_handles: CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    /// Whether other hardware can access the memory of the device by GPUDirect RDMA.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED")]
    has_gpu_direct_rdma: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
    /// Whether GPUDirect RDMA works with memory of the virtual memory management calls.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED")]
    has_gpu_direct_rdma_with_virtual_memory: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    /// Whether the memory of the device can be exported as a Linux dma-buf.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED")]
    has_dma_buf: CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    /// Whether events can be shared with other processes (IPC).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED")]
    has_ipc_events: CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;
    /// Whether the device supports sparse arrays, parts of which have no memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED")]
    has_sparse_arrays: CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED;
    /// Whether memory can be mapped to arrays after their creation.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED")]
    has_deferred_array_mapping: CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED;
    /// Whether the device can use timeline semaphores of other interfaces.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED")]
    has_timeline_semaphores: CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED;
    /// Whether streams can wait for 64-bit values in memory, and write them.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS")]
    has_64_bit_stream_memory_operations: CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;
    /// Whether streams can wait with the NOR condition: until a value has a bit of a mask unset.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR")]
    has_stream_wait_value_nor: CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR;
    /// Whether a stream that waits for a value can flush remote writes, which are those of other
    /// hardware.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES")]
    can_flush_remote_writes: CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES;
    /// Whether the L1 cache caches global memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED")]
    caches_globals_in_l1: CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED;
    /// Whether the L1 cache caches local memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED")]
    caches_locals_in_l1: CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED;
    /// Whether contexts of several processes share the device through MPS.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MPS_ENABLED")]
    is_mps_client: CU_DEVICE_ATTRIBUTE_MPS_ENABLED;
    /// Whether the device uses the TCC driver model of Windows, which is for computing only.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TCC_DRIVER")]
    uses_tcc_driver: CU_DEVICE_ATTRIBUTE_TCC_DRIVER;
    /// Whether the device supports stream-ordered allocation of host memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED")]
    has_host_memory_pools: CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED;
    /// Whether the virtual memory management calls can map host memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED")]
    has_host_virtual_memory: CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
}

/// Attributes with values of other kinds.
impl Device {
    /// The NUMA node of the memory of the device, if that memory is a node.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_NUMA_ID")]
    pub fn numa_node(&self) -> Result<Option<u32>> {
        let node = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_NUMA_ID)?;
        Ok(u32::try_from(node).ok())
    }

    /// The NUMA node of the host that is closest to the device, if the driver knows it.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID")]
    pub fn host_numa_node(&self) -> Result<Option<u32>> {
        let node = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)?;
        Ok(u32::try_from(node).ok())
    }

    /// Whether the compute mode of the device is "prohibited", so that no contexts can be created
    /// on it.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE")]
    pub fn is_prohibited(&self) -> Result<bool> {
        let mode = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)?;
        Ok(i64::from(mode) == i64::from(cuda_sys::CUcomputemode::CU_COMPUTEMODE_PROHIBITED.0))
    }
}

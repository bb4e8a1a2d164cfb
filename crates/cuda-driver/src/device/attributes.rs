//! Attributes of devices, each by its name.

use cuda_sys::CUdevice_attribute as Attribute;

use super::Device;
use crate::error::Result;

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident: $attribute:ident;)*) => {
        /// Attributes that are numbers.
        ///
        /// A driver that is older than an attribute answers `CUDA_ERROR_INVALID_VALUE`.
        impl Device {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// What `cuDeviceGetAttribute` answers.
                pub fn $name(&self) -> Result<u32> {
                    let value = self.attribute(Attribute::$attribute)?;
                    Ok(u32::try_from(value).unwrap_or(0))
                }
            )*
        }
    };
}

attributes! {
    /// Streaming multiprocessors.
    multiprocessor_count: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    /// Threads in a warp.
    warp_size: CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    /// The most threads in a block.
    max_threads_per_block: CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    /// The most threads resident on a multiprocessor.
    max_threads_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    /// The most blocks resident on a multiprocessor.
    max_blocks_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR;
    /// The most blocks in the first dimension of a grid.
    max_grid_dim_x: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;
    /// The most blocks in the second dimension of a grid.
    max_grid_dim_y: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;
    /// The most blocks in the third dimension of a grid.
    max_grid_dim_z: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;
    /// The most threads in the first dimension of a block.
    max_block_dim_x: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;
    /// The most threads in the second dimension of a block.
    max_block_dim_y: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;
    /// The most threads in the third dimension of a block.
    max_block_dim_z: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;
    /// Bytes of shared memory that a block has without asking for more.
    max_shared_memory_per_block: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;
    /// Bytes of shared memory that a block can ask for.
    max_shared_memory_per_block_optin: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    /// Bytes of shared memory of a multiprocessor.
    max_shared_memory_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;
    /// Bytes of shared memory that the system takes for each block.
    reserved_shared_memory_per_block: CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK;
    /// 32-bit registers that a block can have.
    max_registers_per_block: CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK;
    /// 32-bit registers of a multiprocessor.
    max_registers_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR;
    /// Bytes of constant memory for the variables of a module.
    total_constant_memory: CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY;
    /// Bytes of L2 cache.
    l2_cache_size: CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
    /// Bytes of L2 cache that can be set aside for accesses that persist.
    max_persisting_l2_cache_size: CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE;
    /// The most bytes of a window of memory whose accesses are to persist in the L2 cache.
    max_access_policy_window_size: CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE;
    /// The clock of the multiprocessors at its peak, in kHz.
    clock_rate: CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
    /// The clock of the memory at its peak, in kHz.
    memory_clock_rate: CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
    /// The width of the memory bus in bits.
    memory_bus_width: CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
    /// Engines that copy beside kernels.
    async_engine_count: CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
    /// How many times faster `f32` is than `f64`.
    single_to_double_performance_ratio: CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO;
    /// The most bytes from row to row in a copy of two or three dimensions.
    max_pitch: CU_DEVICE_ATTRIBUTE_MAX_PITCH;
    /// The alignment of textures in bytes.
    texture_alignment: CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT;
    /// The alignment of the rows of textures in bytes.
    texture_pitch_alignment: CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT;
    /// The alignment of surfaces in bytes.
    surface_alignment: CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT;
    /// The most elements of a texture in linear memory.
    max_texture_1d_linear_width: CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH;
    /// Domains of memory synchronisation that launches can be put into.
    mem_sync_domain_count: CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT;
    /// The kinds of handles that memory pools can be shared by, as bits.
    mem_pool_handle_types: CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
    /// For whom writes over GPUDirect RDMA are ordered without a flush: 0 for nobody, 100 for this
    /// device, 200 for all.
    gpu_direct_rdma_writes_ordering: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
    /// The ways to flush writes over GPUDirect RDMA, as bits.
    gpu_direct_rdma_flush_options: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;
    /// The algorithms that the decompression engine knows, as bits; Blackwell has one.
    decompress_algorithm_mask: CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;
    /// The most bytes that the decompression engine takes at once.
    max_decompress_length: CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH;
    /// A number that the devices of one board share.
    multi_gpu_board_group: CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID;
    /// The domain of its PCI address.
    pci_domain: CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
    /// The bus of its PCI address.
    pci_bus: CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
    /// The device of its PCI address.
    pci_device: CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
}

macro_rules! abilities {
    ($($(#[$doc:meta])* $name:ident: $attribute:ident;)*) => {
        /// Attributes that are yes or no.
        impl Device {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// What `cuDeviceGetAttribute` answers.
                pub fn $name(&self) -> Result<bool> {
                    Ok(self.attribute(Attribute::$attribute)? != 0)
                }
            )*
        }
    };
}

abilities! {
    /// Whether its memory corrects errors.
    has_ecc: CU_DEVICE_ATTRIBUTE_ECC_ENABLED;
    /// Whether it shares its memory with the host.
    is_integrated: CU_DEVICE_ATTRIBUTE_INTEGRATED;
    /// Whether it is on a board with others.
    is_multi_gpu_board: CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD;
    /// Whether it has one address space with the host.
    has_unified_addressing: CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    /// Whether memory can be managed: moved between host and device as it is used.
    has_managed_memory: CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    /// Whether the host can use managed memory while kernels do.
    has_concurrent_managed_access: CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    /// Whether kernels can use any memory of the host.
    has_pageable_memory_access: CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
    /// Whether they do so through the host's page tables.
    uses_host_page_tables: CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    /// Whether the host can use managed memory on the device in place.
    has_direct_managed_access_from_host: CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
    /// Whether the link to the host has atomic operations of its own.
    has_host_native_atomics: CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED;
    /// Whether pinned memory can have an address on the device.
    can_map_host_memory: CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY;
    /// Whether registered memory has the host's address on the device.
    can_use_host_pointer_for_registered_memory: CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
    /// Whether existing host memory can be pinned.
    can_register_host_memory: CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED;
    /// Whether that holds for memory that cannot be written.
    can_register_read_only_host_memory: CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
    /// Whether copies run beside kernels.
    can_overlap_copies: CU_DEVICE_ATTRIBUTE_GPU_OVERLAP;
    /// Whether kernels run beside each other.
    has_concurrent_kernels: CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS;
    /// Whether kernels are stopped after a time.
    has_kernel_timeout: CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT;
    /// Whether kernels can be interrupted.
    has_compute_preemption: CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED;
    /// Whether streams have priorities.
    has_stream_priorities: CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED;
    /// Whether all blocks of a launch can wait for each other.
    has_cooperative_launch: CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
    /// Whether blocks can be launched in clusters; Hopper is the first to have them.
    has_cluster_launch: CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
    /// Whether memory can be allocated in the order of a stream.
    has_memory_pools: CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    /// Whether addresses can be reserved and mapped apart from memory.
    has_virtual_memory: CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    /// Whether memory can be compressed.
    has_compressible_memory: CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED;
    /// Whether one write can go to several devices; Hopper is the first to do so.
    has_multicast: CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;
    /// Whether kernels can copy tiles of tensors by descriptors; Hopper is the first to do so.
    has_tensor_maps: CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED;
    /// Whether a kernel's functions have one address on all devices.
    has_unified_function_pointers: CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS;
    /// Whether memory can be shared with devices of other machines.
    has_fabric_handles: CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
    /// Whether memory can be shared by file descriptors.
    has_file_descriptor_handles: CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    /// Whether other hardware can write to its memory.
    has_gpu_direct_rdma: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
    /// Whether that holds for memory that was mapped.
    has_gpu_direct_rdma_with_virtual_memory: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    /// Whether its memory can be a Linux dma-buf.
    has_dma_buf: CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    /// Whether events can be shared with other processes.
    has_ipc_events: CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;
    /// Whether arrays can have parts without memory.
    has_sparse_arrays: CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED;
    /// Whether arrays can get their memory later.
    has_deferred_array_mapping: CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED;
    /// Whether timeline semaphores of other interfaces can be used.
    has_timeline_semaphores: CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED;
    /// Whether streams can wait for and write 64-bit values.
    has_64_bit_stream_memory_operations: CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;
    /// Whether streams can wait until a value has a bit of a mask unset.
    has_stream_wait_value_nor: CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR;
    /// Whether a stream that waits for a value can flush writes of other hardware.
    can_flush_remote_writes: CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES;
    /// Whether the L1 cache holds global memory.
    caches_globals_in_l1: CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED;
    /// Whether the L1 cache holds local memory.
    caches_locals_in_l1: CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED;
    /// Whether contexts of several processes share it through MPS.
    is_mps_client: CU_DEVICE_ATTRIBUTE_MPS_ENABLED;
    /// Whether its driver on Windows is the one for computing only.
    uses_tcc_driver: CU_DEVICE_ATTRIBUTE_TCC_DRIVER;
    /// Whether host memory can be allocated in the order of a stream.
    has_host_memory_pools: CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED;
    /// Whether addresses can be mapped to host memory.
    has_host_virtual_memory: CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
}

impl Device {
    /// The NUMA node of its memory, if that is one.
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn numa_node(&self) -> Result<Option<u32>> {
        let node = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_NUMA_ID)?;
        Ok(u32::try_from(node).ok())
    }

    /// The NUMA node of the host that is closest to it, if the driver knows.
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn host_numa_node(&self) -> Result<Option<u32>> {
        let node = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)?;
        Ok(u32::try_from(node).ok())
    }

    /// Whether no contexts can be made on it: its compute mode is "prohibited".
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn is_prohibited(&self) -> Result<bool> {
        let mode = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)?;
        Ok(i64::from(mode) == i64::from(cuda_sys::CUcomputemode::CU_COMPUTEMODE_PROHIBITED.0))
    }
}

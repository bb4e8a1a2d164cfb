//! The methods for device attributes, each compared with the attribute that it must query.

use cuda_driver::device::DeviceAttribute as A;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::everywhere;

type Number = (fn(&Device) -> Result<u32, cuda_driver::Error>, A);
type Ability = (fn(&Device) -> Result<bool, cuda_driver::Error>, A);

const NUMBERS: &[Number] = &[
    (
        Device::multiprocessor_count,
        A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    ),
    (Device::warp_size, A::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
    (
        Device::max_threads_per_block,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    ),
    (
        Device::max_threads_per_multiprocessor,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    ),
    (
        Device::max_blocks_per_multiprocessor,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
    ),
    (
        Device::max_grid_dim_x,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
    ),
    (
        Device::max_grid_dim_y,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
    ),
    (
        Device::max_grid_dim_z,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
    ),
    (
        Device::max_block_dim_x,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
    ),
    (
        Device::max_block_dim_y,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
    ),
    (
        Device::max_block_dim_z,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
    ),
    (
        Device::max_shared_memory_per_block,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
    ),
    (
        Device::max_shared_memory_per_block_optin,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    ),
    (
        Device::max_shared_memory_per_multiprocessor,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    ),
    (
        Device::reserved_shared_memory_per_block,
        A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
    ),
    (
        Device::max_registers_per_block,
        A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
    ),
    (
        Device::max_registers_per_multiprocessor,
        A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
    ),
    (
        Device::total_constant_memory,
        A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
    ),
    (Device::l2_cache_size, A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    (
        Device::max_persisting_l2_cache_size,
        A::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE,
    ),
    (
        Device::max_access_policy_window_size,
        A::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE,
    ),
    (Device::clock_rate, A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
    (
        Device::memory_clock_rate,
        A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
    ),
    (
        Device::memory_bus_width,
        A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
    ),
    (
        Device::async_engine_count,
        A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
    ),
    (
        Device::single_to_double_performance_ratio,
        A::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
    ),
    (Device::max_pitch, A::CU_DEVICE_ATTRIBUTE_MAX_PITCH),
    (
        Device::texture_alignment,
        A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
    ),
    (
        Device::texture_pitch_alignment,
        A::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT,
    ),
    (
        Device::surface_alignment,
        A::CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT,
    ),
    (
        Device::max_texture_1d_linear_width,
        A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH,
    ),
    (
        Device::mem_sync_domain_count,
        A::CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT,
    ),
    (
        Device::mem_pool_handle_types,
        A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    ),
    (
        Device::gpu_direct_rdma_writes_ordering,
        A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
    ),
    (
        Device::gpu_direct_rdma_flush_options,
        A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
    ),
    (
        Device::decompress_algorithm_mask,
        A::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
    ),
    (
        Device::max_decompress_length,
        A::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
    ),
    (
        Device::multi_gpu_board_group,
        A::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID,
    ),
    (Device::pci_domain, A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
    (Device::pci_bus, A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
    (Device::pci_device, A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
];

const ABILITIES: &[Ability] = &[
    (Device::has_ecc, A::CU_DEVICE_ATTRIBUTE_ECC_ENABLED),
    (Device::is_integrated, A::CU_DEVICE_ATTRIBUTE_INTEGRATED),
    (
        Device::is_multi_gpu_board,
        A::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD,
    ),
    (
        Device::has_unified_addressing,
        A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
    ),
    (
        Device::has_managed_memory,
        A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    ),
    (
        Device::has_concurrent_managed_access,
        A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    ),
    (
        Device::has_pageable_memory_access,
        A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    ),
    (
        Device::uses_host_page_tables,
        A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    ),
    (
        Device::has_direct_managed_access_from_host,
        A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    ),
    (
        Device::has_host_native_atomics,
        A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
    ),
    (
        Device::can_map_host_memory,
        A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    ),
    (
        Device::can_use_host_pointer_for_registered_memory,
        A::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    ),
    (
        Device::can_register_host_memory,
        A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    ),
    (
        Device::can_register_read_only_host_memory,
        A::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
    ),
    (
        Device::can_overlap_copies,
        A::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP,
    ),
    (
        Device::has_concurrent_kernels,
        A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
    ),
    (
        Device::has_kernel_timeout,
        A::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
    ),
    (
        Device::has_compute_preemption,
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
    ),
    (
        Device::has_stream_priorities,
        A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
    ),
    (
        Device::has_cooperative_launch,
        A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    ),
    (
        Device::has_cluster_launch,
        A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
    ),
    (
        Device::has_memory_pools,
        A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    ),
    (
        Device::has_virtual_memory,
        A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    ),
    (
        Device::has_compressible_memory,
        A::CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
    ),
    (
        Device::has_multicast,
        A::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    ),
    (
        Device::has_tensor_maps,
        A::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED,
    ),
    (
        Device::has_unified_function_pointers,
        A::CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
    ),
    (
        Device::has_fabric_handles,
        A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
    ),
    (
        Device::has_file_descriptor_handles,
        A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    ),
    (
        Device::has_gpu_direct_rdma,
        A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    ),
    (
        Device::has_gpu_direct_rdma_with_virtual_memory,
        A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    ),
    (
        Device::has_dma_buf,
        A::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    ),
    (
        Device::has_ipc_events,
        A::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    ),
    (
        Device::has_sparse_arrays,
        A::CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    ),
    (
        Device::has_deferred_array_mapping,
        A::CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    ),
    (
        Device::has_timeline_semaphores,
        A::CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
    ),
    (
        Device::has_64_bit_stream_memory_operations,
        A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
    ),
    (
        Device::has_stream_wait_value_nor,
        A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
    ),
    (
        Device::can_flush_remote_writes,
        A::CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
    ),
    (
        Device::caches_globals_in_l1,
        A::CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED,
    ),
    (
        Device::caches_locals_in_l1,
        A::CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED,
    ),
    (Device::is_mps_client, A::CU_DEVICE_ATTRIBUTE_MPS_ENABLED),
    (Device::uses_tcc_driver, A::CU_DEVICE_ATTRIBUTE_TCC_DRIVER),
    (
        Device::has_host_memory_pools,
        A::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
    ),
    (
        Device::has_host_virtual_memory,
        A::CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    ),
];

/// Returns the first device of a software driver with these attributes.
fn device(attributes: impl IntoIterator<Item = (A, i32)>) -> Device {
    let mut builder = Builder::new();
    for (attribute, value) in attributes {
        builder = builder.attribute(attribute, value);
    }
    let simulator = crate::support::built(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    driver.device(0).unwrap()
}

/// Returns a value that only this attribute has.
fn distinct(attribute: A) -> i32 {
    1000 + i32::try_from(attribute.0).unwrap()
}

#[test]
fn each_number_is_of_its_attribute() {
    let device = device(NUMBERS.iter().map(|&(_, it)| (it, distinct(it))));
    for &(method, attribute) in NUMBERS {
        let expected = match attribute {
            // The first software device is always on bus 1.
            A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => 1,
            _ => distinct(attribute).unsigned_abs(),
        };
        assert_eq!(method(&device).unwrap(), expected, "{attribute:?}");
    }
}

#[test]
fn each_ability_is_of_its_attribute() {
    // In each bit of the number of its attribute, an ability differs from every other one.
    for bit in 0..8 {
        let value = |attribute: A| attribute.0 >> bit & 1;
        let set = ABILITIES
            .iter()
            .map(|&(_, it)| (it, i32::from(value(it) != 0)));
        let device = device(set);
        for &(method, attribute) in ABILITIES {
            assert_eq!(
                method(&device).unwrap(),
                value(attribute) != 0,
                "{attribute:?}"
            );
        }
    }
}

#[test]
fn accessors_agree_with_raw_attributes() {
    for fixture in everywhere() {
        let device = fixture.context.device();
        for &(method, attribute) in NUMBERS {
            let raw = device.attribute(attribute).ok();
            let raw = raw.map(|value| u32::try_from(value).unwrap_or(0));
            assert_eq!(method(device).ok(), raw, "{}: {attribute:?}", fixture.name);
        }
        for &(method, attribute) in ABILITIES {
            let raw = device.attribute(attribute).ok().map(|value| value != 0);
            assert_eq!(method(device).ok(), raw, "{}: {attribute:?}", fixture.name);
        }
    }
}

#[test]
fn numa_nodes_and_compute_mode_are_converted() {
    let node = A::CU_DEVICE_ATTRIBUTE_NUMA_ID;
    let host = A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
    let mode = A::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
    // 2 is `CU_COMPUTEMODE_PROHIBITED`, and a negative node is unknown.
    for (values, expected) in [
        ([3, 1, 0], (Some(3), Some(1), false)),
        ([-1, -1, 2], (None, None, true)),
        ([0, -1, 3], (Some(0), None, false)),
    ] {
        let device = device([node, host, mode].into_iter().zip(values));
        let found = (
            device.numa_node().unwrap(),
            device.host_numa_node().unwrap(),
            device.is_prohibited().unwrap(),
        );
        assert_eq!(found, expected);
    }
}

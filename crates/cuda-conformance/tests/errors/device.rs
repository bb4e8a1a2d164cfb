//! Devices, versions and names.

use std::ptr::{null, null_mut};

use cuda_sys::{CUdevice_P2PAttribute, CUdevice_attribute, CUgraphMem_attribute, CUresult};

use crate::fixture::cases;

cases! { g:
    "init_with_flags" => g.d.cuInit(1);
    "version_to_nowhere" => g.d.cuDriverGetVersion(null_mut());
    "count_to_nowhere" => g.d.cuDeviceGetCount(null_mut());
    "device_of_a_large_ordinal" => g.d.cuDeviceGet(g.out(), 1000);
    "device_of_a_negative_ordinal" => g.d.cuDeviceGet(g.out(), -1);
    "device_to_nowhere" => g.d.cuDeviceGet(null_mut(), 0);
    "device_name_of_no_device" => g.d.cuDeviceGetName(g.out(), 64, 1000);
    "device_name_to_nowhere" => g.d.cuDeviceGetName(null_mut(), 64, 0);
    "device_name_of_no_length" => g.d.cuDeviceGetName(g.out(), 0, 0);
    "device_name_of_a_negative_length" => g.d.cuDeviceGetName(g.out(), -1, 0);
    "device_attribute_of_no_device" => g.d.cuDeviceGetAttribute(g.out(), CUdevice_attribute(1), 1000);
    "device_attribute_of_a_negative_device" => g.d.cuDeviceGetAttribute(g.out(), CUdevice_attribute(1), -1);
    "device_attribute_0" => g.d.cuDeviceGetAttribute(g.out(), CUdevice_attribute(0), 0);
    "device_attribute_beyond" => g.d.cuDeviceGetAttribute(g.out(), CUdevice_attribute(5000), 0);
    "device_attribute_to_nowhere" => g.d.cuDeviceGetAttribute(null_mut(), CUdevice_attribute(1), 0);
    "total_memory_of_no_device" => g.d.cuDeviceTotalMem_v2(g.out(), 1000);
    "total_memory_to_nowhere" => g.d.cuDeviceTotalMem_v2(null_mut(), 0);
    "uuid_of_no_device" => g.d.cuDeviceGetUuid_v2(g.out(), 1000);
    "uuid_to_nowhere" => g.d.cuDeviceGetUuid_v2(null_mut(), 0);
    "device_by_a_bad_bus_id" => g.d.cuDeviceGetByPCIBusId(g.out(), c"not a bus".as_ptr());
    "device_by_an_unused_bus_id" => g.d.cuDeviceGetByPCIBusId(g.out(), c"ffff:ff:1f.0".as_ptr());
    "device_by_no_bus_id" => g.d.cuDeviceGetByPCIBusId(g.out(), null());
    "bus_id_of_no_device" => g.d.cuDeviceGetPCIBusId(g.out(), 64, 1000);
    "bus_id_of_a_short_length" => g.d.cuDeviceGetPCIBusId(g.out(), 4, 0);
    "bus_id_to_nowhere" => g.d.cuDeviceGetPCIBusId(null_mut(), 64, 0);
    "peer_access_of_no_device" => g.d.cuDeviceCanAccessPeer(g.out(), 0, 1000);
    "peer_access_to_nowhere" => g.d.cuDeviceCanAccessPeer(null_mut(), 0, 0);
    "peer_attribute_of_one_device" => g.d.cuDeviceGetP2PAttribute(g.out(), CUdevice_P2PAttribute(1), 0, 0);
    "peer_attribute_of_no_device" => g.d.cuDeviceGetP2PAttribute(g.out(), CUdevice_P2PAttribute(1), 0, 1000);
    "default_pool_of_no_device" => g.d.cuDeviceGetDefaultMemPool(g.out(), 1000);
    "default_pool_to_nowhere" => g.d.cuDeviceGetDefaultMemPool(null_mut(), 0);
    "current_pool_of_no_device" => g.d.cuDeviceGetMemPool(g.out(), 1000);
    "no_pool_for_a_device" => g.d.cuDeviceSetMemPool(0, null_mut());
    "a_pool_for_no_device" => g.d.cuDeviceSetMemPool(1000, g.pool);
    "graph_memory_of_no_device" => g.d.cuDeviceGetGraphMemAttribute(1000, CUgraphMem_attribute(0), g.out());
    "graph_memory_attribute_beyond" => g.d.cuDeviceGetGraphMemAttribute(0, CUgraphMem_attribute(77), g.out());
    "graph_memory_to_nowhere" => g.d.cuDeviceGetGraphMemAttribute(0, CUgraphMem_attribute(0), null_mut());
    "graph_memory_in_use_set" => {
        g.out::<u64>().write(0);
        g.d.cuDeviceSetGraphMemAttribute(0, CUgraphMem_attribute(0), g.out())
    };
    "graph_memory_high_set_to_7" => {
        g.out::<u64>().write(7);
        g.d.cuDeviceSetGraphMemAttribute(0, CUgraphMem_attribute(1), g.out())
    };
    "graph_memory_trimmed_on_no_device" => g.d.cuDeviceGraphMemTrim(1000);
    "name_of_no_error" => g.d.cuGetErrorName(CUresult(12_345), g.out());
    "text_of_no_error" => g.d.cuGetErrorString(CUresult(12_345), g.out());
    "name_of_an_error_to_nowhere" => g.d.cuGetErrorName(CUresult(1), null_mut());
    "primary_context_of_no_device" => g.d.cuDevicePrimaryCtxRetain(g.out(), 1000);
    "primary_context_to_nowhere" => g.d.cuDevicePrimaryCtxRetain(null_mut(), 0);
    "primary_context_released_on_no_device" => g.d.cuDevicePrimaryCtxRelease_v2(1000);
    "primary_context_state_of_no_device" => g.d.cuDevicePrimaryCtxGetState(1000, g.out(), g.also());
    "primary_context_flags_of_no_device" => g.d.cuDevicePrimaryCtxSetFlags_v2(1000, 0);
    "primary_context_flags_unknown" => g.d.cuDevicePrimaryCtxSetFlags_v2(0, 0x8000_0000);
    "primary_context_flags_two_schedules" => g.d.cuDevicePrimaryCtxSetFlags_v2(0, 3);
}

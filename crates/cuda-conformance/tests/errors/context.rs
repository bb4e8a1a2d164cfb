//! Contexts, and calls that need one.

use std::ptr::null_mut;

use cuda_sys::{CUfunc_cache, CUlimit};

use crate::fixture::{PTX, SIZE, cases};

cases! { g:
    "context_on_no_device" => g.d.cuCtxCreate_v2(g.out(), 0, 1000);
    "context_to_nowhere" => g.d.cuCtxCreate_v2(null_mut(), 0, 0);
    "context_with_unknown_flags" => g.d.cuCtxCreate_v2(g.out(), 0x4000_0000, 0);
    "context_with_two_schedules" => g.d.cuCtxCreate_v2(g.out(), 3, 0);
    "no_context_destroyed" => g.d.cuCtxDestroy_v2(null_mut());
    "no_context_pushed" => g.d.cuCtxPushCurrent_v2(null_mut());
    "popped_from_an_empty_stack" => g.without_context(|| {
        let status = g.d.cuCtxPopCurrent_v2(g.out());
        if status.is_success() { g.d.cuCtxPopCurrent_v2(g.out()) } else { status }
    });
    "current_context_to_nowhere" => g.d.cuCtxGetCurrent(null_mut());
    "device_of_no_context" => g.without_context(|| g.d.cuCtxGetDevice(g.out()));
    "device_of_the_context_to_nowhere" => g.d.cuCtxGetDevice(null_mut());
    "flags_of_no_context" => g.without_context(|| g.d.cuCtxGetFlags(g.out()));
    "flags_of_the_context_to_nowhere" => g.d.cuCtxGetFlags(null_mut());
    "context_id_to_nowhere" => g.d.cuCtxGetId(g.context, null_mut());
    "context_id_of_no_current_context" => g.without_context(|| g.d.cuCtxGetId(null_mut(), g.out()));
    "version_of_no_context" => g.without_context(|| g.d.cuCtxGetApiVersion(null_mut(), g.out()));
    "version_of_the_context_to_nowhere" => g.d.cuCtxGetApiVersion(g.context, null_mut());
    "limit_beyond" => g.d.cuCtxGetLimit(g.out(), CUlimit(99));
    "limit_to_nowhere" => g.d.cuCtxGetLimit(null_mut(), CUlimit(0));
    "limit_of_no_context" => g.without_context(|| g.d.cuCtxGetLimit(g.out(), CUlimit(0)));
    "limit_beyond_set" => g.d.cuCtxSetLimit(CUlimit(99), 1024);
    "stack_limit_without_end" => g.d.cuCtxSetLimit(CUlimit(0), 1 << 40);
    "fetch_granularity_of_1000" => g.d.cuCtxSetLimit(CUlimit(5), 1000);
    "cache_config_unknown" => g.d.cuCtxSetCacheConfig(CUfunc_cache(17));
    "cache_config_to_nowhere" => g.d.cuCtxGetCacheConfig(null_mut());
    "cache_config_of_no_context" => g.without_context(|| g.d.cuCtxSetCacheConfig(CUfunc_cache(0)));
    "priorities_of_no_context" => g.without_context(|| g.d.cuCtxGetStreamPriorityRange(g.out(), g.also()));
    "synchronized_without_context" => g.without_context(|| g.d.cuCtxSynchronize());
    "no_peer_enabled" => g.d.cuCtxEnablePeerAccess(null_mut(), 0);
    "itself_as_a_peer" => g.d.cuCtxEnablePeerAccess(g.context, 0);
    "a_peer_with_flags" => g.d.cuCtxEnablePeerAccess(g.context, 1);
    "no_peer_disabled" => g.d.cuCtxDisablePeerAccess(null_mut());
    "itself_disabled_as_a_peer" => g.d.cuCtxDisablePeerAccess(g.context);
    "allocated_without_context" => g.without_context(|| g.d.cuMemAlloc_v2(g.out(), SIZE));
    "host_memory_without_context" => g.without_context(|| g.d.cuMemHostAlloc(g.out(), SIZE, 0));
    "managed_memory_without_context" => g.without_context(|| g.d.cuMemAllocManaged(g.out(), SIZE, 1));
    "memory_asked_for_without_context" => g.without_context(|| g.d.cuMemGetInfo_v2(g.out(), g.also()));
    "a_stream_without_context" => g.without_context(|| g.d.cuStreamCreate(g.out(), 0));
    "an_event_without_context" => g.without_context(|| g.d.cuEventCreate(g.out(), 0));
    "a_module_without_context" => g.without_context(|| g.d.cuModuleLoadData(g.out(), PTX.as_ptr().cast()));
    "the_null_stream_without_context" => g.without_context(|| g.d.cuStreamSynchronize(null_mut()));
    "copied_without_context" => g.without_context(|| g.d.cuMemcpyHtoD_v2(g.memory, g.host, 16));
    "set_without_context" => g.without_context(|| g.d.cuMemsetD8_v2(g.memory, 1, 16));
    "an_array_without_context" => g.without_context(|| {
        let shape = crate::fixture::made(|shape: &mut cuda_sys::CUDA_ARRAY_DESCRIPTOR| {
            shape.Width = 16;
            shape.NumChannels = 1;
            shape.Format = cuda_sys::CUarray_format::CU_AD_FORMAT_FLOAT;
        });
        g.d.cuArrayCreate_v2(g.out(), &raw const shape)
    });
    "occupancy_without_context" => g.without_context(|| {
        g.d.cuOccupancyMaxActiveBlocksPerMultiprocessor(g.out(), g.plain, 128, 0)
    });
}

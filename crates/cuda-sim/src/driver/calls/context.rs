//! Contexts: created contexts, and the stack of current contexts of each thread. Primary contexts
//! are in `primary.rs`.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{
    CUcontext, CUctx_st, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUfunc_cache, CUlimit,
    CUresult, CUsharedconfig,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::context::{Context, is_schedule};
use crate::driver::objects::device::Device;
use crate::driver::status::{
    INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, PEER_ALREADY_ENABLED,
    PEER_NOT_ENABLED, PEER_UNSUPPORTED, Status, UNSUPPORTED_LIMIT,
};
use crate::lock::lock;

exports! {
    cuCtxCreate | cuCtxCreate_v2 => ctx_create;
    cuCtxCreate_v3 => ctx_create_v3;
    cuCtxCreate_v4 => ctx_create_v4;
    cuCtxDestroy | cuCtxDestroy_v2 => ctx_destroy;
    cuCtxAttach => ctx_attach;
    cuCtxDetach => ctx_detach;
    cuCtxGetCurrent => ctx_get_current;
    cuCtxSetCurrent => ctx_set_current;
    cuCtxPushCurrent | cuCtxPushCurrent_v2 => ctx_push_current;
    cuCtxPopCurrent | cuCtxPopCurrent_v2 => ctx_pop_current;
    cuCtxGetDevice => ctx_get_device;
    cuCtxGetDevice_v2 => ctx_get_device_v2;
    cuCtxGetFlags => ctx_get_flags;
    cuCtxSetFlags => ctx_set_flags;
    cuCtxGetId => ctx_get_id;
    cuCtxSynchronize => ctx_synchronize;
    cuCtxSynchronize_v2 => ctx_synchronize_v2;
    cuCtxGetLimit => ctx_get_limit;
    cuCtxSetLimit => ctx_set_limit;
    cuCtxGetCacheConfig => ctx_get_cache_config;
    cuCtxSetCacheConfig => ctx_set_cache_config;
    cuCtxGetSharedMemConfig => ctx_get_shared_mem_config;
    cuCtxSetSharedMemConfig => ctx_set_shared_mem_config;
    cuCtxGetApiVersion => ctx_get_api_version;
    cuCtxGetStreamPriorityRange => ctx_get_stream_priority_range;
    cuCtxResetPersistingL2Cache => ctx_reset_persisting_l2_cache;
    cuCtxEnablePeerAccess => ctx_enable_peer_access;
    cuCtxDisablePeerAccess => ctx_disable_peer_access;
}

/// The flags that `cuCtxCreate` accepts.
const KNOWN_FLAGS: u32 = 0xFF;

/// The API version of contexts since CUDA 3.2.
const API_VERSION: c_uint = 3020;

impl Call {
    fn ctx_create(&self, pctx: Out<CUcontext>, flags: c_uint, dev: CUdevice) -> Status {
        pctx.required()?;
        let device = self.device(dev)?;
        if flags & !KNOWN_FLAGS != 0 || !is_schedule(flags) {
            return Err(INVALID_VALUE);
        }
        device.alive()?;
        let context = self.create_context(device, flags, false);
        self.with_stack(|stack| stack.push(Arc::downgrade(&context)));
        pctx.set(pointer(context.handle))
    }

    fn ctx_create_v3(
        &self,
        pctx: Out<CUcontext>,
        params: Out<CUexecAffinityParam>,
        count: c_int,
        flags: c_uint,
        dev: CUdevice,
    ) -> Status {
        if !params.is_null() || count != 0 {
            return Err(NOT_SUPPORTED);
        }
        self.ctx_create(pctx, flags, dev)
    }

    fn ctx_create_v4(
        &self,
        pctx: Out<CUcontext>,
        params: Out<CUctxCreateParams>,
        flags: c_uint,
        dev: CUdevice,
    ) -> Status {
        if let Ok(params) = params.get()
            && (params.numExecAffinityParams != 0 || !params.cigParams.is_null())
        {
            return Err(NOT_SUPPORTED);
        }
        self.ctx_create(pctx, flags, dev)
    }

    fn ctx_destroy(&self, ctx: Out<CUctx_st>) -> Status {
        ctx.required()?;
        let context = self.contexts.get(ctx.handle()).ok_or(INVALID_CONTEXT)?;
        if context.is_primary || context.green.is_some() {
            return Err(INVALID_CONTEXT);
        }
        self.destroy_context(&context);
        self.with_stack(|stack| {
            if stack
                .last()
                .is_some_and(|top| std::ptr::eq(top.as_ptr(), Arc::as_ptr(&context)))
            {
                stack.pop();
            }
        });
        context.device.alive()
    }

    /// `cuCtxAttach()`—Increments the usage count of the current context.
    fn ctx_attach(&self, pctx: Out<CUcontext>, flags: c_uint) -> Status {
        pctx.required()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let context = self.current()?;
        context.attached.fetch_add(1, Ordering::Relaxed);
        pctx.set(pointer(context.handle))
    }

    /// `cuCtxDetach()`—Decrements the usage count of a context, which must be current, and destroys
    /// the context when the count becomes 0.
    fn ctx_detach(&self, ctx: Out<CUctx_st>) -> Status {
        let context = self.current()?;
        if context.handle != ctx.handle() {
            return Err(INVALID_CONTEXT);
        }
        let count = &context.attached;
        let lower = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if lower.is_ok() {
            return Ok(());
        }
        self.ctx_destroy(ctx)
    }

    fn ctx_get_current(&self, pctx: Out<CUcontext>) -> Status {
        let top = self.with_stack(|stack| stack.last().cloned());
        let handle = top
            .and_then(|top| top.upgrade())
            .map_or(0, |context| context.handle);
        pctx.set(pointer(handle))
    }

    fn ctx_set_current(&self, ctx: Out<CUctx_st>) -> Status {
        let context = match ctx.handle() {
            0 => None,
            handle => Some(self.context_to_enter(handle)?),
        };
        self.with_stack(|stack| {
            stack.pop();
            stack.extend(context.iter().map(Arc::downgrade));
        });
        Ok(())
    }

    fn ctx_push_current(&self, ctx: Out<CUctx_st>) -> Status {
        ctx.required()?;
        let context = self.context_to_enter(ctx.handle())?;
        self.with_stack(|stack| stack.push(Arc::downgrade(&context)));
        Ok(())
    }

    fn ctx_pop_current(&self, pctx: Out<CUcontext>) -> Status {
        let top = self.with_stack(Vec::pop).ok_or(INVALID_CONTEXT)?;
        pctx.set_if(pointer(top.upgrade().map_or(0, |context| context.handle)));
        Ok(())
    }

    fn ctx_get_device(&self, device: Out<CUdevice>) -> Status {
        device.required()?;
        device.set(self.current_even_if_lost()?.device.ordinal as CUdevice)
    }

    fn ctx_get_device_v2(&self, device: Out<CUdevice>, ctx: Out<CUctx_st>) -> Status {
        device.required()?;
        device.set(self.context(ctx.handle())?.device.ordinal as CUdevice)
    }

    fn ctx_get_flags(&self, flags: Out<c_uint>) -> Status {
        flags.set(self.home()?.flags.load(Ordering::Relaxed))
    }

    fn ctx_set_flags(&self, flags: c_uint) -> Status {
        if flags & !KNOWN_FLAGS != 0 || !is_schedule(flags) {
            return Err(INVALID_VALUE);
        }
        self.home()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn ctx_get_id(&self, ctx: Out<CUctx_st>, id: Out<c_ulonglong>) -> Status {
        id.required()?;
        id.set(self.context(ctx.handle())?.group)
    }

    fn ctx_synchronize(&self) -> Status {
        self.synchronize_context(&self.current()?)
    }

    fn ctx_synchronize_v2(&self, ctx: Out<CUctx_st>) -> Status {
        self.synchronize_context(&self.context(ctx.handle())?)
    }

    fn synchronize_context(&self, context: &Arc<Context>) -> Status {
        let all = self.with_greens(context);
        for context in &all {
            self.no_capture_in(context)?;
        }
        for context in &all {
            self.engine.wait(&self.engine.group_tail(context.group));
        }
        context.device.alive()
    }

    fn ctx_get_limit(&self, value: Out<usize>, limit: CUlimit) -> Status {
        value.required()?;
        let context = self.home()?;
        value.set(context.limit(limit).ok_or(unknown_limit(limit))?)
    }

    fn ctx_set_limit(&self, limit: CUlimit, value: usize) -> Status {
        let context = self.home()?;
        context.limit(limit).ok_or(unknown_limit(limit))?;
        let most = match limit {
            CUlimit::CU_LIMIT_STACK_SIZE => 512 << 10,
            CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => 128,
            _ => usize::MAX,
        };
        if value > most {
            return Err(INVALID_VALUE);
        }
        let mut limits = lock(&context.limits);
        limits.insert(limit.0, value);
        Ok(())
    }

    fn ctx_get_cache_config(&self, config: Out<CUfunc_cache>) -> Status {
        let value = self.home()?.cache.load(Ordering::Relaxed);
        config.set(CUfunc_cache(value as _))
    }

    fn ctx_set_cache_config(&self, config: CUfunc_cache) -> Status {
        let context = self.home()?;
        let value = i32::try_from(config.0).map_err(|_| INVALID_VALUE)?;
        if !(0..=3).contains(&value) {
            return Err(INVALID_VALUE);
        }
        context.cache.store(value, Ordering::Relaxed);
        Ok(())
    }

    fn ctx_get_shared_mem_config(&self, config: Out<CUsharedconfig>) -> Status {
        let value = self.home()?.shared.load(Ordering::Relaxed);
        config.set(CUsharedconfig(value as _))
    }

    fn ctx_set_shared_mem_config(&self, config: CUsharedconfig) -> Status {
        let context = self.home()?;
        let value = i32::try_from(config.0).map_err(|_| INVALID_VALUE)?;
        if !(0..=2).contains(&value) {
            return Err(INVALID_VALUE);
        }
        context.shared.store(value, Ordering::Relaxed);
        Ok(())
    }

    fn ctx_get_api_version(&self, ctx: Out<CUctx_st>, version: Out<c_uint>) -> Status {
        self.context(ctx.handle())?;
        version.set(API_VERSION)
    }

    fn ctx_get_stream_priority_range(&self, least: Out<c_int>, greatest: Out<c_int>) -> Status {
        self.current()?;
        least.set_if(crate::driver::objects::stream::LEAST_PRIORITY);
        greatest.set_if(crate::driver::objects::stream::GREATEST_PRIORITY);
        Ok(())
    }

    fn ctx_reset_persisting_l2_cache(&self) -> Status {
        self.current().map(drop)
    }

    fn ctx_enable_peer_access(&self, peer: Out<CUctx_st>, flags: c_uint) -> Status {
        let context = self.home()?;
        let peer = self.contexts.get(peer.handle()).ok_or(INVALID_CONTEXT)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let (from, to) = (context.device.ordinal, peer.device.ordinal);
        if !self.config.has_access(from, to) {
            return Err(PEER_UNSUPPORTED);
        }
        self.potentially_unsafe()?;
        if !context.peers().insert(peer.device.ordinal) {
            return Err(PEER_ALREADY_ENABLED);
        }
        Ok(())
    }

    fn ctx_disable_peer_access(&self, peer: Out<CUctx_st>) -> Status {
        let context = self.home()?;
        let peer = self.contexts.get(peer.handle()).ok_or(INVALID_CONTEXT)?;
        if !context.peers().remove(&peer.device.ordinal) {
            return Err(PEER_NOT_ENABLED);
        }
        Ok(())
    }

    /// Returns the device of a call that concerns primary contexts.
    pub(in crate::driver) fn primary_device(&self, dev: CUdevice) -> Status<&Arc<Device>> {
        self.device(dev).map_err(|_| INVALID_DEVICE)
    }
}

/// Returns the status for a limit that the device does not have; it depends on whether `cuda.h`
/// defines the limit.
fn unknown_limit(limit: CUlimit) -> CUresult {
    if limit.0 < CUlimit::CU_LIMIT_MAX.0 {
        UNSUPPORTED_LIMIT
    } else {
        INVALID_VALUE
    }
}

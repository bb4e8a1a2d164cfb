//! Green contexts: parts of the multiprocessors of a device, and contexts that use only one part.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUcontext, CUctx_st, CUdevResource, CUdevResourceDesc,
    CUdevResourceDesc_st, CUdevResourceType, CUdevSmResourceGroup_flags,
    CUdevSmResourceSplitByCount_flags, CUdevice, CUgreenCtx, CUgreenCtx_st, CUgreenCtxCreate_flags,
    CUstream, CUstream_st,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::context::{Context, Green};
use crate::driver::objects::green::{Descriptor, SmResource, granularity, invalid, raw_workqueues};
use crate::driver::objects::sm_set::SmSet;
use crate::driver::objects::stream::NON_BLOCKING;
use crate::driver::status::{
    INVALID_CONTEXT, INVALID_DEVICE, INVALID_RESOURCE_CONFIGURATION, INVALID_RESOURCE_TYPE,
    INVALID_VALUE, Status,
};

exports! {
    cuDeviceGetDevResource => device_get_dev_resource;
    cuCtxGetDevResource => ctx_get_dev_resource;
    cuGreenCtxGetDevResource => green_ctx_get_dev_resource;
    cuStreamGetDevResource | cuStreamGetDevResource_ptsz => stream_get_dev_resource;
    cuDevSmResourceSplitByCount => sm_resource_split_by_count;
    cuDevSmResourceSplit => sm_resource_split;
    cuDevResourceGenerateDesc => resource_generate_desc;
    cuGreenCtxCreate => green_ctx_create;
    cuGreenCtxDestroy => green_ctx_destroy;
    cuCtxFromGreenCtx => ctx_from_green_ctx;
    cuGreenCtxGetId => green_ctx_get_id;
    cuGreenCtxStreamCreate => green_ctx_stream_create;
    cuStreamGetGreenCtx => stream_get_green_ctx;
}

/// The first version with work queues, and with green contexts that have no default stream.
const WORKQUEUES: u32 = 13_010;

/// The largest number of multiprocessors that can be scheduled together.
const MOST_COSCHEDULED: u32 = 32;

/// The number of the next split.
static NEXT_SPLIT: AtomicU64 = AtomicU64::new(1);

impl Call {
    fn green(&self, handle: u64) -> Status<Arc<Context>> {
        let context = self.greens.get(handle).ok_or(INVALID_CONTEXT)?;
        context.device.alive()?;
        Ok(context)
    }

    /// Returns a resource of a device, or of a context on it.
    fn resource(
        &self,
        device: usize,
        green: Option<&Green>,
        kind: CUdevResourceType,
    ) -> Status<CUdevResource> {
        let own = self.devices.get(device).ok_or(INVALID_DEVICE)?;
        match kind {
            CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM => {
                let sms = green.map_or_else(|| own.sms(), |green| green.sms);
                let resource = SmResource {
                    device,
                    sms,
                    split: 0,
                };
                Ok(resource.raw(own))
            }
            CUdevResourceType::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG
                if self.config.version >= WORKQUEUES =>
            {
                let queues = green.map(|green| green.workqueues).unwrap_or_default();
                Ok(raw_workqueues(device, queues))
            }
            _ => Err(INVALID_RESOURCE_TYPE),
        }
    }

    fn device_get_dev_resource(
        &self,
        dev: CUdevice,
        resource: Out<CUdevResource>,
        kind: CUdevResourceType,
    ) -> Status {
        resource.required()?;
        let device = self.device(dev)?.ordinal;
        resource.set(self.resource(device, None, kind)?)
    }

    fn ctx_get_dev_resource(
        &self,
        ctx: Out<CUctx_st>,
        resource: Out<CUdevResource>,
        kind: CUdevResourceType,
    ) -> Status {
        resource.required()?;
        let context = self.context(ctx.handle())?;
        resource.set(self.resource(context.device.ordinal, context.green.as_ref(), kind)?)
    }

    fn green_ctx_get_dev_resource(
        &self,
        ctx: Out<CUgreenCtx_st>,
        resource: Out<CUdevResource>,
        kind: CUdevResourceType,
    ) -> Status {
        resource.required()?;
        let context = self.green(ctx.handle())?;
        resource.set(self.resource(context.device.ordinal, context.green.as_ref(), kind)?)
    }

    fn stream_get_dev_resource(
        &self,
        stream: Out<CUstream_st>,
        resource: Out<CUdevResource>,
        kind: CUdevResourceType,
    ) -> Status {
        resource.required()?;
        let context = &self.stream(stream.handle())?.context;
        if kind != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
            return Err(INVALID_RESOURCE_TYPE);
        }
        resource.set(self.resource(context.device.ordinal, context.green.as_ref(), kind)?)
    }

    /// `cuDevSmResourceSplitByCount()`—Makes parts of equal size. Parts can be split again only
    /// after a green context was created with them.
    fn sm_resource_split_by_count(
        &self,
        result: Out<CUdevResource>,
        groups: Out<c_uint>,
        input: In<CUdevResource>,
        remainder: Out<CUdevResource>,
        flags: c_uint,
        least: c_uint,
    ) -> Status {
        type F = CUdevSmResourceSplitByCount_flags;
        let fine = F::CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING.0;
        let large = F::CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE.0;
        let wanted = groups.get()?;
        let whole = SmResource::of(&input.get()?)?;
        let device = self.devices.get(whole.device).ok_or(INVALID_DEVICE)?;
        let is_large = flags & large != 0;
        if flags & !(fine | large) != 0 || least > whole.sms.len() {
            return Err(INVALID_VALUE);
        }
        if whole.split != 0 || (is_large && device.capability.0 < 9) {
            return Err(INVALID_RESOURCE_CONFIGURATION);
        }
        let (smallest, align) = granularity(device, flags & fine != 0);
        // The largest cluster has 16 blocks.
        let smallest = if is_large { 16 } else { smallest };
        let size = least.max(smallest).next_multiple_of(align);
        let most = whole.sms.len() / size;
        if result.is_null() {
            return groups.set(most);
        }
        if wanted == 0 {
            return Err(INVALID_VALUE);
        }
        let count = wanted.min(most);
        if count == 0 {
            return Err(INVALID_RESOURCE_CONFIGURATION);
        }
        let split = NEXT_SPLIT.fetch_add(1, Ordering::Relaxed);
        let ids: Vec<u32> = whole.sms.ids().collect();
        let part = |ids: &[u32]| {
            let part = SmResource {
                sms: ids.iter().copied().collect(),
                split,
                ..whole
            };
            part.raw(device)
        };
        let (taken, rest) = ids.split_at((count * size) as usize);
        for (index, ids) in taken.chunks(size as usize).enumerate() {
            result.set_at(index, part(ids));
        }
        remainder.set_if(if rest.is_empty() {
            invalid()
        } else {
            part(rest)
        });
        groups.set(count)
    }

    /// `cuDevSmResourceSplit()`—Makes parts of the sizes that the program requests.
    fn sm_resource_split(
        &self,
        result: Out<CUdevResource>,
        groups: c_uint,
        input: In<CUdevResource>,
        remainder: Out<CUdevResource>,
        flags: c_uint,
        params: Out<CU_DEV_SM_RESOURCE_GROUP_PARAMS>,
    ) -> Status {
        let backfill = CUdevSmResourceGroup_flags::CU_DEV_SM_RESOURCE_GROUP_BACKFILL.0;
        let whole = SmResource::of(&input.get()?)?;
        let device = self.devices.get(whole.device).ok_or(INVALID_DEVICE)?;
        if flags != 0 || groups == 0 {
            return Err(INVALID_VALUE);
        }
        if whole.split != 0 {
            return Err(INVALID_RESOURCE_CONFIGURATION);
        }
        let ids: Vec<u32> = whole.sms.ids().collect();
        let split = NEXT_SPLIT.fetch_add(1, Ordering::Relaxed);
        let mut parts = Vec::new();
        let mut sizes = Vec::new();
        let mut rest = &*ids;
        for index in 0..groups as usize {
            let mut group = params.get_at(index)?;
            if group.flags & !backfill != 0 || !group.smCount.is_multiple_of(2) {
                return Err(INVALID_VALUE);
            }
            let (_, default) = granularity(device, false);
            let together = match group.coscheduledSmCount {
                0 => default,
                together => together,
            };
            let most = if device.capability.0 >= 9 {
                MOST_COSCHEDULED
            } else {
                2
            };
            if together > most || !together.is_multiple_of(2) {
                return Err(INVALID_VALUE);
            }
            let is_backfilled = group.flags & backfill != 0;
            let left = rest.len() as u32;
            let size = match group.smCount {
                0 if is_backfilled => left / 2 * 2,
                0 => left / together * together,
                size if !is_backfilled && !size.is_multiple_of(together) => {
                    return Err(INVALID_RESOURCE_CONFIGURATION);
                }
                size => size,
            };
            if size > left || (!result.is_null() && size < together) {
                return Err(INVALID_RESOURCE_CONFIGURATION);
            }
            group.smCount = size;
            sizes.push(group);
            let (taken, left) = rest.split_at(size as usize);
            parts.push(taken);
            rest = left;
        }
        let part = |ids: &[u32]| {
            let sms: SmSet = ids.iter().copied().collect();
            let part = SmResource {
                sms,
                split,
                ..whole
            };
            part.raw(device)
        };
        for (index, group) in sizes.into_iter().enumerate() {
            params.set_at(index, group);
            if !result.is_null() {
                result.set_at(index, part(parts[index]));
            }
        }
        remainder.set_if(if rest.is_empty() {
            invalid()
        } else {
            part(rest)
        });
        Ok(())
    }

    /// `cuDevResourceGenerateDesc()`—The descriptor lives as long as the driver.
    fn resource_generate_desc(
        &self,
        desc: Out<CUdevResourceDesc>,
        resources: Out<CUdevResource>,
        count: c_uint,
    ) -> Status {
        desc.required()?;
        let resources: Vec<CUdevResource> = (0..count as usize)
            .map(|index| resources.get_at(index))
            .collect::<Status<_>>()?;
        let made = Descriptor::of(&resources)?;
        let handle = fresh();
        self.descriptors.insert(handle, Arc::new(made));
        desc.set(pointer(handle))
    }

    fn green_ctx_create(
        &self,
        ctx: Out<CUgreenCtx>,
        desc: Out<CUdevResourceDesc_st>,
        dev: CUdevice,
        flags: c_uint,
    ) -> Status {
        let default_stream = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM.0;
        ctx.required()?;
        let device = Arc::clone(self.device(dev)?);
        let desc = self.descriptors.get(desc.handle()).ok_or(INVALID_VALUE)?;
        let is_required = self.config.version < WORKQUEUES;
        if flags & !default_stream != 0 || (is_required && flags == 0) {
            return Err(INVALID_VALUE);
        }
        if desc.device != device.ordinal {
            return Err(INVALID_DEVICE);
        }
        device.alive()?;
        let home = self.retain_primary(&device);
        let handle = fresh();
        let green = Green {
            handle,
            home,
            sms: desc.sms.unwrap_or_else(|| device.sms()),
            workqueues: desc.workqueues.unwrap_or_default(),
        };
        let context = self.create_green_context(&device, green);
        self.greens.insert(handle, context);
        ctx.set(pointer(handle))
    }

    /// `cuGreenCtxDestroy()`—The streams stay, but every call on them fails, except their
    /// destruction.
    fn green_ctx_destroy(&self, ctx: Out<CUgreenCtx_st>) -> Status {
        let context = self.greens.remove(ctx.handle()).ok_or(INVALID_CONTEXT)?;
        self.destroy_green_context(&context);
        self.release_primary(&context.device)?;
        context.device.alive()
    }

    fn ctx_from_green_ctx(&self, context: Out<CUcontext>, ctx: Out<CUgreenCtx_st>) -> Status {
        context.required()?;
        context.set(pointer(self.green(ctx.handle())?.handle))
    }

    fn green_ctx_get_id(&self, ctx: Out<CUgreenCtx_st>, id: Out<c_ulonglong>) -> Status {
        id.required()?;
        let context = match ctx.handle() {
            0 => self.current()?,
            handle => self.green(handle)?,
        };
        if context.green.is_none() {
            return Err(INVALID_CONTEXT);
        }
        id.set(context.group)
    }

    fn green_ctx_stream_create(
        &self,
        stream: Out<CUstream>,
        ctx: Out<CUgreenCtx_st>,
        flags: c_uint,
        priority: c_int,
    ) -> Status {
        stream.required()?;
        let context = self.green(ctx.handle())?;
        if flags != NON_BLOCKING {
            return Err(INVALID_VALUE);
        }
        self.create_stream(context, stream, flags, priority)
    }

    fn stream_get_green_ctx(&self, stream: Out<CUstream_st>, ctx: Out<CUgreenCtx>) -> Status {
        ctx.required()?;
        let stream = self.stream(stream.handle())?;
        let green = stream.context.green.as_ref();
        ctx.set(pointer(green.map_or(0, |green| green.handle)))
    }
}

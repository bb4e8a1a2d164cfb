//! Stream-ordered allocation and memory pools.
//!
//! A pool of the software device does not cache memory: freed memory returns to the device
//! immediately, so reserved and used memory are the same. The address of an allocation is fixed
//! when it is requested. Its bytes are valid from its position in the stream on; they are poisoned
//! at that point (in the legacy stream, immediately).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::{
    CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolHandle_st, CUmemPoolProps, CUmemoryPool, CUstream_st,
};

use super::ipc::HANDLE_TYPES;
use crate::driver::arg::{In, Out};
use crate::driver::attributes::{ALIGN, HANDLE_TYPE};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::memory::Kind;
use crate::driver::objects::pool::{Home, Pool, location_id};
use crate::driver::objects::stream::Stream;
use crate::driver::status::{
    INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status,
};
use crate::engine::Work;
use crate::lock::lock;
use crate::memory::shared_file;

exports! {
    cuMemAllocAsync | cuMemAllocAsync_ptsz => mem_alloc_async;
    cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz => mem_alloc_from_pool_async;
    cuMemFreeAsync | cuMemFreeAsync_ptsz => mem_free_async;
    cuDeviceGetDefaultMemPool => device_get_default_mem_pool;
    cuDeviceGetMemPool => device_get_mem_pool;
    cuDeviceSetMemPool => device_set_mem_pool;
    cuMemPoolCreate => mem_pool_create;
    cuMemPoolDestroy => mem_pool_destroy;
    cuMemPoolTrimTo => mem_pool_trim_to;
    cuMemPoolGetAttribute => mem_pool_get_attribute;
    cuMemPoolSetAttribute => mem_pool_set_attribute;
    cuMemPoolSetAccess => mem_pool_set_access;
    cuMemPoolGetAccess => mem_pool_get_access;
}

impl Call {
    pub(in crate::driver) fn pool(&self, handle: u64) -> Status<Arc<Pool>> {
        let unknown = if handle == 0 {
            INVALID_VALUE
        } else {
            INVALID_HANDLE
        };
        self.pools.get(handle).ok_or(unknown)
    }

    fn mem_alloc_async(
        &self,
        dptr: Out<CUdeviceptr>,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        dptr.required()?;
        let stream = self.stream(stream.handle())?;
        let pool = lock(&stream.context.device.pool).clone();
        self.allocate_in_order(dptr, size, &pool, &stream)
    }

    fn mem_alloc_from_pool_async(
        &self,
        dptr: Out<CUdeviceptr>,
        size: usize,
        pool: Out<CUmemPoolHandle_st>,
        stream: Out<CUstream_st>,
    ) -> Status {
        dptr.required()?;
        let stream = self.stream(stream.handle())?;
        let pool = self.pool(pool.handle())?;
        self.allocate_in_order(dptr, size, &pool, &stream)
    }

    fn allocate_in_order(
        &self,
        dptr: Out<CUdeviceptr>,
        size: usize,
        pool: &Arc<Pool>,
        stream: &Stream,
    ) -> Status {
        if size == 0 {
            return dptr.set(0);
        }
        if pool.origin.is_some() {
            return Err(INVALID_VALUE);
        }
        let size = size as u64;
        if pool.home != Home::Device {
            return self.allocate_at_home(dptr, size, pool, stream);
        }
        if let Some(addr) = self.capture_alloc(stream, pool.device, size)? {
            return dptr.set(addr);
        }
        self.potentially_unsafe()?;
        let device = Arc::clone(self.devices.get(pool.device).ok_or(INVALID_DEVICE)?);
        if !pool.take(size) {
            return Err(OUT_OF_MEMORY);
        }
        let Some(addr) = device.allocate(size, ALIGN) else {
            pool.give(size);
            return Err(OUT_OF_MEMORY);
        };
        pool.grown();
        let kind = Kind::Pool(Arc::clone(pool));
        let is_there = self.note(addr, size, kind, &stream.context);
        // An allocation in the legacy stream queues no work, as on a GPU, where it does not block
        // the blocking streams. The bytes are poisoned already.
        if !stream.is_legacy() {
            self.enqueue(stream, &[], move || {
                // Data that was written before the allocation runs in stream order is lost.
                let is_there = lock(&is_there);
                if *is_there {
                    let _ = device.map().poison(addr, size);
                }
                Ok(())
            });
        }
        dptr.set(addr)
    }

    fn mem_free_async(&self, dptr: CUdeviceptr, stream: Out<CUstream_st>) -> Status {
        let stream = self.stream(stream.handle())?;
        if dptr == 0 {
            return Ok(());
        }
        if self.capture_free(&stream, dptr)? {
            return Ok(());
        }
        self.potentially_unsafe()?;
        self.is_freeable(dptr)?;
        let allocation = self
            .forget(dptr, |kind| {
                matches!(
                    kind,
                    Kind::Pool(_)
                        | Kind::Device
                        | Kind::Graph(_)
                        | Kind::HostPool(_)
                        | Kind::ManagedPool(..)
                )
            })
            .ok_or(INVALID_VALUE)?;
        let by = self.function.name;
        let devices = Arc::clone(&self.devices);
        let free = move || {
            if let Kind::Graph(memory) = &allocation.kind {
                memory.deactivate();
                return;
            }
            if let Kind::HostPool(pool) | Kind::ManagedPool(pool, _) = &allocation.kind {
                pool.give(allocation.size);
                let host = std::ptr::without_provenance(dptr as usize);
                for device in devices.iter() {
                    // It was registered with each device.
                    let _ = device.arena.unregister_host(host);
                }
                return;
            }
            if allocation.imported.is_some() {
                if let Kind::Pool(pool) = &allocation.kind {
                    pool.give(allocation.size);
                }
                allocation.device.remove_pool_memory(dptr);
                return;
            }
            // Freeing cannot fail: the allocation was listed, so the arena knows it.
            if let Kind::Pool(pool) = &allocation.kind {
                pool.give(allocation.size);
                allocation.device.free_pool_memory(dptr, by);
            } else {
                let _ = allocation.device.arena.free(dptr, by);
            }
        };
        // The memory is freed even if the device is lost before this runs.
        self.engine
            .submit(stream.queue, &[], Work::Device(Box::new(free)));
        Ok(())
    }

    fn device_get_default_mem_pool(&self, pool: Out<CUmemoryPool>, dev: CUdevice) -> Status {
        pool.set(pointer(self.device(dev)?.default_pool.handle))
    }

    fn device_get_mem_pool(&self, pool: Out<CUmemoryPool>, dev: CUdevice) -> Status {
        let device = self.device(dev).map_err(|_| INVALID_VALUE)?;
        let handle = lock(&device.pool).handle;
        pool.set(pointer(handle))
    }

    fn device_set_mem_pool(&self, dev: CUdevice, pool: Out<CUmemPoolHandle_st>) -> Status {
        let device = self.device(dev).map_err(|_| INVALID_VALUE)?;
        let pool = self.pool(pool.handle())?;
        let is_own = pool.home == Home::Device && pool.origin.is_none();
        if pool.device != device.ordinal || !is_own {
            return Err(INVALID_VALUE);
        }
        *lock(&device.pool) = pool;
        Ok(())
    }

    fn mem_pool_create(&self, pool: Out<CUmemoryPool>, props: In<CUmemPoolProps>) -> Status {
        pool.required()?;
        let props = props.get()?;
        if props.handleTypes.0 & !HANDLE_TYPES != 0 {
            return Err(INVALID_VALUE);
        }
        let (device, home) = self.home_of(&props)?;
        let handles = props.handleTypes.0;
        let can_share = shared_file::EXISTS && home == Home::Device;
        if handles & !HANDLE_TYPE != 0 || (handles != 0 && !can_share) {
            return Err(NOT_SUPPORTED);
        }
        if home != Home::Device && self.config.version < 13_000 {
            return Err(NOT_SUPPORTED);
        }
        let mut created = Pool::at(device, home, false);
        created.max_size = props.maxSize as u64;
        created.handle_types = props.handleTypes.0;
        let handle = created.handle;
        self.pools.insert(handle, Arc::new(created));
        pool.set(pointer(handle))
    }

    /// `cuMemPoolDestroy()`—Devices that use this pool return to their default pool. Its
    /// allocations stay valid.
    fn mem_pool_destroy(&self, pool: Out<CUmemPoolHandle_st>) -> Status {
        let pool = self.pool(pool.handle())?;
        if pool.is_default {
            return Err(INVALID_VALUE);
        }
        self.pools.remove(pool.handle);
        self.replace_current(&pool);
        for device in self.devices.iter() {
            let mut current = lock(&device.pool);
            if current.handle == pool.handle {
                *current = Arc::clone(&device.default_pool);
            }
        }
        Ok(())
    }

    fn mem_pool_trim_to(&self, pool: Out<CUmemPoolHandle_st>, _keep: usize) -> Status {
        self.pool(pool.handle()).map(drop)
    }

    /// `cuMemPoolSetAccess()`—Later launches on the device can access the memory of the pool, or no
    /// longer can. Read-only access is recorded for queries; the device can write as well.
    fn mem_pool_set_access(
        &self,
        pool: Out<CUmemPoolHandle_st>,
        map: In<CUmemAccessDesc>,
        count: usize,
    ) -> Status {
        let pool = self.pool(pool.handle())?;
        for index in 0..count {
            let wanted = map.get_at(index)?;
            if wanted.location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
                return Err(NOT_SUPPORTED);
            }
            let device = self.device(location_id(&wanted.location))?.ordinal;
            if !matches!(wanted.flags.0, 0 | 1 | 3) {
                return Err(INVALID_VALUE);
            }
            // The device of the pool always has full access.
            if device == pool.device && pool.home == Home::Device {
                match wanted.flags {
                    CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => return Err(INVALID_DEVICE),
                    CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => return Err(NOT_SUPPORTED),
                    _ => continue,
                }
            }
            let is_granted = wanted.flags != CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
            let is_far = pool.home == Home::Device && !self.config.has_access(device, pool.device);
            if is_granted && is_far {
                return Err(INVALID_DEVICE);
            }
            lock(&pool.access).insert(device, wanted.flags);
            if let Some(owner) = self.devices.get(pool.device) {
                owner.share_pools_with(device);
            }
        }
        Ok(())
    }

    fn mem_pool_get_access(
        &self,
        flags: Out<CUmemAccess_flags>,
        pool: Out<CUmemPoolHandle_st>,
        location: Out<CUmemLocation>,
    ) -> Status {
        type F = CUmemAccess_flags;
        let pool = self.pool(pool.handle())?;
        let device = self.pool_location(&location.get()?)?;
        if pool.is_always_accessible(device) {
            return flags.set(F::CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        let access = lock(&pool.access);
        let kept = access.get(&device).copied();
        flags.set(kept.unwrap_or(F::CU_MEM_ACCESS_FLAGS_PROT_NONE))
    }

    fn pool_location(&self, location: &CUmemLocation) -> Status<usize> {
        if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
            return Err(INVALID_VALUE);
        }
        let device = self.device(location_id(location));
        Ok(device.map_err(|_| INVALID_VALUE)?.ordinal)
    }

    fn mem_pool_get_attribute(
        &self,
        pool: Out<CUmemPoolHandle_st>,
        attribute: CUmemPool_attribute,
        value: Out<c_void>,
    ) -> Status {
        type A = CUmemPool_attribute;
        let pool = self.pool(pool.handle())?;
        let wide = |number: &AtomicU64| value.typed::<u64>().set(number.load(Ordering::Relaxed));
        match attribute {
            A::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
            | A::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
            | A::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                let flag = &pool.reuse[attribute.0 as usize - 1];
                value
                    .typed::<c_int>()
                    .set(flag.load(Ordering::Relaxed) as c_int)
            }
            A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => wide(&pool.threshold),
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT | A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => {
                wide(&pool.used)
            }
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => wide(&pool.reserved_high),
            A::CU_MEMPOOL_ATTR_USED_MEM_HIGH => wide(&pool.used_high),
            _ => Err(INVALID_VALUE),
        }
    }

    fn mem_pool_set_attribute(
        &self,
        pool: Out<CUmemPoolHandle_st>,
        attribute: CUmemPool_attribute,
        value: Out<c_void>,
    ) -> Status {
        type A = CUmemPool_attribute;
        let pool = self.pool(pool.handle())?;
        match attribute {
            A::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
            | A::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
            | A::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                let on = value.typed::<c_int>().get()? != 0;
                pool.reuse[attribute.0 as usize - 1].store(u64::from(on), Ordering::Relaxed);
            }
            A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => {
                pool.threshold
                    .store(value.typed::<u64>().get()?, Ordering::Relaxed);
            }
            // The high-water marks can only be reset.
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH | A::CU_MEMPOOL_ATTR_USED_MEM_HIGH => {
                if value.typed::<u64>().get()? != 0 {
                    return Err(INVALID_VALUE);
                }
                let mark = if attribute == A::CU_MEMPOOL_ATTR_USED_MEM_HIGH {
                    &pool.used_high
                } else {
                    &pool.reserved_high
                };
                mark.store(pool.used.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }
}

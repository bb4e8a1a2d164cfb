//! Pools of host memory and of managed memory, and the pools of each location.
//!
//! The host has one NUMA node. Memory of these pools has the same address on the host and on every
//! device. As for other pools, the bytes are valid from the position of the allocation in its
//! stream on; the host that accesses them earlier finds them poisoned later. Kernels of a device
//! that `cuMemPoolSetAccess` gave no access to a pool of the host can use its memory all the same.

use std::sync::Arc;

use cuda_sys::{
    CUdeviceptr, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPoolHandle_st,
    CUmemPoolProps, CUmemoryPool,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::advice::Pages;
use crate::driver::objects::memory::{Allocation, Kind};
use crate::driver::objects::pool::{Home, Near, PlacePools, Pool, location_id};
use crate::driver::objects::stream::Stream;
use crate::driver::status::{INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
use crate::lock::lock;
use crate::memory::RangeKind;

exports! {
    cuMemGetDefaultMemPool => mem_get_default_mem_pool;
    cuMemGetMemPool => mem_get_mem_pool;
    cuMemSetMemPool => mem_set_mem_pool;
}

type Type = CUmemAllocationType;

impl Call {
    /// Returns the device and the home of the memory of a pool with these properties.
    pub(super) fn home_of(&self, props: &CUmemPoolProps) -> Status<(usize, Home)> {
        self.home_at(&props.location, props.allocType)
    }

    fn home_at(&self, location: &CUmemLocation, kind: Type) -> Status<(usize, Home)> {
        type T = CUmemLocationType;
        let id = location_id(location);
        let near = match location.type_ {
            T::CU_MEM_LOCATION_TYPE_DEVICE => Near::Device,
            T::CU_MEM_LOCATION_TYPE_HOST => Near::Host,
            T::CU_MEM_LOCATION_TYPE_HOST_NUMA if id == 0 => Near::Numa,
            T::CU_MEM_LOCATION_TYPE_NONE if kind == Type::CU_MEM_ALLOCATION_TYPE_MANAGED => {
                Near::Any
            }
            _ => return Err(INVALID_VALUE),
        };
        let device = match near {
            Near::Device => self.device(id).map_err(|_| INVALID_VALUE)?.ordinal,
            Near::Host | Near::Numa | Near::Any => 0,
        };
        match (kind, near) {
            (Type::CU_MEM_ALLOCATION_TYPE_PINNED, Near::Device) => Ok((device, Home::Device)),
            (Type::CU_MEM_ALLOCATION_TYPE_PINNED, near) => Ok((device, Home::Host(near))),
            (Type::CU_MEM_ALLOCATION_TYPE_MANAGED, near) => Ok((device, Home::Managed(near))),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Allocates memory of a pool of host or managed memory.
    pub(super) fn allocate_at_home(
        &self,
        dptr: Out<CUdeviceptr>,
        size: u64,
        pool: &Arc<Pool>,
        stream: &Stream,
    ) -> Status {
        self.no_capture_on(stream)?;
        self.potentially_unsafe()?;
        if !pool.take(size) {
            return Err(OUT_OF_MEMORY);
        }
        let (range, kind) = if matches!(pool.home, Home::Managed(_)) {
            let kind = Kind::ManagedPool(Arc::clone(pool), Pages::new());
            (RangeKind::Managed, kind)
        } else {
            (RangeKind::Pinned, Kind::HostPool(Arc::clone(pool)))
        };
        let block = self.new_block(&stream.context, size as usize, range, kind);
        let start = block.inspect_err(|_| pool.give(size))?;
        pool.grown();
        let addr = start.addr() as u64;
        let is_there = self.find_allocation(addr, |_, it: &Allocation| Arc::clone(&it.is_there));
        if let (Some(is_there), false) = (is_there, stream.is_legacy()) {
            let device = Arc::clone(&stream.context.device);
            self.enqueue(stream, &[], move || {
                // What the host wrote before the allocation ran in stream order is lost.
                if *lock(&is_there) {
                    let _ = device.map().poison(addr, size);
                }
                Ok(())
            });
        }
        dptr.set(addr)
    }

    /// Returns the default pool of a location, which is created when it is first needed.
    fn default_at(&self, device: usize, home: Home) -> Status<Arc<Pool>> {
        if home == Home::Device {
            let device = self.devices.get(device).ok_or(INVALID_DEVICE)?;
            return Ok(Arc::clone(&device.default_pool));
        }
        let mut all = lock(&self.place_pools);
        let entry = all.entry((device, home)).or_insert_with(|| {
            let pool = Arc::new(Pool::at(device, home, true));
            self.pools.insert(pool.handle, Arc::clone(&pool));
            PlacePools {
                default: Arc::clone(&pool),
                current: pool,
            }
        });
        Ok(Arc::clone(&entry.default))
    }

    fn mem_get_default_mem_pool(
        &self,
        pool: Out<CUmemoryPool>,
        location: Out<CUmemLocation>,
        kind: CUmemAllocationType,
    ) -> Status {
        pool.required()?;
        let (device, home) = self.home_at(&location.get()?, kind)?;
        pool.set(pointer(self.default_at(device, home)?.handle))
    }

    fn mem_get_mem_pool(
        &self,
        pool: Out<CUmemoryPool>,
        location: Out<CUmemLocation>,
        kind: CUmemAllocationType,
    ) -> Status {
        pool.required()?;
        let (device, home) = self.home_at(&location.get()?, kind)?;
        if home == Home::Device {
            let device = self.devices.get(device).ok_or(INVALID_DEVICE)?;
            return pool.set(pointer(lock(&device.pool).handle));
        }
        self.default_at(device, home)?;
        let all = lock(&self.place_pools);
        let pools = all.get(&(device, home)).ok_or(NOT_SUPPORTED)?;
        pool.set(pointer(pools.current.handle))
    }

    fn mem_set_mem_pool(
        &self,
        location: Out<CUmemLocation>,
        kind: CUmemAllocationType,
        pool: Out<CUmemPoolHandle_st>,
    ) -> Status {
        let (device, home) = self.home_at(&location.get()?, kind)?;
        let pool = self.pool(pool.handle())?;
        if (pool.device, pool.home) != (device, home) {
            return Err(INVALID_VALUE);
        }
        if home == Home::Device {
            let device = self.devices.get(device).ok_or(INVALID_DEVICE)?;
            *lock(&device.pool) = pool;
            return Ok(());
        }
        self.default_at(device, home)?;
        if let Some(pools) = lock(&self.place_pools).get_mut(&(device, home)) {
            pools.current = pool;
        }
        Ok(())
    }

    /// Makes the default pool of its location current again if this pool is current.
    pub(super) fn replace_current(&self, pool: &Pool) {
        if let Some(pools) = lock(&self.place_pools).get_mut(&(pool.device, pool.home))
            && pools.current.handle == pool.handle
        {
            pools.current = Arc::clone(&pools.default);
        }
    }
}

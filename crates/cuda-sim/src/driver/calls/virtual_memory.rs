//! Virtual memory: address ranges, physical memory, and access rights are managed separately.
//!
//! Physical memory lives as long as a handle of it is held or it is mapped. Access to a mapping is
//! granted to each device separately, regardless of peer access. The memory is in a device or in
//! node 0 of the host. It can be shared with other processes through file descriptors. Access of
//! the host, other handles for sharing, and read-only access are rejected.

use std::ffi::{c_ulonglong, c_void};
use std::sync::Arc;

use cuda_sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemLocationType,
};

use super::ipc::HANDLE_TYPES;
use crate::driver::arg::{In, Out};
use crate::driver::attributes::HANDLE_TYPE;
use crate::driver::export::{Call, exports};
use crate::driver::objects::device::Device;
use crate::driver::objects::mapping::{Mapping, Physical, Prop};
use crate::driver::objects::pool::location_id;
use crate::driver::status::{INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
use crate::memory::{Backing, GRANULARITY};

exports! {
    cuMemAddressReserve => mem_address_reserve;
    cuMemAddressFree => mem_address_free;
    cuMemCreate => mem_create;
    cuMemRelease => mem_release;
    cuMemMap => mem_map;
    cuMemUnmap => mem_unmap;
    cuMemSetAccess => mem_set_access;
    cuMemGetAccess => mem_get_access;
    cuMemGetAllocationGranularity => mem_get_allocation_granularity;
    cuMemGetAllocationPropertiesFromHandle => mem_get_allocation_properties;
    cuMemRetainAllocationHandle => mem_retain_allocation_handle;
}

/// The alignment of the address of a reservation in bytes.
const PAGE: u64 = 4096;

/// Returns whether a mapping can have this size or address.
fn is_granular(value: u64) -> bool {
    value.is_multiple_of(GRANULARITY)
}

impl Call {
    fn mem_address_reserve(
        &self,
        ptr: Out<CUdeviceptr>,
        size: usize,
        alignment: usize,
        wanted: CUdeviceptr,
        flags: c_ulonglong,
    ) -> Status {
        ptr.required()?;
        let (size, align) = (size as u64, alignment as u64);
        let is_wrong = size == 0
            || !size.is_multiple_of(PAGE)
            || !wanted.is_multiple_of(PAGE)
            || (align != 0 && !align.is_power_of_two())
            || flags != 0;
        if is_wrong {
            return Err(INVALID_VALUE);
        }
        let space = self.virtual_memory.space()?;
        let addr = space.reserve(size, align, wanted).ok_or(OUT_OF_MEMORY)?;
        self.virtual_memory.state().reserved.insert(addr, size);
        ptr.set(addr)
    }

    /// `cuMemAddressFree()`—The range must be exactly one reservation and must contain no mapping.
    fn mem_address_free(&self, ptr: CUdeviceptr, size: usize) -> Status {
        let space = self.virtual_memory.space()?;
        let mut state = self.virtual_memory.state();
        let size = size as u64;
        if state.reserved.get(&ptr) != Some(&size) || state.is_mapped(ptr, size) {
            return Err(INVALID_VALUE);
        }
        state.reserved.remove(&ptr);
        drop(state);
        space.unreserve(ptr, size);
        Ok(())
    }

    /// Returns the properties, and the device of device memory. Fails with `NOT_SUPPORTED` for
    /// memory that is not implemented.
    fn checked(&self, prop: In<CUmemAllocationProp>) -> Status<(Prop, Option<Arc<Device>>)> {
        type T = CUmemLocationType;
        let mut prop = prop.get()?;
        if prop.type_ != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
            return Err(INVALID_VALUE);
        }
        let device = match prop.location.type_ {
            T::CU_MEM_LOCATION_TYPE_DEVICE => {
                Some(Arc::clone(self.device(location_id(&prop.location))?))
            }
            T::CU_MEM_LOCATION_TYPE_HOST_NUMA if location_id(&prop.location) == 0 => None,
            // The documentation excludes the other locations on the host.
            _ => return Err(INVALID_VALUE),
        };
        if prop.requestedHandleTypes.0 & !HANDLE_TYPES != 0 {
            return Err(INVALID_VALUE);
        }
        let wants_more = prop.requestedHandleTypes.0 & !HANDLE_TYPE != 0
            || prop.allocFlags.gpuDirectRDMACapable != 0
            || prop.allocFlags.usage != 0;
        if wants_more || cfg!(not(target_os = "linux")) {
            return Err(NOT_SUPPORTED);
        }
        // Compression is optional, so the request is ignored.
        prop.allocFlags.compressionType = 0;
        Ok((Prop::new(prop), device))
    }

    fn mem_create(
        &self,
        handle: Out<CUmemGenericAllocationHandle>,
        size: usize,
        prop: In<CUmemAllocationProp>,
        flags: c_ulonglong,
    ) -> Status {
        handle.required()?;
        let (prop, device) = self.checked(prop)?;
        let size = size as u64;
        if size == 0 || !is_granular(size) || flags != 0 {
            return Err(INVALID_VALUE);
        }
        if let Some(device) = &device {
            device.alive()?;
            if !device.arena.charge(size, device.capacity()) {
                return Err(OUT_OF_MEMORY);
            }
        }
        let Ok(backing) = Backing::new(size) else {
            if let Some(device) = &device {
                device.arena.refund(size);
            }
            return Err(OUT_OF_MEMORY);
        };
        let memory = Arc::new(Physical::new(device, backing, prop));
        let number = memory.handle;
        let mut state = self.virtual_memory.state();
        state.handles.insert(number, (1, memory));
        handle.set(number)
    }

    fn mem_release(&self, handle: CUmemGenericAllocationHandle) -> Status {
        let mut state = self.virtual_memory.state();
        let (count, _) = state.handles.get_mut(&handle).ok_or(INVALID_VALUE)?;
        *count -= 1;
        if *count == 0 {
            state.handles.remove(&handle);
        }
        Ok(())
    }

    fn mem_map(
        &self,
        ptr: CUdeviceptr,
        size: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    ) -> Status {
        let size = size as u64;
        let mut state = self.virtual_memory.state();
        let memory = state.handles.get(&handle).ok_or(INVALID_VALUE)?;
        let memory = Arc::clone(&memory.1);
        // The documentation reserves the offset for future versions.
        let is_wrong = flags != 0
            || offset != 0
            || size == 0
            || !is_granular(size)
            || !is_granular(ptr)
            || size > memory.backing.size()
            || !state.is_reserved(ptr, size)
            || state.is_mapped(ptr, size);
        if is_wrong {
            return Err(INVALID_VALUE);
        }
        let space = self.virtual_memory.space()?;
        // SAFETY: the range must be reserved and contain no mapping ← both were checked, and the
        // lock is still held.
        let mapped = unsafe { space.map(ptr, size, &memory.backing) };
        mapped.map_err(|_| OUT_OF_MEMORY)?;
        let mapping = Mapping {
            size,
            memory,
            access: Vec::new(),
            is_ending: false,
        };
        state.mappings.insert(ptr, mapping);
        Ok(())
    }

    /// `cuMemUnmap()`—Waits for all work of all devices, which may still access the memory, unless
    /// the builder says otherwise. (The memory belongs to no context, and the documentation does
    /// not say for which work a driver waits.)
    fn mem_unmap(&self, ptr: CUdeviceptr, size: usize) -> Status {
        let space = self.virtual_memory.space()?;
        self.virtual_memory.state().whole(ptr, size as u64)?;
        if self.config.unmap_waits {
            self.drain();
        }
        let starts = {
            let mut state = self.virtual_memory.state();
            let starts = state.whole(ptr, size as u64)?;
            for start in &starts {
                if let Some(mapping) = state.mappings.get_mut(start) {
                    mapping.is_ending = true;
                    self.revoke(*start, mapping);
                }
            }
            starts
        };
        // Work that another thread queued in the meantime may have found the mapping accessible.
        self.drain();
        let mut state = self.virtual_memory.state();
        for start in starts {
            let Some(mapping) = state.mappings.remove(&start) else {
                continue;
            };
            // SAFETY: the range must be reserved and unused ← it was mapped until here; no device
            // has had access since all work was waited for, no device can be granted access, and
            // work that starts later finds no mapping.
            let unmapped = unsafe { space.unmap(start, mapping.size) };
            debug_assert!(unmapped.is_ok(), "what is mapped can be unmapped");
        }
        Ok(())
    }

    fn revoke(&self, start: u64, mapping: &mut Mapping) {
        for ordinal in mapping.access.drain(..) {
            if let Some(device) = self.devices.get(ordinal) {
                device.arena.revoke(start);
            }
        }
    }

    fn mem_set_access(
        &self,
        ptr: CUdeviceptr,
        size: usize,
        desc: In<CUmemAccessDesc>,
        count: usize,
    ) -> Status {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        let space = self.virtual_memory.space()?;
        let mut wanted = Vec::new();
        for index in 0..count {
            let desc = desc.get_at(index)?;
            wanted.push((self.access_device(&desc.location)?, may_use(desc.flags)?));
        }
        let mut state = self.virtual_memory.state();
        for start in state.whole(ptr, size as u64)? {
            let Some(mapping) = state.mappings.get_mut(&start) else {
                continue;
            };
            for (device, may) in &wanted {
                mapping.access.retain(|&ordinal| ordinal != device.ordinal);
                if *may {
                    device.arena.grant(space, start, mapping.size);
                    mapping.access.push(device.ordinal);
                } else {
                    device.arena.revoke(start);
                }
            }
        }
        Ok(())
    }

    fn mem_get_access(
        &self,
        flags: Out<c_ulonglong>,
        location: In<CUmemLocation>,
        ptr: CUdeviceptr,
    ) -> Status {
        type F = CUmemAccess_flags;
        flags.required()?;
        let device = self.access_device(&location.get()?)?;
        let state = self.virtual_memory.state();
        let (_, mapping) = state.mapping(ptr).ok_or(INVALID_VALUE)?;
        let may = mapping.access.contains(&device.ordinal);
        let access = if may {
            F::CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        } else {
            F::CU_MEM_ACCESS_FLAGS_PROT_NONE
        };
        flags.set(c_ulonglong::from(access.0))
    }

    /// Returns the device that gets access; other locations are rejected.
    fn access_device(&self, location: &CUmemLocation) -> Status<Arc<Device>> {
        type T = CUmemLocationType;
        match location.type_ {
            T::CU_MEM_LOCATION_TYPE_DEVICE => self.device(location_id(location)).map(Arc::clone),
            T::CU_MEM_LOCATION_TYPE_HOST
            | T::CU_MEM_LOCATION_TYPE_HOST_NUMA
            | T::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Err(NOT_SUPPORTED),
            _ => Err(INVALID_VALUE),
        }
    }

    fn mem_get_allocation_granularity(
        &self,
        granularity: Out<usize>,
        prop: In<CUmemAllocationProp>,
        option: CUmemAllocationGranularity_flags,
    ) -> Status {
        granularity.required()?;
        match self.checked(prop) {
            // The type and the location of the memory do not matter.
            Err(INVALID_VALUE | INVALID_DEVICE) if !prop.raw().is_null() => {}
            checked => drop(checked?),
        }
        // The minimum and the recommended granularity are the only options.
        if option.0 > 1 {
            return Err(INVALID_VALUE);
        }
        granularity.set(GRANULARITY as usize)
    }

    fn mem_get_allocation_properties(
        &self,
        prop: Out<CUmemAllocationProp>,
        handle: CUmemGenericAllocationHandle,
    ) -> Status {
        prop.required()?;
        let state = self.virtual_memory.state();
        let (_, memory) = state.handles.get(&handle).ok_or(INVALID_VALUE)?;
        prop.set(memory.prop.raw())
    }

    /// `cuMemRetainAllocationHandle()`—Returns the handle of the memory that is mapped at an
    /// address, with one more reference. The handle is the same even after its last reference was
    /// released.
    fn mem_retain_allocation_handle(
        &self,
        handle: Out<CUmemGenericAllocationHandle>,
        addr: Out<c_void>,
    ) -> Status {
        handle.required()?;
        let mut state = self.virtual_memory.state();
        let (_, mapping) = state.mapping(addr.handle()).ok_or(INVALID_VALUE)?;
        let memory = Arc::clone(&mapping.memory);
        let number = memory.handle;
        state.handles.entry(number).or_insert((0, memory)).0 += 1;
        handle.set(number)
    }
}

/// Returns whether the flags grant read and write access.
fn may_use(flags: CUmemAccess_flags) -> Status<bool> {
    type F = CUmemAccess_flags;
    match flags {
        F::CU_MEM_ACCESS_FLAGS_PROT_NONE => Ok(false),
        F::CU_MEM_ACCESS_FLAGS_PROT_READ => Err(NOT_SUPPORTED),
        F::CU_MEM_ACCESS_FLAGS_PROT_READWRITE => Ok(true),
        _ => Err(INVALID_VALUE),
    }
}

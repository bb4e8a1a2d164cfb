//! Device memory: allocation, deallocation, and queries.

use std::ffi::c_uint;
use std::sync::Arc;

use cuda_sys::{CUdevice, CUdeviceptr};

use crate::driver::arg::Out;
use crate::driver::attributes::ALIGN;
use crate::driver::export::{Call, exports};
use crate::driver::objects::device::Device;
use crate::driver::objects::memory::Kind;
use crate::driver::status::{INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, Status};
use crate::lock::lock;

exports! {
    cuMemAlloc_v2 => mem_alloc;
    cuMemAllocPitch_v2 => mem_alloc_pitch;
    cuMemFree_v2 => mem_free;
    cuMemGetInfo_v2 => mem_get_info;
    cuMemGetAddressRange_v2 => mem_get_address_range;
}

impl Call {
    fn mem_alloc(&self, dptr: Out<CUdeviceptr>, size: usize) -> Status {
        dptr.required()?;
        let context = self.current()?;
        if size == 0 {
            return Err(INVALID_VALUE);
        }
        let size = size as u64;
        let addr = context.device.allocate(size, ALIGN).ok_or(OUT_OF_MEMORY)?;
        self.note(addr, size, Kind::Device, &context);
        dptr.set(addr)
    }

    fn mem_alloc_pitch(
        &self,
        dptr: Out<CUdeviceptr>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        element: c_uint,
    ) -> Status {
        pitch.required()?;
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(512).ok_or(INVALID_VALUE)?;
        let size = row.checked_mul(height).ok_or(OUT_OF_MEMORY)?;
        self.mem_alloc(dptr, size)?;
        pitch.set(row)
    }

    /// `cuMemFree()`—Waits for the context of the memory first, unless the memory came from a pool.
    fn mem_free(&self, dptr: CUdeviceptr) -> Status {
        if dptr == 0 {
            return Ok(());
        }
        self.is_freeable(dptr)?;
        let allocation = self
            .forget(dptr, |kind| {
                !kind.is_host() || matches!(kind, Kind::HostPool(_))
            })
            .ok_or_else(|| self.unknown_address(INVALID_VALUE))?;
        match allocation.kind {
            // The allocation may not have run in stream order yet.
            Kind::Pool(_) | Kind::HostPool(_) | Kind::ManagedPool(..) => {
                *lock(&allocation.is_there) = false;
            }
            _ => self.drain_context(allocation.context),
        }
        self.release(dptr, &allocation, self.function.name);
        allocation.device.alive()
    }

    fn mem_get_info(&self, free: Out<usize>, total: Out<usize>) -> Status {
        let context = self.current()?;
        let device = &context.device;
        let room = device.capacity().saturating_sub(device.arena.used());
        free.set_if(room as usize);
        total.set_if(device.arena.capacity() as usize);
        Ok(())
    }

    fn mem_get_address_range(
        &self,
        base: Out<CUdeviceptr>,
        size: Out<usize>,
        dptr: CUdeviceptr,
    ) -> Status {
        self.current()?;
        let listed = self.find_allocation(dptr, |start, allocation| (start, allocation.size));
        let variable = || {
            self.devices
                .iter()
                .find_map(|device| device.arena.allocation(dptr))
        };
        let mapped = || {
            let mapped = self.virtual_memory.mapped(dptr)?;
            Some((mapped.start, mapped.size))
        };
        let found = listed.or_else(mapped).or_else(variable);
        let (start, len) = found.ok_or(NOT_FOUND)?;
        base.set_if(start);
        size.set_if(len as usize);
        Ok(())
    }

    /// Returns the device of an ordinal that a call passes as a location.
    pub(in crate::driver) fn location_device(&self, ordinal: CUdevice) -> Status<&Arc<Device>> {
        self.device(ordinal)
    }
}

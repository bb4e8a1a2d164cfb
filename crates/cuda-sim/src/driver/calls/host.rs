//! Host memory that the device can access: pinned, registered and managed memory.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{
    CUdevice, CUdevice_attribute, CUdeviceptr, CUmem_advise, CUmemLocation, CUmemLocationType,
    CUstream_st,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::advice::Pages;
use crate::driver::objects::context::Context;
use crate::driver::objects::memory::{Block, Kind};
use crate::driver::objects::stream::Stream;
use crate::driver::status::{
    ALREADY_REGISTERED, INVALID_DEVICE, INVALID_VALUE, NOT_REGISTERED, NOT_SUPPORTED,
    OUT_OF_MEMORY, Status,
};
use crate::machine::ManagedAccess;
use crate::memory::{Owner, RangeKind, RegisterError};

exports! {
    cuMemHostAlloc => mem_host_alloc;
    cuMemAllocHost_v2 => mem_alloc_host;
    cuMemFreeHost => mem_free_host;
    cuMemHostRegister | cuMemHostRegister_v2 => mem_host_register;
    cuMemHostUnregister => mem_host_unregister;
    cuMemHostGetDevicePointer_v2 => mem_host_get_device_pointer;
    cuMemHostGetFlags => mem_host_get_flags;
    cuMemAllocManaged => mem_alloc_managed;
    cuMemAdvise => mem_advise;
    cuMemAdvise_v2 => mem_advise_v2;
    cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz => mem_prefetch;
    cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz => mem_prefetch_v2;
    cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz => stream_attach_mem;
}

/// `CU_MEMHOSTALLOC_PORTABLE | DEVICEMAP | WRITECOMBINED`
const ALLOC_FLAGS: u32 = 7;

/// `CU_MEMHOSTREGISTER_PORTABLE | DEVICEMAP | IOMEMORY | READ_ONLY`
const REGISTER_FLAGS: u32 = 15;
const IO_MEMORY: u32 = 4;

/// `CU_DEVICE_CPU`
const CPU: c_int = -1;

impl Call {
    /// Registers host memory with all devices. If this fails for one device, it is undone for the
    /// others.
    fn expose(
        &self,
        start: *mut u8,
        size: u64,
        kind: RangeKind,
        owner: Option<&Arc<Block>>,
    ) -> Result<(), RegisterError> {
        for (index, device) in self.devices.iter().enumerate() {
            let owner = owner.map(|block| Arc::clone(block) as Owner);
            // SAFETY: the memory must stay valid while its owner lives, or, without an owner, until
            // it is unregistered and no earlier map is in use, and the host must expect changes ←
            // the memory is either owned by a `Block`, or owned by the program, which guarantees
            // this by the contract of cuMemHostRegister; unregistering waits for all running work,
            // and work that starts later takes a new map.
            let registered = unsafe { device.arena.register_host(start, size, kind, owner) };
            if let Err(error) = registered {
                for known in &self.devices[..index] {
                    // Unregistering cannot fail, because it was registered above.
                    let _ = known.arena.unregister_host(start);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn new_block(
        &self,
        context: &Context,
        size: usize,
        range: RangeKind,
        kind: Kind,
    ) -> Status<*mut u8> {
        if size == 0 {
            return Err(INVALID_VALUE);
        }
        let limit = self.config.host_limit;
        let used = self.live().host_bytes;
        if used.checked_add(size as u64).is_none_or(|all| all > limit) {
            return Err(OUT_OF_MEMORY);
        }
        let block = Block::new(size as u64).ok_or(OUT_OF_MEMORY)?;
        let block = Arc::new(block);
        let start = block.start();
        self.expose(start, size as u64, range, Some(&block))
            .map_err(|_| OUT_OF_MEMORY)?;
        self.note(start.addr() as u64, size as u64, kind, context);
        Ok(start)
    }

    fn mem_host_alloc(&self, pp: Out<*mut c_void>, size: usize, flags: c_uint) -> Status {
        pp.required()?;
        let context = self.home()?;
        if flags & !ALLOC_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        if size == 0 {
            return pp.set(std::ptr::null_mut());
        }
        let start = self.new_block(&context, size, RangeKind::Pinned, Kind::Pinned(flags))?;
        pp.set(start.cast())
    }

    fn mem_alloc_host(&self, pp: Out<*mut c_void>, size: usize) -> Status {
        self.mem_host_alloc(pp, size, 0)
    }

    /// Unregisters or frees host memory after waiting for the context of the memory. Work of other
    /// contexts that has not started faults when it accesses the memory.
    fn take_back(&self, addr: u64, which: impl Fn(&Kind) -> bool) -> Status<bool> {
        let Some(allocation) = self.forget(addr, which) else {
            return Ok(false);
        };
        self.drain_context(allocation.context);
        self.release(addr, &allocation, self.function.name);
        if matches!(allocation.kind, Kind::Registered(_)) {
            // Running work may have found the memory in its map, and the program may free its
            // memory next.
            self.engine.settle();
        }
        allocation.device.alive().map(|()| true)
    }

    fn mem_free_host(&self, p: Out<c_void>) -> Status {
        if p.is_null() {
            return Ok(());
        }
        let taken = self.take_back(p.handle(), |kind| matches!(kind, Kind::Pinned(_)))?;
        if taken { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn mem_host_register(&self, p: Out<c_void>, size: usize, flags: c_uint) -> Status {
        let context = self.home()?;
        if p.is_null() || size == 0 || flags & !REGISTER_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        if flags & IO_MEMORY != 0 {
            return Err(NOT_SUPPORTED);
        }
        // Device addresses cannot be registered. The address ranges of host and devices do not
        // overlap.
        let spaces = self.spaces();
        let last = p.handle().saturating_add(size as u64 - 1);
        if spaces.is_device(p.handle()) || spaces.is_device(last) {
            return Err(INVALID_VALUE);
        }
        if self.is_allocated_pinned(p.handle()) {
            return Err(INVALID_VALUE);
        }
        let exposed = self.expose(p.raw().cast(), size as u64, RangeKind::Pinned, None);
        exposed.map_err(|error| match error {
            RegisterError::Overlap => ALREADY_REGISTERED,
            RegisterError::NotRegistered | RegisterError::BadRange => INVALID_VALUE,
        })?;
        self.note(p.handle(), size as u64, Kind::Registered(flags), &context);
        Ok(())
    }

    fn mem_host_unregister(&self, p: Out<c_void>) -> Status {
        if p.is_null() {
            return Err(INVALID_VALUE);
        }
        let taken = self.take_back(p.handle(), |kind| matches!(kind, Kind::Registered(_)))?;
        match taken {
            true => Ok(()),
            // It is memory of `cuMemHostAlloc`, or not the start of registered memory.
            false if self.is_page_locked(p.handle()) => Err(INVALID_VALUE),
            false => Err(NOT_REGISTERED),
        }
    }

    /// Returns whether the address is in memory of `cuMemHostAlloc` or in registered memory.
    fn is_page_locked(&self, addr: u64) -> bool {
        self.find_allocation(addr, |_, allocation| {
            matches!(allocation.kind, Kind::Pinned(_) | Kind::Registered(_))
        })
        .unwrap_or(false)
    }

    /// Returns whether the address is in memory of `cuMemHostAlloc`.
    fn is_allocated_pinned(&self, addr: u64) -> bool {
        self.find_allocation(addr, |_, allocation| {
            matches!(allocation.kind, Kind::Pinned(_))
        })
        .unwrap_or(false)
    }

    fn mem_host_get_device_pointer(
        &self,
        dptr: Out<CUdeviceptr>,
        p: Out<c_void>,
        flags: c_uint,
    ) -> Status {
        dptr.required()?;
        self.current()?;
        let known = self.find_allocation(p.handle(), |_, allocation| allocation.kind.is_host());
        if flags != 0 || known != Some(true) {
            return Err(INVALID_VALUE);
        }
        dptr.set(p.handle())
    }

    fn mem_host_get_flags(&self, flags: Out<c_uint>, p: Out<c_void>) -> Status {
        flags.required()?;
        self.current()?;
        let found = self.find_allocation(p.handle(), |_, allocation| match allocation.kind {
            // With unified addressing all host memory is mapped.
            Kind::Pinned(flags) | Kind::Registered(flags) => Some(flags | 2),
            _ => None,
        });
        flags.set(found.flatten().ok_or(INVALID_VALUE)?)
    }

    fn mem_alloc_managed(&self, dptr: Out<CUdeviceptr>, size: usize, flags: c_uint) -> Status {
        dptr.required()?;
        let context = self.home()?;
        if !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        let kind = Kind::Managed(Pages::new());
        let start = self.new_block(&context, size, RangeKind::Managed, kind)?;
        dptr.set(start.addr() as u64)
    }

    /// `cuMemAdvise()`—Checks and records the advice, which has no other effect.
    fn mem_advise(
        &self,
        dptr: CUdeviceptr,
        count: usize,
        advice: CUmem_advise,
        device: CUdevice,
    ) -> Status {
        self.current()?;
        if !(1..=6).contains(&advice.0) {
            return Err(INVALID_VALUE);
        }
        let names_device =
            advice.0 >= 3 && advice != CUmem_advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
        if names_device && device != CPU {
            self.location_device(device)?;
        }
        self.with_pages(dptr, count, |pages, offset| {
            pages.advise(offset, count as u64, advice, device);
        })
    }

    fn mem_advise_v2(
        &self,
        dptr: CUdeviceptr,
        count: usize,
        advice: CUmem_advise,
        location: CUmemLocation,
    ) -> Status {
        let device = self.place(&location)?;
        self.mem_advise(dptr, count, advice, device)
    }

    /// Returns the device ordinal that a location names, or −1 for the host.
    pub(super) fn place(&self, location: &CUmemLocation) -> Status<CUdevice> {
        type T = CUmemLocationType;
        match location.type_ {
            T::CU_MEM_LOCATION_TYPE_DEVICE => {
                let ordinal = crate::driver::objects::pool::location_id(location);
                self.location_device(ordinal)?;
                Ok(ordinal)
            }
            // The host has one NUMA node.
            T::CU_MEM_LOCATION_TYPE_HOST_NUMA
                if crate::driver::objects::pool::location_id(location) != 0 =>
            {
                Err(INVALID_VALUE)
            }
            T::CU_MEM_LOCATION_TYPE_HOST
            | T::CU_MEM_LOCATION_TYPE_HOST_NUMA
            | T::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(CPU),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Fails with `INVALID_DEVICE` unless pages can be prefetched: on `stream`, and to this device
    /// or the host.
    pub(super) fn expect_concurrent(&self, stream: &Stream, to: CUdevice) -> Status {
        type A = CUdevice_attribute;
        let device = if to == CPU {
            &stream.context.device
        } else {
            self.location_device(to).map_err(|_| INVALID_DEVICE)?
        };
        let attribute = A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        let set = self.config.attributes.iter().rev();
        let mut set = set.filter(|(set, _)| *set == attribute);
        let is_concurrent = match set.next() {
            Some((_, value)) => *value != 0,
            None => device.described.managed != ManagedAccess::Exclusive,
        };
        is_concurrent.then_some(()).ok_or(INVALID_DEVICE)
    }

    fn mem_prefetch(
        &self,
        dptr: CUdeviceptr,
        count: usize,
        device: CUdevice,
        stream: Out<CUstream_st>,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        self.expect_concurrent(&stream, device)?;
        self.uncapturable(&stream)?;
        self.with_pages(dptr, count, |pages, offset| {
            pages.prefetch(offset, count as u64, device);
        })?;
        // The memory is accessible from everywhere already; only the position in the stream
        // matters.
        self.enqueue(&stream, &[], || Ok(()));
        Ok(())
    }

    fn mem_prefetch_v2(
        &self,
        dptr: CUdeviceptr,
        count: usize,
        location: CUmemLocation,
        flags: c_uint,
        stream: Out<CUstream_st>,
    ) -> Status {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let device = self.place(&location)?;
        self.mem_prefetch(dptr, count, device, stream)
    }

    fn stream_attach_mem(
        &self,
        stream: Out<CUstream_st>,
        dptr: CUdeviceptr,
        length: usize,
        flags: c_uint,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        // Memory cannot be attached to a single default stream.
        if !matches!(flags, 1 | 2 | 4) || (flags == 4 && stream.is_default()) {
            return Err(INVALID_VALUE);
        }
        self.uncapturable(&stream)?;
        self.with_pages(dptr, length.max(1), |_, _| ())?;
        self.enqueue(&stream, &[], || Ok(()));
        Ok(())
    }
}

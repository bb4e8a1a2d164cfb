//! Sharing memory and events with other processes.
//!
//! The memory of a device is a `memfd`, or on Windows a section, which other processes map. A pool
//! is exported as a descriptor or handle of it. The handle of an allocation or an event has the 64
//! bytes of a [`SharedHandle`]. Objects that were not created for sharing fail with the status that
//! the real driver documents.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use cuda_sys::{
    CUdeviceptr, CUevent, CUevent_st, CUipcEventHandle, CUipcMemHandle, CUmemAllocationHandleType,
    CUmemGenericAllocationHandle, CUmemPoolHandle_st, CUmemPoolPtrExportData, CUmemoryPool,
};

use crate::driver::arg::Out;
use crate::driver::attributes::HANDLE_TYPE;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::device::Device;
use crate::driver::objects::event::{DISABLE_TIMING, Event, INTERPROCESS};
use crate::driver::objects::imported::Imported;
use crate::driver::objects::mapping::Physical;
use crate::driver::objects::memory::Kind;
use crate::driver::objects::pool::{ImportedPool, Pool};
use crate::driver::objects::shared::descriptor::Number;
use crate::driver::objects::shared::{
    self, Exported, HANDLE_BYTES, SharedHandle, descriptor, exported, mark_physical, mark_pool,
};
use crate::driver::objects::shared_event::SharedEvent;
use crate::driver::status::{
    INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY,
    Status,
};
use crate::memory::shared_file::{self, SharedFile};
use crate::memory::{Backing, MappedPart};

exports! {
    cuIpcGetMemHandle => ipc_get_mem_handle;
    cuIpcOpenMemHandle_v2 => ipc_open_mem_handle;
    cuIpcCloseMemHandle => ipc_close_mem_handle;
    cuIpcGetEventHandle => ipc_get_event_handle;
    cuIpcOpenEventHandle => ipc_open_event_handle;
    cuMemPoolExportToShareableHandle => mem_pool_export;
    cuMemPoolImportFromShareableHandle => mem_pool_import;
    cuMemPoolExportPointer => mem_pool_export_pointer;
    cuMemPoolImportPointer => mem_pool_import_pointer;
    cuMemExportToShareableHandle => mem_export;
    cuMemImportFromShareableHandle => mem_import;
}

/// All handle types of `cuda.h`: also `WIN32`, `WIN32_KMT` and `FABRIC`.
pub(in crate::driver) const HANDLE_TYPES: u32 = 15;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`
const LAZY_PEER_ACCESS: c_uint = 1;

/// Fails unless handles of this type are implemented.
fn check_type(sort: CUmemAllocationHandleType) -> Status {
    if sort.0 == HANDLE_TYPE {
        return Ok(());
    }
    let exists = sort.0.is_power_of_two() && sort.0 & HANDLE_TYPES != 0;
    Err(if exists { NOT_SUPPORTED } else { INVALID_VALUE })
}

impl Call {
    /// Maps a part of a file into this process.
    pub(super) fn map_part(&self, file: &SharedFile, offset: u64, size: u64) -> Status<MappedPart> {
        let space = self.virtual_memory.space()?;
        MappedPart::new(space, file, offset, size).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => INVALID_VALUE,
            _ => OUT_OF_MEMORY,
        })
    }

    /// Fails with `INVALID_VALUE` if the memory at `addr` is closed with `cuIpcCloseMemHandle` and
    /// not freed.
    pub(in crate::driver) fn is_freeable(&self, addr: u64) -> Status {
        let allocations = self.allocations();
        let imported = allocations.get(&addr).and_then(|it| it.imported.as_ref());
        if imported.is_some_and(|imported| imported.key.is_some()) {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    /// Records imported memory as an allocation, and returns its address. The context is a handle,
    /// or 0 if the memory belongs to none.
    pub(super) fn note_imported(
        &self,
        imported: Imported,
        size: u64,
        kind: Kind,
        (context, device): (u64, &Arc<Device>),
    ) -> u64 {
        let addr = imported.addr();
        self.note_of(addr, size, kind, context, device);
        if let Some(allocation) = self.allocations().get_mut(&addr) {
            allocation.imported = Some(imported);
        }
        addr
    }

    fn ipc_get_mem_handle(&self, handle: Out<CUipcMemHandle>, ptr: CUdeviceptr) -> Status {
        handle.required()?;
        self.current()?;
        let found = self.find_allocation(ptr, |start, allocation| {
            let is_own = allocation.imported.is_none();
            let fits = start == ptr && is_own && matches!(allocation.kind, Kind::Device);
            fits.then(|| (allocation.size, Arc::clone(&allocation.device)))
        });
        let (size, device) = found.flatten().ok_or(INVALID_VALUE)?;
        let (file, offset) = device.arena.shared(ptr).ok_or(NOT_SUPPORTED)?;
        let shared = SharedHandle {
            kind: shared::Kind::Memory,
            place: shared_file::place(file).map_err(|_| NOT_SUPPORTED)?,
            offset,
            size,
            number: 0,
        };
        put(handle, shared)
    }

    /// `cuIpcOpenMemHandle()`—Opening a handle again in the same context returns the same address.
    fn ipc_open_mem_handle(
        &self,
        ptr: Out<CUdeviceptr>,
        handle: CUipcMemHandle,
        flags: c_uint,
    ) -> Status {
        ptr.required()?;
        let context = self.home()?;
        if flags != LAZY_PEER_ACCESS {
            return Err(INVALID_VALUE);
        }
        let handle = SharedHandle::of_bytes(shared::Kind::Memory, bytes(&handle.reserved))?;
        if handle.place.pid == std::process::id() {
            return Err(INVALID_CONTEXT);
        }
        let key = Some((handle.place.inode, handle.offset));
        for (&addr, allocation) in self.allocations().iter_mut() {
            if let Some(imported) = &mut allocation.imported
                && imported.key == key
                && allocation.context == context.handle
            {
                imported.opened += 1;
                return ptr.set(addr);
            }
        }
        let file = shared_file::open(handle.place).map_err(|_| INVALID_VALUE)?;
        let part = self.map_part(&file, handle.offset, handle.size)?;
        let devices = vec![Arc::clone(&context.device)];
        let imported = Imported::new(part, handle.size, devices, key);
        ptr.set(self.note_imported(imported, handle.size, Kind::Device, context.owner()))
    }

    /// `cuIpcCloseMemHandle()`—Unmaps the memory with the last handle, after the work of its
    /// context.
    fn ipc_close_mem_handle(&self, ptr: CUdeviceptr) -> Status {
        self.current()?;
        let context = {
            let mut allocations = self.allocations();
            let allocation = allocations.get_mut(&ptr).ok_or(INVALID_VALUE)?;
            let imported = allocation.imported.as_mut().ok_or(INVALID_VALUE)?;
            if imported.key.is_none() {
                return Err(INVALID_VALUE);
            }
            imported.opened -= 1;
            if imported.opened > 0 {
                return Ok(());
            }
            allocation.context
        };
        if self.config.unmap_waits {
            self.drain_context(context);
        }
        let ended = self.allocations().remove(&ptr);
        ended.map(drop).ok_or(INVALID_VALUE)
    }

    fn ipc_get_event_handle(
        &self,
        handle: Out<CUipcEventHandle>,
        event: Out<CUevent_st>,
    ) -> Status {
        handle.required()?;
        let event = self.event(event.handle())?;
        match &event.shared {
            Some(shared) => put(handle, shared.handle()?),
            None if event.is_interprocess() => Err(NOT_SUPPORTED),
            None => Err(INVALID_HANDLE),
        }
    }

    fn ipc_open_event_handle(&self, event: Out<CUevent>, handle: CUipcEventHandle) -> Status {
        event.required()?;
        let context = self.home()?;
        let handle = SharedHandle::of_bytes(shared::Kind::Event, bytes(&handle.reserved))?;
        let shared = SharedEvent::open(handle)?;
        let number = fresh();
        let opened = Event {
            handle: number,
            context: context.handle,
            device: Arc::clone(&context.device),
            flags: INTERPROCESS | DISABLE_TIMING,
            record: Mutex::new(None),
            shared: Some(Arc::new(shared)),
        };
        self.events.insert(number, Arc::new(opened));
        event.set(pointer(number))
    }

    fn mem_pool_export(
        &self,
        handle: Out<c_void>,
        pool: Out<CUmemPoolHandle_st>,
        sort: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> Status {
        handle.required()?;
        let pool = self.pool(pool.handle())?;
        if pool.handle_types & sort.0 == 0 || !sort.0.is_power_of_two() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        check_type(sort)?;
        let device = self.devices.get(pool.device).ok_or(INVALID_DEVICE)?;
        let arena = &device.arena;
        let (file, _) = arena.shared(u64::MAX).ok_or(NOT_SUPPORTED)?;
        mark_pool(file, pool.device, arena.capacity()).map_err(|_| OUT_OF_MEMORY)?;
        let exported = descriptor::export(file, pool.number)?;
        pool.is_exported.store(true, Ordering::Relaxed);
        handle.typed::<Number>().set(exported)
    }

    fn mem_pool_import(
        &self,
        pool: Out<CUmemoryPool>,
        handle: Out<c_void>,
        sort: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> Status {
        pool.required()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        check_type(sort)?;
        // The driver refuses the null pointer, which is the number of the standard input.
        handle.required()?;
        let (file, number) = descriptor::import(handle.handle() as Number)?;
        let Exported::Pool { device } = exported(&file)? else {
            return Err(INVALID_VALUE);
        };
        if device >= self.devices.len() {
            return Err(INVALID_DEVICE);
        }
        let mut imported = Pool::new(device, false);
        imported.handle_types = sort.0;
        imported.origin = Some(ImportedPool { file, number });
        let raw = imported.handle;
        self.pools.insert(raw, Arc::new(imported));
        pool.set(pointer(raw))
    }

    /// `cuMemPoolExportPointer()`—The memory is of a pool that was shared already, as the
    /// documentation says.
    fn mem_pool_export_pointer(
        &self,
        data: Out<CUmemPoolPtrExportData>,
        ptr: CUdeviceptr,
    ) -> Status {
        data.required()?;
        let found = self.find_allocation(ptr, |start, allocation| match &allocation.kind {
            Kind::Pool(pool) if start == ptr && allocation.imported.is_none() => {
                Some((allocation.size, Arc::clone(pool)))
            }
            _ => None,
        });
        let (size, pool) = found.flatten().ok_or(INVALID_VALUE)?;
        if pool.handle_types == 0 || !pool.is_exported.load(Ordering::Relaxed) {
            return Err(INVALID_VALUE);
        }
        let device = self.devices.get(pool.device).ok_or(INVALID_DEVICE)?;
        let (file, offset) = device.arena.shared(ptr).ok_or(NOT_SUPPORTED)?;
        let shared = SharedHandle {
            kind: shared::Kind::Pointer,
            place: shared_file::place(file).map_err(|_| NOT_SUPPORTED)?,
            offset,
            size,
            number: pool.number,
        };
        put(data, shared)
    }

    fn mem_pool_import_pointer(
        &self,
        ptr: Out<CUdeviceptr>,
        pool: Out<CUmemPoolHandle_st>,
        data: Out<CUmemPoolPtrExportData>,
    ) -> Status {
        ptr.required()?;
        let pool = self.pool(pool.handle())?;
        let origin = pool.origin.as_ref().ok_or(INVALID_VALUE)?;
        let handle = SharedHandle::of_bytes(shared::Kind::Pointer, bytes(&data.get()?.reserved))?;
        let place = shared_file::place(&origin.file).map_err(|_| INVALID_VALUE)?;
        if place.inode != handle.place.inode || origin.number != handle.number {
            return Err(INVALID_VALUE);
        }
        let device = self.devices.get(pool.device).ok_or(INVALID_DEVICE)?;
        device.alive()?;
        let may_use = |device: &&Arc<Device>| pool.is_accessible(device.ordinal);
        let devices = self.devices.iter().filter(may_use).cloned().collect();
        let part = self.map_part(&origin.file, handle.offset, handle.size)?;
        let imported = Imported::new(part, handle.size, devices, None);
        pool.take(handle.size);
        pool.grown();
        let context = self.current_or_primary(device);
        let kind = Kind::Pool(Arc::clone(&pool));
        ptr.set(self.note_imported(imported, handle.size, kind, (context, device)))
    }

    /// Returns the handle of the context to record for imported memory of a pool: the current
    /// context if it is one of `device`, otherwise the primary context of `device`, or 0 if that is
    /// not active. The driver imports the memory while no context is current, too: NVIDIA's tests
    /// of cuda-core do so.
    fn current_or_primary(&self, device: &Arc<Device>) -> u64 {
        let current = self.home().ok();
        let current = current.filter(|context| Arc::ptr_eq(&context.device, device));
        let context = current.or_else(|| device.primary().context.clone());
        context.map_or(0, |context| context.handle)
    }

    fn mem_export(
        &self,
        shareable: Out<c_void>,
        handle: CUmemGenericAllocationHandle,
        sort: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> Status {
        shareable.required()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let state = self.virtual_memory.state();
        let (_, memory) = state.handles.get(&handle).ok_or(INVALID_VALUE)?;
        let requested = memory.prop.raw().requestedHandleTypes.0;
        if requested & sort.0 == 0 || !sort.0.is_power_of_two() {
            return Err(INVALID_VALUE);
        }
        check_type(sort)?;
        let device = memory.device.as_ref().map(|device| device.ordinal);
        let backing = &memory.backing;
        let marked = mark_physical(backing.file(), device, backing.size());
        marked.map_err(|_| OUT_OF_MEMORY)?;
        let exported = descriptor::export(backing.file(), 0)?;
        shareable.typed::<Number>().set(exported)
    }

    /// `cuMemImportFromShareableHandle()`—The memory counts as memory of the device in the process
    /// that created it only.
    fn mem_import(
        &self,
        handle: Out<CUmemGenericAllocationHandle>,
        shareable: Out<c_void>,
        sort: CUmemAllocationHandleType,
    ) -> Status {
        handle.required()?;
        check_type(sort)?;
        let (file, _) = descriptor::import(shareable.handle() as Number)?;
        let Exported::Physical { device, size } = exported(&file)? else {
            return Err(INVALID_VALUE);
        };
        let device = match device {
            Some(ordinal) => Some(Arc::clone(self.devices.get(ordinal).ok_or(INVALID_DEVICE)?)),
            None => None,
        };
        let memory = Physical::imported(device, Backing::of_file(file, size));
        let number = memory.handle;
        let mut state = self.virtual_memory.state();
        state.handles.insert(number, (1, Arc::new(memory)));
        handle.set(number)
    }
}

/// The bytes of the opaque structs of C, which have the type `char` in some of them.
trait Byte: Copy {
    fn byte(self) -> u8;
    fn of_byte(byte: u8) -> Self;
}

impl Byte for u8 {
    fn byte(self) -> u8 {
        self
    }

    fn of_byte(byte: u8) -> Self {
        byte
    }
}

impl Byte for i8 {
    fn byte(self) -> u8 {
        self.cast_unsigned()
    }

    fn of_byte(byte: u8) -> Self {
        byte.cast_signed()
    }
}

fn bytes<B: Byte>(reserved: &[B; HANDLE_BYTES]) -> [u8; HANDLE_BYTES] {
    reserved.map(Byte::byte)
}

/// An opaque struct of C.
trait Opaque {
    fn of_bytes(bytes: [u8; HANDLE_BYTES]) -> Self;
}

macro_rules! opaque {
    ($($name:ident)*) => {$(
        impl Opaque for $name {
            fn of_bytes(bytes: [u8; HANDLE_BYTES]) -> Self {
                Self {
                    reserved: bytes.map(Byte::of_byte),
                }
            }
        }
    )*};
}

opaque!(CUipcMemHandle CUipcEventHandle CUmemPoolPtrExportData);

fn put<T: Opaque>(to: Out<T>, handle: SharedHandle) -> Status {
    to.set(T::of_bytes(handle.to_bytes()))
}

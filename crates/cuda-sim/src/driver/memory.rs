//! Device memory: allocation, deallocation, and queries.

use std::alloc::{self, Layout};
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::{Arc, Mutex};

use cuda_sys::{CUdevice, CUdeviceptr};

use super::advice::Pages;
use super::arg::Out;
use super::attributes::TEXTURE_ALIGN;
use super::context::Context;
use super::device::Device;
use super::export::{Call, exports};
use super::graph::GraphMemory;
use super::instance::Instance;
use super::pool::Pool;
use super::status::{INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, Status};
use crate::lock::lock;
use crate::memory::{POISON, POISON_LIMIT};

exports! {
    cuMemAlloc_v2 => mem_alloc;
    cuMemAllocPitch_v2 => mem_alloc_pitch;
    cuMemFree_v2 => mem_free;
    cuMemGetInfo_v2 => mem_get_info;
    cuMemGetAddressRange_v2 => mem_get_address_range;
}

/// The alignment of allocations in bytes, which is the one that textures need.
pub(super) const ALIGN: u64 = TEXTURE_ALIGN as u64;

/// A live allocation of any kind.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(super) size: u64,
    pub(super) kind: Kind,
    pub(super) device: Arc<Device>,
    /// The handle of the context in which it was made.
    pub(super) context: u64,
    /// The unique id of the allocation.
    pub(super) id: u64,
    /// Whether the memory still belongs to this allocation. Operations that depend on it hold the
    /// lock meanwhile.
    pub(super) is_there: Arc<Mutex<bool>>,
}

/// The kind of an allocation, which determines where its bytes are and how it is freed.
#[derive(Debug)]
pub(super) enum Kind {
    /// `cuMemAlloc`
    Device,
    /// `cuMemAllocAsync`
    Pool(Arc<Pool>),
    /// `cuMemHostAlloc`, with its flags.
    Pinned(u32),
    /// `cuMemHostRegister`, with its flags.
    Registered(u32),
    /// `cuMemAllocManaged`
    Managed(Pages),
    /// An allocation node of a graph.
    Graph(Arc<GraphMemory>),
}

impl Kind {
    /// Returns whether the bytes are host memory.
    pub(super) fn is_host(&self) -> bool {
        matches!(self, Self::Pinned(..) | Self::Registered(_))
    }
}

/// Host memory that the driver owns. Each user of the memory holds a reference, so that it outlives
/// work that is still running when it is freed.
#[derive(Debug)]
pub(super) struct Block {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: a `Block` owns its bytes and is not tied to a thread.
unsafe impl Send for Block {}
// SAFETY: as for `Send`; `&self` gives access to the address only.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates `size` bytes, aligned to a page and filled with [`POISON`]. Returns `None` if
    /// there is no memory.
    pub(super) fn new(size: u64) -> Option<Self> {
        let layout = Layout::from_size_align(usize::try_from(size).ok()?.max(1), 4096).ok()?;
        // SAFETY: the size must not be zero ← `max(1)` above ensures it.
        let start = unsafe { alloc::alloc(layout) };
        if start.is_null() {
            return None;
        }
        let poisoned = layout.size().min(POISON_LIMIT as usize);
        // SAFETY: `poisoned` bytes at `start` must be writable ← at least that many were just
        // allocated.
        unsafe { start.write_bytes(POISON, poisoned) };
        Some(Self { start, layout })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` must come from `alloc` with this layout and be freed once ← `new` is the
        // only constructor, and this is the owner's drop.
        unsafe { alloc::dealloc(self.start, self.layout) };
    }
}

impl Instance {
    /// Records a new allocation.
    pub(super) fn note(
        &self,
        addr: u64,
        size: u64,
        kind: Kind,
        context: &Context,
    ) -> Arc<Mutex<bool>> {
        let device = match &kind {
            // The device of the pool may differ from the device of the stream.
            Kind::Pool(pool) => self.devices.get(pool.device),
            _ => None,
        };
        let is_there = Arc::new(Mutex::new(true));
        let allocation = Allocation {
            size,
            device: Arc::clone(device.unwrap_or(&context.device)),
            kind,
            context: context.handle,
            id: super::handle::fresh(),
            is_there: Arc::clone(&is_there),
        };
        self.allocations().insert(addr, allocation);
        is_there
    }

    /// Removes the allocation that starts at `addr` from the list, if `which` accepts its kind.
    pub(super) fn forget(&self, addr: u64, which: impl Fn(&Kind) -> bool) -> Option<Allocation> {
        let mut allocations = self.allocations();
        if !which(&allocations.get(&addr)?.kind) {
            return None;
        }
        allocations.remove(&addr)
    }

    /// Frees the memory of an allocation that was removed from the list and is no longer in use.
    /// `by` is used in messages.
    pub(super) fn release(&self, addr: u64, allocation: &Allocation, by: &'static str) {
        let freed = match &allocation.kind {
            Kind::Device => allocation.device.arena.free(addr, by).is_ok(),
            Kind::Pool(pool) => {
                pool.give(allocation.size);
                allocation.device.arena.free(addr, by).is_ok()
            }
            Kind::Graph(memory) => {
                memory.deactivate();
                true
            }
            Kind::Pinned(..) | Kind::Registered(_) | Kind::Managed(..) => {
                let host = std::ptr::without_provenance(addr as usize);
                let known = self.devices.iter();
                // `filter` does not stop at a device that does not know the memory.
                let known = known.filter(|device| device.arena.unregister_host(host).is_ok());
                known.count() == self.devices.len()
            }
        };
        debug_assert!(freed, "a listed allocation is known to its arena");
    }

    /// Frees all allocations that `which` accepts.
    pub(super) fn free_allocations(&self, which: impl Fn(&Allocation) -> bool) {
        let gone: Vec<(u64, Allocation)> = {
            let mut allocations = self.allocations();
            let (gone, kept) = std::mem::take(&mut *allocations)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(_, allocation)| which(allocation));
            *allocations = kept;
            gone.into_iter().collect()
        };
        for (addr, allocation) in &gone {
            self.release(*addr, allocation, "the end of its context");
        }
        let is_registered = |kind: &Kind| matches!(kind, Kind::Registered(_));
        if gone.iter().any(|(_, gone)| is_registered(&gone.kind)) {
            self.engine.settle();
        }
    }

    /// Finds the allocation that contains `addr` and returns the result of `read` for it.
    pub(super) fn find_allocation<T>(
        &self,
        addr: u64,
        read: impl FnOnce(u64, &Allocation) -> T,
    ) -> Option<T> {
        let allocations = self.allocations();
        let (&start, allocation) = allocations.range(..=addr).next_back()?;
        (addr - start < allocation.size.max(1)).then(|| read(start, allocation))
    }

    /// Waits for all work of a context and of no other context. A driver does this when an object
    /// of the context is unloaded, or is freed and was not allocated in stream order.
    ///
    /// Work of other contexts that uses the memory finds it freed or reused.
    pub(super) fn drain_context(&self, context: u64) {
        let group = self.contexts.get(context).map(|context| context.group);
        let mut tail = group.map_or_else(Vec::new, |group| self.engine.group_tail(group));
        tail.extend(self.engine.orphans());
        self.engine.wait(&tail);
    }

    /// Waits for all work of all devices.
    pub(super) fn drain(&self) {
        for device in self.devices.iter() {
            self.engine.wait(&self.device_tail(device));
        }
    }
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
        let allocation = self
            .forget(dptr, |kind| !kind.is_host())
            .ok_or(INVALID_VALUE)?;
        match allocation.kind {
            // The allocation may not have run in stream order yet.
            Kind::Pool(_) => *lock(&allocation.is_there) = false,
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
    pub(super) fn location_device(&self, ordinal: CUdevice) -> Status<&Arc<Device>> {
        self.device(ordinal)
    }
}

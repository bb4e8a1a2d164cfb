//! The state of virtual memory: address reservations, physical memory, and mappings.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use cuda_sys::{
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1,
    CUmemAllocationType, CUmemLocation, CUmemLocation_st__bindgen_ty_1, CUmemLocationType,
};

use crate::driver::handle::fresh;
use crate::driver::objects::device::Device;
use crate::driver::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};
use crate::lock::lock;
use crate::memory::{Backing, VirtualSpace};

/// The virtual address space of one driver and its contents.
#[derive(Debug, Default)]
pub(in crate::driver) struct VirtualMemory {
    space: OnceLock<Option<Arc<VirtualSpace>>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(in crate::driver) struct State {
    /// Reserved ranges: start address to length in bytes.
    pub(in crate::driver) reserved: BTreeMap<u64, u64>,
    /// Mappings by start address.
    pub(in crate::driver) mappings: BTreeMap<u64, Mapping>,
    /// The reference count of each handle, and its memory.
    pub(in crate::driver) handles: HashMap<u64, (usize, Arc<Physical>)>,
}

/// Physical memory of a device or of the host.
#[derive(Debug)]
pub(in crate::driver) struct Physical {
    pub(in crate::driver) handle: u64,
    /// `None` for memory of the host.
    pub(in crate::driver) device: Option<Arc<Device>>,
    pub(in crate::driver) backing: Backing,
    pub(in crate::driver) prop: Prop,
    /// Whether another process allocated the memory.
    is_imported: bool,
}

impl Physical {
    /// Memory that this process allocates, and that its device counts as used.
    pub(in crate::driver) fn new(
        device: Option<Arc<Device>>,
        backing: Backing,
        prop: Prop,
    ) -> Self {
        Self {
            handle: fresh(),
            device,
            backing,
            prop,
            is_imported: false,
        }
    }

    /// Memory that another process allocated.
    pub(in crate::driver) fn imported(device: Option<Arc<Device>>, backing: Backing) -> Self {
        let prop = Prop::of_descriptor(device.as_ref().map(|device| device.ordinal));
        Self {
            handle: fresh(),
            device,
            backing,
            prop,
            is_imported: true,
        }
    }
}

/// The properties with which memory was created. The pointer in it, which is for Windows, is null.
#[derive(Clone, Copy)]
pub(in crate::driver) struct Prop(CUmemAllocationProp);

impl Prop {
    pub(in crate::driver) fn new(mut prop: CUmemAllocationProp) -> Self {
        prop.win32HandleMetaData = std::ptr::null_mut();
        Self(prop)
    }

    /// Returns the properties of memory of a device, or of node 0 of the host, that can be exported
    /// as a descriptor.
    pub(in crate::driver) fn of_descriptor(device: Option<usize>) -> Self {
        type T = CUmemLocationType;
        let type_ = match device {
            Some(_) => T::CU_MEM_LOCATION_TYPE_DEVICE,
            None => T::CU_MEM_LOCATION_TYPE_HOST_NUMA,
        };
        let id = device.map_or(0, |device| device as c_int);
        Self(CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes:
                CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            location: CUmemLocation {
                type_,
                __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id },
            },
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        })
    }

    /// Returns the properties in the form of C.
    pub(in crate::driver) fn raw(&self) -> CUmemAllocationProp {
        self.0
    }
}

// SAFETY: the only pointer in it is null ← `new` sets it so.
unsafe impl Send for Prop {}

// SAFETY: as for `Send`.
unsafe impl Sync for Prop {}

impl fmt::Debug for Prop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.allocFlags)
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if let Some(device) = &self.device
            && !self.is_imported
        {
            device.arena.refund(self.backing.size());
        }
    }
}

/// Physical memory that is mapped at an address.
#[derive(Debug)]
pub(in crate::driver) struct Mapping {
    pub(in crate::driver) size: u64,
    pub(in crate::driver) memory: Arc<Physical>,
    /// The ordinals of the devices that may read and write it.
    pub(in crate::driver) access: Vec<usize>,
    /// Whether it is being unmapped: its contents are no longer accessible, but its addresses are
    /// still in use.
    pub(in crate::driver) is_ending: bool,
}

/// The mapping at an address, for pointer queries.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Mapped {
    pub(in crate::driver) start: u64,
    pub(in crate::driver) size: u64,
    /// `None` for memory of the host.
    pub(in crate::driver) device: Option<usize>,
    pub(in crate::driver) id: u64,
    /// The types of handles by which the memory can be exported.
    pub(in crate::driver) handle_types: u32,
}

impl VirtualMemory {
    pub(in crate::driver) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the address space, which is reserved on first use.
    pub(in crate::driver) fn space(&self) -> Status<&Arc<VirtualSpace>> {
        let new = || VirtualSpace::new().ok().map(Arc::new);
        let space = self.space.get_or_init(new);
        space.as_ref().ok_or(OUT_OF_MEMORY)
    }

    /// Returns whether `addr` is in the virtual address space, reserved or not.
    pub(in crate::driver) fn contains(&self, addr: u64) -> bool {
        let space = self.space.get().and_then(Option::as_ref);
        space.is_some_and(|space| space.contains(addr))
    }

    /// Returns the mapping at `addr`.
    pub(in crate::driver) fn mapped(&self, addr: u64) -> Option<Mapped> {
        let state = self.state();
        let (start, mapping) = state.mapping(addr)?;
        Some(Mapped {
            start,
            size: mapping.size,
            device: mapping.memory.device.as_ref().map(|device| device.ordinal),
            id: mapping.memory.handle,
            handle_types: mapping.memory.prop.raw().requestedHandleTypes.0,
        })
    }

    /// Returns the number of live handles, the size of their memory in bytes, and the number of
    /// reserved address ranges.
    pub(in crate::driver) fn count(&self) -> (usize, u64, usize) {
        let state = self.state();
        let bytes = state.handles.values();
        let bytes = bytes.map(|(_, memory)| memory.backing.size()).sum();
        (state.handles.len(), bytes, state.reserved.len())
    }
}

impl State {
    pub(in crate::driver) fn mapping(&self, addr: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=addr).next_back()?;
        let is_there = addr - start < mapping.size && !mapping.is_ending;
        is_there.then_some((start, mapping))
    }

    /// Returns the start addresses of the mappings in the range. Fails with `INVALID_VALUE` unless
    /// the range consists of whole mappings without gaps.
    pub(in crate::driver) fn whole(&self, addr: u64, size: u64) -> Status<Vec<u64>> {
        let end = addr.checked_add(size).ok_or(INVALID_VALUE)?;
        let (mut next, mut starts) = (addr, Vec::new());
        while next < end {
            let mapping = self.mappings.get(&next);
            let mapping = mapping.filter(|mapping| !mapping.is_ending);
            let mapping = mapping.ok_or(INVALID_VALUE)?;
            starts.push(next);
            next += mapping.size;
        }
        if next == end && !starts.is_empty() {
            Ok(starts)
        } else {
            Err(INVALID_VALUE)
        }
    }

    /// Returns whether one reservation contains the range.
    pub(in crate::driver) fn is_reserved(&self, addr: u64, size: u64) -> bool {
        let below = self.reserved.range(..=addr).next_back();
        below.is_some_and(|(&start, &len)| {
            let inside = addr - start;
            inside <= len && size <= len - inside
        })
    }

    pub(in crate::driver) fn is_mapped(&self, addr: u64, size: u64) -> bool {
        let below = self.mappings.range(..addr + size).next_back();
        below.is_some_and(|(&start, mapping)| start + mapping.size > addr)
    }
}

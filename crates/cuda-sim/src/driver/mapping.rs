//! What is known of virtual memory: addresses that are reserved, memory, and where it is mapped.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use cuda_sys::CUmemAllocationProp;

use super::device::Device;
use super::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};
use crate::lock::lock;
use crate::memory::{Backing, VirtualSpace};

/// The addresses of one driver, and what is where.
#[derive(Debug, Default)]
pub(super) struct VirtualMemory {
    space: OnceLock<Option<VirtualSpace>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Start to length.
    pub(super) reserved: BTreeMap<u64, u64>,
    /// By start.
    pub(super) mappings: BTreeMap<u64, Mapping>,
    /// How often each handle is held, and its memory.
    pub(super) handles: HashMap<u64, (usize, Arc<Physical>)>,
}

/// Memory of a device.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) handle: u64,
    pub(super) device: Arc<Device>,
    pub(super) backing: Backing,
    pub(super) prop: Prop,
}

/// What memory was asked for with. Its pointer, which is for Windows, is null.
#[derive(Clone, Copy)]
pub(super) struct Prop(CUmemAllocationProp);

impl Prop {
    pub(super) fn new(mut prop: CUmemAllocationProp) -> Self {
        prop.win32HandleMetaData = std::ptr::null_mut();
        Self(prop)
    }

    /// As C says it.
    pub(super) fn raw(&self) -> CUmemAllocationProp {
        self.0
    }
}

// SAFETY: the pointer in it is null ← `new` sets it so.
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
        self.device.arena.refund(self.backing.size());
    }
}

/// Memory at an address.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) size: u64,
    pub(super) memory: Arc<Physical>,
    /// The devices that may read and write it.
    pub(super) access: Vec<usize>,
    /// Whether it is being unmapped: it is no longer there, but its addresses are taken.
    pub(super) is_ending: bool,
}

/// What is mapped at an address, for those who ask what a pointer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) device: usize,
    pub(super) id: u64,
}

impl VirtualMemory {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The addresses, which are taken when somebody first wants some.
    pub(super) fn space(&self) -> Status<&VirtualSpace> {
        let space = self.space.get_or_init(|| VirtualSpace::new().ok());
        space.as_ref().ok_or(OUT_OF_MEMORY)
    }

    /// Whether `addr` is one of the addresses, reserved or not.
    pub(super) fn contains(&self, addr: u64) -> bool {
        let space = self.space.get().and_then(Option::as_ref);
        space.is_some_and(|space| space.contains(addr))
    }

    /// What is mapped at `addr`.
    pub(super) fn mapped(&self, addr: u64) -> Option<Mapped> {
        let state = self.state();
        let (start, mapping) = state.mapping(addr)?;
        Some(Mapped {
            start,
            size: mapping.size,
            device: mapping.memory.device.ordinal,
            id: mapping.memory.handle,
        })
    }

    /// How many handles are held, their bytes, and how many ranges of addresses are reserved.
    pub(super) fn count(&self) -> (usize, u64, usize) {
        let state = self.state();
        let bytes = state.handles.values();
        let bytes = bytes.map(|(_, memory)| memory.backing.size()).sum();
        (state.handles.len(), bytes, state.reserved.len())
    }
}

impl State {
    pub(super) fn mapping(&self, addr: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=addr).next_back()?;
        let is_there = addr - start < mapping.size && !mapping.is_ending;
        is_there.then_some((start, mapping))
    }

    /// The starts of the mappings that the range consists of; `INVALID_VALUE` unless it is whole
    /// ones without gaps.
    pub(super) fn whole(&self, addr: u64, size: u64) -> Status<Vec<u64>> {
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

    /// Whether one reservation holds the range.
    pub(super) fn is_reserved(&self, addr: u64, size: u64) -> bool {
        let below = self.reserved.range(..=addr).next_back();
        below.is_some_and(|(&start, &len)| {
            let inside = addr - start;
            inside <= len && size <= len - inside
        })
    }

    pub(super) fn is_mapped(&self, addr: u64, size: u64) -> bool {
        let below = self.mappings.range(..addr + size).next_back();
        below.is_some_and(|(&start, mapping)| start + mapping.size > addr)
    }
}

//! The address space of one software device.

mod granted;
mod reserved;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::lock;

use super::free_list::FreeList;
use super::freed::FreedAllocations;
use super::map::{MemoryMap, Owner, Range, RangeKind};
use super::reservation::Reservation;
use super::shadow::Shadow;
use super::{POISON, POISON_LIMIT};

/// The minimum alignment of device allocations.
const ALIGN: u64 = 256;
/// The number of unallocated bytes after each allocation.
const RED_ZONE: u64 = 256;
/// The alignment of the first device address, like that of hardware.
const BASE_ALIGN: u64 = 2 << 20;
/// With the check for freed memory on, up to 1 / `QUARANTINE_DIVISOR` of an address space stays in
/// quarantine before it is reused.
const QUARANTINE_DIVISOR: u64 = 4;
/// Freed allocations above this size return their pages to the operating system.
const DISCARD_ABOVE: u64 = 1 << 20;

/// The error of freeing an address that is not the start of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeError {
    /// The address that was passed.
    pub addr: u64,
    /// Whether an allocation that started at this address was freed earlier.
    pub freed_before: bool,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.freed_before {
            "was freed before"
        } else {
            "is not the start of an allocation"
        };
        write!(f, "{:#x} {why}", self.addr)
    }
}

impl std::error::Error for FreeError {}

/// The error of registering or unregistering a host range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// The range overlaps a registered one.
    Overlap,
    /// No registered range starts at this address.
    NotRegistered,
    /// The range is empty or runs past the end of the address space.
    BadRange,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlap => "the range overlaps one that is registered",
            Self::NotRegistered => "no registered range starts there",
            Self::BadRange => "the range is empty or wraps around",
        })
    }
}

impl std::error::Error for RegisterError {}

/// Device memory: allocation, and the map of the live ranges.
#[derive(Debug)]
pub struct Arena {
    /// Inaccessible address space; its addresses are the device addresses.
    addresses: Reservation,
    storage: Arc<Reservation>,
    base: u64,
    capacity: u64,
    /// Whether freed memory is quarantined before it is reused.
    keeps_freed: bool,
    /// Which bytes were written, if that is tracked.
    shadow: Option<Arc<Shadow>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: FreeList,
    /// The (requested, reserved) lengths of each allocation, by its offset.
    live: BTreeMap<u64, (u64, u64)>,
    /// The (requested, reserved) lengths of the ranges that keep their addresses while they are not
    /// live.
    reserved: BTreeMap<u64, (u64, u64)>,
    /// Host memory that the device may use, with the owner that keeps it alive.
    host: BTreeMap<u64, (Range, Option<Owner>)>,
    /// The parts of a virtual space that the device may use.
    granted: BTreeMap<u64, (Range, Option<Owner>)>,
    granted_storage: Option<Arc<Reservation>>,
    freed: FreedAllocations,
    /// Freed ranges in quarantine, as (offset, length).
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
    used: u64,
    map: Option<Arc<MemoryMap>>,
}

impl State {
    /// Records a freed range, for error messages.
    fn note_freed(&mut self, addr: u64, size: u64, by: &'static str) {
        self.freed.add(addr, size, by);
        self.map = None;
    }

    /// Releases quarantined ranges, the oldest first, until at most `bytes` remain in quarantine.
    fn let_go(&mut self, bytes: u64) {
        while self.waiting_bytes > bytes
            && let Some((offset, taken)) = self.waiting.pop_front()
        {
            self.waiting_bytes -= taken;
            self.free.give(offset, taken);
        }
    }
}

impl Arena {
    /// Reserves an address space of `capacity` bytes. Its storage costs memory only once it is
    /// touched.
    ///
    /// # Errors
    ///
    /// The operating system's error if it cannot reserve that many addresses.
    pub fn new(capacity: u64) -> io::Result<Self> {
        let too_large = || io::Error::new(io::ErrorKind::OutOfMemory, "arena too large");
        let capacity = capacity
            .checked_next_multiple_of(BASE_ALIGN)
            .ok_or_else(too_large)?;
        let reserve = capacity.checked_add(BASE_ALIGN).ok_or_else(too_large)?;
        let reserve = usize::try_from(reserve).map_err(|_| too_large())?;
        let addresses = Reservation::inaccessible(reserve)?;
        let storage = Arc::new(Reservation::storage(capacity as usize)?);
        let base = (addresses.base().addr() as u64).next_multiple_of(BASE_ALIGN);
        Ok(Self {
            addresses,
            storage,
            base,
            capacity,
            keeps_freed: false,
            shadow: None,
            state: Mutex::new(State {
                free: FreeList::new(capacity),
                live: BTreeMap::new(),
                reserved: BTreeMap::new(),
                host: BTreeMap::new(),
                granted: BTreeMap::new(),
                granted_storage: None,
                freed: FreedAllocations::default(),
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                used: 0,
                map: None,
            }),
        })
    }

    /// Reuses freed memory only when little other memory is left, so that an access through a stale
    /// address is detected.
    #[must_use]
    pub fn keep_freed(mut self, on: bool) -> Self {
        self.keeps_freed = on;
        self
    }

    /// Tracks for each byte whether it was written since it was allocated.
    #[must_use]
    pub fn know_written(mut self, on: bool) -> Self {
        self.shadow = on.then(|| Arc::new(Shadow::new(self.base, self.capacity)));
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The size of the address space in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The bytes that allocations take, including padding for alignment and the gaps between them.
    pub fn used(&self) -> u64 {
        self.state().used
    }

    /// Whether `addr` is in the device's own address space, allocated or not.
    pub fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.base) < self.capacity && !self.addresses.base().is_null()
    }

    /// Allocates `size` bytes at a multiple of `align`, which is raised to at least 256. Returns
    /// `None` if no free range is large enough.
    ///
    /// The bytes are filled with [`POISON`].
    pub fn alloc(&self, size: u64, align: u64) -> Option<u64> {
        let (offset, taken) = self.take(size, align)?;
        // The range is not on the free list any more and not yet live, so no other thread uses it.
        self.poison(offset, size);
        let mut state = self.state();
        state.live.insert(offset, (size, taken));
        state.map = None;
        Some(self.base + offset)
    }

    /// Takes a range off the free list; returns its offset and length.
    fn take(&self, size: u64, align: u64) -> Option<(u64, u64)> {
        let align = align.max(ALIGN).checked_next_power_of_two()?;
        let taken = size
            .max(1)
            .checked_next_multiple_of(ALIGN)?
            .checked_add(RED_ZONE)?;
        let mut state = self.state();
        let align = align.min(BASE_ALIGN);
        let offset = state.free.take(taken, align).or_else(|| {
            state.let_go(0);
            state.free.take(taken, align)
        })?;
        if self
            .storage
            .commit(offset as usize, taken as usize)
            .is_err()
        {
            state.free.give(offset, taken);
            return None;
        }
        state.used += taken;
        state.freed.reuse(self.base + offset, taken);
        Some((offset, taken))
    }

    fn poison(&self, offset: u64, size: u64) {
        if let Some(shadow) = &self.shadow {
            shadow.forget(self.base + offset, size);
        }
        let fill = |start: u64, len: u64| {
            let first = self.storage.base().wrapping_add(start as usize);
            // SAFETY: the caller took `offset .. offset + size` from the free list, so it lies
            // within the storage and is in no other use; `start .. start + len` is a part of it.
            unsafe { std::ptr::write_bytes(first, POISON, len as usize) };
        };
        if size <= POISON_LIMIT {
            fill(offset, size);
        } else {
            let half = POISON_LIMIT / 2;
            fill(offset, half);
            fill(offset + size - half, half);
        }
    }

    /// Frees the allocation that starts at `addr` and returns its size. Error messages about later
    /// accesses name `by` as the caller that freed it.
    ///
    /// # Errors
    ///
    /// [`FreeError`] if no allocation starts at `addr`.
    pub fn free(&self, addr: u64, by: &'static str) -> Result<u64, FreeError> {
        let mut state = self.state();
        let offset = addr.wrapping_sub(self.base);
        let Some((size, taken)) = state.live.remove(&offset) else {
            let freed_before = state.freed.started_at(addr);
            return Err(FreeError { addr, freed_before });
        };
        self.give(&mut state, offset, taken);
        state.note_freed(addr, size, by);
        Ok(size)
    }

    /// Returns a range to the free list.
    fn give(&self, state: &mut State, offset: u64, taken: u64) {
        if taken > DISCARD_ABOVE {
            self.storage.discard(offset as usize, taken as usize);
        }
        state.used -= taken;
        if self.keeps_freed {
            state.waiting.push_back((offset, taken));
            state.waiting_bytes += taken;
            state.let_go(self.capacity / QUARANTINE_DIVISOR);
        } else {
            state.free.give(offset, taken);
        }
    }

    /// The start and size of the allocation that contains `addr`.
    pub fn allocation(&self, addr: u64) -> Option<(u64, u64)> {
        let offset = addr.checked_sub(self.base)?;
        let state = self.state();
        let (&start, &(size, _)) = state.live.range(..=offset).next_back()?;
        (offset - start < size.max(1)).then_some((self.base + start, size))
    }

    /// Lets the device use `len` bytes of host memory at `host`, under the same address. Each
    /// [`MemoryMap`] that contains the range keeps `owner` alive.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if the range is empty or overlaps a registered one.
    ///
    /// # Safety
    ///
    /// The memory must stay valid for reads and writes while `owner` lives. Without an owner it
    /// must stay valid until it is unregistered and every [`MemoryMap`] taken before that has been
    /// dropped. The host must expect the device to change the memory.
    pub unsafe fn register_host(
        &self,
        host: *mut u8,
        len: u64,
        kind: RangeKind,
        owner: Option<Owner>,
    ) -> Result<(), RegisterError> {
        let start = host.expose_provenance() as u64;
        let end = start.checked_add(len).ok_or(RegisterError::BadRange)?;
        if len == 0 || host.is_null() {
            return Err(RegisterError::BadRange);
        }
        let mut state = self.state();
        if let Some((_, (below, _))) = state.host.range(..end).next_back()
            && below.start + below.len > start
        {
            return Err(RegisterError::Overlap);
        }
        let range = Range {
            start,
            len,
            host,
            kind,
        };
        state.host.insert(start, (range, owner));
        state.map = None;
        Ok(())
    }

    /// Unregisters the memory that [`register_host`](Self::register_host) registered at `host`;
    /// returns its length.
    ///
    /// # Errors
    ///
    /// [`RegisterError::NotRegistered`] if no registered range starts at `host`.
    pub fn unregister_host(&self, host: *const u8) -> Result<u64, RegisterError> {
        let mut state = self.state();
        let start = host.addr() as u64;
        let (range, owner) = state
            .host
            .remove(&start)
            .ok_or(RegisterError::NotRegistered)?;
        state.note_freed(start, range.len, "the program");
        drop(state);
        drop(owner);
        Ok(range.len)
    }

    /// The ranges that are live now. The map is rebuilt only after a change.
    pub fn map(&self) -> Arc<MemoryMap> {
        let mut state = self.state();
        if let Some(map) = &state.map {
            return Arc::clone(map);
        }
        let device = state.live.iter().map(|(&offset, &(size, _))| Range {
            start: self.base + offset,
            len: size,
            host: self.storage.base().wrapping_add(offset as usize),
            kind: RangeKind::Device,
        });
        let ranges = device
            .chain(state.host.values().map(|(range, _)| *range))
            .chain(granted::joined(
                state.granted.values().map(|(range, _)| range),
            ))
            .collect();
        let freed = state.freed.to_vec();
        let mut storage = vec![Arc::clone(&self.storage)];
        storage.extend(state.granted_storage.clone());
        let owners = state.host.values().chain(state.granted.values());
        let owners = owners.filter_map(|(_, owner)| owner.clone()).collect();
        let shadow = self.shadow.clone();
        let map = Arc::new(MemoryMap::new(ranges, freed, storage, owners, shadow));
        state.map = Some(Arc::clone(&map));
        map
    }
}

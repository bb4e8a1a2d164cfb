//! The unified address space of all devices and the host.

use std::sync::Arc;

use crate::driver::handle::Table;
use crate::driver::objects::array::Array;
use crate::driver::objects::device::Device;
use crate::driver::objects::mapping::VirtualMemory;
use crate::driver::objects::stream::DeviceFault;
use crate::driver::status::{ILLEGAL_ADDRESS, INVALID_VALUE, Status};
use crate::memory::{AccessError, MemoryMap};
use crate::report::{Access, CodeLocation, MemorySpace, Report, ReportKind};

/// Determines what an address refers to, and copies between any two addresses.
///
/// An address that no device knows is treated as a host address, as unified addressing defines it.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Spaces {
    devices: Arc<[Arc<Device>]>,
    virtual_memory: Arc<VirtualMemory>,
    arrays: Arc<Table<Array>>,
}

impl Spaces {
    pub(in crate::driver) fn new(
        devices: Arc<[Arc<Device>]>,
        virtual_memory: Arc<VirtualMemory>,
        arrays: Arc<Table<Array>>,
    ) -> Self {
        Self {
            devices,
            virtual_memory,
            arrays,
        }
    }

    /// Returns the array of a handle.
    pub(in crate::driver) fn array(&self, handle: u64) -> Option<Arc<Array>> {
        self.arrays.get(handle)
    }

    /// Returns the memory map for `addr`, which is that of the device that owns the address. Each
    /// map has all registered host memory and the virtual memory that the device may access.
    fn map(&self, addr: u64) -> Option<Arc<MemoryMap>> {
        let mut devices = self.devices.iter();
        let owner = if self.virtual_memory.contains(addr) {
            devices.find(|device| device.map().find(addr, 1).is_some())
        } else {
            devices.find(|device| device.arena.contains(addr))
        };
        owner.or(self.devices.first()).map(|device| device.map())
    }

    /// Returns whether the address is in the address range of a device, allocated or not.
    pub(in crate::driver) fn is_device(&self, addr: u64) -> bool {
        self.virtual_memory.contains(addr)
            || self
                .devices
                .iter()
                .any(|device| device.arena.contains(addr))
    }

    /// Returns the device whose memory contains the address; `None` for host memory and for virtual
    /// memory, which can belong to any device.
    pub(in crate::driver) fn owner(&self, addr: u64) -> Option<usize> {
        let mut devices = self.devices.iter();
        let owner = devices.find(|device| device.arena.contains(addr));
        owner.map(|device| device.ordinal)
    }

    /// Returns whether the address is a device address or in host memory that the devices know.
    pub(in crate::driver) fn is_known(&self, addr: u64) -> bool {
        self.is_device(addr)
            || self
                .map(addr)
                .is_some_and(|map| map.find(addr, 1).is_some())
    }

    /// Returns whether the devices know the range. Fails with `INVALID_VALUE` if the range is null,
    /// or is device memory that is not live.
    pub(in crate::driver) fn check(&self, addr: u64, len: u64) -> Status<bool> {
        if addr == 0 {
            return Err(INVALID_VALUE);
        }
        // Memory that a graph will allocate counts too: its address is reserved, and it becomes
        // live when the graph runs.
        let live = self
            .map(addr)
            .is_some_and(|map| map.find(addr, len).is_some())
            || self
                .devices
                .iter()
                .any(|device| device.arena.is_reserved(addr, len));
        if live || !self.is_known(addr) {
            Ok(live)
        } else {
            Err(INVALID_VALUE)
        }
    }

    /// Returns the address in this process of the `len` bytes at `addr`, with the map that keeps
    /// them valid. If the address `was_known` and is no longer known, its memory has been freed,
    /// which is an error.
    fn host(
        &self,
        (addr, was_known): (u64, bool),
        len: u64,
    ) -> Result<(*mut u8, Option<Arc<MemoryMap>>), AccessError> {
        if !was_known && !self.is_known(addr) {
            return Ok((std::ptr::with_exposed_provenance_mut(addr as usize), None));
        }
        let map = self.map(addr).ok_or_else(|| no_device(addr, len))?;
        let place = map.host(addr, len)?;
        Ok((place, Some(map)))
    }

    /// Reports an access of a copy or a fill to memory that is not live, and returns the fault with
    /// which the device is lost.
    pub(in crate::driver) fn fault(&self, what: &str, error: &AccessError) -> DeviceFault {
        let message = format!("{what}: {error}");
        let report = Report {
            kind: if error.freed {
                ReportKind::UseAfterFree
            } else {
                ReportKind::OutOfBounds
            },
            device: 0,
            status: Some(ILLEGAL_ADDRESS),
            kernel: String::new(),
            at: CodeLocation::default(),
            other: None,
            access: Some(Access {
                space: MemorySpace::Global,
                address: error.addr,
                size: error.len,
            }),
            missing: Vec::new(),
            times: 1,
            message: message.clone(),
        };
        let owner = self.owner(error.addr).unwrap_or(0);
        if let Some(device) = self.devices.get(owner) {
            device.report(report);
        }
        (ILLEGAL_ADDRESS, message)
    }

    /// Copies `len` bytes; the ranges may overlap. Each address is paired with whether it was known
    /// when the copy was requested.
    pub(in crate::driver) fn copy(
        &self,
        to: (u64, bool),
        from: (u64, bool),
        len: u64,
    ) -> Result<(), AccessError> {
        let (dst, src) = (to.0, from.0);
        let (from, from_map) = self.host(from, len)?;
        let (to, to_map) = self.host(to, len)?;
        // SAFETY: `len` bytes must be readable at `from` and writable at `to` ← `host` found them
        // live in a map that is kept meanwhile, or they were pageable host memory when the copy was
        // requested, which the program that requested it keeps valid until it is complete. `copy`
        // allows overlap.
        unsafe { std::ptr::copy(from, to, len as usize) };
        match (to_map, from_map) {
            (Some(to), Some(from)) => to.wrote_copy(dst, &from, src, len),
            (Some(to), None) => to.wrote(dst, len),
            (None, _) => {}
        }
        Ok(())
    }

    /// Returns `len` bytes, during the call that requests them. The address is paired with whether
    /// it is known.
    pub(in crate::driver) fn read(
        &self,
        from: (u64, bool),
        len: u64,
    ) -> Result<Vec<u8>, AccessError> {
        let mut bytes = vec![0; len as usize];
        let (from, _map) = self.host(from, len)?;
        // SAFETY: `len` bytes must be readable at `from` ← `host` found them live in a map that is
        // kept meanwhile, or they are pageable host memory, which the program keeps valid for the
        // duration of its call; `bytes` is new.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(bytes)
    }

    /// Sets `rows` rows of `count` elements, `pitch` bytes apart, to `pattern`.
    pub(in crate::driver) fn fill(
        &self,
        addr: u64,
        pattern: &[u8],
        count: u64,
        rows: u64,
        pitch: u64,
    ) -> Result<(), AccessError> {
        let map = self.map(addr).ok_or_else(|| no_device(addr, count))?;
        for row in 0..rows {
            map.fill(addr + row * pitch, pattern, count)?;
        }
        Ok(())
    }

    /// Reads an aligned word of 4 or 8 bytes in one access.
    pub(in crate::driver) fn load(&self, addr: u64, wide: bool) -> Option<u64> {
        use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
        let map = self.map(addr)?;
        let place = map.host(addr, if wide { 8 } else { 4 }).ok()?;
        Some(if wide {
            // SAFETY: 8 bytes must be live and aligned ← `host` found them live; callers checked
            // the alignment of the address, and the storage has the same alignment as the address.
            unsafe { AtomicU64::from_ptr(place.cast()) }.load(Ordering::Acquire)
        } else {
            // SAFETY: as for 8 bytes.
            u64::from(unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire))
        })
    }

    /// Writes an aligned word of 4 or 8 bytes in one access. Returns whether it is live.
    pub(in crate::driver) fn store(&self, addr: u64, value: u64, wide: bool) -> bool {
        use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
        let Some(map) = self.map(addr) else {
            return false;
        };
        let Ok(place) = map.host(addr, if wide { 8 } else { 4 }) else {
            return false;
        };
        map.wrote(addr, if wide { 8 } else { 4 });
        if wide {
            // SAFETY: 8 bytes must be live and aligned ← `host` found them live; callers checked
            // the alignment of the address, and the storage has the same alignment as the address.
            unsafe { AtomicU64::from_ptr(place.cast()) }.store(value, Ordering::Release);
        } else {
            // SAFETY: as for 8 bytes.
            unsafe { AtomicU32::from_ptr(place.cast()) }.store(value as u32, Ordering::Release);
        }
        true
    }
}

/// Returns the error for an access at an address that belongs to no device.
fn no_device(addr: u64, len: u64) -> AccessError {
    AccessError {
        addr,
        len,
        freed: false,
        place: String::from("no device"),
    }
}

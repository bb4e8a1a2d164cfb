//! A snapshot of the memory that a device can access, and checked copies through it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::POISON;
use super::freed::Freed;
use super::reservation::Reservation;
use super::shadow::Shadow;

/// The kind of memory of a [`Range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeKind {
    /// Storage of an [`Arena`](super::Arena).
    Device,
    /// Pinned host memory; host and device address are equal.
    Pinned,
    /// Managed memory; host and device address are equal.
    Managed,
    /// Memory of a [`VirtualSpace`](super::VirtualSpace), for the devices that have access to it.
    Virtual,
}

/// A live range of device addresses and the place of its bytes in this process.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first device address.
    pub start: u64,
    /// The length in bytes.
    pub len: u64,
    /// The address in this process of the byte at `start`.
    pub host: *mut u8,
    /// The kind of memory.
    pub kind: RangeKind,
}

// SAFETY: `host` is only an address here; code that dereferences it must ensure that it is valid
// and free of races.
unsafe impl Send for Range {}
// SAFETY: as for `Send`; shared access to a `Range` only copies its fields.
unsafe impl Sync for Range {}

impl Range {
    /// Whether the `len` bytes at `addr` lie within this range.
    #[inline]
    pub fn holds(&self, addr: u64, len: u64) -> bool {
        let offset = addr.wrapping_sub(self.start);
        offset <= self.len && len <= self.len - offset
    }
}

/// A handle that keeps host memory valid which the program does not own.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// The error of an access outside every live range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    /// The first address of the access.
    pub addr: u64,
    /// The length of the access.
    pub len: u64,
    /// Whether the address was in memory that has been freed.
    pub freed: bool,
    /// A description of the address relative to the allocations near it.
    pub place: String,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid access to {} bytes at {:#x}: {}",
            self.len, self.addr, self.place
        )
    }
}

impl std::error::Error for AccessError {}

/// The live ranges at one moment, sorted by address.
///
/// The map keeps the storage of its arenas alive, and the owners of host ranges, so a stale map
/// reads old bytes at worst. Host ranges without an owner must be kept valid by the caller that
/// registered them.
#[derive(Debug, Default)]
pub struct MemoryMap {
    ranges: Vec<Range>,
    freed: Vec<Freed>,
    storage: Vec<Arc<Reservation>>,
    owners: Vec<Owner>,
    /// Which bytes were written, for the arenas that track it.
    shadows: Vec<Arc<Shadow>>,
}

impl MemoryMap {
    pub(super) fn new(
        mut ranges: Vec<Range>,
        freed: Vec<Freed>,
        storage: Vec<Arc<Reservation>>,
        owners: Vec<Owner>,
        shadow: Option<Arc<Shadow>>,
    ) -> Self {
        ranges.sort_unstable_by_key(|range| range.start);
        Self {
            ranges,
            freed,
            storage,
            owners,
            shadows: shadow.into_iter().collect(),
        }
    }

    /// The union of `maps`: the memory that a device with peers can access. The first map is the
    /// device's own. The union has a range of another map `maps[index]` if `is_shared` accepts
    /// `index` and the first address of the range.
    pub fn union(maps: &[Arc<Self>], is_shared: impl Fn(usize, u64) -> bool) -> Self {
        let mut all = Self::default();
        for (index, map) in maps.iter().enumerate() {
            // Access to virtual memory is granted per device and does not depend on peer access.
            let ranges = map.ranges.iter();
            let shared = ranges.filter(|range| match range.kind {
                _ if index == 0 => true,
                RangeKind::Virtual => false,
                RangeKind::Device => is_shared(index, range.start),
                RangeKind::Pinned | RangeKind::Managed => true,
            });
            all.ranges.extend(shared.copied());
            all.freed.extend_from_slice(&map.freed);
            all.storage.extend(map.storage.iter().cloned());
            all.owners.extend(map.owners.iter().cloned());
            all.shadows.extend(map.shadows.iter().cloned());
        }
        all.ranges.sort_unstable_by_key(|range| range.start);
        all.ranges.dedup_by_key(|range| range.start);
        all
    }

    /// The live ranges, in ascending order of addresses.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The range that contains the `len` bytes at `addr`.
    #[inline]
    pub fn find(&self, addr: u64, len: u64) -> Option<&Range> {
        let after = self.ranges.partition_point(|range| range.start <= addr);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        range.holds(addr, len).then_some(range)
    }

    /// The shadow that tracks the byte at `addr`.
    fn shadow(&self, addr: u64) -> Option<&Shadow> {
        let mut shadows = self.shadows.iter();
        shadows
            .find(|shadow| shadow.covers(addr))
            .map(|shadow| &**shadow)
    }

    /// Records that `len` bytes at `addr` were written.
    pub fn wrote(&self, addr: u64, len: u64) {
        if let Some(shadow) = self.shadow(addr) {
            shadow.wrote(addr, len);
        }
    }

    /// The first of `len` bytes at `addr` that has not been written since it was allocated, if that
    /// is tracked.
    pub fn unwritten(&self, addr: u64, len: u64) -> Option<u64> {
        self.shadow(addr)?.unwritten(addr, len)
    }

    /// Records that `len` bytes at `addr` are a copy of the bytes at `from`, which `other` tracks:
    /// each byte counts as written if its source does.
    pub fn wrote_copy(&self, addr: u64, other: &Self, from: u64, len: u64) {
        let Some(shadow) = self.shadow(addr) else {
            return;
        };
        let mut at = 0;
        while at < len {
            let rest = len - at;
            let same = match other.unwritten(from + at, rest) {
                Some(first) => first - from - at,
                None => rest,
            };
            shadow.wrote(addr + at, same);
            at += same;
            if at < len {
                shadow.forget(addr + at, 1);
                at += 1;
            }
        }
    }

    /// Fills `len` bytes at `addr` with the pattern of fresh memory.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if a byte is outside the live ranges; nothing is written in this case.
    pub fn poison(&self, addr: u64, len: u64) -> Result<(), AccessError> {
        self.fill(addr, &[POISON], len.min(super::POISON_LIMIT))?;
        if let Some(shadow) = self.shadow(addr) {
            shadow.forget(addr, len);
        }
        Ok(())
    }

    /// The address in this process of `len` bytes at the device address `addr`.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if no single live range contains them all.
    pub fn host(&self, addr: u64, len: u64) -> Result<*mut u8, AccessError> {
        match self.find(addr, len) {
            Some(range) => Ok(range.host.wrapping_add((addr - range.start) as usize)),
            None => Err(self.error(addr, len)),
        }
    }

    /// The error for an access outside every range. It describes the allocations near the address.
    pub fn error(&self, addr: u64, len: u64) -> AccessError {
        let freed = self.freed.iter().rev().find(|freed| freed.holds(addr));
        AccessError {
            addr,
            len,
            freed: freed.is_some(),
            place: match freed {
                Some(freed) => freed.describe(addr),
                None => self.describe(addr),
            },
        }
    }

    fn describe(&self, addr: u64) -> String {
        let after = self.ranges.partition_point(|range| range.start <= addr);
        let near = 1 << 20;
        match after.checked_sub(1).and_then(|i| self.ranges.get(i)) {
            Some(range) if addr - range.start < range.len => format!(
                "crosses the end of the allocation of {} bytes at {:#x}",
                range.len, range.start
            ),
            Some(range) if addr - range.start - range.len < near => format!(
                "at offset {} of the allocation of {} bytes at {:#x}",
                addr - range.start,
                range.len,
                range.start
            ),
            _ => match self.ranges.get(after) {
                Some(range) if range.start - addr < near => format!(
                    "{} bytes before the allocation of {} bytes at {:#x}",
                    range.start - addr,
                    range.len,
                    range.start
                ),
                _ => String::from("not in any allocation"),
            },
        }
    }

    /// Copies the device bytes at `addr` to `to`.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if a byte is outside the live ranges; nothing is copied in this case.
    pub fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), AccessError> {
        let from = self.host(addr, to.len() as u64)?;
        // SAFETY: `host` found `to.len()` live bytes at `from`; `to` is an exclusive borrow and so
        // does not overlap them. If a kernel writes them at the same time, that is a data race of
        // the program under test, as on hardware.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies `from` to the device bytes at `addr`.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if a byte is outside the live ranges; nothing is copied in this case.
    pub fn write(&self, addr: u64, from: &[u8]) -> Result<(), AccessError> {
        let to = self.host(addr, from.len() as u64)?;
        // SAFETY: `host` found `from.len()` live bytes at `to`. `from` may be the same pinned
        // memory: `copy` allows overlap.
        unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
        self.wrote(addr, from.len() as u64);
        Ok(())
    }

    /// Sets `count` elements at `addr` to `pattern`, which is one element of 1, 2 or 4 bytes.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if a byte is outside the live ranges; nothing is written in this case.
    pub fn fill(&self, addr: u64, pattern: &[u8], count: u64) -> Result<(), AccessError> {
        let Some(len) = count.checked_mul(pattern.len() as u64) else {
            return Err(self.error(addr, u64::MAX));
        };
        let to = self.host(addr, len)?;
        self.wrote(addr, len);
        if let [byte] = *pattern {
            // SAFETY: `host` found `len` live bytes at `to`.
            unsafe { std::ptr::write_bytes(to, byte, len as usize) };
            return Ok(());
        }
        for i in 0..count as usize {
            let element = to.wrapping_add(i * pattern.len());
            // SAFETY: element `i` lies within the `len` live bytes at `to`.
            unsafe { std::ptr::copy(pattern.as_ptr(), element, pattern.len()) };
        }
        Ok(())
    }

    /// Copies `len` bytes from device address `src` to device address `dst`; they may overlap.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if a byte of either is outside the live ranges; nothing is copied in this
    /// case.
    pub fn copy(&self, dst: u64, src: u64, len: u64) -> Result<(), AccessError> {
        let from = self.host(src, len)?;
        let to = self.host(dst, len)?;
        // SAFETY: `host` found `len` live bytes at both places; `copy` allows overlap.
        unsafe { std::ptr::copy(from, to, len as usize) };
        self.wrote_copy(dst, self, src, len);
        Ok(())
    }
}

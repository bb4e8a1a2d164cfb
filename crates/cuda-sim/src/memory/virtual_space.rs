//! Virtual memory management: address ranges that are reserved before memory is mapped to them, and
//! memory that is allocated without an address.
//!
//! As in an [`Arena`](super::Arena), device addresses lie in an inaccessible range, and each byte
//! is stored at a constant distance from its device address. The pages of a [`Backing`] are mapped
//! at that place, and may be mapped at any number of places. Mappings at adjacent addresses
//! therefore form one contiguous piece of memory, whatever backs them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::lock;

use super::free_list::FreeList;
use super::reservation::Reservation;
use super::shared_file::{self, PAGE, SharedFile};
use super::{POISON, POISON_LIMIT};

/// The granularity of mappings: sizes and addresses are multiples of it.
pub const GRANULARITY: u64 = 2 << 20;
/// The size of the address space in bytes.
const CAPACITY: u64 = 64 << 30;

/// Physical memory that has no address by itself.
#[derive(Debug)]
pub struct Backing {
    file: SharedFile,
    size: u64,
}

impl Backing {
    /// Allocates `size` bytes, which are filled with [`POISON`].
    ///
    /// # Errors
    ///
    /// The operating system's error; `Unsupported` on systems where this module cannot map pages at
    /// several places.
    pub fn new(size: u64) -> io::Result<Self> {
        let file = shared_file::create(size)?;
        let backing = Self { file, size };
        backing.poison()?;
        Ok(backing)
    }

    /// Returns the memory in a file that another process created, or this one. Its first `size`
    /// bytes are the memory.
    pub fn of_file(file: SharedFile, size: u64) -> Self {
        Self { file, size }
    }

    /// The file that holds the bytes.
    pub fn file(&self) -> &SharedFile {
        &self.file
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn poison(&self) -> io::Result<()> {
        let poison = vec![POISON; GRANULARITY as usize];
        let poisoned = self.size.min(POISON_LIMIT);
        (0..poisoned).step_by(poison.len()).try_for_each(|at| {
            let part = poison.len().min((poisoned - at) as usize);
            shared_file::write_at(&self.file, &poison[..part], at)
        })
    }
}

/// The address space, and the storage of its bytes.
#[derive(Debug)]
pub struct VirtualSpace {
    /// Inaccessible address space; its addresses are the device addresses.
    addresses: Reservation,
    storage: Arc<Reservation>,
    /// The offset of the first aligned address.
    first: u64,
    free: Mutex<FreeList>,
}

impl VirtualSpace {
    /// Creates a space in which nothing is reserved.
    ///
    /// # Errors
    ///
    /// The operating system's error if it cannot reserve that many addresses.
    pub fn new() -> io::Result<Self> {
        let len = usize::try_from(CAPACITY).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let addresses = Reservation::inaccessible(len)?;
        let storage = Arc::new(Reservation::inaccessible(len)?);
        let base = addresses.base().addr() as u64;
        let first = base.next_multiple_of(GRANULARITY) - base;
        Ok(Self {
            addresses,
            storage,
            first,
            free: Mutex::new(FreeList::new(
                (CAPACITY - first) / GRANULARITY * GRANULARITY,
            )),
        })
    }

    /// The address of the first byte.
    fn base(&self) -> u64 {
        self.addresses.base().addr() as u64 + self.first
    }

    fn free(&self) -> MutexGuard<'_, FreeList> {
        lock(&self.free)
    }

    /// Whether `addr` lies in this space, reserved or not.
    pub fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.base()) < CAPACITY - self.first
    }

    /// Reserves `size` addresses at a multiple of `align` (a power of two), at `wanted` if that
    /// range is free.
    pub fn reserve(&self, size: u64, align: u64, wanted: u64) -> Option<u64> {
        let size = size.checked_next_multiple_of(GRANULARITY)?;
        let mut free = self.free();
        let offset = wanted.wrapping_sub(self.base());
        if wanted.is_multiple_of(align.max(GRANULARITY)) && free.take_at(offset, size) {
            return Some(wanted);
        }
        // Offsets are relative to `base`, which is aligned to the granularity only.
        let slack = if align > GRANULARITY { align } else { 0 };
        let offset = free.take(size.checked_add(slack)?, GRANULARITY)?;
        let addr = (self.base() + offset).checked_next_multiple_of(align.max(GRANULARITY))?;
        let before = addr - self.base() - offset;
        if before > 0 {
            free.give(offset, before);
        }
        if slack > before {
            free.give(offset + before + size, slack - before);
        }
        Some(addr)
    }

    /// Releases the addresses that [`reserve`](Self::reserve) reserved.
    pub fn unreserve(&self, addr: u64, size: u64) {
        let size = size.next_multiple_of(GRANULARITY);
        self.free().give(addr - self.base(), size);
    }

    /// The address in this process of the byte at `addr`.
    pub fn host(&self, addr: u64) -> *mut u8 {
        let offset = addr.wrapping_sub(self.base()).wrapping_add(self.first);
        self.storage.base().wrapping_add(offset as usize)
    }

    /// The reservation that keeps the storage of all bytes alive.
    pub(super) fn storage(&self) -> Arc<Reservation> {
        Arc::clone(&self.storage)
    }

    /// Maps `size` bytes of `backing` at `addr`.
    ///
    /// # Errors
    ///
    /// The operating system's error if it cannot map the pages.
    ///
    /// # Safety
    ///
    /// The range must be reserved, and nothing may be mapped in it.
    pub unsafe fn map(&self, addr: u64, size: u64, backing: &Backing) -> io::Result<()> {
        let size = size.min(backing.size) as usize;
        // SAFETY: the place must be in the storage and not in use ← the caller reserved it and
        // mapped nothing.
        unsafe { Reservation::map_file(self.host(addr), size, &backing.file, 0) }
    }

    /// Unmaps the bytes that [`map`](Self::map) mapped.
    ///
    /// # Errors
    ///
    /// The operating system's error if it cannot unmap the pages.
    ///
    /// # Safety
    ///
    /// The range must be reserved, and its bytes must not be accessed any more.
    pub unsafe fn unmap(&self, addr: u64, size: u64) -> io::Result<()> {
        // SAFETY: the place must be in the storage and not in use ← the caller guarantees it.
        unsafe { Reservation::unmap_file(self.host(addr), size as usize) }
    }
}

/// A part of a file that is mapped at addresses of its own. It is unmapped when the value is
/// dropped.
#[derive(Debug)]
pub struct MappedPart {
    space: Arc<VirtualSpace>,
    start: u64,
    /// The bytes that are mapped, which are whole pages.
    mapped: u64,
    /// The number of bytes before the part in its first page.
    before: u64,
    pages: Pages,
}

impl MappedPart {
    /// Maps `size` bytes at `offset` of `file`, and the rest of their first and last page. At least
    /// a page after them is inaccessible.
    ///
    /// # Errors
    ///
    /// The operating system's error; `OutOfMemory` if there are not enough addresses, and
    /// `InvalidInput` if the file ends before the part does.
    pub fn new(
        space: &Arc<VirtualSpace>,
        file: &SharedFile,
        offset: u64,
        size: u64,
    ) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let before = offset % PAGE;
        let end = offset.checked_add(size).ok_or_else(invalid)?;
        if size == 0 || end > shared_file::len(file)? {
            return Err(invalid());
        }
        let mapped = (before + size).next_multiple_of(PAGE);
        let start = space.reserve(mapped + PAGE, GRANULARITY, 0);
        let start = start.ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the place of the addresses must not be in use ← they were reserved just now.
        match unsafe { Pages::map(space.host(start), mapped as usize, file, offset - before) } {
            Ok(pages) => Ok(Self {
                space: Arc::clone(space),
                start,
                mapped,
                before,
                pages,
            }),
            Err(error) => {
                space.unreserve(start, mapped + PAGE);
                Err(error)
            }
        }
    }

    /// The device address of the first byte of the part.
    pub fn addr(&self) -> u64 {
        self.start + self.before
    }

    /// The address in this process of the first byte of the part.
    pub fn host(&self) -> *mut u8 {
        self.pages.base().wrapping_add(self.before as usize)
    }
}

impl Drop for MappedPart {
    fn drop(&mut self) {
        // SAFETY: the pages must not be in use, now or later ← `self` is the only owner, every map
        // of memory that contains the part keeps it alive, and no method is called after this one.
        let unmapped = unsafe { self.pages.unmap() };
        // Addresses at which the bytes are still mapped must not be reused.
        if unmapped.is_ok() {
            self.space.unreserve(self.start, self.mapped + PAGE);
        }
    }
}

/// Mapped pages of a file, at the place of their addresses in the storage of a space.
#[cfg(not(windows))]
#[derive(Debug)]
struct Pages {
    place: *mut u8,
    len: usize,
}

// SAFETY: the pages belong to the process; nothing in them is tied to the thread that mapped them.
#[cfg(not(windows))]
unsafe impl Send for Pages {}
// SAFETY: no method that takes `&self` accesses the bytes.
#[cfg(not(windows))]
unsafe impl Sync for Pages {}

#[cfg(not(windows))]
impl Pages {
    /// # Safety
    ///
    /// `len` bytes at `place` must lie in the storage of a space and must not be in use.
    unsafe fn map(place: *mut u8, len: usize, file: &SharedFile, offset: u64) -> io::Result<Self> {
        // SAFETY: the place must be in the storage and not in use ← the caller guarantees it.
        unsafe { Reservation::map_file(place, len, file, offset) }?;
        Ok(Self { place, len })
    }

    /// The first byte.
    fn base(&self) -> *mut u8 {
        self.place
    }

    /// # Safety
    ///
    /// The pages must not be accessed any more, and this method must not be called again.
    unsafe fn unmap(&mut self) -> io::Result<()> {
        // SAFETY: the place must be in the storage and not in use ← the caller guarantees it.
        unsafe { Reservation::unmap_file(self.place, self.len) }
    }
}

/// Mapped pages of a section. Windows maps them at any place, because a view of a section cannot
/// replace a part of reserved memory.
#[cfg(windows)]
#[derive(Debug)]
struct Pages(Option<Reservation>);

#[cfg(windows)]
impl Pages {
    /// # Safety
    ///
    /// None: the function maps the pages at another place.
    unsafe fn map(_: *mut u8, len: usize, file: &SharedFile, offset: u64) -> io::Result<Self> {
        Ok(Self(Some(Reservation::of_file(file, offset, len)?)))
    }

    /// The first byte.
    fn base(&self) -> *mut u8 {
        self.0
            .as_ref()
            .map_or(std::ptr::null_mut(), Reservation::base)
    }

    /// # Safety
    ///
    /// The pages must not be accessed any more.
    unsafe fn unmap(&mut self) -> io::Result<()> {
        self.0 = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{GRANULARITY, VirtualSpace};

    #[test]
    fn ranges_do_not_overlap_and_come_back() {
        let space = VirtualSpace::new().unwrap();
        let one = space.reserve(4096, 0, 0).unwrap();
        // The next range is free at first; the second request for it gets another range.
        let behind = space.reserve(GRANULARITY, 0, one + GRANULARITY).unwrap();
        assert_eq!(behind, one + GRANULARITY);
        let wide = space.reserve(GRANULARITY, 1 << 30, 0).unwrap();
        assert!(wide.is_multiple_of(1 << 30));
        assert!(space.contains(one) && space.contains(wide) && !space.contains(0));
        let elsewhere = space.reserve(GRANULARITY, 0, behind).unwrap();
        assert_ne!(elsewhere, behind);
        assert_eq!(space.host(behind).addr() - space.host(one).addr(), 2 << 20);
        for addr in [one, wide, behind, elsewhere] {
            space.unreserve(addr, GRANULARITY);
        }
        let most = (64 << 30) - 2 * GRANULARITY;
        assert!(space.reserve(most, 0, 0).is_some(), "all parts have joined");
        assert!(space.reserve(most, 0, 0).is_none());
    }
}

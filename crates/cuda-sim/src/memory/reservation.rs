//! Ranges of virtual addresses that are reserved from the operating system.

use std::fs::File;
use std::io;

/// A range of this process's address space, which is released when the value is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    base: *mut u8,
    len: usize,
    /// The file that holds the bytes, if other processes can map them.
    file: Option<File>,
}

// SAFETY: a `Reservation` is an address range; nothing in it is tied to the thread that made it.
unsafe impl Send for Reservation {}
// SAFETY: all methods take `&self` and only read the two fields or call thread-safe system
// functions.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// The first address.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// The file that holds the bytes, if other processes can map them.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

/// The advice that removes pages of a file.
#[cfg(target_os = "linux")]
const REMOVE: libc::c_int = libc::MADV_REMOVE;
#[cfg(all(unix, not(target_os = "linux")))]
const REMOVE: libc::c_int = libc::MADV_DONTNEED;

#[cfg(unix)]
impl Reservation {
    /// Reserves `len` inaccessible bytes.
    pub(super) fn inaccessible(len: usize) -> io::Result<Self> {
        Self::map(len, libc::PROT_NONE)
    }

    /// Reserves `len` bytes of zeros; a page costs memory once it is touched. Other processes can
    /// map them if the system has files in memory.
    pub(super) fn storage(len: usize) -> io::Result<Self> {
        if let Ok(file) = super::shared_file::create(len as u64) {
            let mut mapped = Self::of_file(&file, 0, len)?;
            mapped.file = Some(file);
            return Ok(mapped);
        }
        Self::map(len, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Maps `len` bytes at `offset` of a file.
    pub(super) fn of_file(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let offset = offset.cast_signed();
        let file = file.as_raw_fd();
        // SAFETY: a null hint without MAP_FIXED asks for fresh pages only; no existing mapping is
        // touched.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file, offset) };
        Self::checked(base, len)
    }

    fn map(len: usize, protection: libc::c_int) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: a null hint without MAP_FIXED asks for fresh pages only; no existing mapping is
        // touched.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        Self::checked(base, len)
    }

    fn checked(base: *mut libc::c_void, len: usize) -> io::Result<Self> {
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base: base.cast(),
            len,
            file: None,
        })
    }

    /// Makes `len` bytes at `offset` usable. Does nothing on Unix, where pages are allocated on
    /// demand.
    pub(super) fn commit(&self, _offset: usize, _len: usize) -> io::Result<()> {
        Ok(())
    }

    /// Returns the pages that lie wholly inside the range to the system; they stay accessible.
    pub(super) fn discard(&self, offset: usize, len: usize) {
        const PAGE: usize = 64 << 10;
        let start = offset.next_multiple_of(PAGE);
        let end = (offset + len) / PAGE * PAGE;
        if start < end && end <= self.len {
            let first = self.base.wrapping_add(start);
            let advice = if self.file.is_some() {
                REMOVE
            } else {
                libc::MADV_DONTNEED
            };
            // SAFETY: `first .. first + (end - start)` lies in this mapping, whose memory belongs
            // to this process.
            unsafe { libc::madvise(first.cast(), end - start, advice) };
        }
    }
}

#[cfg(target_os = "linux")]
impl Reservation {
    /// Maps `len` bytes at `offset` of `file` at `place`.
    ///
    /// # Safety
    ///
    /// `len` bytes at `place` must lie in a reservation and must not be in use.
    pub(super) unsafe fn map_file(
        place: *mut u8,
        len: usize,
        file: &File,
        offset: u64,
    ) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let (file, offset) = (file.as_raw_fd(), offset.cast_signed());
        // SAFETY: the replaced mapping must not be in use ← the caller guarantees it.
        let got = unsafe { libc::mmap(place.cast(), len, protection, flags, file, offset) };
        Self::is_at(got)
    }

    /// Makes `len` bytes at `place` inaccessible again.
    ///
    /// # Safety
    ///
    /// The requirements of [`map_file`](Self::map_file) apply.
    pub(super) unsafe fn unmap_file(place: *mut u8, len: usize) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the replaced mapping must not be in use ← the caller guarantees it.
        let got = unsafe { libc::mmap(place.cast(), len, libc::PROT_NONE, flags, -1, 0) };
        Self::is_at(got)
    }

    fn is_at(got: *mut libc::c_void) -> io::Result<()> {
        if got == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl Reservation {
    /// Not supported on this system.
    ///
    /// # Safety
    ///
    /// None: the function does nothing.
    pub(super) unsafe fn map_file(
        _place: *mut u8,
        _len: usize,
        _file: &File,
        _offset: u64,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported on this system.
    ///
    /// # Safety
    ///
    /// None: the function does nothing.
    pub(super) unsafe fn unmap_file(_place: *mut u8, _len: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(unix)]
impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: `mmap` returned `base` and `len` to `map`, and `self` is the only owner.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(windows)]
impl Reservation {
    /// Reserves `len` inaccessible bytes.
    pub(super) fn inaccessible(len: usize) -> io::Result<Self> {
        use windows_sys::Win32::System::Memory::{MEM_RESERVE, PAGE_NOACCESS, VirtualAlloc};
        // SAFETY: a null address asks for a fresh range; no existing memory is touched.
        let base = unsafe { VirtualAlloc(std::ptr::null(), len, MEM_RESERVE, PAGE_NOACCESS) };
        Self::checked(base.cast(), len)
    }

    /// Reserves `len` bytes of zeros; `commit` makes parts of it usable.
    pub(super) fn storage(len: usize) -> io::Result<Self> {
        use windows_sys::Win32::System::Memory::{MEM_RESERVE, PAGE_READWRITE, VirtualAlloc};
        // SAFETY: a null address asks for a fresh range; no existing memory is touched.
        let base = unsafe { VirtualAlloc(std::ptr::null(), len, MEM_RESERVE, PAGE_READWRITE) };
        Self::checked(base.cast(), len)
    }

    fn checked(base: *mut u8, len: usize) -> io::Result<Self> {
        if base.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base,
            len,
            file: None,
        })
    }

    /// Not supported on this system.
    pub(super) fn of_file(_file: &File, _offset: u64, _len: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes `len` bytes at `offset` usable.
    pub(super) fn commit(&self, offset: usize, len: usize) -> io::Result<()> {
        use windows_sys::Win32::System::Memory::{MEM_COMMIT, PAGE_READWRITE, VirtualAlloc};
        if len == 0 || offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(());
        }
        let first = self.base.wrapping_add(offset);
        // SAFETY: `first .. first + len` lies in this reservation; committing pages that are
        // already committed has no effect.
        let got = unsafe { VirtualAlloc(first.cast(), len, MEM_COMMIT, PAGE_READWRITE) };
        if got.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Does nothing: a kernel in flight may still touch the pages.
    pub(super) fn discard(&self, _offset: usize, _len: usize) {}
}

#[cfg(windows)]
impl Drop for Reservation {
    fn drop(&mut self) {
        use windows_sys::Win32::System::Memory::{MEM_RELEASE, VirtualFree};
        // SAFETY: `VirtualAlloc` returned `base`, and `self` is the only owner.
        unsafe { VirtualFree(self.base.cast(), 0, MEM_RELEASE) };
    }
}

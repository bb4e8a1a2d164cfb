//! Ranges of virtual addresses that are reserved from the operating system.

use std::io;

use super::shared_file::SharedFile;

/// A range of this process's address space, which is released when the value is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    base: *mut u8,
    len: usize,
    /// The file that holds the bytes, if other processes can map them.
    file: Option<SharedFile>,
    /// Whether the range is a view of a section.
    #[cfg(windows)]
    is_view: bool,
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
    pub(super) fn file(&self) -> Option<&SharedFile> {
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
    pub(super) fn of_file(file: &SharedFile, offset: u64, len: usize) -> io::Result<Self> {
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
        file: &SharedFile,
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
        _file: &SharedFile,
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

    /// Reserves `len` bytes of zeros; `commit` makes parts of it usable. Other processes can map
    /// them, unless the system refuses a section of this size.
    pub(super) fn storage(len: usize) -> io::Result<Self> {
        use windows_sys::Win32::System::Memory::{MEM_RESERVE, PAGE_READWRITE, VirtualAlloc};
        if let Ok(file) = super::shared_file::create(len as u64)
            && let Ok(mut view) = Self::view(&file, 0, len)
        {
            view.file = Some(file);
            return Ok(view);
        }
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
            is_view: false,
        })
    }

    /// Maps `len` bytes at `offset` of a section, and makes them usable.
    pub(super) fn of_file(file: &SharedFile, offset: u64, len: usize) -> io::Result<Self> {
        let view = Self::view(file, offset, len)?;
        view.commit(0, len)?;
        Ok(view)
    }

    /// Maps `len` bytes at `offset` of a section. Only pages that some process has committed are
    /// accessible.
    fn view(file: &SharedFile, offset: u64, len: usize) -> io::Result<Self> {
        use std::os::windows::io::AsRawHandle;
        use windows_sys::Win32::System::Memory::{FILE_MAP_READ, FILE_MAP_WRITE, MapViewOfFile};
        let before = offset % VIEW_ALIGN;
        let start = offset - before;
        let mapped = len.checked_add(before as usize);
        let mapped = mapped.ok_or(io::ErrorKind::OutOfMemory)?;
        let (access, high) = (FILE_MAP_READ | FILE_MAP_WRITE, (start >> 32) as u32);
        let handle = file.as_raw_handle();
        // SAFETY: the system chooses a fresh range; no existing memory is touched. A handle that is
        // not one of a section makes the call fail.
        let view = unsafe { MapViewOfFile(handle, access, high, start as u32, mapped) };
        let first: *mut u8 = view.Value.cast();
        if first.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base: first.wrapping_add(before as usize),
            len,
            file: None,
            is_view: true,
        })
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

/// The alignment of views of sections, in the section and in memory.
#[cfg(windows)]
const VIEW_ALIGN: u64 = 64 << 10;

#[cfg(windows)]
impl Drop for Reservation {
    fn drop(&mut self) {
        use windows_sys::Win32::System::Memory::{
            MEM_RELEASE, MEMORY_MAPPED_VIEW_ADDRESS, UnmapViewOfFile, VirtualFree,
        };
        if !self.is_view {
            // SAFETY: `VirtualAlloc` returned `base`, and `self` is the only owner.
            unsafe { VirtualFree(self.base.cast(), 0, MEM_RELEASE) };
            return;
        }
        let before = self.base.addr() % VIEW_ALIGN as usize;
        let first = self.base.wrapping_sub(before);
        let view = MEMORY_MAPPED_VIEW_ADDRESS {
            Value: first.cast(),
        };
        // SAFETY: the view must be mapped and not in use ← `MapViewOfFile` returned an aligned
        // address less than `VIEW_ALIGN` below `base`, and `self` is the only owner.
        unsafe { UnmapViewOfFile(view) };
    }
}

//! Memory that another API shares: a file on Unix, and a section on Windows, each with zeros.

use cuda_driver::memory::{BorrowedShareableHandle, ShareableHandle};

/// The memory, or a semaphore.
#[cfg(unix)]
pub(crate) type File = std::fs::File;

/// Returns new memory.
#[cfg(unix)]
pub(crate) fn file(bytes: u64) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(bytes).unwrap();
    file
}

/// Borrows a handle of the operating system.
pub(crate) fn borrow(handle: &ShareableHandle) -> BorrowedShareableHandle<'_> {
    #[cfg(unix)]
    return std::os::fd::AsFd::as_fd(handle);
    #[cfg(windows)]
    return std::os::windows::io::AsHandle::as_handle(handle);
}

#[cfg(windows)]
pub(crate) use windows::{File, file};

#[cfg(windows)]
mod windows {
    use std::io;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::ptr;
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::Memory::{
        CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEMORY_MAPPED_VIEW_ADDRESS,
        MapViewOfFile, PAGE_READWRITE, UnmapViewOfFile,
    };

    /// The memory, or a semaphore, with the methods of a file on Unix.
    pub(crate) struct File {
        section: OwnedHandle,
        view: View,
    }

    struct View {
        first: *mut u8,
        len: usize,
    }

    // SAFETY: the view belongs to the process, and all accesses are atomic.
    unsafe impl Send for View {}
    // SAFETY: as for `Send`.
    unsafe impl Sync for View {}

    impl Drop for View {
        fn drop(&mut self) {
            let view = MEMORY_MAPPED_VIEW_ADDRESS {
                Value: self.first.cast(),
            };
            // SAFETY: the view must not be in use ← `self` is the only owner.
            unsafe { UnmapViewOfFile(view) };
        }
    }

    /// Returns new memory.
    pub(crate) fn file(bytes: u64) -> File {
        let (high, low) = ((bytes >> 32) as u32, bytes as u32);
        let (attributes, name) = (ptr::null(), ptr::null());
        // SAFETY: the pointers must be null or valid ← they are null.
        let section = unsafe {
            CreateFileMappingW(
                INVALID_HANDLE_VALUE,
                attributes,
                PAGE_READWRITE,
                high,
                low,
                name,
            )
        };
        assert!(!section.is_null(), "{}", io::Error::last_os_error());
        // SAFETY: the handle must be open and have no other owner ← it was created just now.
        let section = unsafe { OwnedHandle::from_raw_handle(section) };
        File::new(section, bytes as usize)
    }

    impl File {
        fn new(section: OwnedHandle, len: usize) -> Self {
            let access = FILE_MAP_READ | FILE_MAP_WRITE;
            // SAFETY: the system chooses a fresh range.
            let view = unsafe { MapViewOfFile(section.as_raw_handle(), access, 0, 0, len) };
            let first: *mut u8 = view.Value.cast();
            assert!(!first.is_null(), "{}", io::Error::last_os_error());
            let view = View { first, len };
            Self { section, view }
        }

        pub(crate) fn try_clone(&self) -> io::Result<Self> {
            Ok(Self::new(self.section.try_clone()?, self.view.len))
        }

        fn byte(&self, at: u64) -> &AtomicU8 {
            let at = at as usize;
            assert!(at < self.view.len);
            // SAFETY: the byte must be valid as long as the reference, and accessed atomically ← it
            // is in the view, and the software device and this type access it atomically.
            unsafe { AtomicU8::from_ptr(self.view.first.wrapping_add(at)) }
        }

        /// Returns a word if an access is of a whole word, as those of a semaphore are.
        fn word(&self, len: usize, at: u64) -> Option<&AtomicU64> {
            let is_word = len == 8 && at.is_multiple_of(8) && at + 8 <= self.view.len as u64;
            let place = self.view.first.wrapping_add(at as usize);
            // SAFETY: as for a byte; the view is aligned.
            is_word.then(|| unsafe { AtomicU64::from_ptr(place.cast()) })
        }

        pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
            if let Some(word) = self.word(bytes.len(), offset) {
                bytes.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
                return Ok(());
            }
            for (byte, at) in bytes.iter_mut().zip(offset..) {
                *byte = self.byte(at).load(Ordering::Relaxed);
            }
            Ok(())
        }

        pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            if let (Some(word), Ok(bytes)) = (self.word(bytes.len(), offset), bytes.try_into()) {
                word.store(u64::from_le_bytes(bytes), Ordering::Release);
                return Ok(());
            }
            for (byte, at) in bytes.iter().zip(offset..) {
                self.byte(at).store(*byte, Ordering::Relaxed);
            }
            Ok(())
        }
    }

    impl From<File> for OwnedHandle {
        fn from(file: File) -> Self {
            file.section
        }
    }
}

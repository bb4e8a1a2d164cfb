//! The handles of the operating system by which memory is exported.

use std::ffi::c_void;
use std::ptr;

use cuda_sys::CUmemAllocationHandleType;

#[cfg(not(any(unix, windows)))]
compile_error!("CUDA exists on Unix and on Windows only");

/// The handle of exported memory, which the program sends to another process: a file descriptor on
/// Unix, a handle on Windows.
///
/// Other processes receive a descriptor over a Unix socket (`SCM_RIGHTS`), inherit it, or open
/// `/proc/<process>/fd/<number>` where the driver supports that. On Windows, `DuplicateHandle`
/// makes a handle for another process.
#[cfg(unix)]
pub type ShareableHandle = std::os::fd::OwnedFd;
/// The handle of exported memory, which the program sends to another process: a file descriptor on
/// Unix, a handle on Windows.
///
/// `DuplicateHandle` makes a handle for another process, whose number the program then sends. A
/// process can also inherit a handle.
#[cfg(windows)]
pub type ShareableHandle = std::os::windows::io::OwnedHandle;

/// A borrowed [`ShareableHandle`].
#[cfg(unix)]
pub type BorrowedShareableHandle<'a> = std::os::fd::BorrowedFd<'a>;
/// A borrowed [`ShareableHandle`].
#[cfg(windows)]
pub type BorrowedShareableHandle<'a> = std::os::windows::io::BorrowedHandle<'a>;

/// The type of the handles of this operating system.
#[cfg(unix)]
pub(crate) const HANDLE_TYPE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
/// The type of the handles of this operating system.
#[cfg(windows)]
pub(crate) const HANDLE_TYPE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_WIN32;

/// Calls `export` with a pointer to the place for a handle, and returns the handle.
///
/// # Safety
///
/// If `export` succeeds, it has written a new handle of [`HANDLE_TYPE`] that no other code closes.
pub(crate) unsafe fn owned<E>(
    export: impl FnOnce(*mut c_void) -> Result<(), E>,
) -> Result<ShareableHandle, E> {
    #[cfg(unix)]
    {
        use std::os::fd::FromRawFd;
        let mut raw: std::ffi::c_int = -1;
        export((&raw mut raw).cast())?;
        // SAFETY: the descriptor must be open and have no other owner ← the caller guarantees that
        // `export` has created it.
        Ok(unsafe { ShareableHandle::from_raw_fd(raw) })
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::FromRawHandle;
        let mut raw: *mut c_void = ptr::null_mut();
        export((&raw mut raw).cast())?;
        // SAFETY: the handle must be open and have no other owner ← the caller guarantees that
        // `export` has created it.
        Ok(unsafe { ShareableHandle::from_raw_handle(raw) })
    }
}

/// A handle as the argument of a call that imports memory.
pub(crate) struct ImportArgument<'a> {
    handle: BorrowedShareableHandle<'a>,
    /// A copy with another number.
    #[cfg(unix)]
    copy: Option<ShareableHandle>,
}

impl<'a> ImportArgument<'a> {
    pub(crate) fn new(handle: BorrowedShareableHandle<'a>) -> Self {
        #[cfg(unix)]
        {
            use std::os::fd::AsRawFd;
            // The driver takes the number in the place of a pointer, and refuses the null pointer:
            // 0 is the number of the standard input. A copy has at least number 3. Without a copy,
            // the driver reports the error.
            let is_null = handle.as_raw_fd() == 0;
            let copy = is_null.then(|| handle.try_clone_to_owned().ok()).flatten();
            Self { handle, copy }
        }
        #[cfg(windows)]
        Self { handle }
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        #[cfg(unix)]
        {
            use std::os::fd::AsRawFd;
            let copy = self.copy.as_ref().map(AsRawFd::as_raw_fd);
            let number = copy.unwrap_or_else(|| self.handle.as_raw_fd());
            ptr::without_provenance_mut(number as usize)
        }
        #[cfg(windows)]
        {
            use std::os::windows::io::AsRawHandle;
            self.handle.as_raw_handle()
        }
    }
}

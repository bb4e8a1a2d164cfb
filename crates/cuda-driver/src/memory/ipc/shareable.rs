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
/// `/proc/<process>/fd/<number>` where the driver supports that.
#[cfg(unix)]
pub type ShareableHandle = std::os::fd::OwnedFd;
/// The handle of exported memory, which the program sends to another process: a file descriptor on
/// Unix, a handle on Windows.
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

/// Returns the handle as the argument of a call that imports memory.
pub(crate) fn borrowed(handle: BorrowedShareableHandle<'_>) -> *mut c_void {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        // The driver takes the number in the place of a pointer.
        ptr::without_provenance_mut(handle.as_raw_fd() as usize)
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsRawHandle;
        handle.as_raw_handle()
    }
}

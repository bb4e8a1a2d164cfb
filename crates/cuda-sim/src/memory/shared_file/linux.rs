//! Files in memory of Linux.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use super::{PAGE, Place};

/// A file whose bytes are in memory.
pub type SharedFile = File;

/// Creates a file of `size` zero bytes, followed by a page for the tag.
///
/// # Errors
///
/// The operating system's error.
pub fn create(size: u64) -> io::Result<SharedFile> {
    // SAFETY: the name must be a C string ← it is a C string literal.
    let file = unsafe { libc::memfd_create(c"cuda-sim".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor must be open and have no other owner ← the system just created it.
    let file = unsafe { File::from_raw_fd(file) };
    let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
    file.set_len(size.checked_add(PAGE).ok_or_else(too_large)?)?;
    Ok(file)
}

/// Returns the number of bytes of a file, the page for the tag included.
///
/// # Errors
///
/// The operating system's error.
pub fn len(file: &SharedFile) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// Writes bytes at `offset`.
pub(in crate::memory) fn write_at(file: &SharedFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Reads bytes at `offset`.
pub(super) fn read_at(file: &SharedFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Returns where another process can open the file.
///
/// # Errors
///
/// The operating system's error.
pub fn place(file: &SharedFile) -> io::Result<Place> {
    Ok(Place {
        pid: std::process::id(),
        descriptor: file.as_raw_fd().cast_unsigned(),
        inode: file.metadata()?.ino(),
    })
}

/// Opens the file of another process.
///
/// # Errors
///
/// The operating system's error if the process has ended; `NotFound` if it has closed the file.
pub fn open(place: Place) -> io::Result<SharedFile> {
    let path = format!("/proc/{}/fd/{}", place.pid, place.descriptor);
    // Anything may have this number after the file was closed, for example a pipe whose opening
    // would wait.
    let is_same = |ino: u64| ino == place.inode;
    if !is_same(std::fs::metadata(&path)?.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::options().read(true).write(true).open(path)?;
    if is_same(file.metadata()?.ino()) {
        Ok(file)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

//! The functions for systems without files in memory. Each of them fails.

use std::fs::File;
use std::io;

use super::Place;

/// A file, which no function returns.
pub type SharedFile = File;

/// Not supported on this system.
///
/// # Errors
///
/// Always `Unsupported`.
pub fn create(_: u64) -> io::Result<SharedFile> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported on this system.
///
/// # Errors
///
/// Always `Unsupported`.
pub fn len(_: &SharedFile) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported on this system.
///
/// # Errors
///
/// Always `Unsupported`.
pub(in crate::memory) fn write_at(_: &SharedFile, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported on this system.
///
/// # Errors
///
/// Always `Unsupported`.
pub(super) fn read_at(_: &SharedFile, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported on this system.
///
/// # Errors
///
/// Always `Unsupported`.
pub fn place(_: &SharedFile) -> io::Result<Place> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported on this system.
///
/// # Errors
///
/// Always `Unsupported`.
pub fn open(_: Place) -> io::Result<SharedFile> {
    Err(io::ErrorKind::Unsupported.into())
}

//! Conversions between paths and bytes.

use std::path::{Path, PathBuf};

pub(super) fn to_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Returns the path with these bytes, or `None` if the system cannot represent it.
#[cfg(unix)]
pub(super) fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Returns the path with these bytes, or `None` if the system cannot represent it.
#[cfg(not(unix))]
pub(super) fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

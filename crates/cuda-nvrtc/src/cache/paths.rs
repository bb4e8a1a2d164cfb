//! Paths as bytes and back.

use std::path::{Path, PathBuf};

pub(super) fn to_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// The path of these bytes; `None` where the system has none.
#[cfg(unix)]
pub(super) fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// The path of these bytes; `None` where the system has none.
#[cfg(not(unix))]
pub(super) fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

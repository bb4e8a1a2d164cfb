//! The check of owners and permissions on Unix.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::Untrusted;
use crate::groups;

const WRITABLE_BY_OTHERS: u32 = 0o002;
const WRITABLE_BY_GROUP: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// The maximum number of links to follow, the same as in Linux.
const MOST_LINKS: usize = 40;

pub(super) fn effective_user() -> u32 {
    // SAFETY: the function has no requirements.
    unsafe { libc::geteuid() }
}

/// Creates one folder with access only for this user.
pub(super) fn create_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(dir)
}

/// Resolves the absolute `path` component by component, and checks each component before it looks
/// up the next. The last component may be a sticky folder.
pub(super) fn walk(path: &Path, users: &[u32]) -> Result<PathBuf, Untrusted> {
    let mut at = PathBuf::from("/");
    inspect(&at, users)?;
    let mut rest: VecDeque<OsString> = components(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            // All parents have been checked.
            at.pop();
            continue;
        }
        at.push(&name);
        let metadata = inspect(&at, users)?;
        if metadata.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(Untrusted::TooManyLinks {
                    path: at,
                    most: MOST_LINKS,
                });
            }
            let target = fs::read_link(&at).map_err(|error| Untrusted::io(&at, &error))?;
            at.pop();
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in components(&target).into_iter().rev() {
                rest.push_front(name);
            }
        } else if !metadata.is_dir() && !rest.is_empty() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(Untrusted::io(&at, &error));
        }
    }
    Ok(at)
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::ParentDir => Some(OsStr::new("..")),
            _ => None,
        })
        .map(OsStr::to_owned)
        .collect()
}

fn inspect(path: &Path, users: &[u32]) -> Result<Metadata, Untrusted> {
    let metadata = path
        .symlink_metadata()
        .map_err(|error| Untrusted::io(path, &error))?;
    check(path, &metadata, users, true)?;
    Ok(metadata)
}

/// Returns whether users other than the owner cannot enter the folder `dir`.
pub(super) fn is_closed(dir: &Path) -> Result<bool, Untrusted> {
    const ENTERED_BY_OTHERS: u32 = 0o011;
    let metadata = dir
        .symlink_metadata()
        .map_err(|error| Untrusted::io(dir, &error))?;
    Ok(metadata.mode() & ENTERED_BY_OTHERS == 0)
}

pub(super) fn check_owner(
    path: &Path,
    metadata: &Metadata,
    users: &[u32],
) -> Result<(), Untrusted> {
    let owner = metadata.uid();
    if owner == 0 || users.contains(&owner) {
        return Ok(());
    }
    Err(Untrusted::OtherOwner {
        path: path.to_owned(),
        owner,
    })
}

/// Checks one file, folder or link. Whether other users can replace it depends on its parent
/// folder, which is checked separately.
pub(super) fn check(
    path: &Path,
    metadata: &Metadata,
    users: &[u32],
    may_be_sticky: bool,
) -> Result<(), Untrusted> {
    check_owner(path, metadata, users)?;
    let (group, mode) = (metadata.gid(), metadata.mode() & 0o7777);
    // A link has no permissions of its own.
    if metadata.is_symlink() || may_be_sticky && metadata.is_dir() && mode & STICKY != 0 {
        return Ok(());
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(Untrusted::WritableByOthers {
            path: path.to_owned(),
            mode,
        });
    }
    if mode & WRITABLE_BY_GROUP == 0 {
        return Ok(());
    }
    // With an access control list, this bit is the union of the list's grants.
    if has_access_list(path) {
        return Err(Untrusted::AccessList {
            path: path.to_owned(),
        });
    }
    if !groups::is_private(group, users) {
        return Err(Untrusted::WritableByGroup {
            path: path.to_owned(),
            mode,
            group,
        });
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn has_access_list(path: &Path) -> bool {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::ptr;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return true;
    };
    // SAFETY: both strings must be NUL-terminated, and the buffer must have the given size ← both
    // are C strings, and nothing is written to a buffer of size 0.
    let size = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"system.posix_acl_access".as_ptr(),
            ptr::null_mut(),
            0,
        )
    };
    size > 0
}

#[cfg(not(target_os = "linux"))]
fn has_access_list(_path: &Path) -> bool {
    false
}

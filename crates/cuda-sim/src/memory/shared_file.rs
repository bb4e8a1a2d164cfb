//! Files in memory (`memfd`), through which processes share memory. Only Linux has them here.
//!
//! The last page of a file describes it with a [`Tag`], so that a process that receives the file
//! knows what it holds.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use super::reservation::Reservation;

/// The granularity of parts of files that are mapped.
pub const PAGE: u64 = 4096;

/// The first bytes of a tag.
const MAGIC: u64 = u64::from_le_bytes(*b"cuda-sim");

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// A number for the kind of the contents.
    pub kind: u64,
    /// The number of bytes before the tag.
    pub size: u64,
    /// Further values, whose meaning depends on the kind.
    pub values: [u64; 3],
}

/// A file and the process that has it open: enough for another process to open it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub pid: u32,
    /// The number of its descriptor.
    pub descriptor: u32,
    /// The number of the file, which is unique while the file exists.
    pub inode: u64,
}

/// Creates a file of `size` zero bytes, followed by a page for the tag.
///
/// # Errors
///
/// The operating system's error; `Unsupported` on systems other than Linux.
#[cfg(target_os = "linux")]
pub fn create(size: u64) -> io::Result<File> {
    use std::os::fd::FromRawFd;
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

/// Writes the tag of a file.
///
/// # Errors
///
/// The operating system's error.
#[cfg(target_os = "linux")]
pub fn set_tag(file: &File, tag: Tag) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let [one, two, three] = tag.values;
    let words = [MAGIC, tag.kind, tag.size, one, two, three];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    file.write_all_at(&bytes, tag.size)
}

/// Reads the tag of a file.
///
/// # Errors
///
/// The operating system's error; `InvalidData` if the file has no tag.
#[cfg(target_os = "linux")]
pub fn tag(file: &File) -> io::Result<Tag> {
    use std::os::unix::fs::FileExt;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let size = file.metadata()?.len().checked_sub(PAGE);
    let size = size.ok_or_else(invalid)?;
    let mut words = [[0; 8]; 6];
    file.read_exact_at(words.as_flattened_mut(), size)?;
    let [magic, kind, len, one, two, three] = words.map(u64::from_le_bytes);
    if magic != MAGIC || len != size {
        return Err(invalid());
    }
    Ok(Tag {
        kind,
        size,
        values: [one, two, three],
    })
}

/// Returns where another process can open the file.
///
/// # Errors
///
/// The operating system's error.
#[cfg(target_os = "linux")]
pub fn place(file: &File) -> io::Result<Place> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
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
#[cfg(target_os = "linux")]
pub fn open(place: Place) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;
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

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use std::fs::File;
    use std::io;

    use super::{Place, Tag};

    /// Not supported on this system.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn create(_: u64) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported on this system.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn set_tag(_: &File, _: Tag) -> io::Result<()> {
        let _ = super::MAGIC;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported on this system.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn tag(_: &File) -> io::Result<Tag> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported on this system.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn place(_: &File) -> io::Result<Place> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported on this system.
    ///
    /// # Errors
    ///
    /// Always `Unsupported`.
    pub fn open(_: Place) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(target_os = "linux"))]
pub use unsupported::{create, open, place, set_tag, tag};

/// One page of a file, as words that several processes read and write.
#[derive(Debug)]
pub struct SharedPage(Reservation);

impl SharedPage {
    /// The number of words of a page.
    pub const WORDS: usize = PAGE as usize / 8;

    /// Maps the page at `offset`.
    ///
    /// # Errors
    ///
    /// The operating system's error; `InvalidInput` if the file ends before the page does.
    pub fn map(file: &File, offset: u64) -> io::Result<Self> {
        let end = offset.checked_add(PAGE);
        if end.is_none_or(|end| file.metadata().is_ok_and(|data| data.len() < end)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Reservation::of_file(file, offset, PAGE as usize).map(Self)
    }

    /// The word with the number `index`, modulo the number of words.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        let place = self.0.base().wrapping_add(index % Self::WORDS * 8);
        // SAFETY: 8 aligned bytes at `place` must be valid as long as the reference, and accessed
        // atomically ← the page is mapped until `self` is dropped, the index is within the page,
        // and every process accesses it through this type.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{PAGE, Place, SharedPage, Tag, create, open, place, set_tag, tag};

    #[test]
    fn file_keeps_its_tag_and_its_place() {
        let file = create(3 * PAGE).unwrap();
        assert!(tag(&file).is_err(), "it has no tag yet");
        let wanted = Tag {
            kind: 7,
            size: 3 * PAGE,
            values: [1, 2, u64::MAX],
        };
        set_tag(&file, wanted).unwrap();
        let found = place(&file).unwrap();
        let again = open(found).unwrap();
        assert_eq!(tag(&again).unwrap(), wanted);
        let other = Place {
            inode: found.inode + 1,
            ..found
        };
        assert!(open(other).is_err(), "another file");

        let (one, two) = (SharedPage::map(&file, PAGE), SharedPage::map(&again, PAGE));
        one.unwrap().word(5).store(11, Ordering::Release);
        assert_eq!(two.unwrap().word(5).load(Ordering::Acquire), 11);
        assert!(SharedPage::map(&file, 4 * PAGE).is_err(), "past the end");
    }
}

//! Files in memory, through which processes share memory: `memfd` on Linux, sections of the paging
//! file on Windows. Other systems do not have them here.
//!
//! The last page of a file describes it with a [`Tag`], so that a process that receives the file
//! knows what it holds.

use std::io;
use std::sync::atomic::AtomicU64;

use super::reservation::Reservation;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "unsupported.rs"]
mod system;

use system::read_at;
pub(super) use system::write_at;
pub use system::{SharedFile, create, len, open, place};

/// Whether this operating system has such files.
pub const EXISTS: bool = cfg!(any(target_os = "linux", windows));

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
    pub values: [u64; 4],
}

/// A file and the process that has it open: enough for another process to open it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub pid: u32,
    /// The number of its descriptor or handle.
    pub descriptor: u32,
    /// The number of the file, which is unique while the file exists.
    pub inode: u64,
}

/// Writes the tag of a file.
///
/// # Errors
///
/// The operating system's error.
pub fn set_tag(file: &SharedFile, tag: Tag) -> io::Result<()> {
    let [one, two, three, four] = tag.values;
    let words = [MAGIC, tag.kind, tag.size, one, two, three, four];
    write_at(file, words.map(u64::to_le_bytes).as_flattened(), tag.size)
}

/// Reads the tag of a file.
///
/// # Errors
///
/// The operating system's error; `InvalidData` if the file has no tag.
pub fn tag(file: &SharedFile) -> io::Result<Tag> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let size = len(file)?.checked_sub(PAGE).ok_or_else(invalid)?;
    let mut words = [[0; 8]; 7];
    read_at(file, words.as_flattened_mut(), size)?;
    let [magic, kind, len, values @ ..] = words.map(u64::from_le_bytes);
    if magic != MAGIC || len != size {
        return Err(invalid());
    }
    Ok(Tag { kind, size, values })
}

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
    pub fn map(file: &SharedFile, offset: u64) -> io::Result<Self> {
        let end = offset.checked_add(PAGE);
        if end.is_none_or(|end| len(file).is_ok_and(|len| len < end)) {
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

#[cfg(all(test, any(target_os = "linux", windows)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{PAGE, Place, SharedPage, Tag, create, len, open, place, set_tag, tag};

    #[test]
    fn file_keeps_its_tag_and_its_place() {
        let file = create(3 * PAGE).unwrap();
        assert!(tag(&file).is_err(), "it has no tag yet");
        assert_eq!(len(&file).unwrap(), 4 * PAGE);
        let wanted = Tag {
            kind: 7,
            size: 3 * PAGE,
            values: [1, 2, u64::MAX, 4],
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

//! Detection of changed files without reading them again.
//!
//! A stamp is a file's metadata: device, inode, size, and the times of the last change of its
//! content and of its inode. The last of these (`ctime`) cannot be set back by `touch`, `cp -p`,
//! `rsync -t` or an archive, and a file that is moved into place has a different inode. The
//! remaining gap is the resolution of the clock: two writes within one tick, which is up to 2 s on
//! some file systems, leave equal stamps. A stamp is therefore stored only if its times were more
//! than 2 s in the past when the reading began, so that any later write gets another time.
//! Otherwise, and on systems without such stamps (Windows), the content is read and compared.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

/// The coarsest time resolution of a file system: FAT's.
const GRAIN: Duration = Duration::from_secs(2);

/// The longest tick of a kernel's clock, with a margin.
const TICK: Duration = Duration::from_millis(20);

/// The metadata of a file that changes when the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) [u64; Stamp::LEN]);

impl Stamp {
    pub(super) const LEN: usize = 7;

    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self([
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime().cast_unsigned(),
            metadata.mtime_nsec().cast_unsigned(),
            metadata.ctime().cast_unsigned(),
            metadata.ctime_nsec().cast_unsigned(),
        ]))
    }

    #[cfg(not(unix))]
    pub(super) fn of(_metadata: &Metadata) -> Option<Self> {
        None
    }

    /// Returns whether any later write gives a different stamp.
    pub(super) fn is_settled(&self) -> bool {
        self.age() > GRAIN
    }

    /// Returns the time since the last change; zero if that is in the future.
    fn age(&self) -> Duration {
        let Self([_, _, _, seconds, nanos, inode_seconds, inode_nanos]) = *self;
        let last = (seconds.cast_signed(), nanos).max((inode_seconds.cast_signed(), inode_nanos));
        let Ok(seconds) = u64::try_from(last.0) else {
            return Duration::MAX;
        };
        let last = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds) + Duration::from_nanos(last.1));
        last.and_then(|last| SystemTime::now().duration_since(last).ok())
            .unwrap_or_default()
    }
}

/// A BLAKE3 digest.
pub(super) type Digest = [u8; 32];

pub(super) fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// The recorded state of a file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// The stamp, if an equal stamp implies equal content.
    pub(super) stamp: Option<Stamp>,
}

impl Seen {
    /// Returns whether the file at `path` has the same content. With `always`, the stamp is
    /// ignored.
    pub(super) fn is_current(&self, path: &Path, always: bool) -> bool {
        let Ok(metadata) = path.metadata() else {
            return false;
        };
        if !metadata.is_file() || metadata.len() != self.size {
            return false;
        }
        if !always && self.stamp.is_some() && self.stamp == Stamp::of(&metadata) {
            return true;
        }
        std::fs::read(path).is_ok_and(|bytes| digest(&bytes) == self.digest)
    }
}

/// The content of a file, with the data to detect later changes.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) bytes: Vec<u8>,
    pub(super) seen: Seen,
    /// The stamp at the time of reading. On systems with short ticks, a later change alters it even
    /// within [`GRAIN`].
    pub(super) now: Option<Stamp>,
}

/// Reads a file. If it was written within the last tick, waits until the clock has advanced, so
/// that any later write gives a different stamp.
pub(super) fn read(path: &Path) -> io::Result<Reading> {
    let mut file = File::open(path)?;
    for _ in 0..3 {
        let before = Stamp::of(&file.metadata()?);
        let age = before.map(|stamp| stamp.age());
        if let Some(young) = age.filter(|&age| age < TICK) {
            thread::sleep(TICK - young);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let metadata = file.metadata()?;
        if Stamp::of(&metadata) == before && metadata.len() == bytes.len() as u64 {
            let seen = Seen {
                digest: digest(&bytes),
                size: metadata.len(),
                stamp: before.filter(|_| age.is_some_and(|age| age > GRAIN)),
            };
            return Ok(Reading {
                bytes,
                seen,
                now: before,
            });
        }
        // The file was written while it was being read.
        file = File::open(path)?;
    }
    Err(io::Error::other("the file keeps changing"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::{GRAIN, Seen, Stamp, read};

    #[test]
    fn a_fresh_file_has_no_stamp_to_trust() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.h");
        fs::write(&path, "one").unwrap();
        let seen = read(&path).unwrap().seen;
        assert_eq!(seen.stamp, None);
        assert!(seen.is_current(&path, false));
        // Same size, same times.
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
        assert!(!seen.is_current(&path, false));
    }

    #[test]
    fn a_clock_that_is_set_back_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.h");
        fs::write(&path, "one").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        // Simulates a file that was read long after it was written.
        let seen = Seen {
            stamp: Stamp::of(&metadata),
            ..read(&path).unwrap().seen
        };
        std::thread::sleep(Duration::from_millis(30));
        fs::write(&path, "two").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(metadata.modified().unwrap()).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().modified().unwrap(),
            metadata.modified().unwrap()
        );
        assert!(!seen.is_current(&path, false));
    }

    #[test]
    fn old_files_have_a_stamp() {
        let path = std::env::current_exe().unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let stamp = Stamp::of(&metadata).unwrap();
        let age = SystemTime::now().duration_since(metadata.modified().unwrap());
        if age.is_ok_and(|age| age > GRAIN + Duration::from_secs(1)) && stamp.age() > GRAIN {
            assert_eq!(read(&path).unwrap().seen.stamp, Some(stamp));
        }
    }
}

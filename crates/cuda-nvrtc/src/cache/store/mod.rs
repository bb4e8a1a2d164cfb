//! The folder of entries on disk: atomic reads and writes, locks, usage and eviction.
//!
//! ```text
//! entries/<key>      an entry; its time of modification is that of its last use
//! entries/.<unique>  an entry that is being written
//! locks/<key>        held while the entry is made
//! compilers/<key>    the digest of a library of NVRTC
//! ```

use std::fs::{self, DirEntry, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use cuda_places::Trust;

use super::stamp::Digest;

/// The age at which an unfinished file is assumed to be abandoned.
const STALE: Duration = Duration::from_secs(3600);

/// A kind of file, each of which has its own folder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Entry,
    Compiler,
    Lock,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Entry => "entries",
            Self::Compiler => "compilers",
            Self::Lock => "locks",
        }
    }
}

/// The folder of a cache.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens the folder, and creates it if `create` is set. No other user can write to it.
    pub(super) fn open(dir: &Path, create: bool) -> Result<Self, String> {
        let trust = Trust::of_this_user();
        let resolve = |dir: &Path| {
            if create {
                trust.create_dir(dir)
            } else {
                trust.resolve_dir(dir)
            }
        };
        let dir = resolve(dir).map_err(|error| error.to_string())?;
        for kind in [Kind::Entry, Kind::Compiler, Kind::Lock] {
            let folder = dir.join(kind.folder());
            match resolve(&folder) {
                Ok(real) if real == folder => {}
                Ok(_) => return Err(format!("{} is a symbolic link", folder.display())),
                Err(error) if error.is_absent() && !create => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let store = Self { dir };
        if create {
            store.sweep();
        }
        Ok(store)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, kind: Kind, key: &Digest) -> PathBuf {
        let name = blake3::Hash::from_bytes(*key).to_hex();
        self.dir.join(kind.folder()).join(name.as_str())
    }

    /// Returns the bytes stored for a key. `touch` marks the entry as used.
    pub(super) fn read(&self, kind: Kind, key: &Digest, touch: bool) -> Option<Vec<u8>> {
        let mut file = File::open(self.path(kind, key)).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        if touch {
            // If this fails, the entry is merely evicted sooner.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Stores bytes for a key. They are written to a temporary file, synced to disk and then
    /// renamed, which replaces any previous file. A reader therefore sees all of the old or all of
    /// the new bytes, even after a crash.
    pub(super) fn write(&self, kind: Kind, key: &Digest, bytes: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(kind, key);
        let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let unique = format!(
            ".{}-{}-{}",
            process::id(),
            time.as_nanos(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let temporary = path.with_file_name(unique);
        let written = File::create_new(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            drop(file);
            fs::rename(&temporary, &path)
        });
        if written.is_err() {
            // The file may not exist. A leftover file is removed later by `sweep`.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Takes the lock of a key, so that only one thread of one process creates its entry. Returns
    /// `None` on file systems without locks; several threads may then create the entry, each
    /// atomically. If `give_up` is given, it is called repeatedly while waiting.
    ///
    /// The system releases the locks of a process that ends for any reason.
    pub(super) fn lock<E>(
        &self,
        key: &Digest,
        give_up: Option<&dyn Fn() -> Option<E>>,
    ) -> Result<Option<Lock>, E> {
        let path = self.path(Kind::Lock, key);
        loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path);
            let Ok(file) = file else {
                return Ok(None);
            };
            let locked = match give_up {
                None => file.lock().is_ok(),
                Some(give_up) => wait(&file, give_up)?,
            };
            if !locked {
                return Ok(None);
            }
            // The previous owner removed the file. A lock on a removed file excludes no other
            // thread or process.
            if is_at(&file, &path) {
                return Ok(Some(Lock { file, path }));
            }
        }
    }

    /// Evicts the least recently used entries until the rest has at most `limit` bytes. Returns the
    /// number of evicted entries.
    pub(super) fn evict(&self, limit: u64) -> u64 {
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = self
            .files(Kind::Entry)
            .filter_map(|(entry, metadata)| {
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        if total <= limit {
            return 0;
        }
        entries.sort();
        let mut evicted = 0;
        for (_, size, path) in entries {
            if total <= limit {
                break;
            }
            // Another process may have removed the file already.
            if fs::remove_file(path).is_ok() {
                evicted += 1;
            }
            total -= size;
        }
        evicted
    }

    /// Returns the number of entries and their total size in bytes.
    pub(super) fn usage(&self) -> (u64, u64) {
        let sizes = self.files(Kind::Entry).map(|(_, metadata)| metadata.len());
        sizes.fold((0, 0), |(count, total), size| (count + 1, total + size))
    }

    /// Removes every entry.
    pub(super) fn clear(&self) -> io::Result<()> {
        for kind in [Kind::Entry, Kind::Compiler] {
            for (entry, _) in self.files(kind) {
                match fs::remove_file(entry.path()) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Removes unfinished files of processes that died.
    fn sweep(&self) {
        let old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > STALE);
        for kind in [Kind::Entry, Kind::Compiler] {
            for entry in self.list(kind).filter(is_unfinished) {
                let time = entry.metadata().and_then(|metadata| metadata.modified());
                if time.is_ok_and(old) {
                    // Another process may have removed the file already.
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }

    /// Returns the finished files.
    fn files(&self, kind: Kind) -> impl Iterator<Item = (DirEntry, fs::Metadata)> {
        self.list(kind)
            .filter(|entry| !is_unfinished(entry))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                metadata.is_file().then_some((entry, metadata))
            })
    }

    fn list(&self, kind: Kind) -> impl Iterator<Item = DirEntry> + use<> {
        let entries = fs::read_dir(self.dir.join(kind.folder()));
        entries.into_iter().flatten().flatten()
    }
}

fn is_unfinished(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// Waits for the lock of `file` until `give_up` returns an error. Returns whether it was taken.
fn wait<E>(file: &File, give_up: &dyn Fn() -> Option<E>) -> Result<bool, E> {
    let mut pause = Duration::from_millis(1);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return Ok(false),
        }
        if let Some(error) = give_up() {
            return Err(error);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// A held lock. Its file is removed before the lock is released, so that a waiting process that
/// then takes the lock of the removed file notices it.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Other systems cannot detect that the file of a lock was removed, so the file stays.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Returns whether `path` refers to `file`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(file), Ok(named)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (file.dev(), file.ino()) == (named.dev(), named.ino())
}

/// Returns whether `path` refers to `file`. On this system an open file keeps its name.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests;

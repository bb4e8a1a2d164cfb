//! The identity of the compiler: the content of its files, not only its version.
//!
//! Builds of one version differ, and no function of NVRTC distinguishes them. The files are large
//! (150 MB), so their digests are cached: in the process by library, and on disk by the stamp of
//! the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;

use super::Refusal;
use super::entry;
use super::key::Key;
use super::paths;
use super::stamp::{Digest, Stamp};
use super::store::{Kind, Store};
use crate::Nvrtc;
use crate::lock::lock;

/// A loaded compiler.
#[derive(Clone, Debug)]
pub(super) struct Compiler {
    pub(super) digest: Digest,
    /// The digest of the second file of NVRTC, the built-in functions.
    builtins: Digest,
}

impl Compiler {
    /// Returns the identity of `nvrtc`. Digests that take long to compute are cached in `store`.
    pub(super) fn of(nvrtc: &Nvrtc, store: &Store, write: bool) -> Result<Self, Refusal> {
        static KNOWN: Mutex<BTreeMap<usize, Compiler>> = Mutex::new(BTreeMap::new());
        let address = address(nvrtc).ok_or(Refusal::Compiler)?;
        // The lock is held while the files are read, so that other threads wait instead of reading
        // them too.
        let mut known = lock(&KNOWN);
        if let Some(compiler) = known.get(&address) {
            return Ok(compiler.clone());
        }
        let compiler = Self::find(nvrtc, address, store, write)?;
        known.insert(address, compiler.clone());
        Ok(compiler)
    }

    fn find(nvrtc: &Nvrtc, address: usize, store: &Store, write: bool) -> Result<Self, Refusal> {
        let library = files::library(nvrtc, address).ok_or(Refusal::Compiler)?;
        let read = |path: &Path| digest(path, store, write).map_err(|_| Refusal::Compiler);
        let builtins = match loaded_builtins(nvrtc, store, write)? {
            Some(loaded) => loaded,
            // NVRTC loads the built-in functions from its own folder when it first compiles.
            None => read(&library.with_file_name(files::builtins_name(nvrtc)))?,
        };
        let mut key = Key::new();
        key.field("version", nvrtc.version().to_string().as_bytes());
        key.field("library", &read(&library)?);
        key.field("builtins", &builtins);
        Ok(Self {
            digest: key.finish(),
            builtins,
        })
    }

    /// Returns whether the files that NVRTC loaded for the compilation are the files that were
    /// digested.
    pub(super) fn is_in_use(&self, nvrtc: &Nvrtc, store: &Store) -> bool {
        let loaded = loaded_builtins(nvrtc, store, true);
        loaded.is_ok_and(|loaded| loaded.is_none_or(|loaded| loaded == self.builtins))
    }
}

/// Returns the digest of the loaded built-in functions. If the process has loaded two files of one
/// version, NVRTC uses the one that was loaded first, which cannot be determined; so both must have
/// the same content.
fn loaded_builtins(nvrtc: &Nvrtc, store: &Store, write: bool) -> Result<Option<Digest>, Refusal> {
    let mut digests = BTreeSet::new();
    for path in files::builtins(nvrtc) {
        digests.insert(digest(&path, store, write).map_err(|_| Refusal::Compiler)?);
    }
    match digests.len() {
        0 | 1 => Ok(digests.pop_first()),
        _ => Err(Refusal::Compiler),
    }
}

/// Returns an address within the library.
fn address(nvrtc: &Nvrtc) -> Option<usize> {
    nvrtc.table().nvrtcVersion.map(|function| function as usize)
}

/// Returns the digest of the file at `path`, from `store` if it has one for the file's stamp.
fn digest(path: &Path, store: &Store, write: bool) -> io::Result<Digest> {
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    let Some(stamp) = stamp else {
        return hash(file);
    };
    let key = file_key(path, &stamp);
    let known = || {
        let bytes = store.read(Kind::Compiler, &key, false)?;
        entry::unseal(&key, &bytes)?.try_into().ok()
    };
    if let Some(digest) = known() {
        return Ok(digest);
    }
    if !write {
        return hash(file);
    }
    // The lock is not waited for, because its owner may be suspended. Two processes may read the
    // file at the same time without harm.
    let at_once = || Some(());
    let _lock = store.lock(&key, Some(&at_once as &dyn Fn() -> Option<()>));
    if let Some(digest) = known() {
        return Ok(digest);
    }
    let settled = stamp.is_settled();
    let digest = hash(file)?;
    if settled && Stamp::of(&fs::metadata(path)?) == Some(stamp) {
        // If the digest cannot be stored, the next process reads the file again.
        let _ = store.write(Kind::Compiler, &key, &entry::seal(&key, &digest));
    }
    Ok(digest)
}

/// Returns the key under which the digest of a file with this stamp is stored.
fn file_key(path: &Path, stamp: &Stamp) -> Digest {
    let mut key = Key::new();
    key.field("path", paths::to_bytes(path));
    for number in stamp.0 {
        key.field("stamp", &number.to_le_bytes());
    }
    key.finish()
}

fn hash(mut file: File) -> io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(*hasher.finalize().as_bytes()),
            Ok(length) => {
                hasher.update(&buffer[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(target_os = "linux")]
mod files {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::super::paths;
    use crate::Nvrtc;

    /// Returns the file that is loaded at `address`; `None` if the file was deleted, because its
    /// path may then refer to a different file.
    pub(super) fn library(_nvrtc: &Nvrtc, address: usize) -> Option<PathBuf> {
        mappings()
            .into_iter()
            .find(|mapping| mapping.start <= address && address < mapping.end)
            .map(|mapping| mapping.path)
    }

    /// Returns the loaded files of built-in functions.
    pub(super) fn builtins(nvrtc: &Nvrtc) -> BTreeSet<PathBuf> {
        let name = builtins_name(nvrtc);
        let mut paths: BTreeSet<PathBuf> = mappings().into_iter().map(|one| one.path).collect();
        paths.retain(|path| {
            let found = path.file_name().map(|name| name.as_encoded_bytes());
            found.is_some_and(|found| found.starts_with(name.as_bytes()))
        });
        paths
    }

    pub(super) fn builtins_name(nvrtc: &Nvrtc) -> String {
        format!("libnvrtc-builtins.so.{}", nvrtc.version())
    }

    struct Mapping {
        start: usize,
        end: usize,
        /// The path. The kernel appends ` (deleted)` if the file was deleted, so that it refers to
        /// no file.
        path: PathBuf,
    }

    fn mappings() -> Vec<Mapping> {
        let text = fs::read("/proc/self/maps").unwrap_or_default();
        text.split(|&byte| byte == b'\n')
            .filter_map(mapping)
            .collect()
    }

    /// Parses a line such as `7f00-7f01 r-xp 00000000 08:01 123   /path`.
    fn mapping(line: &[u8]) -> Option<Mapping> {
        let path = line.iter().position(|&byte| byte == b'/')?;
        let range = line.split(|&byte| byte == b' ').next()?;
        let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
        Some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            path: paths::from_bytes(&line[path..])?,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod files {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use crate::Nvrtc;

    /// Returns the loaded file, if it was given as an absolute path.
    pub(super) fn library(nvrtc: &Nvrtc, _address: usize) -> Option<PathBuf> {
        Some(PathBuf::from(nvrtc.origin())).filter(|path| path.is_absolute())
    }

    /// Returns nothing, because the loaded files cannot be listed on this system.
    pub(super) fn builtins(_nvrtc: &Nvrtc) -> BTreeSet<PathBuf> {
        BTreeSet::new()
    }

    pub(super) fn builtins_name(nvrtc: &Nvrtc) -> String {
        let version = nvrtc.version();
        format!(
            "nvrtc-builtins64_{}{}.dll",
            version.major(),
            version.minor()
        )
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::convert::Infallible;
    use std::fs;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::super::stamp::{self, Stamp};
    use super::super::store::Store;
    use super::{digest, file_key};

    #[test]
    fn stopped_reader_of_compiler_does_not_block_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("cache"), true).unwrap();
        let path = dir.path().join("compiler");
        fs::write(&path, "code").unwrap();
        let stamp = Stamp::of(&fs::metadata(&path).unwrap()).unwrap();
        let patient: Option<&dyn Fn() -> Option<Infallible>> = None;
        let held = store.lock(&file_key(&path, &stamp), patient);
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || sender.send(digest(&path, &store, true).unwrap()));
        let found = receiver.recv_timeout(Duration::from_secs(30));
        assert_eq!(found, Ok(stamp::digest(b"code")));
        drop(held);
        thread.join().unwrap().unwrap();
    }
}

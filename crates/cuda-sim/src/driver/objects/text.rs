//! The folder of PTX texts (`CUDA_SIM_PTX`), in which a tool finds the modules that a program
//! loads.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::{env, fs, io, process};

use crate::lock::lock;

/// The environment variable with the path of a folder that receives the PTX texts of a process.
const FOLDER_VARIABLE: &str = "CUDA_SIM_PTX";

/// The hash of a PTX text, by which the log of launches names it: 64-bit FNV-1a, which is the same
/// in all versions and on all systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::driver) struct TextHash(u64);

impl TextHash {
    pub(in crate::driver) fn of(text: &str) -> Self {
        let bytes = text.as_bytes().iter();
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

impl std::fmt::Display for TextHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The folder, and the texts that this process has written to it, or failed to write.
struct Folder {
    path: PathBuf,
    known: Mutex<HashSet<TextHash>>,
}

/// Writes a PTX text of a loaded module to the folder that `CUDA_SIM_PTX` names, if it is set, as
/// `<hash>.ptx`. An error is printed to stderr, because loading must not fail because of the
/// folder.
pub(in crate::driver) fn write_text(hash: TextHash, text: &str) {
    static FOLDER: OnceLock<Option<Folder>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let path = PathBuf::from(env::var_os(FOLDER_VARIABLE).filter(|path| !path.is_empty())?);
        // A relative path is resolved now, because the program may change its current folder.
        let created = fs::create_dir_all(&path).and_then(|()| std::path::absolute(&path));
        match created {
            Ok(path) => Some(Folder {
                path,
                known: Mutex::default(),
            }),
            Err(error) => {
                let path = path.display();
                eprintln!(
                    "cuda-sim: cannot create the folder {path}, which {FOLDER_VARIABLE} names: \
                     {error}"
                );
                None
            }
        }
    });
    let Some(folder) = folder else {
        return;
    };
    if !lock(&folder.known).insert(hash) {
        return;
    }
    let path = folder.path.join(format!("{hash}.ptx"));
    if let Err(error) = write_once(&path, text) {
        let path = path.display();
        eprintln!("cuda-sim: cannot write {path} to the folder of {FOLDER_VARIABLE}: {error}");
    }
}

/// Writes a file unless it exists. Other processes see it with all of its text only.
fn write_once(path: &Path, text: &str) -> io::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let new = path.with_extension(format!("{}.new", process::id()));
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .inspect_err(|_| {
            // The first error is the one to report.
            let _ = fs::remove_file(&new);
        })
}

#[cfg(test)]
mod tests {
    use super::TextHash;

    /// The values are those of the description of FNV.
    #[test]
    fn hashes_are_fnv_1a() {
        for (text, hash) in [
            ("", "cbf29ce484222325"),
            ("a", "af63dc4c8601ec8c"),
            ("foobar", "85944171f73967e8"),
        ] {
            assert_eq!(TextHash::of(text).to_string(), hash);
        }
    }
}

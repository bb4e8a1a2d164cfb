//! The NVRTC libraries that are available on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cuda_nvrtc::Nvrtc;

/// The NVRTC that a program would load. Without one, prints what is skipped, and fails if NVRTC is
/// required.
#[track_caller]
pub(crate) fn nvrtc() -> Option<Nvrtc> {
    test_needs::found("NVRTC", Nvrtc::load())
}

/// Every available NVRTC: the one that a program would load, and those below
/// `target/cuda-setup/nvrtc`, or below the folder that `CUDA_TEST_NVRTC_DIR` names, each in
/// `<version>/lib`; no others if that variable is empty.
pub(crate) fn every_nvrtc() -> Vec<Nvrtc> {
    static EVERY: OnceLock<Vec<Nvrtc>> = OnceLock::new();
    let every = EVERY.get_or_init(|| {
        let mut every: Vec<Nvrtc> = nvrtc().into_iter().collect();
        let dir = env::var_os("CUDA_TEST_NVRTC_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-setup/nvrtc"),
            PathBuf::from,
        );
        if dir.as_os_str().is_empty() {
            return every;
        }
        let Ok(entries) = fs::read_dir(&dir) else {
            eprintln!(
                "testing with only one NVRTC: {} does not exist",
                dir.display()
            );
            return every;
        };
        let mut libs: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path().join("lib"))
            .collect();
        libs.sort();
        for lib in libs {
            let path = library_in(&lib);
            // SAFETY: the file must be NVRTC ← the place and the name of the file say so.
            let nvrtc = unsafe { Nvrtc::open(&path) };
            let nvrtc = nvrtc.unwrap_or_else(|error| panic!("{error}"));
            // The NVRTC that a program loads may be in this folder as well.
            if every.iter().all(|other| other.version() != nvrtc.version()) {
                every.push(nvrtc);
            }
        }
        every
    });
    every.clone()
}

/// The NVRTC library in a folder, as opposed to the library of its built-in functions.
fn library_in(lib: &Path) -> PathBuf {
    let entries = fs::read_dir(lib).into_iter().flatten().flatten();
    let mut files = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("libnvrtc.so.") || (name.starts_with("nvrtc64_") && !name.contains("alt"))
    });
    let found = files.next();
    found
        .unwrap_or_else(|| panic!("no NVRTC in {}", lib.display()))
        .path()
}

/// The number of repetitions: `full` with `CUDA_FULL=1`, else `daily`. Prints the number.
pub(crate) fn scaled(what: &str, full: usize, daily: usize) -> usize {
    let is_full = env::var_os("CUDA_FULL").is_some_and(|value| value == "1");
    let number = if is_full { full } else { daily };
    println!("{number} of {full} {what}");
    number
}

//! The NVRTCs that this machine has.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cuda_nvrtc::Nvrtc;

/// The NVRTC that a program would load. Without one, says what is skipped; with `CUDA_TEST_REQUIRE_NVRTC=1` or
/// `CUDA_TEST_REQUIRE=1`, fails.
pub(crate) fn nvrtc() -> Option<Nvrtc> {
    match Nvrtc::load() {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) => {
            let required = ["CUDA_TEST_REQUIRE_NVRTC", "CUDA_TEST_REQUIRE"]
                .iter()
                .any(|name| env::var_os(name).is_some_and(|value| value == "1"));
            assert!(!required, "NVRTC is required, but {error}");
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            eprintln!("skipped {test}: no NVRTC");
            None
        }
    }
}

/// That one and every other that is at hand: those below `target/cuda-setup/nvrtc`, or the folder that
/// `CUDA_TEST_NVRTC_DIR` names, each in `<version>/lib`.
pub(crate) fn every_nvrtc() -> Vec<Nvrtc> {
    static EVERY: OnceLock<Vec<Nvrtc>> = OnceLock::new();
    let every = EVERY.get_or_init(|| {
        let mut every: Vec<Nvrtc> = nvrtc().into_iter().collect();
        let dir = env::var_os("CUDA_TEST_NVRTC_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-setup/nvrtc"),
            PathBuf::from,
        );
        let Ok(entries) = fs::read_dir(&dir) else {
            eprintln!("only one NVRTC is tried: {} does not exist", dir.display());
            return every;
        };
        let mut libs: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path().join("lib"))
            .collect();
        libs.sort();
        for lib in libs {
            let found = ["libnvrtc.so.12", "libnvrtc.so.13"]
                .iter()
                .map(|name| lib.join(name))
                .find(|path| path.is_file());
            let path = found.unwrap_or_else(|| panic!("no NVRTC in {}", lib.display()));
            // SAFETY: the file must be NVRTC ← whoever filled the folder says so by its place and name.
            let nvrtc = unsafe { Nvrtc::open(&path) };
            every.push(nvrtc.unwrap_or_else(|error| panic!("{error}")));
        }
        every
    });
    every.clone()
}

//! Loading: the errors when NVRTC is missing, or another file is in its place.

use std::env;
use std::path::Path;
use std::process::Command;

use cuda_nvrtc::{Error, LoadError, Nvrtc, Options, Program, Version};

use crate::at_hand::nvrtc;
use crate::process::run_ignored;

/// A shared library, built by the C compiler.
#[cfg(unix)]
pub(crate) fn library(dir: &Path, source: &str) -> std::path::PathBuf {
    let (c, library) = (dir.join("fake.c"), dir.join("libfake.so"));
    std::fs::write(&c, source).unwrap();
    let status = Command::new(env::var_os("CC").unwrap_or("cc".into()))
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &c])
        .status()
        .unwrap();
    assert!(status.success());
    library
}

fn open(path: &Path) -> Result<Nvrtc, Error> {
    // SAFETY: the initializers must be sound, and functions with NVRTC's names must behave as
    // NVRTC's ← the files of these tests are not libraries, or have harmless functions.
    unsafe { Nvrtc::open(path) }
}

#[test]
fn a_file_that_is_missing_or_no_library() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("libtext.so");
    std::fs::write(&text, "not a library").unwrap();
    for path in [dir.path().join("libmissing.so"), text] {
        let error = open(&path).unwrap_err();
        assert!(
            matches!(error, Error::Load(LoadError::NotFound { .. })),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_library_that_is_not_nvrtc() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(dir.path(), "int other(void) { return 0; }");
    let error = open(&path).unwrap_err();
    assert!(
        matches!(error, Error::Load(LoadError::NotTheLibrary { .. })),
        "{error:?}"
    );
    assert!(error.to_string().contains("nvrtcVersion"), "{error}");
}

#[cfg(unix)]
#[test]
fn an_nvrtc_that_is_too_old() {
    let dir = tempfile::tempdir().unwrap();
    let source = "int nvrtcVersion(int *major, int *minor) { *major = 11; *minor = 8; return 0; }";
    let error = open(&library(dir.path(), source)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("11.8") && text.contains("12.0"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_version_that_is_not_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = library(
        dir.path(),
        "int nvrtcVersion(int *major, int *minor) { return 11; }",
    );
    let text = open(&path).unwrap_err().to_string();
    assert!(
        text.contains("nvrtcVersion") && text.contains("11"),
        "{text}"
    );
}

/// The error for a missing function names the version that introduced it.
#[cfg(unix)]
#[test]
fn an_nvrtc_without_functions() {
    let dir = tempfile::tempdir().unwrap();
    let source = "int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 3; return 0; }\n\
                  int nvrtcGetNumSupportedArchs(int *count) { return 99; }\n\
                  int nvrtcGetSupportedArchs(int *archs) { return 0; }\n";
    let nvrtc = open(&library(dir.path(), source)).unwrap();
    assert_eq!(nvrtc.version(), Version::new(12030));
    let error = Program::new(&nvrtc, "")
        .compile_ptx(&Options::new())
        .unwrap_err();
    assert!(matches!(error, Error::MissingFunction { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("nvrtcGetPTXSize requires NVRTC 12.0"),
        "{error}"
    );
    let error = Program::new(&nvrtc, "")
        .compile_tile_ir(&Options::new())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "nvrtcGetTileIRSize requires NVRTC 13.2 or newer; the loaded version is 12.3"
    );
    // An unknown status is reported, not trusted.
    let error = nvrtc.supported_archs().unwrap_err();
    assert!(error.to_string().contains("status 99"), "{error}");
}

/// The error of [`Nvrtc::load`] when `CUDA_NVRTC_LIBRARY` does not name an NVRTC. Runs in a new
/// process, because a process searches for the library once.
#[test]
fn the_search_lists_what_it_tried() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("libgone.so");
    let text = run_ignored("library::load_and_print", |command| {
        command.env("CUDA_NVRTC_LIBRARY", &path);
    });
    assert!(text.contains("NVRTC could not be loaded; tried:"), "{text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("CUDA_NVRTC_LIBRARY is set to "), "{text}");
    assert!(text.contains("unset CUDA_NVRTC_LIBRARY"), "{text}");
}

#[test]
#[ignore = "run by the_search_lists_what_it_tried, in its own process"]
fn load_and_print() {
    match Nvrtc::load() {
        Ok(nvrtc) => println!("loaded {}", nvrtc.origin()),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn a_loaded_nvrtc_reports_version_and_path() {
    let Some(nvrtc) = nvrtc() else { return };
    assert!(nvrtc.version() >= Version::new(12000));
    assert!(nvrtc.origin().contains("nvrtc"), "{}", nvrtc.origin());
    let again = Nvrtc::load().unwrap();
    assert!(std::sync::Arc::ptr_eq(again.as_raw(), nvrtc.as_raw()));
}

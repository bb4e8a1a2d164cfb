//! The loader's behaviour without NVRTC, with files that are not NVRTC, and with an NVRTC that
//! lacks functions.

use std::fs;
use std::path::Path;

use cuda_sys::nvrtc::{FUNCTIONS, library_candidates, nvrtcResult};
use cuda_sys::{LoadError, NvrtcLibrary, Version};

use crate::c_compiler::shared_library;
use crate::loader::{child, child_in};

fn open(path: &Path) -> Result<NvrtcLibrary, LoadError> {
    // SAFETY: the file must be NVRTC ← it is missing, not a library, or compiled from this file's
    // C, which behaves as NVRTC.
    unsafe { NvrtcLibrary::open(path) }
}

fn version_function(body: &str) -> String {
    format!("int nvrtcVersion(int *major, int *minor) {{ {body} }}")
}

#[test]
fn a_missing_nvrtc_differs_from_a_wrong_library() {
    let missing = open(Path::new("/no/such/libnvrtc.so.13")).unwrap_err();
    let text = missing.to_string();
    assert!(matches!(missing, LoadError::NotFound { .. }), "{missing:?}");
    assert!(
        text.starts_with("NVRTC could not be loaded; tried:\n  /no/such/libnvrtc.so.13: "),
        "{text}"
    );

    let dir = tempfile::tempdir().unwrap();
    let text_file = dir.path().join("text.so");
    fs::write(&text_file, "no library").unwrap();
    let error = open(&text_file).unwrap_err();
    assert!(matches!(error, LoadError::NotFound { .. }), "{error:?}");

    let Some(other) = shared_library(dir.path(), "other", "int x;") else {
        return;
    };
    let text = open(&other).unwrap_err().to_string();
    assert_eq!(
        text,
        format!(
            "{}: it has no function nvrtcVersion, so it is not NVRTC",
            other.display()
        )
    );
}

#[test]
fn invalid_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, body, expected) in [
        ("fails", "return 7;", "nvrtcVersion failed with status 7"),
        (
            "negative",
            "*major = -1; *minor = 0; return 0;",
            "nvrtcVersion returned an invalid CUDA version",
        ),
        (
            "huge",
            "*major = 0x7fffffff; *minor = 0; return 0;",
            "nvrtcVersion returned an invalid CUDA version",
        ),
        (
            "minor",
            "*major = 12; *minor = 0x7fffffff; return 0;",
            "nvrtcVersion returned an invalid CUDA version",
        ),
    ] {
        let Some(path) = shared_library(dir.path(), name, &version_function(body)) else {
            return;
        };
        let error = open(&path).unwrap_err();
        assert!(
            matches!(error, LoadError::VersionUnknown { .. }),
            "{error:?}"
        );
        assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
    }
}

#[test]
fn an_old_nvrtc_is_refused_and_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new] = [("old", 11), ("new", 12)].map(|(name, major)| {
        let body = format!("*major = {major}; *minor = 8; return 0;");
        shared_library(dir.path(), name, &version_function(&body))
    });
    let (Some(old), Some(new)) = (old, new) else {
        return;
    };
    let error = open(&old).unwrap_err();
    assert!(matches!(error, LoadError::TooOld { .. }), "{error:?}");
    let [old, new] = [old, new].map(|path| path.display().to_string());
    let variables = [
        ("CUDA_NVRTC_LIBRARY", old.as_str()),
        ("LATER", new.as_str()),
    ];
    let text = child(CHILD, &variables, &[]);
    assert!(text.contains("error ") && text.contains("11.8"), "{text}");
    assert!(text.contains(&format!("later {new}\n")), "{text}");
}

/// The rejected library stays loaded, because it may have left threads or exit handlers behind.
#[cfg(target_os = "linux")]
#[test]
fn a_refused_nvrtc_whose_code_ran_stays_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let body = "*major = 11; *minor = 8; return 0;";
    let Some(path) = shared_library(dir.path(), "refused", &version_function(body)) else {
        return;
    };
    open(&path).unwrap_err();
    let driver = "int cuInit(unsigned flags) { return 0; }\n\
                  int cuDriverGetVersion(int *version) { return 999; }";
    let driver = shared_library(dir.path(), "driver", driver).unwrap();
    // SAFETY: the file must be a driver ← it is compiled from the C above, which behaves as one.
    unsafe { cuda_sys::DriverLibrary::open(&driver) }.unwrap_err();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    for path in [path, driver] {
        assert!(maps.contains(&path.display().to_string()), "{path:?}");
    }
}

#[test]
fn missing_functions_of_a_release_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let source = version_function("*major = 12; *minor = 3; return 0;")
        + "int nvrtcGetPTXSize(void *program, unsigned long *size) { *size = 77; return 5; }";
    let Some(path) = shared_library(dir.path(), "old", &source) else {
        return;
    };
    let library = open(&path).unwrap();
    assert_eq!(library.version(), Version::new(12030));
    assert_eq!(library.origin(), path.display().to_string());
    assert!(library.nvrtcGetTileIR.is_none());
    let filled = format!("{:#?}", library.table()).matches("Some(").count();
    assert_eq!((filled, FUNCTIONS.len() > 25), (2, true));
    let mut size = 0;
    // SAFETY: the pointers must be valid for the function ← the C above does not read the first and
    // only writes the second.
    let status = unsafe { library.nvrtcGetPTXSize.unwrap()(std::ptr::null_mut(), &raw mut size) };
    assert_eq!((status, size), (nvrtcResult(5), 77));
}

/// The tests below run this one in a new process.
#[test]
#[ignore = "only as a child process"]
fn child_looks_for_the_system_nvrtc() {
    // Ends the line that the test runner has begun.
    println!();
    for path in library_candidates() {
        println!("candidate {}", path.display());
    }
    match NvrtcLibrary::system() {
        Ok(library) => println!("loaded {}", library.origin()),
        Err(error) => println!("error {error}"),
    }
    let Some(later) = std::env::var_os("LATER") else {
        return;
    };
    // SAFETY: no other thread may use the environment ← the process runs only this test, on one
    // thread.
    unsafe { std::env::set_var("CUDA_NVRTC_LIBRARY", later) };
    println!("later {}", NvrtcLibrary::system().unwrap().origin());
}

const CHILD: &str = "loader_nvrtc::child_looks_for_the_system_nvrtc";

fn candidates(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("candidate "))
        .collect()
}

#[test]
fn the_variable_alone_decides() {
    let text = child(CHILD, &[("CUDA_NVRTC_LIBRARY", "/no/such/file")], &[]);
    assert_eq!(candidates(&text), ["/no/such/file"]);
    assert!(
        text.contains(
            "error CUDA_NVRTC_LIBRARY is set to /no/such/file, which cannot be used: NVRTC could not \
             be loaded; tried:\n  /no/such/file: "
        ),
        "{text}"
    );
    assert!(!text.contains("libnvrtc.so"), "{text}");
    assert!(
        text.contains("\nCorrect the value, or unset CUDA_NVRTC_LIBRARY"),
        "{text}"
    );
}

#[test]
fn loader_path_precedes_toolkit() {
    let dir = tempfile::tempdir().unwrap();
    let lib = dir.path().join("lib64");
    fs::create_dir(&lib).unwrap();
    let file = lib.join("libnvrtc.so.12");
    fs::write(&file, "no library").unwrap();
    let root = dir.path().display().to_string();
    for absent in [false, true] {
        let text = if absent {
            child(CHILD, &[("CUDA_PATH", &root)], &["CUDA_NVRTC_LIBRARY"])
        } else {
            child(
                CHILD,
                &[("CUDA_PATH", &root), ("CUDA_NVRTC_LIBRARY", "")],
                &[],
            )
        };
        let found = candidates(&text);
        let file = file.display().to_string();
        assert_eq!(
            found[..3],
            ["libnvrtc.so.13", "libnvrtc.so.12", file.as_str()]
        );
        // Either one of the candidates was loaded, or the error lists all of them.
        if !text.contains("loaded ") {
            for candidate in found {
                assert!(text.contains(&format!("\n  {candidate}: ")), "{text}");
            }
        }
    }
}

/// Otherwise a user who can write to the working directory of a program could choose the code that
/// it loads.
#[test]
fn empty_variable_names_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let site = "lib/python3.12/site-packages/nvidia/cu13/lib";
    for lib in ["lib64", site, &format!(".local/{site}")] {
        let lib = dir.path().join(lib);
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libnvrtc.so.13"), "no library").unwrap();
    }
    let empty = [
        "CUDA_NVRTC_LIBRARY",
        "CUDA_PATH",
        "CUDA_HOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "HOME",
    ]
    .map(|variable| (variable, ""));
    let text = child_in(dir.path(), CHILD, &empty, &[]);
    let found = candidates(&text);
    assert_eq!(found[..2], ["libnvrtc.so.13", "libnvrtc.so.12"]);
    for candidate in &found[2..] {
        assert!(Path::new(candidate).is_absolute(), "{text}");
    }
}

#[test]
fn a_toolkit_variable_without_a_folder_is_listed() {
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        let variables = [(variable, "/no/such/toolkit")];
        let text = child(CHILD, &variables, &["CUDA_NVRTC_LIBRARY"]);
        if text.contains("loaded ") {
            test_needs::skipped("a machine without NVRTC: this one has one");
            return;
        }
        let expected = format!(
            "\n  /no/such/toolkit: skipped: {variable} names this folder, which does not exist"
        );
        assert!(text.contains(&expected), "{text}");
    }
}

/// The file is a library, but not the one that the variable is for.
#[test]
fn a_variable_that_names_another_library_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let Some(other) = shared_library(dir.path(), "other", "int x;") else {
        return;
    };
    let other = other.display().to_string();
    let text = child(CHILD, &[("CUDA_NVRTC_LIBRARY", &other)], &[]);
    let expected = format!(
        "error CUDA_NVRTC_LIBRARY is set to {other}, which cannot be used: {other}: it has no function \
         nvrtcVersion, so it is not NVRTC\nCorrect the value, or unset CUDA_NVRTC_LIBRARY"
    );
    assert!(text.contains(&expected), "{text}");
}

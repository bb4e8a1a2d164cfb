//! The loader's behaviour with files that are not a driver, with an old driver, and with one that
//! lacks functions.
//!
//! The libraries are compiled here from a few lines of C. Tests that depend on the environment run
//! in a child process.

use std::env;
use std::ffi::{CStr, c_char, c_int};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::ptr;

use cuda_sys::{CUresult, DriverLibrary, FUNCTIONS, LoadError, Version};
use libloading::Library;

use crate::c_compiler::shared_library;

/// A driver of version 12.2 that behaves as a real one does, and records each request.
const FAKE: &str = r#"
#include <string.h>
typedef struct { char name[96]; int version; unsigned long long flags; } request;
request requests[4096];
int request_count;

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDriverGetVersion(int *version) { *version = 12020; return 0; }
static int copy(void) { return 7001; }
static int copy_per_thread(void) { return 7002; }

int cuGetProcAddress_v2(const char *name, void **pfn, int version, unsigned long long flags, int *status) {
    request *r = &requests[request_count++];
    strncpy(r->name, name, sizeof r->name - 1);
    r->version = version;
    r->flags = flags;
    if (version > 12020) return 1;
    *status = 0;
    if (!strcmp(name, "cuMemAlloc")) { *pfn = (void *)copy; return 1; }
    if (!strcmp(name, "cuInit") && version == 2000) { *pfn = (void *)cuInit; return 0; }
    if (!strcmp(name, "cuMemcpyHtoD") && version == 3020 && flags == 1) { *pfn = (void *)copy; return 0; }
    if (!strcmp(name, "cuMemcpyHtoD") && version == 7000 && flags == 2) { *pfn = (void *)copy_per_thread; return 0; }
    *status = 1;
    *pfn = 0;
    return 0;
}
"#;

/// An entry of `requests` in [`FAKE`].
#[repr(C)]
struct Request {
    name: [c_char; 96],
    version: c_int,
    flags: u64,
}

fn open(path: &Path) -> Result<DriverLibrary, LoadError> {
    // SAFETY: the file must be a driver ← it is missing, not a library, or compiled from this
    // file's C, which behaves as a driver.
    unsafe { DriverLibrary::open(path) }
}

#[test]
fn a_missing_file_is_named() {
    let path = Path::new("/no/such/folder/libcuda.so.1");
    let error = open(path).unwrap_err();
    let LoadError::NotFound { tried, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(tried.len(), 1);
    assert_eq!(tried[0].library, path.display().to_string());
    let text = error.to_string();
    assert_eq!(text.matches("/no/such/folder").count(), 1, "{text}");
    assert!(text.contains("No such file"), "{text}");
}

#[test]
fn a_file_that_is_not_a_library_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.so");
    fs::write(&path, "This is not a library.\n").unwrap();
    let text = open(&path).unwrap_err().to_string();
    assert!(text.contains("text.so: "), "{text}");
    assert!(!text.contains("No such file"), "{text}");
}

#[test]
fn library_without_driver_functions_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let version = "int cuDriverGetVersion(int *v) { *v = 12020; return 0; }";
    let init = "int cuInit(unsigned flags) { return 0; }";
    let cases = [
        ("empty", "int other;".to_owned(), "cuInit"),
        ("no_init", version.to_owned(), "cuInit"),
        ("no_version", init.to_owned(), "cuDriverGetVersion"),
        ("no_root", format!("{init}{version}"), "cuGetProcAddress_v2"),
    ];
    for (name, source, lacking) in cases {
        let Some(path) = shared_library(dir.path(), name, &source) else {
            return;
        };
        let error = open(&path).unwrap_err();
        let LoadError::NotTheLibrary { missing, .. } = &error else {
            panic!("{name}: {error:?}");
        };
        assert_eq!(*missing, lacking, "{name}");
        assert_eq!(
            error.to_string(),
            format!(
                "{}: it has no function {lacking}, so it is not a CUDA driver",
                path.display()
            )
        );
    }
}

#[test]
fn a_driver_older_than_12_0_is_too_old() {
    let dir = tempfile::tempdir().unwrap();
    let source = FAKE.replace("*version = 12020", "*version = 11080");
    let Some(path) = shared_library(dir.path(), "old", &source) else {
        return;
    };
    let error = open(&path).unwrap_err();
    assert_eq!(
        error,
        LoadError::TooOld {
            library: path.display().to_string(),
            found: Version::new(11080),
            oldest: Version::new(12000),
        }
    );
    assert!(
        error
            .to_string()
            .contains("it is of CUDA 11.8; the oldest supported version is 12.0"),
        "{error}"
    );
}

#[test]
fn a_driver_without_a_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, body, expected) in [
        (
            "stub",
            "{ return 34; }",
            "a stub without a driver in it (CUDA_ERROR_STUB_LIBRARY, 34)",
        ),
        (
            "negative",
            "{ *version = -1; return 0; }",
            "cuDriverGetVersion returned an invalid CUDA version",
        ),
    ] {
        let source = FAKE.replace("{ *version = 12020; return 0; }", body);
        let Some(path) = shared_library(dir.path(), name, &source) else {
            return;
        };
        let error = open(&path).unwrap_err();
        assert!(
            matches!(error, LoadError::VersionUnknown { .. }),
            "{error:?}"
        );
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}

#[test]
fn functions_are_requested_at_their_own_version() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = shared_library(dir.path(), "fake", FAKE) else {
        return;
    };
    let driver = open(&path).unwrap();
    assert_eq!(driver.version(), Version::new(12020));
    assert_eq!(driver.origin(), path.display().to_string());

    // SAFETY: the initializers must be sound to run ← the library has none, and is loaded already.
    let library = unsafe { Library::new(&path) }.unwrap();
    // SAFETY: the symbol's type must be right ← the C above declares it so.
    let count = unsafe { *library.get::<*const c_int>(b"request_count").unwrap() };
    // SAFETY: the symbol's type must be right ← the C above declares it so.
    let first = unsafe { *library.get::<*const Request>(b"requests").unwrap() };
    // SAFETY: the pointer must be readable ← it is to a global of a loaded library.
    let count = usize::try_from(unsafe { *count }).unwrap();
    // SAFETY: as many requests must exist ← the C counted them, and no longer writes them.
    let requests = unsafe { std::slice::from_raw_parts(first, count) };
    let asked: Vec<(&str, u32, u64)> = requests
        .iter()
        .map(|request| {
            // SAFETY: the text must end with NUL ← the C keeps the last byte of each zero.
            let name = unsafe { CStr::from_ptr(request.name.as_ptr()) };
            let version = u32::try_from(request.version).unwrap();
            (name.to_str().unwrap(), version, request.flags)
        })
        .collect();
    let expected: Vec<(&str, u32, u64)> = FUNCTIONS
        .iter()
        .filter(|function| function.since() <= Version::new(12020))
        .map(|function| {
            let flags = if function.per_thread { 2 } else { 1 };
            (function.base, function.since().number(), flags)
        })
        .collect();
    assert_eq!(asked, expected);
    assert!(expected.len() < FUNCTIONS.len());
    assert!(expected.len() > 500, "{}", expected.len());
}

#[test]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason holds for every call"
)]
fn slots_hold_the_addresses_that_the_driver_returned() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = shared_library(dir.path(), "fake", FAKE) else {
        return;
    };
    let driver = open(&path).unwrap();
    let newer = CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
    // SAFETY: the functions' contracts must be kept ← the functions of the C above read only one of
    // their arguments.
    unsafe {
        assert_eq!(driver.cuInit(0), CUresult::CUDA_SUCCESS);
        assert_eq!(driver.cuInit(1), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(driver.cuMemcpyHtoD_v2(0, ptr::null(), 0), CUresult(7001));
        assert_eq!(
            driver.cuMemcpyHtoD_v2_ptds(0, ptr::null(), 0),
            CUresult(7002)
        );
        // The first revision is another function, and is not called instead.
        assert_eq!(driver.cuMemcpyHtoD(0, ptr::null(), 0), newer);
        // Functions newer than 12.2.
        assert_eq!(
            driver.cuCtxCreate_v4(ptr::null_mut(), ptr::null_mut(), 0, 0),
            newer
        );
        // A pointer that is returned with an error does not count.
        assert_eq!(driver.cuMemAlloc_v2(ptr::null_mut(), 0), newer);
    }
    let filled = format!("{:#?}", driver.table()).matches("Some(").count();
    assert_eq!(filled, 3);
}

/// The tests below run this one in a new process.
#[test]
#[ignore = "only as a child process"]
fn child_loads_the_system_driver() {
    match DriverLibrary::system() {
        Ok(driver) => println!("loaded {}", driver.origin()),
        Err(error) => println!("error {error}"),
    }
    let Some(later) = env::var_os("LATER") else {
        return;
    };
    // SAFETY: no other thread may use the environment ← the process runs only this test, on one
    // thread.
    unsafe { env::set_var("CUDA_DRIVER_LIBRARY", later) };
    let first = DriverLibrary::system().unwrap();
    // SAFETY: no other thread may use the environment ← the process runs only this test, on one
    // thread.
    unsafe { env::remove_var("CUDA_DRIVER_LIBRARY") };
    let again = DriverLibrary::system().unwrap();
    println!(
        "later {} {}",
        first.origin(),
        std::sync::Arc::ptr_eq(&first, &again)
    );
}

/// The output of a child process with these environment variables.
pub(crate) fn child(test: &str, variables: &[(&str, &str)], absent: &[&str]) -> String {
    child_in(Path::new("."), test, variables, absent)
}

/// The output of a child process that runs in the folder `dir`.
pub(crate) fn child_in(
    dir: &Path,
    test: &str,
    variables: &[(&str, &str)],
    absent: &[&str],
) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([
        test,
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.current_dir(dir);
    command.envs(variables.iter().copied());
    for name in absent {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

const CHILD: &str = "loader::child_loads_the_system_driver";

#[test]
fn the_variable_alone_decides() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = shared_library(dir.path(), "fake", FAKE) else {
        return;
    };
    let path = path.display().to_string();
    let text = child(CHILD, &[("CUDA_DRIVER_LIBRARY", &path)], &["LATER"]);
    assert!(text.contains(&format!("loaded {path}\n")), "{text}");

    let text = child(
        CHILD,
        &[("CUDA_DRIVER_LIBRARY", "/no/such/file")],
        &["LATER"],
    );
    assert!(
        text.contains(
            "error CUDA_DRIVER_LIBRARY is set to /no/such/file, which cannot be used: the CUDA driver \
             could not be loaded; tried:\n  /no/such/file: "
        ),
        "{text}"
    );
    assert!(!text.contains("libcuda.so.1:"), "{text}");
    assert!(
        text.contains("\nCorrect the value, or unset CUDA_DRIVER_LIBRARY"),
        "{text}"
    );
}

#[test]
fn a_failure_is_not_remembered_and_a_success_is() {
    let dir = tempfile::tempdir().unwrap();
    let Some(path) = shared_library(dir.path(), "fake", FAKE) else {
        return;
    };
    let path = path.display().to_string();
    let variables = [
        ("CUDA_DRIVER_LIBRARY", "/no/such/file"),
        ("LATER", path.as_str()),
    ];
    let text = child(CHILD, &variables, &[]);
    assert!(text.contains("/no/such/file: "), "{text}");
    assert!(text.contains(&format!("later {path} true\n")), "{text}");
}

#[test]
fn without_the_variable_the_usual_names_are_tried() {
    for empty in [false, true] {
        let text = if empty {
            child(CHILD, &[("CUDA_DRIVER_LIBRARY", "")], &["LATER"])
        } else {
            child(CHILD, &[], &["LATER", "CUDA_DRIVER_LIBRARY"])
        };
        if text.contains("loaded ") {
            assert!(text.contains("libcuda.so.1\n"), "{text}");
            test_needs::skipped("a machine without a driver: this one has one");
            return;
        }
        assert!(text.contains("\n  libcuda.so.1: "), "{text}");
        assert!(
            text.contains("\n  /usr/lib/wsl/lib/libcuda.so.1: "),
            "{text}"
        );
        assert!(!text.contains("libcuda.so:"), "{text}");
    }
}

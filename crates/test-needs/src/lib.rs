//! Helpers for tests that need something a machine may lack, such as a GPU. They report skipped
//! tests in one format, and `cargo xtask test` lists them at its end.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::thread;

#[cfg(unix)]
pub mod users;

/// The environment variable that names the file to which each skipped test appends a line.
const LIST: &str = "CUDA_TEST_SKIPPED";

/// Reports what is skipped, and appends it to the list.
///
/// # Panics
///
/// Panics if the list cannot be written.
pub fn skipped(what: &str) {
    println!("skipped: {what}");
    if let Some(list) = env::var_os(LIST) {
        let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
        let list = OpenOptions::new().create(true).append(true).open(list);
        // Written with a single call, because tests of several processes append to the file.
        let line = format!("{package}: {what}\n");
        let written = list.and_then(|mut list| list.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{LIST}: {written:?}");
    }
}

/// Returns the name of the running test, which is the name of its thread. If tests run one at a
/// time, they run on the main thread; this function then returns the place of the
/// caller.
#[must_use]
#[track_caller]
pub fn this_test() -> String {
    match thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    }
}

/// Reports that the running test is skipped, with the reason.
///
/// # Panics
///
/// Panics if the list cannot be written.
#[track_caller]
pub fn skip(why: &str) {
    skipped(&format!("{}: {why}", this_test()));
}

/// Returns what the running test needs if it was found. Otherwise reports that the test is skipped
/// because there is no `what`, such as `GPU` or `NVRTC`.
///
/// # Panics
///
/// Panics if it was not found and is [required](is_required).
#[track_caller]
pub fn found<T>(what: &str, found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) => {
            assert!(!is_required(what), "{} needs {what}: {why}", this_test());
            skip(&format!("no {what}"));
            None
        }
    }
}

/// Returns whether the absence of `what` is a failure: `CUDA_TEST_REQUIRE` is 1, or the variable
/// with its name in upper case is, such as `CUDA_TEST_REQUIRE_NVRTC`.
#[must_use]
pub fn is_required(what: &str) -> bool {
    let own = format!("CUDA_TEST_REQUIRE_{}", what.to_uppercase());
    ["CUDA_TEST_REQUIRE", &own]
        .into_iter()
        .any(|name| env::var(name).is_ok_and(|value| value == "1"))
}

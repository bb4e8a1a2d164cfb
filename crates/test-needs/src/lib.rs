//! Helpers for tests that need something a machine may lack, such as a GPU. They report skipped
//! tests in one format, and `cargo xtask test` lists them at its end.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

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

/// Returns what `test` needs if it was found. Otherwise reports that `test` is skipped because
/// there is no `what`, such as `GPU` or `NVRTC`.
///
/// # Panics
///
/// Panics if it was not found and is [required](is_required).
pub fn found<T>(what: &str, test: &str, found: Result<T, impl Display>) -> Option<T> {
    found
        .map_err(|why| {
            assert!(!is_required(what), "{test} needs {what}: {why}");
            skipped(&format!("{test}: no {what}"));
        })
        .ok()
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

//! What tests need of a machine and may not find: said in one way, and listed by `cargo xtask test`
//! at its end.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

#[cfg(unix)]
pub mod users;

/// Names the file to which a line is appended for each thing that was skipped.
const LIST: &str = "CUDA_TEST_SKIPPED";

/// Says what is skipped, also in the list.
///
/// # Panics
///
/// If the list cannot be written.
pub fn skipped(what: &str) {
    println!("skipped: {what}");
    if let Some(list) = env::var_os(LIST) {
        let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
        let list = OpenOptions::new().create(true).append(true).open(list);
        // In one piece: tests of several processes write to it.
        let line = format!("{package}: {what}\n");
        let written = list.and_then(|mut list| list.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{LIST}: {written:?}");
    }
}

/// What `test` needs, if it was found; if not, says that `test` is skipped as there is no `what`,
/// such as `GPU` or `NVRTC`.
///
/// # Panics
///
/// If it is not there and [must be](is_required).
pub fn found<T>(what: &str, test: &str, found: Result<T, impl Display>) -> Option<T> {
    found
        .map_err(|why| {
            assert!(!is_required(what), "{test} needs {what}: {why}");
            skipped(&format!("{test}: no {what}"));
        })
        .ok()
}

/// Whether the absence of `what` is a failure: with `CUDA_TEST_REQUIRE=1`, or 1 for that with its
/// name in upper case, `CUDA_TEST_REQUIRE_NVRTC`.
#[must_use]
pub fn is_required(what: &str) -> bool {
    let own = format!("CUDA_TEST_REQUIRE_{}", what.to_uppercase());
    ["CUDA_TEST_REQUIRE", &own]
        .into_iter()
        .any(|name| env::var(name).is_ok_and(|value| value == "1"))
}

//! Programs that must not compile.

use std::path::Path;
use std::process::Command;

#[test]
fn what_must_not_compile_does_not() {
    // Cargo sets it; a bundle for a machine without Rust does not.
    if std::env::var_os("CARGO").is_none() {
        crate::support::skipped("what must not compile: there is no cargo");
        return;
    }
    if has_sources_of_std() {
        crate::support::skipped(
            "what must not compile: the messages of a compiler that has rust-src quote more",
        );
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    if cfg!(feature = "derive") {
        cases.compile_fail("tests/ui/derive/*.rs");
    }
}

/// Whether the component `rust-src` is there, whose lines messages then quote.
fn has_sources_of_std() -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    sysroot.is_ok_and(|sysroot| {
        Path::new(&sysroot)
            .join("lib/rustlib/src/rust/library")
            .is_dir()
    })
}

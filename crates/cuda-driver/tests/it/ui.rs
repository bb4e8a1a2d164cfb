//! Programs that must not compile.

use std::path::Path;
use std::process::Command;

#[test]
fn invalid_programs_do_not_compile() {
    // Cargo sets `CARGO`; the test bundle for machines without Rust does not.
    if std::env::var_os("CARGO").is_none() {
        crate::support::skipped("compile-fail tests: cargo is missing");
        return;
    }
    if has_sources_of_std() {
        crate::support::skipped(
            "compile-fail tests: with rust-src the compiler's messages quote more",
        );
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    if cfg!(feature = "derive") {
        cases.compile_fail("tests/ui/derive/*.rs");
    }
    if cfg!(feature = "dlpack") {
        cases.compile_fail("tests/ui/dlpack/*.rs");
    }
}

/// Returns whether the component `rust-src` is installed; if so, compiler messages quote its lines.
fn has_sources_of_std() -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    sysroot.is_ok_and(|sysroot| {
        Path::new(&sysroot)
            .join("lib/rustlib/src/rust/library")
            .is_dir()
    })
}

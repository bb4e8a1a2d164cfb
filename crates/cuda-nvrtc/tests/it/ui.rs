//! Programs that must not compile.

use std::path::Path;
use std::process::Command;

#[test]
fn forbidden_programs_do_not_compile() {
    // Cargo sets the variable; a bundle for a machine without Rust does not.
    if std::env::var_os("CARGO").is_none() {
        test_needs::skipped("programs that must not compile: cargo is not available");
        return;
    }
    if has_sources_of_std() {
        test_needs::skipped(
            "programs that must not compile: a compiler with rust-src quotes more lines",
        );
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

/// Whether the component `rust-src` is installed, whose source lines appear in messages.
fn has_sources_of_std() -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    sysroot.is_ok_and(|sysroot| {
        Path::new(&sysroot)
            .join("lib/rustlib/src/rust/library")
            .is_dir()
    })
}

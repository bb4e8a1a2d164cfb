//! Programs that must not compile.

#[test]
fn what_must_not_compile_does_not() {
    // Cargo sets it; a bundle for a machine without Rust does not.
    if std::env::var_os("CARGO").is_none() {
        crate::support::skipped("what must not compile: there is no cargo");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    if cfg!(feature = "derive") {
        cases.compile_fail("tests/ui/derive/*.rs");
    }
}

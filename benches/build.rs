//! Compiles the C code that the bench `compared_with_c` compares with, in two ways.

use std::env;

/// Compiles `c/reference.c` to functions whose names end with `suffix`.
fn compile(suffix: &str, flags: &[&str]) {
    let mut build = cc::Build::new();
    build.file("c/reference.c").opt_level(3).debug(false);
    build.define("SUFFIX", suffix);
    for flag in flags {
        build.flag_if_supported(flag);
    }
    build.compile(&format!("reference_{suffix}"));
}

fn main() {
    println!("cargo::rerun-if-changed=c/reference.c");
    println!("cargo::rerun-if-changed=build.rs");
    // Plain C: the compiler may not change results, and uses the instructions of every CPU of the
    // architecture.
    compile("plain", &[]);
    // Also allowed to change the order of sums and to use approximations, and compiled for the
    // vector instructions that the interpreter requires for its own fast version.
    let is_x86_64 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let flags = ["-ffast-math", "-mavx2", "-mfma"];
    compile("fast", if is_x86_64 { &flags } else { &flags[..1] });
}

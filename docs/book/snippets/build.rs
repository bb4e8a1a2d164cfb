//! Prepares the tests of the book: compiles the kernels as the build script in the chapter
//! "Compiling and caching" does, and writes each chapter to the folder of the build.
//!
//! A program of a chapter contains nothing for its test. The written copy has a call in front of
//! each program that compiles CUDA C++, on the line of `fn main`, so that lines keep their numbers:
//! the call ends the program on a machine without NVRTC.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use cuda_build::{Arch, Kernels};

fn main() -> Result<(), Box<dyn Error>> {
    Kernels::new("kernels/scale.cu")
        .arch(Arch::compute(7, 5)) // PTX for every device from compute capability 7.5 on
        .arch(Arch::sm(9, 0)) // machine code for 9.0
        .committed_ptx("kernels/scale.ptx")
        .generate()?;

    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    println!("cargo::rerun-if-changed=src");
    for entry in fs::read_dir("src")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().ok_or("a file has a name")?;
            fs::write(out.join(name), with_calls(&fs::read_to_string(&path)?))?;
        }
    }
    Ok(())
}

/// Returns the chapter with the calls.
fn with_calls(chapter: &str) -> String {
    let mut result = String::new();
    for (index, part) in chapter.split("\n```").enumerate() {
        if index > 0 {
            result.push_str("\n```");
        }
        // Every second part is a block, which begins with its language.
        let compiles = part.contains("::from_source(") || part.contains("Nvrtc::load()");
        if index % 2 == 0 || !part.starts_with("rust") || !compiles {
            result.push_str(part);
            continue;
        }
        for line in part.split_inclusive('\n') {
            let code = line.trim_end();
            if code.trim_start_matches("# ").starts_with("fn main()") && code.ends_with('{') {
                result.push_str(code);
                result.push_str(" book::needs_nvrtc();\n");
            } else {
                result.push_str(line);
            }
        }
    }
    result
}

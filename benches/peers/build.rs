//! Compiles the C counterpart, and passes on the versions of the compared crates.

use std::env;
use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src/twin.c");
    println!("cargo::rerun-if-changed=Cargo.lock");
    cc::Build::new()
        .file("src/twin.c")
        .opt_level(2)
        .warnings(true)
        .try_compile("twin")?;
    let lock = fs::read_to_string("Cargo.lock")?;
    for package in ["cudarc", "oxicuda-driver", "cuda-core"] {
        let after = lock
            .split(&format!("name = \"{package}\"\nversion = \""))
            .nth(1);
        let version = after.and_then(|rest| rest.split('"').next()).unwrap_or("?");
        let name = package.to_uppercase().replace('-', "_");
        println!("cargo::rustc-env=VERSION_OF_{name}={version}");
    }
    println!("cargo::rustc-env=TARGET_OF_PEERS={}", env::var("TARGET")?);
    Ok(())
}

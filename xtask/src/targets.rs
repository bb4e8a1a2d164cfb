//! `targets`: compiles the libraries for systems whose linkers this machine lacks. Nothing is
//! linked or run.

use anyhow::Result;

use crate::need::{self, Install};
use crate::suite::{FEATURES, PACKAGES};
use crate::workspace::{self, Workspace};

/// Targets that need a linker of their own.
const TARGETS: [&str; 3] = [
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// Options of `targets`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    install: Install,
}

/// `cargo xtask targets`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let sysroot = need::sysroot(workspace)?;
    need::meet(&[need::std_sources(&sysroot)], options.install.install)?;
    for target in TARGETS {
        println!("\n-- {target}");
        let mut check = workspace.cargo(["check", "-Zbuild-std", "--target", target]);
        check.args(["-p", "cuda-sim-cdylib"]);
        check.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
        check.args(FEATURES);
        check
            .env("CARGO_TARGET_DIR", workspace.target.join("targets"))
            .env("RUSTC_BOOTSTRAP", "1")
            // Only the Rust code of blake3: its C and assembly code needs a compiler for the
            // target.
            .env("CARGO_FEATURE_PURE", "1");
        workspace::run(&mut check)?;
    }
    println!("\n{} targets compiled", TARGETS.len());
    Ok(())
}

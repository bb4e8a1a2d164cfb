//! `targets`: the libraries compiled for systems whose linkers are not at hand. Nothing is linked
//! or run.

use anyhow::Result;

use crate::need::{self, Install};
use crate::suite::{FEATURES, PACKAGES};
use crate::workspace::{self, Workspace};

/// Targets with linkers of their own.
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
            // blake3 in Rust alone: its C and assembly need a compiler for the target.
            .env("CARGO_FEATURE_PURE", "1");
        workspace::run(&mut check)?;
    }
    println!("\n{} targets compiled", TARGETS.len());
    Ok(())
}

//! `wine`: the tests of the workspace for Windows, run by Wine, with the software device as
//! `nvcuda.dll`.
//!
//! The standard library is built anew for `x86_64-pc-windows-gnu`, and a C compiler of MinGW links.
//! Wine lacks the library that random numbers come from, `bcryptprimitives.dll`: `wine/random.c`
//! stands in for it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::need::{self, Install, Need};
use crate::suite::{Skip, Suite};
use crate::workspace::{self, Workspace};

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const RANDOM: &str = include_str!("wine/random.c");

/// Options of `wine`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    install: Install,
    /// Only these packages
    #[arg(long, short, value_delimiter = ',', value_name = "PACKAGE")]
    package: Vec<String>,
}

/// What Wine cannot run.
const SKIPS: [Skip; 8] = [
    Skip {
        package: "cuda-driver",
        test: "ui::",
        why: "runs cargo, which is not there for Windows",
    },
    Skip {
        package: "cuda-nvrtc",
        test: "ui::",
        why: "runs cargo, which is not there for Windows",
    },
    Skip {
        package: "cuda-sys",
        test: "c_compiler::",
        why: "runs a C compiler, which is not there for Windows",
    },
    Skip {
        package: "cuda-sys",
        test: "gpu::every_function",
        why: "the names that the software driver exports only lead to its functions",
    },
    Skip {
        package: "cuda-driver",
        test: "pool::a_threshold_keeps_memory_over_a_wait",
        why: "takes nvcuda.dll for a GPU's, which reserves more than it gives",
    },
    Skip {
        package: "cuda-driver",
        test: "stream::attributes_are_as_they_were_set_and_copied",
        why: "takes nvcuda.dll for a GPU's, which has all attributes",
    },
    Skip {
        package: "cuda-driver",
        test: "the_software_device_answers_what_a_gpu_does",
        why: "there is no virtual memory on Windows",
    },
    Skip {
        package: "cuda-driver",
        test: "number::exact_numbers_round_as_the_processor_does",
        why: "MinGW's `fma` of 64 bits, which it compares with, rounds twice",
    },
];

/// `cargo xtask wine`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let sysroot = need::sysroot(workspace)?;
    let apt = |package| -> &'static [&'static str] {
        match package {
            "wine" => &[
                "apt-get",
                "install",
                "-y",
                "--no-install-recommends",
                "wine64",
            ],
            _ => &["apt-get", "install", "-y", "gcc-mingw-w64-x86-64"],
        }
    };
    need::meet(
        &[
            need::std_sources(&sysroot),
            Need {
                what: "Wine",
                found: wine().is_some(),
                install: apt("wine"),
            },
            Need {
                what: "the C compiler of MinGW",
                found: need::program(COMPILER).is_some(),
                install: apt("mingw"),
            },
        ],
        options.install.install,
    )?;
    let wine = wine().context("Wine is still not there")?;
    let name = "wine";
    let dir = workspace.target.join(name);
    let built = dir.join(TARGET).join("debug");
    let libraries = dir.join("libraries");
    fs::create_dir_all(&libraries)?;
    random(&libraries)?;
    driver(workspace, &dir, &built, &libraries)?;
    let suite = Suite {
        name: name.to_owned(),
        packages: options.package.clone(),
        cargo: cargo(),
        build_env: build_env(),
        target: None,
        runner: vec![wine.into()],
        env: vec![
            ("WINEPREFIX", dir.join("prefix").into()),
            ("WINEDEBUG", "-all".into()),
            (
                "WINEPATH",
                OsString::from(format!("Z:{}", libraries.display())),
            ),
            // The search for a driver does not include the folders of PATH.
            (
                "CUDA_DRIVER_LIBRARY",
                OsString::from(format!("Z:{}", libraries.join("nvcuda.dll").display())),
            ),
            ("CUDA_FULL", "0".into()),
            // NVRTC's library for Windows does not run in Wine: tests that need one say that they
            // are skipped.
            ("CUDA_NVRTC_LIBRARY", "none-for-wine.dll".into()),
            ("CUDA_TEST_NVRTC_DIR", "".into()),
        ],
        skips: SKIPS.to_vec(),
        finding: None,
        limit: Duration::from_secs(900),
        threads: 2,
    };
    suite.run(workspace)
}

fn cargo() -> Vec<String> {
    vec!["-Zbuild-std".to_owned(), format!("--target={TARGET}")]
}

fn build_env() -> Vec<(&'static str, OsString)> {
    // The standard library can be built by a stable compiler only so.
    vec![("RUSTC_BOOTSTRAP", "1".into())]
}

/// Wine for 64 bits, which Debian puts where no shell looks.
fn wine() -> Option<PathBuf> {
    need::program("wine64")
        .or_else(|| Some(PathBuf::from("/usr/lib/wine/wine64")).filter(|path| path.is_file()))
        .or_else(|| need::program("wine"))
}

/// Builds the stand-in for the library of random numbers.
fn random(libraries: &Path) -> Result<()> {
    let source = libraries.join("random.c");
    fs::write(&source, RANDOM)?;
    let mut compile = Command::new(COMPILER);
    compile.arg("-shared").arg("-o");
    compile.arg(libraries.join("bcryptprimitives.dll"));
    compile.arg(&source).arg("-ladvapi32");
    workspace::run(&mut compile)
}

/// Builds the software device, which `CUDA_DRIVER_LIBRARY` then names as the driver.
fn driver(workspace: &Workspace, dir: &Path, built: &Path, libraries: &Path) -> Result<()> {
    let mut build = workspace.cargo(["build", "-p", "cuda-sim-cdylib", "--no-default-features"]);
    build.args(cargo()).env("CARGO_TARGET_DIR", dir);
    for (name, value) in build_env() {
        build.env(name, value);
    }
    workspace::run(&mut build)?;
    let library = built.join("cuda_sim_driver.dll");
    if !library.is_file() {
        bail!("{} was not built", library.display());
    }
    fs::copy(&library, libraries.join("nvcuda.dll"))?;
    Ok(())
}

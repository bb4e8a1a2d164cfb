//! `wine`: runs the tests of the workspace for Windows in Wine, with the software device as
//! `nvcuda.dll`.
//!
//! The standard library is rebuilt for `x86_64-pc-windows-gnu`, and MinGW's C compiler links. Wine
//! lacks `bcryptprimitives.dll`, the library for random numbers; `wine/random.c` replaces it.

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

/// Tests that do not work in Wine.
const SKIPS: [Skip; 8] = [
    Skip {
        package: "cuda-driver",
        test: "ui::",
        why: "runs cargo, which is not installed in Wine",
    },
    Skip {
        package: "cuda-nvrtc",
        test: "ui::",
        why: "runs cargo, which is not installed in Wine",
    },
    Skip {
        package: "cuda-sys",
        test: "c_compiler::",
        why: "runs a C compiler, which is not installed in Wine",
    },
    Skip {
        package: "cuda-sys",
        test: "gpu::every_function",
        why: "the exports of the software driver are stubs that forward to its functions",
    },
    Skip {
        package: "cuda-driver",
        test: "pool::a_threshold_keeps_memory_over_a_wait",
        why: "takes nvcuda.dll for the driver of a GPU, whose pools reserve more than is allocated",
    },
    Skip {
        package: "cuda-driver",
        test: "stream::attributes_are_as_they_were_set_and_copied",
        why: "takes nvcuda.dll for the driver of a GPU, which supports all attributes",
    },
    Skip {
        package: "cuda-driver",
        test: "the_software_device_answers_what_a_gpu_does",
        why: "the software device has no virtual memory on Windows",
    },
    Skip {
        package: "cuda-driver",
        test: "number::exact_numbers_round_as_the_processor_does",
        why: "MinGW's 64-bit `fma`, which it compares with, rounds twice",
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
    let wine = wine().context("Wine was not found after the installation")?;
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
            // NVRTC for Windows does not run in Wine. Tests that need it are skipped, with a
            // message.
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
    // A stable compiler can build the standard library only with this variable.
    vec![("RUSTC_BOOTSTRAP", "1".into())]
}

/// Returns the 64-bit Wine. Debian installs it outside of PATH.
fn wine() -> Option<PathBuf> {
    need::program("wine64")
        .or_else(|| Some(PathBuf::from("/usr/lib/wine/wine64")).filter(|path| path.is_file()))
        .or_else(|| need::program("wine"))
}

/// Builds the replacement for the library of random numbers.
fn random(libraries: &Path) -> Result<()> {
    let source = libraries.join("random.c");
    fs::write(&source, RANDOM)?;
    let mut compile = Command::new(COMPILER);
    compile.arg("-shared").arg("-o");
    compile.arg(libraries.join("bcryptprimitives.dll"));
    compile.arg(&source).arg("-ladvapi32");
    workspace::run(&mut compile)
}

/// Builds the software device, which `CUDA_DRIVER_LIBRARY` names as the driver.
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

//! `sanitize`, `valgrind`, `wine`, `arm` and `targets`: the tests, or at least a build, with other
//! tools and for other systems.
//!
//! The settings are in `xtask/platforms/<name>.toml`, which cargo reads. The standard library is
//! rebuilt for each of them except valgrind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::need;
use crate::suite::{FEATURES, PACKAGES, Suite};
use crate::workspace::{self, Workspace};

const LINUX: &str = "x86_64-unknown-linux-gnu";

/// Targets that need a linker of their own.
const LINKED_ELSEWHERE: [&str; 3] = [
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// Options of `valgrind`, `wine` and `arm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these packages
    #[arg(long, short, value_delimiter = ',', value_name = "PACKAGE")]
    package: Vec<String>,
}

/// Options of `sanitize`.
#[derive(Debug, clap::Args)]
pub(crate) struct SanitizeOptions {
    /// The sanitizer
    which: Sanitizer,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    Address,
    Thread,
}

/// `cargo xtask sanitize address|thread`.
pub(crate) fn sanitize(workspace: &Workspace, options: &SanitizeOptions) -> Result<()> {
    let mut suite = instrumented(workspace, options.which)?;
    suite.packages.clone_from(&options.options.package);
    suite.run(workspace)
}

/// Runs the attacks of cuda-driver under AddressSanitizer, on all schedules. Each attack appends a
/// line to the file `count`.
pub(crate) fn attacks(workspace: &Workspace, count: &Path) -> Result<()> {
    let mut suite = instrumented(workspace, Sanitizer::Address)?;
    suite.packages = vec!["cuda-driver".to_owned()];
    suite.test = Some("attacks");
    suite.env.push(("CUDA_FULL", "1".into()));
    suite.env.push(("CUDA_ATTACKS_COUNT", count.into()));
    suite.env.push(("CUDA_ATTACKS_LIMIT", "240".into()));
    suite.run(workspace)
}

fn instrumented(workspace: &Workspace, which: Sanitizer) -> Result<Suite> {
    let (name, runtime) = match which {
        Sanitizer::Address => ("address", "asan"),
        Sanitizer::Thread => ("thread", "tsan"),
    };
    need::std_sources(workspace)?;
    need::sanitizer(workspace, runtime)?;
    let mut suite = Suite::with_std(name, LINUX);
    let suppressions = workspace
        .root
        .join("xtask/platforms/thread-suppressions.txt");
    let options = format!("suppressions={}:history_size=4", suppressions.display());
    suite.env.push(("TSAN_OPTIONS", options.into()));
    Ok(suite)
}

/// `cargo xtask valgrind`.
pub(crate) fn valgrind(workspace: &Workspace, options: &Options) -> Result<()> {
    let found = need::program("valgrind").is_some();
    need::require("valgrind", found, "apt-get install valgrind")?;
    let runner = [
        "valgrind",
        "--error-exitcode=99",
        "--leak-check=no",
        "--fair-sched=yes",
        // The longest basic blocks of the interpreter exceed what valgrind can translate at once.
        "--vex-guest-max-insns=20",
        "--quiet",
    ];
    let mut suite = Suite::new("valgrind", LINUX);
    suite.runner = runner.map(str::to_owned).to_vec();
    suite.packages.clone_from(&options.package);
    if suite.packages.is_empty() {
        suite.packages = ["cuda-sys", "cuda-sim", "cuda-driver", "cuda-conformance"]
            .map(str::to_owned)
            .to_vec();
    }
    suite.run(workspace)
}

/// `cargo xtask wine`: the tests for Windows, with the software device as `nvcuda.dll`.
pub(crate) fn wine(workspace: &Workspace, options: &Options) -> Result<()> {
    let (target, compiler) = ("x86_64-pc-windows-gnu", "x86_64-w64-mingw32-gcc");
    need::std_sources(workspace)?;
    let found = need::program(compiler).is_some();
    need::require(
        "the C compiler of MinGW",
        found,
        "apt-get install gcc-mingw-w64-x86-64",
    )?;
    // Debian installs the 64-bit Wine outside of PATH.
    let debian = Some(PathBuf::from("/usr/lib/wine/wine64")).filter(|path| path.is_file());
    let wine = need::program("wine64")
        .or(debian)
        .or_else(|| need::program("wine"));
    need::require(
        "Wine",
        wine.is_some(),
        "apt-get install --no-install-recommends wine64",
    )?;

    let dir = workspace.target.join("wine");
    let libraries = dir.join("libraries");
    fs::create_dir_all(&libraries)?;
    let driver = libraries.join("nvcuda.dll");
    let mut suite = Suite::with_std("wine", target);
    suite.packages.clone_from(&options.package);
    suite.runner = vec![wine.unwrap_or_default().to_string_lossy().into_owned()];
    suite.env.push(("WINEPREFIX", dir.join("prefix").into()));
    suite
        .env
        .push(("WINEPATH", format!("Z:{}", libraries.display()).into()));
    // The search for a driver does not include the folders of PATH.
    suite.env.push((
        "CUDA_DRIVER_LIBRARY",
        format!("Z:{}", driver.display()).into(),
    ));

    // Wine lacks the library for random numbers that Rust's standard library uses.
    let mut compile = Command::new(compiler);
    compile
        .args(["-shared", "-o"])
        .arg(libraries.join("bcryptprimitives.dll"));
    compile
        .arg(workspace.root.join("xtask/platforms/wine-random.c"))
        .arg("-ladvapi32");
    workspace::run(&mut compile)?;
    let mut build = suite.command(workspace, "build");
    workspace::run(build.args(["-p", "cuda-sim-cdylib", "--no-default-features"]))?;
    let built = dir.join(target).join("debug/cuda_sim_driver.dll");
    fs::copy(&built, driver).with_context(|| format!("{} was not built", built.display()))?;
    suite.run(workspace)
}

/// `cargo xtask arm`: the tests for 64-bit Arm, which the kernel starts in `qemu-aarch64`.
pub(crate) fn arm(workspace: &Workspace, options: &Options) -> Result<()> {
    need::std_sources(workspace)?;
    // Tests that start themselves again require the registration.
    let found = Path::new("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists();
    let packages =
        "apt-get install --no-install-recommends qemu-user qemu-user-binfmt binfmt-support";
    need::require(
        "qemu-aarch64, registered for programs for Arm,",
        found,
        packages,
    )?;
    let found = need::program("aarch64-linux-gnu-gcc").is_some();
    need::require(
        "a C compiler for Arm",
        found,
        "apt-get install gcc-aarch64-linux-gnu",
    )?;
    let mut suite = Suite::with_std("arm", "aarch64-unknown-linux-gnu");
    suite.packages.clone_from(&options.package);
    suite.run(workspace)
}

/// `cargo xtask targets`: compiles the libraries for systems whose linkers this machine lacks.
/// Nothing is linked or run.
pub(crate) fn targets(workspace: &Workspace) -> Result<()> {
    need::std_sources(workspace)?;
    for target in LINKED_ELSEWHERE {
        println!("\n-- {target}");
        let mut check = Suite::with_std("targets", target).command(workspace, "check");
        check.args(["-p", "cuda-sim-cdylib"]).args(FEATURES);
        workspace::run(check.args(PACKAGES.iter().flat_map(|package| ["-p", package])))?;
    }
    println!("\n{} targets compiled", LINKED_ELSEWHERE.len());
    Ok(())
}

//! The Python extension in `examples/python`, which is a workspace of its own: it is built as a
//! wheel, installed in a virtual environment, and tested with NumPy and ctypes on the software
//! device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};

/// The packages in the virtual environment.
const REQUIREMENTS: [&str; 2] = ["maturin>=1.9,<2", "numpy>=2.1"];

/// Whether the device is eager, or late with a seed.
const SCHEDULES: [&str; 3] = [
    "check=all",
    "check=all,schedule=late:1",
    "check=all,schedule=late:2",
];

/// Builds and tests the extension. Prints what is skipped if there is no Python with pip, or if pip
/// cannot install what the build needs.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    if !cfg!(target_os = "linux") {
        println!("skipped: the test of the extension requires Linux");
        return Ok(());
    }
    let root = workspace.target.join("python");
    let programs = root.join("venv/bin");
    let python = programs.join("python3");
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet"])
        .args(REQUIREMENTS);
    let is_ready =
        (python.is_file() || works(&mut create(&root.join("venv")))) && works(&mut install);
    if !is_ready {
        println!("skipped: the extension needs python3 with venv and pip, and {REQUIREMENTS:?}");
        return Ok(());
    }
    let manifest = workspace.root.join("examples/python/Cargo.toml");
    let mut clippy = workspace.cargo(["clippy", "--locked", "--all-targets", "--manifest-path"]);
    clippy.arg(&manifest).args(["--", "-D", "warnings"]);
    workspace::run(clippy.env("CARGO_TARGET_DIR", root.join("build")))?;

    let wheels = root.join("wheels");
    // The folder may hold the wheel of an earlier version.
    let _ = fs::remove_dir_all(&wheels);
    let mut build = Command::new(programs.join("maturin"));
    build
        .args(["build", "--locked", "--manifest-path"])
        .arg(&manifest);
    build
        .arg("--out")
        .arg(&wheels)
        .arg("--interpreter")
        .arg(&python);
    workspace::run(build.env("CARGO_TARGET_DIR", root.join("build")))?;
    let wheel = only_file(&wheels)?;
    let mut install = Command::new(&python);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--force-reinstall",
        "--no-deps",
    ]);
    workspace::run(install.arg(&wheel))?;

    let mut library = workspace.cargo(["build", "-p", "cuda-sim-cdylib"]);
    workspace::run(library.env("CARGO_TARGET_DIR", &workspace.target))?;
    let library = workspace.target.join("debug/libcuda_sim_driver.so");
    for schedule in SCHEDULES {
        let mut test = Command::new(&python);
        test.arg(workspace.root.join("examples/python/tests/software.py"));
        test.env("CUDA_DRIVER_LIBRARY", &library)
            .env("CUDA_SIM", schedule);
        workspace::run(&mut test)?;
    }
    println!("the wheel is {}", workspace.relative(&wheel));
    Ok(())
}

/// Returns the command that creates a virtual environment.
fn create(folder: &Path) -> Command {
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(folder);
    create
}

/// Returns whether a command succeeds. Its output is not shown.
fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut entries = folder.read_dir().context("the wheels")?;
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(entry?.path()),
        _ => bail!("{} does not hold one wheel", folder.display()),
    }
}

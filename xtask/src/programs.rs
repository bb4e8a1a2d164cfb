//! `full programs`: runs unmodified third-party programs on the software device as a driver
//! library. `crates/cuda-sim-cdylib/programs/run.py` installs and runs them.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Python};
use crate::workspace::{self, Workspace};

/// Runs every program.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    run(workspace, true)
}

/// Runs the same programs except for one of the two builds of cudarc's tests, and those of its
/// tests that compare times.
pub(crate) fn reduced(workspace: &Workspace) -> Result<()> {
    println!(
        "1 of 2 builds of cudarc's tests, without timing tests (all: cargo xtask full programs)"
    );
    run(workspace, false)
}

fn run(workspace: &Workspace, is_full: bool) -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("programs find the library through LD_LIBRARY_PATH: this check requires Linux");
    }
    let mut build = workspace.cargo(["build", "-p", "cuda-sim-cdylib"]);
    build.args(is_full.then_some("--release"));
    workspace::run(&mut build)?;
    let profile = if is_full { "release" } else { "debug" };
    let built = workspace.target.join(profile).join("libcuda_sim_driver.so");
    let dir = workspace.target.join("programs");
    let driver = dir.join("driver");
    fs::create_dir_all(&driver)?;
    for name in ["libcuda.so", "libcuda.so.1"] {
        // The file is replaced by renaming, because a program may have the old one open.
        let new = driver.join("new");
        fs::copy(&built, &new).with_context(|| format!("cannot copy {}", built.display()))?;
        fs::rename(&new, driver.join(name))?;
    }

    let sets: &[&str] = &[setup::TOOLKIT_SET, "nvrtc-13.5", "nvrtc-12.9"];
    let setup = setup::ensure(workspace, if is_full { sets } else { &sets[..2] })?;
    let mut command = Python::find()?.command();
    command.arg(
        workspace
            .root
            .join("crates/cuda-sim-cdylib/programs/run.py"),
    );
    command.arg("--dir").arg(&dir).arg("--driver").arg(&driver);
    command
        .arg("--nvrtc")
        .arg(setup.join("nvrtc"))
        .arg("--include")
        .arg(setup.join("include"));
    workspace::run(command.args(is_full.then_some("--full")))
}

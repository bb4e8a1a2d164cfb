//! `setup`: installs CUDA headers, NVRTC and libclang on a machine without a CUDA toolkit.
//!
//! `pip` downloads the wheels that NVIDIA and the libclang project publish, and checks them against
//! the hashes in `setup/wheels.toml`. They are unpacked below `target/cuda-setup/`:
//!
//! | folder | holds |
//! |---|---|
//! | `include/`, `lib/` | the newest headers, NVRTC and libclang |
//! | `headers/<version>/` | the four headers that bindings are generated from (`--all-headers`) |
//! | `nvrtc/<version>/include`, `…/lib` | one NVRTC (`--nvrtc <version>`) |
//! | `device-headers/12.9/include` | headers for kernels, for NVRTC of CUDA 12 (`full drivers`) |
//!
//! Each set has a `versions.txt`, which is written last. A set whose `versions.txt` lists the
//! pinned versions is not installed again.

mod install;
mod python;
mod toolkit;
mod wheels;

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
pub(crate) use python::Python;
pub(crate) use toolkit::Toolkit;
use wheels::{Platform, Wheels};

/// The set that `setup` installs without options.
pub(crate) const TOOLKIT_SET: &str = "toolkit";

/// Options of `setup`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Also fetch the headers of every CUDA version that the bindings are tested against
    #[arg(long)]
    all_headers: bool,
    /// Also fetch these versions of NVRTC (12.0, 12.2, 12.4, 12.6, 12.9, 13.0, 13.3 or 13.5)
    #[arg(long, value_delimiter = ',', value_name = "VERSION")]
    nvrtc: Vec<String>,
    /// Fetch even though this machine has a CUDA toolkit
    #[arg(long)]
    force: bool,
}

/// The result of `setup`.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The machine has a toolkit, so nothing was fetched.
    Toolkit(Toolkit),
    /// Every requested set is installed below this folder.
    Ready(PathBuf),
}

/// `cargo xtask setup`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let wheels = Wheels::load()?;
    let mut sets = Vec::new();
    if options.all_headers {
        sets.extend(wheels.sets_below("headers"));
    }
    for version in &options.nvrtc {
        let set = format!("nvrtc/{version}");
        if !wheels.sets_below("nvrtc").contains(&set) {
            let known = wheels.sets_below("nvrtc").join(", ").replace("nvrtc/", "");
            bail!("there is no pinned NVRTC {version}; the pinned versions are {known}");
        }
        sets.push(set);
    }
    match default_set(workspace, options.force)? {
        Outcome::Toolkit(toolkit) => println!(
            "setup is not needed: CUDA toolkit at {} (--force installs the headers, NVRTC and libclang anyway)",
            toolkit.root.display()
        ),
        Outcome::Ready(dir) => println!("headers, NVRTC and libclang: {}", dir.display()),
    }
    if !sets.is_empty() {
        ensure(workspace, &sets)?;
    }
    Ok(())
}

/// Installs the default set, unless the machine has a toolkit and `force` is off.
pub(crate) fn default_set(workspace: &Workspace, force: bool) -> Result<Outcome> {
    match toolkit::find() {
        Some(toolkit) if !force => Ok(Outcome::Toolkit(toolkit)),
        _ => ensure(workspace, &[TOOLKIT_SET.to_owned()]).map(Outcome::Ready),
    }
}

/// Makes sure that each of `sets` is complete, and returns the folder that contains them.
pub(crate) fn ensure(workspace: &Workspace, sets: &[String]) -> Result<PathBuf> {
    let dir = workspace.cuda_setup();
    let wheels = Wheels::load()?;
    let Some(platform) = Platform::of_this_machine() else {
        bail!(
            "no NVRTC and no CUDA headers are published for {} on {}.\n\
             Everything still builds from the committed bindings, and hand-written PTX runs on \
             the software device. Only compilation of CUDA C++ at run time is not available.",
            std::env::consts::OS,
            std::env::consts::ARCH,
        );
    };
    let plans = sets
        .iter()
        .map(|set| wheels.plan(set, platform))
        .collect::<Result<Vec<_>>>()?;
    if plans.iter().all(|plan| plan.is_installed(&dir)) {
        println!("setup: nothing to do, {} is complete", sets.join(", "));
        return Ok(dir);
    }

    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let lock = File::create(dir.join(".lock"))?;
    lock.lock().context("cannot lock the setup folder")?;
    let mut found: Option<Python> = None;
    for plan in plans {
        if plan.is_installed(&dir) {
            continue;
        }
        let python = match &found {
            Some(python) => python,
            None => found.insert(Python::find()?),
        };
        install::install(&plan, python, &dir)?;
        if plan.set == TOOLKIT_SET {
            rebuild_bindings(workspace);
        }
    }
    Ok(dir)
}

/// Removes the build output of `cuda-sys`, so that its build script searches for a header again.
fn rebuild_bindings(workspace: &Workspace) {
    for profile in ["dev", "release"] {
        let mut clean =
            workspace.cargo(["clean", "--quiet", "-p", "cuda-sys", "--profile", profile]);
        match clean.output() {
            Ok(output) if output.status.success() => {}
            _ => println!(
                "note: run `cargo clean -p cuda-sys` once, so that the next build sees the headers"
            ),
        }
    }
}

/// Installs the default set for a task that can continue without it. Failure is reported, and is
/// not an error.
pub(crate) fn try_default(workspace: &Workspace) {
    match default_set(workspace, false) {
        Ok(Outcome::Toolkit(toolkit)) => println!("CUDA toolkit: {}", toolkit.root.display()),
        Ok(Outcome::Ready(_)) => {}
        Err(error) => println!(
            "{error:#}\n\nContinuing without it: everything that requires NVRTC or a CUDA header is skipped, with a message.\n"
        ),
    }
}

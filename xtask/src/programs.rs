//! `full programs`: runs unmodified third-party programs on the software device as a driver
//! library.
//!
//! They are installed from their registries below `target/programs/`:
//!
//! | folder | holds |
//! |---|---|
//! | `driver/` | the library of `cuda-sim-cdylib` as `libcuda.so.1` |
//! | `vendor/`, `build/` | cudarc and its tests |
//! | `python-<version>/` | NVIDIA's packages for Python |

mod cudarc;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Python};
use crate::workspace::{self, Workspace};

/// The packages that pip installs. pip chooses the versions of their dependencies.
const PACKAGES: [&str; 3] = [
    "cuda-bindings==13.5.0",
    "cuda-core==1.2.2",
    "cuda-pathfinder==1.9.0",
];

/// Scripts in `crates/cuda-sim-cdylib/programs` that use these packages. Each compares its results
/// with results of the host.
const SCRIPTS: [&str; 4] = ["saxpy.py", "graph.py", "pool.py", "virtual_memory.py"];

/// The time limit of a program, to detect hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs every program.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let programs = Programs::new(workspace, true)?;
    for suite in &cudarc::SUITES {
        suite.check(&programs, true)?;
    }
    programs.python()
}

/// Runs the same programs except for one of the two builds of cudarc's tests, and those of its
/// tests that compare times.
pub(crate) fn reduced(workspace: &Workspace) -> Result<()> {
    println!(
        "1 of {} builds of cudarc's tests, without timing tests (all: cargo xtask full programs)",
        cudarc::SUITES.len()
    );
    let programs = Programs::new(workspace, false)?;
    cudarc::SUITES[0].check(&programs, false)?;
    programs.python()
}

/// The state that all programs share.
struct Programs<'a> {
    workspace: &'a Workspace,
    /// `target/programs`
    dir: PathBuf,
    /// The folder with `libcuda.so.1`.
    driver: PathBuf,
}

impl<'a> Programs<'a> {
    /// Builds the driver library, and copies it to the folder where programs find it.
    fn new(workspace: &'a Workspace, release: bool) -> Result<Self> {
        if !cfg!(target_os = "linux") {
            bail!("programs find the library through LD_LIBRARY_PATH: this check requires Linux");
        }
        let mut build = workspace.cargo(["build", "-p", "cuda-sim-cdylib"]);
        if release {
            build.arg("--release");
        }
        workspace::run(&mut build)?;
        let profile = if release { "release" } else { "debug" };
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
        Ok(Self {
            workspace,
            dir,
            driver,
        })
    }

    /// Returns the folder of the NVRTC of this release.
    fn nvrtc(&self, release: &str) -> Result<PathBuf> {
        let set = format!("nvrtc/{release}");
        let dir = setup::ensure(self.workspace, &[set])?;
        Ok(dir.join("nvrtc").join(release).join("lib"))
    }

    /// Sets the environment so that a program finds the software driver, with two devices, and an
    /// NVRTC.
    fn prepare(&self, command: &mut Command, nvrtc: &Path) -> Result<()> {
        let path = std::env::join_paths([&self.driver, nvrtc])?;
        command
            .env("LD_LIBRARY_PATH", path)
            .env("CUDA_SIM", "devices=2")
            // Logs each call to stderr.
            .env("CUDA_SIM_LOG", "calls");
        Ok(())
    }

    /// Runs the scripts on NVIDIA's packages.
    fn python(&self) -> Result<()> {
        let python = Python::find()?;
        let folder = format!("python-{}", python.version()?);
        let packages = self.dir.join(folder);
        let stamp = packages.join("versions.txt");
        let wanted = PACKAGES.join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            println!("{} are installed", PACKAGES.join(", "));
        } else {
            println!("installing {}", PACKAGES.join(", "));
            python.install(&PACKAGES, &packages)?;
            fs::write(&stamp, wanted)?;
        }
        let nvrtc = self.nvrtc("13.5")?;
        let scripts = self.workspace.root.join("crates/cuda-sim-cdylib/programs");
        for script in SCRIPTS {
            let mut command = python.command();
            command
                .arg(scripts.join(script))
                .env("PYTHONPATH", &packages)
                .env("PYTHONDONTWRITEBYTECODE", "1");
            self.prepare(&mut command, &nvrtc)?;
            let run = Run::of(&mut command, &self.dir)?;
            if !run.is_success() {
                bail!("{script} failed: {}\n{}", run.status(), run.end());
            }
            println!("{script}: {} calls of the driver", run.calls());
            for line in run.own_lines() {
                println!("    {line}");
            }
            if run.calls() == 0 {
                bail!("{script} did not use the software driver");
            }
        }
        println!("{} scripts passed", SCRIPTS.len());
        Ok(())
    }
}

/// A program that has ended.
struct Run {
    /// The exit status, or `None` if the time limit was exceeded.
    status: Option<ExitStatus>,
    said: String,
}

impl Run {
    /// Runs a command in a separate process, with its output in a file in `dir`.
    fn of(command: &mut Command, dir: &Path) -> Result<Self> {
        let path = dir.join("output.txt");
        let output = File::create(&path)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let status = workspace::within(command, LIMIT)?;
        let said = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        Ok(Self { status, said })
    }

    fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    fn status(&self) -> String {
        self.status.map_or_else(
            || format!("it took longer than {} s", LIMIT.as_secs()),
            |status| status.to_string(),
        )
    }

    /// Returns the number of calls to the software driver.
    fn calls(&self) -> usize {
        let lines = self.said.lines();
        lines.filter(|line| line.contains("cuda-sim: cu")).count()
    }

    /// Returns the lines of output other than the logged calls.
    fn own_lines(&self) -> impl Iterator<Item = &str> {
        self.said
            .lines()
            .filter(|line| !line.contains("cuda-sim: cu") && !line.is_empty())
    }

    /// Returns the last lines of output.
    fn end(&self) -> String {
        let lines: Vec<&str> = self.own_lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

//! Runs the tests of the libraries with a sanitizer, in another program, or for another system.
//!
//! `cargo test` starts each test program through `xtask/platforms/runner.py`, which is set as the
//! runner of the target. It runs a few tests in each process, each process with a time limit, and
//! skips the tests in `xtask/platforms/skips.txt`.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{self, Workspace};

/// The packages whose tests concern code at run time. The others run at build time.
pub(crate) const PACKAGES: [&str; 5] = [
    "cuda-sys",
    "cuda-sim",
    "cuda-nvrtc",
    "cuda-driver",
    "cuda-conformance",
];

/// The features without bindgen, which would need a C compiler's headers for each target.
pub(crate) const FEATURES: [&str; 2] = [
    "--no-default-features",
    "--features=cuda-driver/derive,cuda-driver/half,cuda-driver/nvrtc",
];

/// How the tests are built and run.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    /// The name of the settings in `xtask/platforms` and of the folder below `target/` for all
    /// output.
    name: &'static str,
    target: &'static str,
    with_std: bool,
    /// The packages to test; if empty, [`PACKAGES`].
    pub(crate) packages: Vec<String>,
    /// The integration test to run; if `None`, all tests.
    pub(crate) test: Option<&'static str>,
    /// Additional environment of cargo and of the tests.
    pub(crate) env: Vec<(&'static str, OsString)>,
    /// The program that runs a test, with its arguments; empty to run tests directly.
    pub(crate) runner: Vec<String>,
}

impl Suite {
    pub(crate) fn new(name: &'static str, target: &'static str) -> Self {
        Self {
            name,
            target,
            ..Self::default()
        }
    }

    /// Like [`new`](Self::new), for a target or settings that need a rebuilt standard library.
    pub(crate) fn with_std(name: &'static str, target: &'static str) -> Self {
        Self {
            with_std: true,
            ..Self::new(name, target)
        }
    }

    /// Builds and runs the tests.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let script = workspace.root.join("xtask/platforms/runner.py");
        let mut runner = vec!["python3".to_owned(), script.to_string_lossy().into_owned()];
        runner.extend(self.runner.iter().cloned());
        let mut cargo = self.command(workspace, "test");
        cargo.arg(format!("--config=target.{}.runner={runner:?}", self.target));
        cargo.arg("--no-fail-fast");
        match self.test {
            Some(test) => cargo.args(["--test", test]),
            None => cargo.args(["--lib", "--tests"]),
        };
        let mut packages: Vec<&str> = self.packages.iter().map(String::as_str).collect();
        if packages.is_empty() {
            packages.extend(PACKAGES);
        }
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        // Features of a package that is not selected would be an error.
        let with_driver = usize::from(packages.contains(&"cuda-driver"));
        cargo.args(&FEATURES[..=with_driver]);
        let logs = workspace.target.join(self.name).join("logs");
        fs::create_dir_all(&logs)?;
        cargo.env("XTASK_SUITE", self.name).env("XTASK_LOGS", &logs);
        workspace::run(&mut cargo).with_context(|| format!("see {}", logs.display()))
    }

    /// Returns a cargo command that builds for the target of this suite.
    pub(crate) fn command(&self, workspace: &Workspace, command: &str) -> Command {
        let settings = format!("xtask/platforms/{}.toml", self.name);
        let mut cargo = workspace.cargo([command, "--target", self.target, "--config", &settings]);
        if self.with_std {
            // A stable compiler builds the standard library only with this variable.
            cargo.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1");
        }
        cargo.envs(self.env.iter().cloned());
        cargo.env("CARGO_TARGET_DIR", workspace.target.join(self.name));
        cargo
    }
}

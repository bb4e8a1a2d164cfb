//! python3 with pip, which downloads, checks and unpacks wheels.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace;

const INSTALL_PYTHON: &str = "\
Either install python3 with pip, and run `cargo xtask setup` again:
    Debian, Ubuntu:  apt install python3-pip
    Fedora, RHEL:    dnf install python3-pip
    Windows:         winget install Python.Python.3.13";

const INSTALL_TOOLKIT: &str = "\
Or install a CUDA toolkit, 12.0 or newer, which makes setup unnecessary. It is found in the folder
that CUDA_PATH or CUDA_HOME names, in /usr/local/cuda and in /opt/cuda. Bindings are generated from
its headers if it is 13.0 or newer.
With neither, everything still builds from the committed bindings, and hand-written PTX runs
on the software device; only compilation of CUDA C++ at run time (NVRTC) is not available.";

/// A Python that has pip.
#[derive(Debug)]
pub(crate) struct Python {
    program: &'static str,
}

impl Python {
    /// Finds a Python with pip. The error says what to install.
    pub(crate) fn find() -> Result<Self> {
        let succeeds = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        let is_new = "import sys; sys.exit(sys.version_info < (3, 7))";
        let mut found = ["python3", "python", "py"]
            .into_iter()
            .filter(|it| succeeds(it, &["-c", is_new]));
        let Some(program) = found.next() else {
            bail!(
                "setup cannot download: python3 is not on PATH.\n{INSTALL_PYTHON}\n{INSTALL_TOOLKIT}"
            );
        };
        let has_pip = |program: &&str| succeeds(program, &["-m", "pip", "--version"]);
        match [program].into_iter().chain(found).find(has_pip) {
            Some(program) => Ok(Self { program }),
            None => bail!(
                "setup cannot download: {program} has no pip.\n{INSTALL_PYTHON}\n{INSTALL_TOOLKIT}"
            ),
        }
    }

    /// Returns a command that runs this Python.
    pub(crate) fn command(&self) -> Command {
        Command::new(self.program)
    }

    /// Installs the pinned wheels of `file` into the folder `dir`, without their dependencies. pip
    /// checks the hashes. `platforms` are those of the wheels, if they are not this machine's.
    pub(crate) fn install_pinned(&self, file: &Path, platforms: &[&str], dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        let mut pip = self.command();
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
        ])
        .args([
            "--no-deps",
            "--no-compile",
            "--only-binary=:all:",
            "--target",
        ])
        .arg(dir)
        .args(["--require-hashes", "--requirement"])
        .arg(file)
        .args(platforms.iter().map(|it| format!("--platform={it}")))
        .env("PIP_REQUIRE_VIRTUALENV", "false")
        .env("PIP_USER", "false")
        .env("PIP_ROOT_USER_ACTION", "ignore");
        // pip unpacks in the folder of the result, which has more room than the system's folder.
        pip.envs(["TMPDIR", "TEMP", "TMP"].map(|variable| (variable, dir)));
        if let Err(error) = workspace::run(&mut pip) {
            bail!(
                "pip could not install {}: {error:#}\n\
                 Either connect this machine to a network (or to a package index with NVIDIA's \
                 packages), and run `cargo xtask setup` again.\n{INSTALL_TOOLKIT}",
                file.display()
            );
        }
        Ok(())
    }
}

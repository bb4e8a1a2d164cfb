//! python3 with pip, which downloads, checks and unpacks the wheels.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::wheels::Pinned;

const INSTALL_PYTHON: &str = "\
Either install python3 with pip, and run `cargo xtask setup` again:
    Debian, Ubuntu:  apt install python3-pip
    Fedora, RHEL:    dnf install python3-pip
    Windows:         winget install Python.Python.3.13";

const INSTALL_TOOLKIT: &str = "\
Or install a CUDA toolkit, 13.0 or newer, which makes setup unnecessary. It is found in
/usr/local/cuda, or in the folder that CUDA_PATH (or CUDA_HOME) names, which contains include/cuda.h.
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
        let mut found = None;
        for program in ["python3", "python", "py"] {
            match Command::new(program)
                .args(["-c", "import sys; sys.exit(sys.version_info < (3, 7))"])
                .output()
            {
                Ok(output) if output.status.success() => {}
                _ => continue,
            }
            match Command::new(program)
                .args(["-m", "pip", "--version"])
                .output()
            {
                Ok(output) if output.status.success() => return Ok(Self { program }),
                _ => found = found.or(Some(program)),
            }
        }
        match found {
            Some(program) => bail!(
                "setup cannot download: {program} has no pip.\n{INSTALL_PYTHON}\n{INSTALL_TOOLKIT}"
            ),
            None => bail!(
                "setup cannot download: python3 is not on PATH.\n{INSTALL_PYTHON}\n{INSTALL_TOOLKIT}"
            ),
        }
    }

    /// Downloads one wheel into `dir`. pip checks its hash.
    pub(crate) fn download(&self, wheel: &Pinned, dir: &Path) -> Result<()> {
        let Pinned { name, version, .. } = wheel;
        let requirements = dir.join("requirements.txt");
        std::fs::write(
            &requirements,
            format!("{name}=={version} --hash=sha256:{}\n", wheel.sha256),
        )?;
        let mut pip = Command::new(self.program);
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ])
        .args(["--require-hashes", "--no-deps", "--only-binary=:all:"])
        .args(["--platform", wheel.platform.pip_tag()])
        .arg("--dest")
        .arg(dir)
        .arg("--requirement")
        .arg(&requirements)
        .env("PIP_REQUIRE_VIRTUALENV", "false")
        // pip's temporary files are put beside the result, where the progress can be observed.
        .envs(["TMPDIR", "TEMP", "TMP"].map(|variable| (variable, dir)));
        let output = watch(&mut pip, wheel, dir)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "pip could not download {name} {version}:\n{}\n\
                 Either connect this machine to a network (or to a package index with NVIDIA's packages), \
                 and run `cargo xtask setup` again.\n{INSTALL_TOOLKIT}",
                errors(&said),
            );
        }
        Ok(())
    }

    /// Returns a command that runs this Python.
    pub(crate) fn command(&self) -> Command {
        Command::new(self.program)
    }

    /// Returns the version, such as 3.11, which determines the compatible packages.
    pub(crate) fn version(&self) -> Result<String> {
        let script = "import sys; print('%d.%d' % sys.version_info[:2])";
        let output = self.command().args(["-c", script]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Installs packages and their dependencies into the folder `dir` only.
    pub(crate) fn install(&self, packages: &[&str], dir: &Path) -> Result<()> {
        let output = self
            .command()
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--upgrade"])
            .args(["--disable-pip-version-check", "--only-binary=:all:"])
            .arg("--target")
            .arg(dir)
            .args(packages)
            .env("PIP_REQUIRE_VIRTUALENV", "false")
            .output()
            .with_context(|| format!("{} could not be started", self.program))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "pip could not install {}:\n{}",
                packages.join(", "),
                errors(&said)
            );
        }
        Ok(())
    }

    /// Unpacks a wheel, which is a zip archive, into `dir`.
    pub(crate) fn unpack(&self, wheel: &Path, dir: &Path) -> Result<()> {
        let output = Command::new(self.program)
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(dir)
            .output()
            .with_context(|| format!("{} could not be started", self.program))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} cannot be unpacked:\n{}", wheel.display(), errors(&said));
        }
        Ok(())
    }
}

/// Runs `pip` and prints the progress of the download every few seconds.
fn watch(pip: &mut Command, wheel: &Pinned, dir: &Path) -> Result<Output> {
    pip.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = pip.spawn().context("pip could not be started")?;
    let mut shown = Instant::now();
    while child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(50));
        if shown.elapsed() > Duration::from_secs(5) {
            shown = Instant::now();
            println!(
                "    {:.1} of {:.1} MiB",
                bytes_below(dir) as f64 / 1_048_576.0,
                wheel.mib
            );
        }
    }
    child
        .wait_with_output()
        .context("pip could not be waited for")
}

fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = dir.read_dir() else {
        return 0;
    };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        // pip may have removed the file meanwhile.
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Returns the error lines in the output of a Python program, or its last lines if there are none.
fn errors(said: &str) -> String {
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let errors: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| line.starts_with("ERROR"))
        .collect();
    if errors.is_empty() {
        return lines[lines.len().saturating_sub(6)..].join("\n");
    }
    errors.join("\n")
}

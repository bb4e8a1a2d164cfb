//! The driver and NVRTC tests of cudarc. Each runs in a separate process, because a lost device
//! stays lost for its process.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Programs, Run};
use crate::setup;
use crate::workspace;

const VERSION: &str = "0.19.4";

/// The features of every build. Dynamic loading makes it load the library that it finds at run
/// time.
const FEATURES: &str = "std,driver,nvrtc,dynamic-loading,f16";

/// One build of the tests, for one release of CUDA.
pub(super) struct Suite {
    /// The feature of cudarc for the release.
    feature: &'static str,
    nvrtc: &'static str,
    /// The number of tests.
    tests: usize,
    /// The tests that fail on every driver, with the reason.
    failing: &'static [(&'static str, &'static str)],
}

const PEER: (&str, &str) = (
    "driver::result::tests::peer_transfer_contexts",
    "cudarc refuses to record an event in a stream of the other device's context, before it calls the driver",
);

pub(super) const SUITES: [Suite; 2] = [
    Suite {
        feature: "cuda-13000",
        nvrtc: "13.5",
        tests: 47,
        failing: &[
            PEER,
            (
                "driver::safe::launch::tests::test_launch_with_half",
                "it compiles for compute_53, which NVRTC 13 does not know",
            ),
        ],
    },
    Suite {
        feature: "cuda-12090",
        nvrtc: "12.9",
        tests: 49,
        failing: &[PEER],
    },
];

/// Tests that compare times on the host's clock. They may fail if the machine is busy.
const TIMED: [&str; 2] = [
    // Two kernels on two streams must take half the time of two kernels on one stream, within a
    // fifth.
    "driver::safe::launch::tests::test_par_launch",
    // A copy from page-locked memory must be faster; here both copies are a `memcpy`.
    "driver::safe::core::tests::test_pinned_copy_is_faster",
];

impl Suite {
    /// Builds and runs the tests. Exactly the expected tests must fail.
    pub(super) fn check(&self, programs: &Programs<'_>, timed: bool) -> Result<()> {
        let nvrtc = programs.nvrtc(self.nvrtc)?;
        // One test includes <cuda_fp16.h>, which NVRTC searches for in the current folder.
        let toolkit = setup::ensure(programs.workspace, &[setup::TOOLKIT_SET.to_owned()])?;
        let program = self.build(programs, &fetch(programs)?)?;
        let start = Instant::now();
        let run = |args: &[&str]| {
            let mut command = Command::new(&program);
            command.args(args).current_dir(toolkit.join("include"));
            programs.prepare(&mut command, &nvrtc)?;
            Run::of(&mut command, &programs.dir)
        };
        let list = run(&["--list", "--include-ignored"])?;
        let tests: Vec<&str> = list
            .said
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect();
        if tests.len() != self.tests {
            bail!(
                "there are {} tests, but {} were expected",
                tests.len(),
                self.tests
            );
        }
        let (mut passed, mut calls, mut left_out) = (0, 0, 0);
        let mut failed = BTreeSet::new();
        for test in tests {
            if TIMED.contains(&test) && !timed {
                left_out += 1;
                continue;
            }
            let run = run(&["--exact", test, "--include-ignored", "--test-threads=1"])?;
            calls += run.calls();
            if run.is_success() {
                passed += 1;
                continue;
            }
            failed.insert(test);
            if let Some((_, reason)) = self.failing.iter().find(|(name, _)| *name == test) {
                println!("{test} fails as expected: {reason}");
            } else if TIMED.contains(&test) {
                println!("{test} fails: it compares times");
            } else {
                println!("{test} FAILED: {}\n{}", run.status(), run.end());
            }
        }
        println!(
            "cudarc {VERSION}, {}, NVRTC {}, two devices: {passed} of {} tests passed, {} failed, {left_out} left out; \
             {calls} calls of the driver, {:.0} s",
            self.feature,
            self.nvrtc,
            self.tests,
            failed.len(),
            start.elapsed().as_secs_f64(),
        );
        failed.retain(|test| !TIMED.contains(test));
        let expected: BTreeSet<&str> = self.failing.iter().map(|(name, _)| *name).collect();
        if failed != expected {
            bail!("{expected:?} should have failed, but {failed:?} did");
        }
        if calls == 0 {
            bail!("the tests did not use the software driver");
        }
        Ok(())
    }

    /// Builds the tests of the crate in `source`, and returns the program.
    fn build(&self, programs: &Programs<'_>, source: &Path) -> Result<PathBuf> {
        println!("building the tests of cudarc for {}", self.feature);
        let mut cargo = programs
            .workspace
            .cargo(["test", "--locked", "--lib", "--no-run"]);
        cargo
            .args([
                "--message-format=json",
                "--no-default-features",
                "--features",
            ])
            .arg(format!("{FEATURES},{}", self.feature))
            .arg("--manifest-path")
            .arg(source.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(programs.dir.join("build"))
            // RUSTFLAGS for this workspace may not be suitable for another one.
            .env_remove("RUSTFLAGS");
        let shown = workspace::describe(&cargo);
        let output = cargo.output().context("cargo could not be started")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{shown}` failed:\n{said}");
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let built = said.lines().find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            message.get("executable")?.as_str().map(PathBuf::from)
        });
        built.context("cargo did not report the test program")
    }
}

/// Downloads the source of the crate from its registry.
fn fetch(programs: &Programs<'_>) -> Result<PathBuf> {
    let vendor = programs.dir.join("vendor");
    let source = vendor.join(format!("cudarc-{VERSION}"));
    // cargo writes this file when a package is complete.
    if source.join(".cargo-checksum.json").is_file() {
        return Ok(source);
    }
    let asking = programs.dir.join("fetch");
    fs::create_dir_all(&asking)?;
    fs::write(asking.join("lib.rs"), "")?;
    fs::write(
        asking.join("Cargo.toml"),
        format!(
            "[workspace]\n[package]\nname = \"fetch\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n\
             [dependencies]\ncudarc = {{ version = \"={VERSION}\", default-features = false }}\n"
        ),
    )?;
    let mut cargo =
        programs
            .workspace
            .cargo(["vendor", "--quiet", "--versioned-dirs", "--manifest-path"]);
    cargo.arg(asking.join("Cargo.toml")).arg(&vendor);
    let output = cargo.output().context("cargo could not be started")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("cudarc {VERSION} cannot be fetched:\n{said}");
    }
    Ok(source)
}

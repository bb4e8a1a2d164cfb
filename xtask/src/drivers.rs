//! Older drivers: the tests of the safe layer, and the kernels that NVRTC compiles, on software
//! drivers of older CUDA versions.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::suite::count;
use crate::workspace::{self, Workspace};
use crate::{nvrtc, setup};

/// Each compiles with the NVRTC of its release.
const VERSIONS: [&str; 6] = ["12.0", "12.2", "12.4", "12.6", "13.0", "13.5"];
/// What kernels include: NVRTC before 13.3 carries none, and these suit each of CUDA 12.
const HEADERS: &str = "device-headers/12.9";
/// Of so many tests one may be skipped as it needs a newer driver.
const SKIPPED: usize = 20;

/// All versions.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    matrix(workspace, &VERSIONS, &["--release"])
}

/// The oldest on which few tests skip: conditional nodes, edges with data and nodes that kernels
/// change are there.
pub(crate) fn reduced(workspace: &Workspace) -> Result<()> {
    println!(
        "1 of {} versions of the driver (all: cargo xtask full drivers)",
        VERSIONS.len()
    );
    matrix(workspace, &["12.4"], &[])
}

fn matrix(workspace: &Workspace, versions: &[&str], profile: &[&str]) -> Result<()> {
    let mut sets: Vec<String> = versions
        .iter()
        .map(|version| format!("nvrtc/{version}"))
        .collect();
    sets.push(HEADERS.to_owned());
    let dir = setup::ensure(workspace, &sets)?;
    let tests = || {
        let mut command = workspace.cargo(["test", "-p", "cuda-driver", "--all-features"]);
        command.args(profile);
        command.args(["--no-fail-fast", "--test", "it", "--test", "corpus"]);
        command
    };
    workspace::run(tests().arg("--no-run"))?;
    let mut failed = Vec::new();
    println!("{:<8} {:>8} {:>8}", "driver", "tests", "skipped");
    for version in versions {
        let list = workspace.target.join("skipped-tests-of-drivers.txt");
        fs::write(&list, "")?;
        let mut command = tests();
        command
            .env("CUDA_TEST_DRIVER", version)
            .env(
                "CUDA_NVRTC_LIBRARY",
                nvrtc::library(&dir.join("nvrtc"), version)?,
            )
            .env("CUDA_TEST_SKIPPED", &list);
        if version.starts_with("12.") {
            command.env("CUDA_TEST_HEADERS", dir.join(HEADERS).join("include"));
        }
        let output = command.output().context("cargo could not be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let text = fs::read_to_string(&list)?;
        let skipped: BTreeSet<&str> = text
            .lines()
            .filter(|line| line.contains("needs a driver of CUDA"))
            .collect();
        let count = count(&said, None).passed;
        println!("{version:<8} {count:>8} {:>8}", skipped.len());
        for line in &skipped {
            println!("  {line}");
        }
        if !output.status.success() {
            for line in said.lines().filter(|line| line.ends_with("FAILED")) {
                println!("  {line}");
            }
            failed.push(format!("{version}: tests fail"));
        } else if skipped.len() * SKIPPED > count {
            failed.push(format!(
                "{version}: {} of {count} tests are skipped",
                skipped.len()
            ));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

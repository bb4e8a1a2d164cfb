//! The driver matrix: runs the tests of the safe layer, including kernels that NVRTC compiles, on
//! software drivers of older CUDA versions.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::suite::count;
use crate::workspace::{self, Workspace};
use crate::{nvrtc, setup};

/// The driver versions. Each is tested with the NVRTC of the same release.
const VERSIONS: [&str; 6] = ["12.0", "12.2", "12.4", "12.6", "13.0", "13.5"];
/// The headers for kernels. NVRTC before 13.3 contains none, and these work with every CUDA 12.
const HEADERS: &str = "device-headers/12.9";
/// At most one in this number of tests may be skipped because it requires a newer driver.
const SKIPPED: usize = 20;

/// Tests all versions.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    matrix(workspace, &VERSIONS, &["--release"])
}

/// Tests the oldest version on which few tests are skipped: it has conditional nodes, edges with
/// data and device-updatable nodes.
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
            // The output of the failed tests, which cargo prints after the list of all tests.
            for line in said.lines().skip_while(|line| *line != "failures:") {
                println!("  {line}");
            }
            failed.push(format!("{version}: tests fail"));
        } else if skipped.len() * SKIPPED > count {
            failed.push(format!(
                "{version}: {} of {count} tests are skipped, more than one in {SKIPPED}",
                skipped.len()
            ));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

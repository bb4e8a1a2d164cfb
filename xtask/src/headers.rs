//! The header matrix: builds and tests with bindings generated from the header of each CUDA
//! release.
//!
//! With headers of 13.0 and newer everything must compile and pass its tests. A build with an older
//! header that the user named must fail with an error that names the version.

use anyhow::{Result, bail};

use crate::setup;
use crate::workspace::{self, Workspace};

/// Releases from whose headers bindings are generated.
const USED: [&str; 6] = ["13.0", "13.1", "13.2", "13.3", "13.4", "13.5"];
/// Releases whose headers lack items that the safe layer uses.
const TOO_OLD: [&str; 2] = ["12.0", "12.9"];

/// Checks all releases with all tests.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let tests = [
        "test",
        "--workspace",
        "--exclude",
        "xtask",
        "--all-features",
    ];
    matrix(workspace, &USED, &TOO_OLD, &tests)
}

/// Checks the oldest supported and the newest unsupported release, with the tests of cuda-sys and
/// cuda-driver.
pub(crate) fn reduced(workspace: &Workspace) -> Result<()> {
    println!(
        "2 of {} releases (all: cargo xtask full headers)",
        USED.len() + TOO_OLD.len()
    );
    let tests = [
        "test",
        "-p",
        "cuda-sys",
        "-p",
        "cuda-driver",
        "--all-features",
    ];
    matrix(workspace, &USED[..1], &TOO_OLD[1..], &tests)
}

fn matrix(workspace: &Workspace, used: &[&str], too_old: &[&str], tests: &[&str]) -> Result<()> {
    let sets: Vec<String> = used
        .iter()
        .chain(too_old)
        .map(|release| format!("headers/{release}"))
        .collect();
    let dir = setup::ensure(workspace, &sets)?.join("headers");
    // A separate target folder, because the usual builds would otherwise be regenerated each time.
    let target = workspace.target.join("headers-check");
    let cargo = |release: &str, args: &[&str]| {
        let mut command = workspace.cargo(args);
        command
            .env("CUDA_SYS_HEADERS", dir.join(release))
            .env("CARGO_TARGET_DIR", &target)
            .env("LIBCLANG_PATH", workspace.cuda_setup().join("lib"));
        command
    };
    for release in used {
        println!("\n-- the header of CUDA {release}");
        workspace::run(&mut cargo(release, tests))?;
    }
    for release in too_old {
        println!("\n-- the header of CUDA {release}, which must be refused");
        let output = cargo(release, &["build", "-p", "cuda-sys"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = format!("of CUDA {release}, older than 13.0");
        if output.status.success() || !said.contains(&expected) {
            bail!(
                "with the header of CUDA {release} the build did not fail with {expected:?}:\n{said}"
            );
        }
        let line = said.lines().find(|line| line.contains(&expected));
        println!("{}", line.unwrap_or_default());
    }
    println!("\n-- a folder without a header");
    let output = cargo("none", &["build", "-p", "cuda-sys"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("CUDA_SYS_HEADERS is set to") {
        bail!(
            "a build with CUDA_SYS_HEADERS set to a folder without a header did not fail:\n{said}"
        );
    }
    println!(
        "\nbindings generated from {} releases; {} releases refused",
        used.len(),
        too_old.len()
    );
    Ok(())
}

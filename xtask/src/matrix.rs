//! The matrices: tests with each CUDA header, each NVRTC, and each version of the software driver.
//! `ci` runs a part of each, and `full` all of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::workspace::{self, Workspace};

/// Releases from whose headers bindings are generated.
const HEADERS: [&str; 6] = ["13.0", "13.1", "13.2", "13.3", "13.4", "13.5"];
/// Releases whose headers lack items that the safe layer uses.
const TOO_OLD: [&str; 2] = ["12.0", "12.9"];
/// The releases of CUPTI whose records and numbers cuda-sys declares.
const CUPTI: [&str; 6] = ["12.0", "12.4", "12.6", "12.9", "13.0", "13.5"];
/// The releases of NVRTC: the oldest, the newest, and those in between with the most changes.
const NVRTC: [&str; 6] = ["12.0", "12.4", "12.9", "13.0", "13.3", "13.5"];
/// The versions of the software driver. Each is tested with the NVRTC of the same release.
const DRIVERS: [&str; 6] = ["12.0", "12.2", "12.4", "12.6", "13.0", "13.5"];
/// The headers for kernels. NVRTC before 13.3 contains none, and these work with every CUDA 12.
const DEVICE_HEADERS: &str = "device-headers-12.9";
/// At most one in this number of tests may be skipped because it requires a newer driver.
const SKIPPED: usize = 20;

/// Tests with all headers: with those of 13.0 and newer everything must compile and pass its tests.
/// A build with an older header that the user named must fail with an error that names the version.
pub(crate) fn all_headers(workspace: &Workspace) -> Result<()> {
    let tests = "test --workspace --exclude xtask --all-features";
    headers(workspace, &HEADERS, &TOO_OLD, &[tests])?;
    cupti(workspace)
}

/// Tests the bindings from the oldest supported header, checks that what is built on them compiles,
/// tries the newest unsupported header, and compares the declarations of CUPTI with all its
/// headers.
///
/// The tests of the crates above run in the other steps, with the newest header. `full headers`
/// runs them with each header.
pub(crate) fn some_headers(workspace: &Workspace) -> Result<()> {
    let total = HEADERS.len() + TOO_OLD.len();
    println!("2 of {total} releases (all: cargo xtask full headers)");
    let commands = [
        "test -p cuda-sys --all-features",
        "check -p cuda-driver -p cuda-conformance --tests --all-features",
    ];
    headers(workspace, &HEADERS[..1], &TOO_OLD[1..], &commands)?;
    cupti(workspace)
}

/// Compares the declarations of CUPTI in cuda-sys with the headers of each release.
fn cupti(workspace: &Workspace) -> Result<()> {
    let mut sets: Vec<_> = CUPTI.iter().map(|it| format!("cupti-{it}")).collect();
    // These headers include `cuda.h`.
    sets.push(setup::TOOLKIT_SET.to_owned());
    let dir = setup::ensure(workspace, &sets)?.join("cupti");
    let args = "test -p cuda-sys --all-features --test it -- --nocapture cupti::";
    let mut tests = workspace.cargo(args.split(' '));
    workspace::run(tests.env("CUDA_TEST_CUPTI_DIR", dir))
}

fn headers(
    workspace: &Workspace,
    used: &[&str],
    too_old: &[&str],
    commands: &[&str],
) -> Result<()> {
    let releases = used.iter().chain(too_old);
    let sets: Vec<_> = releases.map(|it| format!("headers-{it}")).collect();
    let dir = setup::ensure(workspace, &sets)?.join("headers");
    let cargo = |release: &str, args: &str| {
        let mut command = workspace.cargo(args.split(' '));
        // A separate target folder, because the usual builds would be regenerated each time.
        command
            .env("CUDA_SYS_HEADERS", dir.join(release))
            .env("CARGO_TARGET_DIR", workspace.target.join("headers-check"))
            .env("LIBCLANG_PATH", workspace.cuda_setup().join("lib"));
        command
    };
    for release in used {
        println!("\n-- the header of CUDA {release}");
        for command in commands {
            workspace::run(&mut cargo(release, command))?;
        }
    }
    let too_old = too_old
        .iter()
        .map(|it| (*it, format!("of CUDA {it}, older than 13.0")));
    let missing = ("none", "CUDA_SYS_HEADERS is set to".to_owned());
    for (release, expected) in too_old.chain([missing]) {
        println!("\n-- the header of CUDA {release}, which must be refused");
        let output = cargo(release, "build -p cuda-sys").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        match said.lines().find(|line| line.contains(&expected)) {
            Some(line) if !output.status.success() => println!("{line}"),
            _ => bail!("the build did not fail with {expected:?}:\n{said}"),
        }
    }
    println!("\nbindings generated from {} releases", used.len());
    Ok(())
}

/// Runs each test of cuda-nvrtc at its full size, first with each release of NVRTC alone, then with
/// all in one process.
pub(crate) fn all_nvrtc(workspace: &Workspace) -> Result<()> {
    let dir = nvrtc(workspace, &NVRTC, "1")?;
    println!("\n-- all {} in one process", NVRTC.len());
    let first = nvrtc_in(&dir.join(NVRTC[0]).join("lib"))?;
    workspace::run(nvrtc_tests(workspace, &first).env("CUDA_TEST_NVRTC_DIR", &dir))
}

/// Runs each test of cuda-nvrtc at its reduced size, with the last release of each major version.
pub(crate) fn some_nvrtc(workspace: &Workspace) -> Result<()> {
    println!(
        "2 of {} releases, reduced tests (all: cargo xtask full nvrtc)",
        NVRTC.len()
    );
    nvrtc(workspace, &["12.9", "13.5"], "0").map(drop)
}

fn nvrtc(workspace: &Workspace, releases: &[&str], full: &str) -> Result<PathBuf> {
    let sets: Vec<_> = releases.iter().map(|it| format!("nvrtc-{it}")).collect();
    let dir = setup::ensure(workspace, &sets)?.join("nvrtc");
    for release in releases {
        println!("\n-- NVRTC {release}");
        let start = Instant::now();
        let library = nvrtc_in(&dir.join(release).join("lib"))?;
        let mut tests = nvrtc_tests(workspace, &library);
        // An empty variable prevents other releases from being loaded into the same process.
        tests.env("CUDA_TEST_NVRTC_DIR", "").env("CUDA_FULL", full);
        workspace::run(&mut tests)?;
        println!(
            "NVRTC {release} passed in {:.0} s",
            start.elapsed().as_secs_f64()
        );
    }
    Ok(dir)
}

/// Returns the command that runs the tests with `library` as NVRTC. The tests print how much they
/// tried.
fn nvrtc_tests(workspace: &Workspace, library: &Path) -> Command {
    let mut command = workspace.cargo("test -p cuda-nvrtc -- --show-output".split(' '));
    command
        .env("CUDA_NVRTC_LIBRARY", library)
        .env("CUDA_TEST_REQUIRE_NVRTC", "1");
    command
}

/// Returns the compiler's library in a folder of libraries.
pub(crate) fn nvrtc_in(lib: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(lib).with_context(|| format!("cannot list {}", lib.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The same folder contains the built-in functions, `libnvrtc-builtins.so.12.9`.
        name.starts_with("libnvrtc.so.") || name.starts_with("nvrtc64_") && !name.contains("alt")
    });
    found.with_context(|| format!("no NVRTC was found in {}", lib.display()))
}

/// Tests the safe layer on all versions of the software driver, including kernels that NVRTC
/// compiles.
pub(crate) fn all_drivers(workspace: &Workspace) -> Result<()> {
    drivers(workspace, &DRIVERS, "test --release")
}

/// Tests the oldest version on which few tests are skipped: it has conditional nodes, edges with
/// data and device-updatable nodes.
pub(crate) fn some_drivers(workspace: &Workspace) -> Result<()> {
    println!(
        "1 of {} versions (all: cargo xtask full drivers)",
        DRIVERS.len()
    );
    drivers(workspace, &["12.4"], "test")
}

fn drivers(workspace: &Workspace, versions: &[&str], test: &str) -> Result<()> {
    let mut sets: Vec<_> = versions.iter().map(|it| format!("nvrtc-{it}")).collect();
    sets.push(DEVICE_HEADERS.to_owned());
    let dir = setup::ensure(workspace, &sets)?;
    let args =
        "-p cuda-driver -p cuda-conformance --all-features --no-fail-fast --test it --test corpus";
    let tests = || workspace.cargo(test.split(' ').chain(args.split(' ')));
    workspace::run(tests().arg("--no-run"))?;
    let mut failed = Vec::new();
    println!("{:<8} {:>8} {:>8}", "driver", "tests", "skipped");
    for version in versions {
        let list = workspace.target.join("skipped-tests-of-drivers.txt");
        fs::write(&list, "")?;
        let mut command = tests();
        let library = nvrtc_in(&dir.join("nvrtc").join(version).join("lib"))?;
        command
            .env("CUDA_TEST_DRIVER", version)
            .env("CUDA_NVRTC_LIBRARY", library);
        command.env("CUDA_TEST_SKIPPED", &list);
        if version.starts_with("12.") {
            command.env("CUDA_TEST_HEADERS", dir.join("device-headers/12.9/include"));
        }
        let output = command.output().context("cargo could not be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let text = fs::read_to_string(&list)?;
        let is_old = |line: &&str| line.contains("needs a driver of CUDA");
        let skipped: BTreeSet<&str> = text.lines().filter(is_old).collect();
        let count = count_passed(&said);
        println!("{version:<8} {count:>8} {:>8}", skipped.len());
        skipped.iter().for_each(|line| println!("  {line}"));
        if !output.status.success() {
            // The output of the failed tests, which cargo prints after the list of all tests.
            let lines = said.lines().skip_while(|line| *line != "failures:");
            lines.for_each(|line| println!("  {line}"));
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

/// Returns the number of passed tests in the output of test programs.
fn count_passed(text: &str) -> usize {
    let results = text
        .lines()
        .filter_map(|line| line.split_once("test result: "));
    let counts = results.filter_map(|(_, result)| {
        let before = result.split(" passed").next()?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{count_passed, nvrtc_in};

    #[test]
    fn passed_tests_are_counted() {
        let text = "test a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out\n\
            test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count_passed(text), 14);
    }

    #[test]
    fn the_compiler_is_found_beside_its_builtins() {
        for (others, expected) in [
            (["libnvrtc-builtins.so.12.9", "x"], "libnvrtc.so.12"),
            (
                ["nvrtc-builtins64_135.dll", "nvrtc64_130_0.alt.dll"],
                "nvrtc64_130_0.dll",
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for name in others {
                fs::write(dir.path().join(name), "").unwrap();
            }
            assert!(nvrtc_in(dir.path()).is_err());
            fs::write(dir.path().join(expected), "").unwrap();
            assert_eq!(nvrtc_in(dir.path()).unwrap(), dir.path().join(expected));
        }
    }
}

//! The NVRTC matrix: runs the tests of `cuda-nvrtc` on each release of the compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::workspace::{self, Workspace};

/// The releases to fetch: the oldest, the newest, and those in between with the most changes.
const RELEASES: [&str; 6] = ["12.0", "12.4", "12.9", "13.0", "13.3", "13.5"];
/// The releases for the reduced check: the last of each major version.
const DAILY: [&str; 2] = ["12.9", "13.5"];

/// Runs each test at its full size, first with each release alone, then with all in one process.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let dir = matrix(workspace, &RELEASES, "1")?;
    println!("\n-- all {} in one process", RELEASES.len());
    let first = library(&dir, RELEASES[0])?;
    workspace::run(tests(workspace, &first).env("CUDA_TEST_NVRTC_DIR", &dir))
}

/// Runs each test at its reduced size, with the last release of each major version.
pub(crate) fn reduced(workspace: &Workspace) -> Result<()> {
    println!(
        "{} of {} releases, tests at reduced size (all: cargo xtask full nvrtc)",
        DAILY.len(),
        RELEASES.len()
    );
    matrix(workspace, &DAILY, "0").map(drop)
}

/// Runs the tests on each release alone. Returns the folder of the releases.
fn matrix(workspace: &Workspace, releases: &[&str], full: &str) -> Result<PathBuf> {
    let sets: Vec<String> = releases
        .iter()
        .map(|release| format!("nvrtc/{release}"))
        .collect();
    let dir = setup::ensure(workspace, &sets)?.join("nvrtc");
    let mut times = Vec::new();
    for release in releases {
        println!("\n-- NVRTC {release}");
        let start = Instant::now();
        let library = library(&dir, release)?;
        // An empty variable prevents other releases from being loaded into the same process.
        let mut command = tests(workspace, &library);
        workspace::run(
            command
                .env("CUDA_TEST_NVRTC_DIR", "")
                .env("CUDA_FULL", full),
        )?;
        times.push(format!(
            "{release} in {:.0} s",
            start.elapsed().as_secs_f64()
        ));
    }
    println!("\n{} releases passed: {}", times.len(), times.join(", "));
    Ok(dir)
}

/// Returns the command that runs the tests with `library` as NVRTC. The tests print how much they
/// tried.
fn tests(workspace: &Workspace, library: &Path) -> std::process::Command {
    let mut command = workspace.cargo(["test", "-p", "cuda-nvrtc", "--", "--show-output"]);
    command
        .env("CUDA_NVRTC_LIBRARY", library)
        .env("CUDA_TEST_REQUIRE_NVRTC", "1");
    command
}

/// Returns the compiler's library in the folder of a release.
pub(crate) fn library(dir: &Path, release: &str) -> Result<PathBuf> {
    library_in(&dir.join(release).join("lib"))
}

/// Returns the compiler's library in a folder of libraries.
pub(crate) fn library_in(lib: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(lib).with_context(|| format!("cannot list {}", lib.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path()));
    let found = paths.find(|path: &Result<PathBuf>| {
        path.as_ref().is_ok_and(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // The same folder contains the built-in functions, `libnvrtc-builtins.so.12.9`.
            name.starts_with("libnvrtc.so.")
                || (name.starts_with("nvrtc64_") && !name.contains("alt"))
        })
    });
    match found {
        Some(path) => path,
        None => bail!("there is no NVRTC in {}", lib.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::library;

    #[test]
    fn the_compiler_is_found_beside_its_builtins() {
        let dir = tempfile::tempdir().unwrap();
        for (release, names, expected) in [
            (
                "12.9",
                &["libnvrtc-builtins.so.12.9", "libnvrtc.so.12"][..],
                "libnvrtc.so.12",
            ),
            (
                "13.5",
                &[
                    "nvrtc-builtins64_135.dll",
                    "nvrtc64_130_0.alt.dll",
                    "nvrtc64_130_0.dll",
                ],
                "nvrtc64_130_0.dll",
            ),
        ] {
            let lib = dir.path().join(release).join("lib");
            fs::create_dir_all(&lib).unwrap();
            let error = library(dir.path(), release).unwrap_err();
            assert!(error.to_string().contains(release), "{error}");
            for name in names {
                fs::write(lib.join(name), "").unwrap();
            }
            assert_eq!(library(dir.path(), release).unwrap(), lib.join(expected));
        }
    }
}

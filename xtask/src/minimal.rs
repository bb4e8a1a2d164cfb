//! `ci --only minimal`: compiles the published crates with the oldest versions of their direct
//! dependencies that their manifests admit.
//!
//! The crates are checked in a workspace of their own, in `target/minimal`. The folder of a crate
//! there has links to the files of the crate, and a copy of its manifest without what only tests
//! and benches need. So the dependencies of tests have no influence on the versions, and a second
//! run compiles only what has changed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::api;
use crate::workspace::{self, Workspace};

/// Checks the published crates with all features.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("minimal");
    let names = api::published(workspace)?;
    let crates = folder.join("crates");
    if crates.exists() {
        fs::remove_dir_all(&crates)?;
    }
    for name in &names {
        copy_crate(
            &workspace.root.join("crates").join(name),
            &crates.join(name),
        )?;
    }
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    fs::write(folder.join("Cargo.toml"), of_workspace(&manifest)?)?;
    // The versions must come from the manifests, not from an earlier run.
    let lock = folder.join("Cargo.lock");
    if lock.exists() {
        fs::remove_file(&lock)?;
    }
    let mut generate = workspace.cargo(["-Z", "direct-minimal-versions", "generate-lockfile"]);
    generate.args(["--quiet"]).current_dir(&folder);
    // The option is unstable: this makes a stable cargo accept it.
    workspace::run(generate.env("RUSTC_BOOTSTRAP", "1"))
        .context("a manifest admits a version that its other dependencies do not")?;
    let mut check = workspace.cargo("check --workspace --all-features --locked --quiet".split(' '));
    check
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("CARGO_INCREMENTAL", "0");
    workspace::run(&mut check)
        .context("if a dependency lacks what the code needs, raise its version in Cargo.toml")?;
    println!(
        "{} crates compile with the oldest versions that their manifests admit",
        names.len()
    );
    Ok(())
}

/// Makes a folder of a crate: its manifest without the parts for tests, and links to its files.
fn copy_crate(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().context("a file has a name")?;
        if name == "Cargo.toml" {
            let manifest = without_tests(&fs::read_to_string(&path)?);
            fs::write(to.join(name), manifest)?;
        } else {
            link(&path, &to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> Result<()> {
    Ok(std::os::unix::fs::symlink(from, to)?)
}

#[cfg(not(unix))]
fn link(_from: &Path, _to: &Path) -> Result<()> {
    bail!("this check links folders: it requires Linux or macOS")
}

/// Returns the manifest of the workspace with all folders in `crates` as its members.
fn of_workspace(manifest: &str) -> Result<String> {
    let mut text = String::new();
    let mut has_members = false;
    for line in manifest.lines() {
        if line.starts_with("members = ") {
            has_members = true;
            text.push_str("members = [\"crates/*\"]\n");
        } else if !line.starts_with("exclude = ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    if !has_members {
        bail!("Cargo.toml has no line with the members of the workspace");
    }
    Ok(text)
}

/// Returns the manifest of a crate without the sections of tests, benches and their dependencies.
fn without_tests(manifest: &str) -> String {
    let mut text = String::new();
    let mut is_kept = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_kept =
                !line.ends_with("dev-dependencies]") && !["[[test]]", "[[bench]]"].contains(&line);
        }
        if is_kept {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
#[path = "../tests/unit/minimal.rs"]
mod tests;

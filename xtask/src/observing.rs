//! Checks of what programs can observe: traces in a third-party viewer, and the size of programs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::{self, Workspace};

/// The pinned viewer, a package of npm with pages that need no server.
const SPEEDSCOPE: &str = "speedscope@1.25.0";
/// The hash of its archive.
const INTEGRITY: &str = "sha512-cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+\
                         XoV503cPfvfiT5gP5vojp6Ag==";

/// Opens traces in speedscope and pages in a browser. At full size, also writes and checks a
/// million events in release mode.
pub(crate) fn traces(workspace: &Workspace, is_full: bool) -> Result<()> {
    if is_full {
        let mut long =
            workspace.cargo("test --release --all-features -p cuda-driver --lib --".split(' '));
        long.args(["--nocapture", "profile::tests::a_long_trace"]);
        workspace::run(long.env("CUDA_FULL", "1"))?;
    } else {
        println!("20,000 events, in the step test (1,000,000: cargo xtask full traces)");
    }
    let mut tests = workspace.cargo("test --all-features -p cuda-driver --test it --".split(' '));
    tests.args(["--nocapture", "browser::"]);
    if let Some(pages) = speedscope(workspace)? {
        tests.env("CUDA_TEST_SPEEDSCOPE", pages);
    }
    workspace::run(&mut tests)
}

/// Downloads speedscope, unless an earlier run did, and returns the folder of its pages. Returns
/// `None` without npm.
fn speedscope(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let folder = workspace.target.join(SPEEDSCOPE);
    let pages = folder.join("package/dist/release");
    if pages.join("index.html").is_file() {
        return Ok(Some(pages));
    }
    fs::create_dir_all(&folder)?;
    let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    npm.args(["pack", SPEEDSCOPE, "--json"])
        .current_dir(&folder);
    let Ok(output) = npm.output() else {
        println!("skipped: npm is missing, so no trace is opened in speedscope");
        return Ok(None);
    };
    if !output.status.success() {
        bail!(
            "npm could not download {SPEEDSCOPE}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let list: Value = serde_json::from_slice(&output.stdout).context("the output of npm")?;
    let (found, file) = (&list[0]["integrity"], &list[0]["filename"]);
    if found != INTEGRITY {
        bail!(
            "the hash of {SPEEDSCOPE} is {found}, not {INTEGRITY}; the download differs from the \
             package that was checked, so it is not used: try again later"
        );
    }
    let file = file.as_str().context("npm names no file")?;
    let mut tar = Command::new("tar");
    workspace::run(tar.args(["xzf", file]).current_dir(&folder))?;
    Ok(Some(pages))
}

/// A program that copies some words to a device and back.
const HELLO: &str = r#"
use cuda_driver::{DeviceBuffer, Driver};

fn main() -> cuda_driver::Result<()> {
    let stream = Driver::load()?.device(0)?.primary_context()?.default_stream()?;
    let words = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
    println!("hello from the device: {:?}", words.to_vec()?);
    Ok(())
}
"#;

/// Prints the size of a small program, with and without the features that observe it. None of the
/// builds uses the features.
pub(crate) fn sizes(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("hello");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/main.rs"), HELLO)?;
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let driver = workspace.root.join("crates/cuda-driver");
    println!("{:<28} {:>10} {:>10}", "features", "bytes", "more");
    let mut without = None;
    for features in ["", "profile", "tracing", "serde", "profile,tracing,serde"] {
        let list: Vec<_> = features.split(',').filter(|it| !it.is_empty()).collect();
        let manifest = format!(
            "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\ncuda-driver = {{ path = {driver:?}, features = {list:?} }}\n\n\
             [profile.release]\nstrip = true\n\n[workspace]\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let mut build = workspace.cargo("build --release --quiet".split(' '));
        build.current_dir(&folder);
        workspace::run(build.env("CARGO_TARGET_DIR", folder.join("target")))?;
        let name = format!("hello{}", std::env::consts::EXE_SUFFIX);
        let size = fs::metadata(folder.join("target/release").join(name))?.len();
        let before = *without.get_or_insert(size);
        let features = if features.is_empty() {
            "none"
        } else {
            features
        };
        println!("{features:<28} {size:>10} {:>10}", size - before.min(size));
    }
    Ok(())
}

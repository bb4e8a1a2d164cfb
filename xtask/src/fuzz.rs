//! `full fuzz`: runs libFuzzer on the software device.
//!
//! The targets are in `fuzz/`, a separate workspace. Each starts with its seeds in `fuzz/seeds` and
//! the corpus of earlier runs in `target/fuzz/corpus`. Inputs that crashed it are stored in
//! `target/fuzz/found`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::need;
use crate::workspace::{self, Workspace, files_below};
use crate::{matrix, setup};

/// Each target with the maximum length of its input.
const TARGETS: [(&str, u32); 3] = [
    ("ptx_text", 24_576),
    ("nvrtc_output", 24_576),
    ("api_calls", 4_096),
];

/// Runs all targets in parallel.
pub(crate) fn full(workspace: &Workspace, minutes: u64) -> Result<()> {
    let found = need::program("cargo-fuzz").is_some();
    need::require("cargo-fuzz", found, "cargo install --locked cargo-fuzz")?;
    need::sanitizer(workspace, "asan")?;
    let dir = workspace.target.join("fuzz");
    if let Err(error) = nvrtc_seeds(workspace, &dir.join("seeds/nvrtc")) {
        println!("continuing without seeds from NVRTC: {error:#}");
    }
    workspace::run(&mut cargo(workspace, "fuzz build --sanitizer address"))?;
    println!("{minutes} minutes, all targets side by side (--minutes)");
    let crashes = thread::scope(|scope| {
        let runs = TARGETS.map(|(target, longest)| {
            let dir = &dir;
            scope.spawn(move || fuzz(workspace, dir, target, longest, minutes))
        });
        let mut crashes = 0;
        for run in runs {
            crashes += run
                .join()
                .map_err(|_| anyhow!("the thread of a target panicked"))??;
        }
        Ok::<_, anyhow::Error>(crashes)
    })?;
    if crashes > 0 {
        bail!("{crashes} crashes: see {}", dir.join("found").display());
    }
    Ok(())
}

/// Returns a cargo command in the workspace of the targets. RUSTC_BOOTSTRAP is set because
/// instrumentation is unstable.
fn cargo(workspace: &Workspace, args: &str) -> Command {
    let mut cargo = workspace.cargo(args.split(' '));
    cargo
        .current_dir(workspace.root.join("fuzz"))
        .env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_TARGET_DIR", workspace.target.join("fuzz/build"));
    cargo
}

/// Compiles the kernels of the corpus to additional seeds, each to a separate file.
fn nvrtc_seeds(workspace: &Workspace, to: &Path) -> Result<()> {
    setup::try_default(workspace);
    let kernels = workspace
        .root
        .join("crates/cuda-conformance/tests/corpus/kernels");
    let mut seeds = cargo(workspace, "run --quiet --example seeds --");
    seeds.arg(to).args(files_below(&kernels, &["cu"])?);
    if let Ok(library) = matrix::nvrtc_in(&workspace.cuda_setup().join("lib")) {
        seeds.env("CUDA_NVRTC_LIBRARY", library);
    }
    workspace::run(&mut seeds)
}

/// Runs one target, and returns the number of crashes.
fn fuzz(
    workspace: &Workspace,
    dir: &Path,
    target: &str,
    longest: u32,
    minutes: u64,
) -> Result<usize> {
    let found = dir.join("found").join(target);
    let corpus = dir.join("corpus").join(target);
    fs::create_dir_all(&found)?;
    fs::create_dir_all(&corpus)?;
    let before = fs::read_dir(&found)?.count();
    let log = dir.join(format!("{target}.txt"));
    let mut run = cargo(workspace, "fuzz run --sanitizer address");
    run.arg(target)
        .arg(&corpus)
        .arg(workspace.root.join("fuzz/seeds").join(target));
    let written = dir.join("seeds/nvrtc");
    run.args((target != "api_calls" && written.is_dir()).then_some(written));
    let flags = "-- -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -timeout=20 \
                 -rss_limit_mb=2048";
    run.args(flags.split(' '));
    run.arg(format!("-max_total_time={}", minutes * 60));
    run.arg(format!("-max_len={longest}"));
    run.arg(format!("-artifact_prefix={}/", found.display()));
    run.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
    run.env("RAYON_NUM_THREADS", "1");
    run.stdout(Stdio::null()).stderr(File::create(&log)?);
    let status = run.status().context("cargo-fuzz could not be started")?;
    let text = fs::read_to_string(&log).unwrap_or_default();
    let Some(executions) = executions(&text) else {
        bail!("{target} did not start ({status}): see {}", log.display());
    };
    let crashes = fs::read_dir(&found)?.count().saturating_sub(before);
    println!(
        "{target:<14} {executions:>9} executions, {crashes} crashes, time-outs and out of memory"
    );
    Ok(crashes)
}

/// Returns the number of executions, from libFuzzer's lines such as `#1234: cov: …`.
fn executions(log: &str) -> Option<u64> {
    let counts = log.lines().filter_map(|line| {
        let (number, _) = line.strip_prefix('#')?.split_once(": cov")?;
        number.parse().ok()
    });
    counts.max()
}

#[cfg(test)]
mod tests {
    use super::executions;

    #[test]
    fn executions_are_read_from_the_log() {
        let log = "INFO: x\n#12: cov: 1 ft: 2\n==1==ERROR: y\n#3456: cov: 9 exec/s: 3\n#1 NEW\n";
        assert_eq!(executions(log), Some(3456));
        assert_eq!(executions("error: no such target"), None);
    }
}

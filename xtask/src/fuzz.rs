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

use crate::full::Options;
use crate::need::{self, Need};
use crate::workspace::{self, Workspace, files_below};
use crate::{nvrtc, setup};

/// Each target with the maximum length of its input.
const TARGETS: [(&str, u32); 3] = [
    ("ptx_text", 24_576),
    ("nvrtc_output", 24_576),
    ("api_calls", 4_096),
];

/// Kernels from which additional seeds are compiled.
const KERNELS: &str = "crates/cuda-driver/tests/corpus/kernels";

/// Runs all targets in parallel, for the time in `options`.
pub(crate) fn full(workspace: &Workspace, options: &Options) -> Result<()> {
    let sysroot = need::sysroot(workspace)?;
    need::meet(
        &[
            Need {
                what: "cargo-fuzz",
                found: need::program("cargo-fuzz").is_some(),
                install: &["cargo", "install", "--locked", "cargo-fuzz"],
            },
            need::sanitizer(&sysroot, "asan"),
        ],
        options.install.install,
    )?;
    let dir = workspace.target.join("fuzz");
    let written = dir.join("seeds/nvrtc");
    if let Err(error) = nvrtc_seeds(workspace, &written) {
        println!("continuing without seeds from NVRTC: {error:#}");
    }
    workspace::run(&mut cargo(
        workspace,
        &["fuzz", "build", "--sanitizer", "address"],
    ))?;
    println!(
        "{} minutes, all targets side by side (--minutes)",
        options.minutes
    );
    let crashes = thread::scope(|scope| {
        let runs = TARGETS.map(|(target, longest)| {
            let (dir, written) = (&dir, &written);
            scope.spawn(move || fuzz(workspace, dir, written, target, longest, options.minutes))
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
fn cargo(workspace: &Workspace, args: &[&str]) -> Command {
    let mut cargo = workspace.cargo(args);
    cargo
        .current_dir(workspace.root.join("fuzz"))
        .env("CARGO_TARGET_DIR", workspace.target.join("fuzz/build"))
        .env("RUSTC_BOOTSTRAP", "1");
    cargo
}

/// Compiles the kernels of the corpus, each to a separate file.
fn nvrtc_seeds(workspace: &Workspace, to: &Path) -> Result<()> {
    setup::try_default(workspace);
    let mut seeds = cargo(workspace, &["run", "--quiet", "--example", "seeds", "--"]);
    seeds.arg(to);
    seeds.args(files_below(&workspace.root.join(KERNELS), &["cu"])?);
    if let Ok(library) = nvrtc::library_in(&workspace.cuda_setup().join("lib")) {
        seeds.env("CUDA_NVRTC_LIBRARY", library);
    }
    workspace::run(&mut seeds)
}

/// Runs one target, and returns the number of crashes.
fn fuzz(
    workspace: &Workspace,
    dir: &Path,
    written: &Path,
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
    let mut run = cargo(
        workspace,
        &["fuzz", "run", "--sanitizer", "address", target],
    );
    run.arg(&corpus);
    let own = workspace.root.join("fuzz/seeds").join(target);
    let texts: &[&Path] = if target == "api_calls" {
        &[&own]
    } else {
        &[&own, written]
    };
    run.args(texts.iter().filter(|dir| dir.is_dir()));
    run.args([
        "--",
        "-fork=1",
        "-ignore_crashes=1",
        "-ignore_timeouts=1",
        "-ignore_ooms=1",
    ]);
    run.arg(format!("-max_total_time={}", minutes * 60));
    run.args(["-timeout=20", "-rss_limit_mb=2048"]);
    run.arg(format!("-max_len={longest}"));
    run.arg(format!("-artifact_prefix={}/", found.display()));
    run.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
    run.env("RAYON_NUM_THREADS", "1");
    let file = File::create(&log)?;
    run.stdout(Stdio::null()).stderr(file);
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

//! `full`: the large checks at their full size. `ci` runs each at a reduced one, which it prints;
//! but not `fuzz`, which needs cargo-fuzz, nor `planted`, which builds the library with its faults
//! and runs for minutes.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::need::Install;
use crate::workspace::{self, Workspace};
use crate::{drivers, fuzz, headers, nvrtc, order, programs, sanitize};

/// Options of `full`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which check; without it they are listed
    name: Option<String>,
    #[command(flatten)]
    pub(crate) install: Install,
    /// How long `fuzz` tries each of its targets
    #[arg(long, default_value_t = 30)]
    pub(crate) minutes: u64,
}

type Check = (
    &'static str,
    &'static str,
    fn(&Workspace, &Options) -> Result<()>,
);

const CHECKS: &[Check] = &[
    (
        "attacks",
        "programs that attack the safe calls, on 24 adversarial schedules, in release mode and under AddressSanitizer",
        attacks,
    ),
    (
        "drivers",
        "the tests of cuda-driver on software drivers of CUDA 12.0 to 13.5",
        |workspace, _| drivers::full(workspace),
    ),
    (
        "faults",
        "every status code from every function that the safe layer calls, at its first, middle and last call",
        |workspace, _| in_full(workspace, "it", "faults::"),
    ),
    (
        "fuzz",
        "libFuzzer on the software device: PTX, launches and calls, side by side for 30 minutes (--minutes)",
        fuzz::full,
    ),
    (
        "graphs",
        "20,000 random graphs, built and captured, on the late software device, against a sequential model",
        |workspace, _| in_full(workspace, "it", "random_graphs"),
    ),
    (
        "headers",
        "every test, with bindings generated from the header of each CUDA release",
        |workspace, _| headers::full(workspace),
    ),
    (
        "leaks",
        "1,000,000 cycles of allocate, use, drop on 8 threads, 200,000 of which some fail: nothing is left",
        |workspace, _| in_full(workspace, "it", "leaks"),
    ),
    (
        "nvrtc",
        "the tests of cuda-nvrtc on NVRTC 12.0 to 13.5, with every number at its full size",
        |workspace, _| nvrtc::full(workspace),
    ),
    (
        "ops",
        "every instruction form on 32,768 threads and four compute capabilities, against what the host computes",
        |workspace, _| {
            in_full(workspace, "ops", "")?;
            in_full(workspace, "corpus", "differential")
        },
    ),
    (
        "order",
        "120,000 random programs on the late software device, against a sequential model",
        |workspace, _| in_full(workspace, "it", "random_programs"),
    ),
    (
        "planted",
        "the same with faults planted in the order of uses: each must be found",
        |workspace, _| order::planted(workspace),
    ),
    (
        "programs",
        "the tests of cudarc, and NVIDIA's packages for Python, on the software device as libcuda.so.1",
        |workspace, _| programs::full(workspace),
    ),
    (
        "signatures",
        "10,000 kernels with random parameter lists: mismatches are refused, what matches arrives byte by byte",
        |workspace, _| in_full(workspace, "it", "signatures"),
    ),
];

/// Runs the attacks on all schedules, as they are and under AddressSanitizer, and prints how many
/// there were.
fn attacks(workspace: &Workspace, options: &Options) -> Result<()> {
    let count = workspace.target.join("attacks.txt");
    let mut counted = Vec::new();
    for (kind, is_instrumented) in [("release mode", false), ("AddressSanitizer", true)] {
        if count.exists() {
            fs::remove_file(&count)?;
        }
        if is_instrumented {
            sanitize::attacks(workspace, &options.install, &count)?;
        } else {
            let mut command = full_command(workspace, "attacks", "");
            workspace::run(command.env("CUDA_ATTACKS_COUNT", &count))?;
        }
        let lines = fs::read_to_string(&count)?;
        let schedules = lines
            .lines()
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counted.push(format!(
            "attacks in {kind}: {} programs, {} schedules in all",
            lines.lines().count(),
            schedules.sum::<u64>()
        ));
    }
    counted.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Runs the tests of cuda-driver in `test` whose names have `filter` in them, with every number at
/// its full size.
fn in_full(workspace: &Workspace, test: &str, filter: &str) -> Result<()> {
    workspace::run(&mut full_command(workspace, test, filter))
}

fn full_command(workspace: &Workspace, test: &str, filter: &str) -> Command {
    let mut command = workspace.cargo(["test", "--release", "-p", "cuda-driver", "--all-features"]);
    command.args(["--test", test, "--", "--nocapture", filter]);
    command
        .env("CUDA_FULL", "1")
        .env("CUDA_TEST_REQUIRE_NVRTC", "1");
    command
}

/// `cargo xtask full NAME`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let wanted = options.name.as_deref().unwrap_or_default();
    let Some((_, _, check)) = CHECKS.iter().find(|(name, ..)| *name == wanted) else {
        for (name, what, _) in CHECKS {
            println!("{name:<10} {what}");
        }
        if wanted.is_empty() {
            return Ok(());
        }
        bail!("there is no check {wanted}");
    };
    check(workspace, options)
}

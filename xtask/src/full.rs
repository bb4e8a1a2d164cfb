//! `full`: the large checks at their full size. `ci` runs each check at a reduced size, which it
//! prints, except for `fuzz`, which needs cargo-fuzz.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::need::Install;
use crate::workspace::{self, Workspace};
use crate::{drivers, fuzz, headers, nvrtc, programs, sanitize};

/// Options of `full`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The check to run; without it, the checks are listed
    name: Option<String>,
    #[command(flatten)]
    pub(crate) install: Install,
    /// Minutes for which `fuzz` runs each of its targets
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
        "programs that attack the safe API, on 24 adversarial schedules, in release mode and under AddressSanitizer",
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
        "libFuzzer on the software device: PTX, launches and calls, in parallel for 30 minutes (--minutes)",
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
        "1,000,000 cycles of allocate, use, drop on 8 threads, of which 200,000 have failures: nothing may leak",
        |workspace, _| in_full(workspace, "it", "leaks"),
    ),
    (
        "nvrtc",
        "the tests of cuda-nvrtc on NVRTC 12.0 to 13.5, each at its full size",
        |workspace, _| nvrtc::full(workspace),
    ),
    (
        "ops",
        "every instruction form on 32,768 threads and four compute capabilities, compared with results of the host",
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
        "programs",
        "the tests of cudarc, and NVIDIA's packages for Python, on the software device as libcuda.so.1",
        |workspace, _| programs::full(workspace),
    ),
    (
        "signatures",
        "10,000 kernels with random parameter lists: mismatches are refused, and matching arguments arrive unchanged",
        |workspace, _| in_full(workspace, "it", "signatures"),
    ),
];

/// Runs the attacks on all schedules, uninstrumented and under AddressSanitizer, and prints how
/// many there were.
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

/// Runs the tests of cuda-driver in `test` whose names contain `filter`, at their full size.
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
        bail!("there is no check {wanted}; the checks are listed above");
    };
    check(workspace, options)
}

//! `full`: the large checks at their full size. `ci` runs each check at a reduced size, which it
//! prints, except for `fuzz`, which needs cargo-fuzz.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::{self, Workspace};
use crate::{api, matrix, observing, setup};

/// Options of `full`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The check to run; without it, the checks are listed
    name: Option<String>,
    /// Minutes for which `fuzz` runs each of its targets, and `launches`, `ptx` and
    /// `reading` their programs
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// The Git revision with which `api` compares
    #[arg(long, default_value = "main")]
    baseline: String,
    /// `breaks`, `mutants`, `programs` and `shares` run only those whose names contain this text
    #[arg(long, default_value = "")]
    only: String,
    /// A checkout of what the packages of a project lack: tests for `programs`, where it may be
    /// repeated, or the kernels of bitsandbytes for `shares`
    #[arg(long, value_name = "PATH")]
    checkout: Vec<PathBuf>,
}

const DRIVER: &str = "cuda-driver";
const CONFORMANCE: &str = "cuda-conformance";

const CHECKS: &str = "\
api         cargo-semver-checks: changes of the API since a Git revision (--baseline) that break users
attacks     programs that attack the safe API, on 24 schedules, in release mode and under AddressSanitizer
batches     20,000 random batches of copies against a model, 1,000,000 cycles without leaks
breaks      the analysis of cuda-ptx with one break (--only): random kernels must find each
defects     500 planted defects in kernels that are launched safely: each must be reported
devices     1,000,000 operations of 16 threads on several GPUs or software devices, against a model
drivers     the tests of cuda-driver on software drivers of CUDA 12.0 to 13.5
eager       20,000 random programs, captured and eager; 10,000 replays of 300 launches
external    10,000 random programs with memory and 10,000 with images of another API, against a model
faults      every status code from every function that the safe layer calls, at three of its calls
fuzz        libFuzzer on the software device: PTX, launches and calls, for 30 minutes (--minutes)
graphs      20,000 random graphs, built and captured, on the late software device, against a model
growable    20,000 random programs with growable buffers on the late software device, against vectors
headers     every test, with bindings generated from the header of each CUDA release
launches    1,000,000 random kernels, launched safely on software devices, counted in
            target/launched-programs.txt, so that a later run continues (--minutes)
leaks       1,000,000 cycles of allocate, use, drop on 8 threads, 200,000 with failures: no leaks
liberties   what five versions of the assembler make of pairs of kernels, with all options, and
            12,000 kernels with weak loads that must not be repeated
mutants     the programs of `order` with one fault in the library (--only): each must be detected
nvrtc       the tests of cuda-nvrtc on NVRTC 12.0 to 13.5, each at its full size
ops         every instruction form on 32,768 threads and four compute capabilities, against the host
order       120,000 random programs on the late software device, against a sequential model
pools       20,000 random programs with memory from pools on the host, NUMA nodes and devices, and
            1,000,000 cycles of allocate, use, drop with a pool on the host
processes   10,000 buffers and events between two processes, one of which is killed 50 times
programs    test suites of other projects on the software device (--only); three suites run only with
            a checkout of their project (--checkout, which may be repeated)
ptx         10,000,000 random kernels, counted in target/ptx-programs.txt, so that a later run
            continues (--minutes): no thread leaves the bounds that the analysis of cuda-ptx proves
reading     1,000,000 random texts, counted in target/reading-texts.txt, so that a later run continues
            (--minutes): NVIDIA's assembler and cuda-ptx accept and refuse the same
signatures  10,000 kernels with random parameter lists: mismatches are refused, arguments arrive
shares      how many accesses of real kernels are proven: this repository's, and those of candle,
            Triton, cubecl, tract, kornia and hashcat (--only), and of bitsandbytes (--checkout)
sizes       the size of a small program with and without the features that observe it
textures    20,000 random programs with arrays, textures and surfaces on the late software device
traces      1,000,000 events of the profiler, within 1 GiB and 10 s; traces and pages in a browser";

/// `cargo xtask full NAME`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    match options.name.as_deref() {
        None => println!("{CHECKS}"),
        Some("api") => api::semver(workspace, &options.baseline)?,
        Some("attacks") => attacks(workspace)?,
        Some("batches") => {
            in_full(workspace, DRIVER, "it", "copy_batch::")?;
            in_full(workspace, DRIVER, "it", "copy_batch_arrays::")?;
        }
        Some("breaks") => breaks(workspace, &options.only)?,
        Some("defects") => in_full(workspace, DRIVER, "it", "safe::mutants")?,
        Some("devices") => in_full(workspace, DRIVER, "stress", "random_operations")?,
        Some("drivers") => matrix::all_drivers(workspace)?,
        Some("eager") => eager(workspace)?,
        Some("external") => {
            in_full(workspace, DRIVER, "it", "external_array::random")?;
            in_full(workspace, DRIVER, "it", "external_random")?;
        }
        Some("faults") => in_full(workspace, DRIVER, "it", "faults::")?,
        Some("fuzz") => fuzz(workspace, options.minutes)?,
        Some("graphs") => in_full(workspace, DRIVER, "it", "random_graphs")?,
        Some("growable") => in_full(workspace, DRIVER, "it", "growable_random")?,
        Some("headers") => matrix::all_headers(workspace)?,
        Some("launches") => {
            let filter = ("cuda-driver", "safe::random");
            counted(workspace, options.minutes, filter, "launched-programs.txt")?;
        }
        Some("leaks") => in_full(workspace, DRIVER, "it", "leaks")?,
        Some("liberties") => in_full(workspace, "cuda-ptx", "it", "liberties")?,
        Some("mutants") => mutants(workspace, &["--only", &options.only])?,
        Some("nvrtc") => matrix::all_nvrtc(workspace)?,
        Some("ops") => {
            in_full(workspace, CONFORMANCE, "ops", "")?;
            in_full(workspace, CONFORMANCE, "corpus", "differential")?;
        }
        Some("order") => in_full(workspace, DRIVER, "it", "random_programs")?,
        Some("pools") => {
            in_full(workspace, DRIVER, "it", "pool_random")?;
            in_full(workspace, DRIVER, "it", "host_pool::cycles")?;
        }
        Some("processes") => in_full(workspace, DRIVER, "it", "processes::")?,
        Some("programs") => all_programs(workspace, options)?,
        Some("ptx") => {
            let filter = ("cuda-ptx", "fuzz");
            counted(workspace, options.minutes, filter, "ptx-programs.txt")?;
        }
        Some("reading") => {
            setup::ensure(workspace, setup::ASSEMBLER_SETS)?;
            let filter = ("cuda-ptx", "assembler_agrees_on_random_texts");
            let mut command = counting(workspace, options.minutes, filter, "reading-texts.txt");
            workspace::run(command.env("CUDA_TEST_REQUIRE_PTXAS", "1"))?;
        }
        Some("shares") => shares(workspace, Some(options))?,
        Some("signatures") => in_full(workspace, DRIVER, "it", "signatures")?,
        Some("sizes") => observing::sizes(workspace)?,
        Some("textures") => in_full(workspace, DRIVER, "it", "texture_random")?,
        Some("traces") => observing::traces(workspace, true)?,
        Some(unknown) => bail!("{unknown} is not a check; the checks are:\n{CHECKS}"),
    }
    Ok(())
}

/// Runs the attacks on all schedules, uninstrumented and under AddressSanitizer, and prints how
/// many there were.
fn attacks(workspace: &Workspace) -> Result<()> {
    let count = workspace.target.join("attacks.txt");
    let mut instrumented = setup::script(workspace, "xtask/platforms/run.py")?;
    instrumented.args(["address", "-p", DRIVER, "--test", "attacks"]);
    instrumented.env("CUDA_ATTACKS_LIMIT", "240");
    let plain = full_command(workspace, DRIVER, "attacks", "");
    let mut counted = Vec::new();
    for (kind, mut command) in [("release mode", plain), ("AddressSanitizer", instrumented)] {
        fs::write(&count, "")?;
        command
            .env("CUDA_FULL", "1")
            .env("CUDA_ATTACKS_COUNT", &count);
        workspace::run(&mut command)?;
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

/// Counts the accesses of real kernels that are proven. The reduced size has only the kernels of
/// this repository.
pub(crate) fn shares(workspace: &Workspace, full: Option<&Options>) -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("the script loads libnvrtc.so: this check requires Linux");
    }
    let sets: &[&str] = match full {
        // The tests of cubecl use this NVRTC.
        Some(_) => &[setup::TOOLKIT_SET, "nvrtc-13.5"],
        None => &[setup::TOOLKIT_SET],
    };
    setup::ensure(workspace, sets)?;
    let mut script = setup::script(workspace, "xtask/shares/run.py")?;
    if let Some(options) = full {
        script.args(["--full", "--only", &options.only]);
        for checkout in &options.checkout {
            script.arg("--checkout").arg(checkout);
        }
    }
    workspace::run(&mut script)
}

/// Runs random kernels for a number of minutes, after those that `file` counts. `filter` is the
/// package and the test.
fn counted(workspace: &Workspace, minutes: u64, filter: (&str, &str), file: &str) -> Result<()> {
    workspace::run(&mut counting(workspace, minutes, filter, file))
}

/// The command that runs random programs for a number of minutes, after those that `file` counts.
fn counting(workspace: &Workspace, minutes: u64, filter: (&str, &str), file: &str) -> Command {
    let mut command = full_command(workspace, filter.0, "it", filter.1);
    command
        .env("CUDA_PTX_COUNT", workspace.target.join(file))
        .env("CUDA_PTX_MINUTES", minutes.to_string());
    command
}

/// Runs the eager captures. The random programs continue where an interrupted run has ended.
fn eager(workspace: &Workspace) -> Result<()> {
    let done = workspace.target.join("full-eager.txt");
    let mut command = full_command(workspace, DRIVER, "it", "eager");
    workspace::run(command.env("CUDA_EAGER_DONE", done))
}

/// Runs libFuzzer, with NVRTC for additional seeds if there is one.
fn fuzz(workspace: &Workspace, minutes: u64) -> Result<()> {
    setup::try_default(workspace);
    let mut script = setup::script(workspace, "fuzz/run.py")?;
    if let Ok(library) = matrix::nvrtc_in(&workspace.cuda_setup().join("lib")) {
        script.env("CUDA_NVRTC_LIBRARY", library);
    }
    workspace::run(script.args(["--minutes", &minutes.to_string()]))
}

/// Runs the random programs with the faults of `crates/cuda-driver/tests/mutants`.
pub(crate) fn mutants(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let mut script = setup::script(workspace, "crates/cuda-driver/tests/mutants/run.py")?;
    workspace::run(script.args(args))
}

/// Runs the random kernels with the breaks of `crates/cuda-ptx/tests/breaks`.
fn breaks(workspace: &Workspace, only: &str) -> Result<()> {
    let mut script = setup::script(workspace, "crates/cuda-ptx/tests/breaks/run.py")?;
    workspace::run(script.args(["--only", only]))
}

/// Runs all test suites of other projects on the software device.
fn all_programs(workspace: &Workspace, options: &Options) -> Result<()> {
    let sets = [setup::TOOLKIT_SET, "nvrtc-13.5", "nvrtc-12.9"];
    let mut script = programs_script(workspace, &sets)?;
    script.args(["--full", "--only", &options.only]);
    for folder in &options.checkout {
        // The script runs in the root of the workspace, and this task in any folder.
        script.arg("--checkout").arg(std::path::absolute(folder)?);
    }
    workspace::run(&mut script)
}

/// Runs the part that `ci` runs of the test suites of other projects on the software device.
pub(crate) fn some_programs(workspace: &Workspace) -> Result<()> {
    let mut script = programs_script(workspace, &[setup::TOOLKIT_SET, "nvrtc-13.5"])?;
    workspace::run(&mut script)
}

fn programs_script(workspace: &Workspace, sets: &[&str]) -> Result<Command> {
    if !cfg!(target_os = "linux") {
        bail!("programs find the library through LD_LIBRARY_PATH: this check requires Linux");
    }
    let setup = setup::ensure(workspace, sets)?;
    let mut script = setup::script(workspace, "crates/cuda-sim-cdylib/programs/run.py")?;
    script.arg("--setup").arg(setup);
    Ok(script)
}

/// Runs the tests of `package` in `test` whose names contain `filter`, at their full size.
fn in_full(workspace: &Workspace, package: &str, test: &str, filter: &str) -> Result<()> {
    workspace::run(&mut full_command(workspace, package, test, filter))
}

fn full_command(workspace: &Workspace, package: &str, test: &str, filter: &str) -> Command {
    let mut command = workspace.cargo("test --release --all-features -p".split(' '));
    command.args([package, "--test", test, "--", "--nocapture", filter]);
    command
        .env("CUDA_FULL", "1")
        .env("CUDA_TEST_REQUIRE_NVRTC", "1");
    command
}

//! `full`: the large checks at their full size. `ci` runs each at a reduced one, which it prints.

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use crate::{graphs, headers, leaks, nvrtc, ops, order, programs, signatures};

/// Options of `full`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which check; without it they are listed
    name: Option<String>,
}

type Check = (&'static str, &'static str, fn(&Workspace) -> Result<()>);

const CHECKS: &[Check] = &[
    (
        "graphs",
        "20,000 random graphs, built and captured, on the late software device, against a sequential model",
        graphs::full,
    ),
    (
        "headers",
        "every test, with bindings generated from the header of each CUDA release",
        headers::full,
    ),
    (
        "leaks",
        "1,000,000 cycles of allocate, use, drop on 8 threads, 200,000 of which some fail: nothing is left",
        leaks::full,
    ),
    (
        "nvrtc",
        "the tests of cuda-nvrtc on NVRTC 12.0 to 13.5, with every number at its full size",
        nvrtc::full,
    ),
    (
        "ops",
        "every instruction form on 32,768 threads and four compute capabilities, against what the host computes",
        ops::full,
    ),
    (
        "order",
        "120,000 random programs on the late software device, against a sequential model",
        order::full,
    ),
    (
        "planted",
        "the same with faults planted in the order of uses: each must be found",
        order::planted,
    ),
    (
        "programs",
        "the tests of cudarc, and NVIDIA's packages for Python, on the software device as libcuda.so.1",
        programs::full,
    ),
    (
        "signatures",
        "10,000 kernels with random parameter lists: mismatches are refused, what matches arrives byte by byte",
        signatures::full,
    ),
];

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
    check(workspace)
}

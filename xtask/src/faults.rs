//! The fault matrix: each status code from each function that the safe layer calls.

use anyhow::Result;

use crate::workspace::{self, Workspace};

const TESTS: [&str; 7] = [
    "test",
    "--release",
    "-p",
    "cuda-driver",
    "--test",
    "it",
    "faults::",
];

/// All status codes.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo(TESTS);
    command.args(["--", "--nocapture"]).env("CUDA_FULL", "1");
    workspace::run(&mut command)
}

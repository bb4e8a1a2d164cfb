//! Leaks: many cycles of allocating, using and dropping, after which nothing may be left.

use anyhow::Result;

use crate::workspace::{self, Workspace};

const TESTS: [&str; 7] = [
    "test",
    "--release",
    "-p",
    "cuda-driver",
    "--test",
    "it",
    "leaks",
];

/// All cycles.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo(TESTS);
    command.args(["--", "--nocapture"]).env("CUDA_FULL", "1");
    workspace::run(&mut command)
}

//! Instructions one by one, against what the host computes.

use anyhow::Result;

use crate::workspace::{self, Workspace};

/// All of them, on many inputs.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo([
        "test",
        "--release",
        "-p",
        "cuda-driver",
        "--all-features",
        "--test",
        "ops",
        "--",
        "--nocapture",
    ]);
    workspace::run(command.env("CUDA_FULL", "1"))
}

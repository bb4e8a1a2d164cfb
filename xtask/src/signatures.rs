//! Kernels with random parameter lists.

use anyhow::Result;

use crate::workspace::{self, Workspace};

/// All of them.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo([
        "test",
        "--release",
        "-p",
        "cuda-driver",
        "--all-features",
        "--test",
        "it",
        "signatures",
        "--",
        "--nocapture",
    ]);
    command
        .env("CUDA_FULL", "1")
        .env("CUDA_TEST_REQUIRE_NVRTC", "1");
    workspace::run(&mut command)
}

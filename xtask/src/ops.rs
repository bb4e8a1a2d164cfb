//! Instructions one by one, and whole kernels, against what the host computes and the GPU if there is one.

use anyhow::Result;

use crate::workspace::{self, Workspace};

/// All of them, on many inputs.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    for (test, filter) in [("ops", ""), ("corpus", "differential")] {
        let mut command = workspace.cargo([
            "test",
            "--release",
            "-p",
            "cuda-driver",
            "--all-features",
            "--test",
            test,
            "--",
            "--nocapture",
            filter,
        ]);
        workspace::run(command.env("CUDA_FULL", "1"))?;
    }
    Ok(())
}

//! Random graphs.

use anyhow::Result;

use crate::workspace::{self, Workspace};

/// All random graphs, none of which may differ from the model.
pub(crate) fn full(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo([
        "test",
        "--release",
        "-p",
        "cuda-driver",
        "--test",
        "it",
        "random_graphs",
    ]);
    command.args(["--", "--nocapture"]).env("CUDA_FULL", "1");
    workspace::run(&mut command)
}

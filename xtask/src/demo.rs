//! `demo`: compiles CUDA C++ at run time, launches it and verifies the results, on a GPU or the
//! software device.

use anyhow::Result;

use crate::setup;
use crate::workspace::{self, Workspace};

/// Options of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Arguments for the demo itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// `cargo xtask demo`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::try_default(workspace);
    let demo = [
        "run",
        "--release",
        "--quiet",
        "-p",
        "examples",
        "--example",
        "demo",
        "--",
    ];
    workspace::run(workspace.cargo(demo).args(&options.args))
}

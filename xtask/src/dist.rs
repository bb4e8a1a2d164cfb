//! `dist`: packages of the software device, for third-party programs. `xtask/dist/build.py` builds
//! them, and `xtask/dist/check.py` runs programs with them.

use anyhow::Result;

use crate::setup;
use crate::workspace::{self, Workspace};

/// Options of `dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these targets, such as `aarch64-unknown-linux-gnu`
    #[arg(long, value_delimiter = ',', value_name = "TARGET")]
    only: Vec<String>,
    /// Also run programs with each package, in qemu and Wine for other systems
    #[arg(long)]
    check: bool,
}

/// Builds the packages.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut script = setup::script(workspace, "xtask/dist/build.py")?;
    script.args(options.only.iter().flat_map(|it| ["--only", it]));
    script.args(options.check.then_some("--check"));
    workspace::run(&mut script)
}

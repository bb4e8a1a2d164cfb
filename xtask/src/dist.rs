//! `dist`: packages of the software device, for third-party programs, which `xtask/dist/build.py`
//! builds.

use anyhow::Result;

use crate::setup;
use crate::workspace::{self, Workspace};

/// Options of `dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these targets, such as `aarch64-unknown-linux-gnu`
    #[arg(long, value_delimiter = ',', value_name = "TARGET")]
    only: Vec<String>,
}

/// Builds the packages.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut script = setup::script(workspace, "xtask/dist/build.py")?;
    script.args(options.only.iter().flat_map(|it| ["--only", it]));
    workspace::run(&mut script)
}

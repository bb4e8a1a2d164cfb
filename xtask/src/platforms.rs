//! `sanitize`, `valgrind`, `wine`, `arm` and `targets`: the tests, or at least a build, with other
//! tools and for other systems. `xtask/platforms/run.py` runs them.

use anyhow::Result;

use crate::setup;
use crate::workspace::{self, Workspace};

/// Options of `valgrind`, `wine` and `arm`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Only these packages
    #[arg(long, short, value_delimiter = ',', value_name = "PACKAGE")]
    package: Vec<String>,
}

/// Options of `sanitize`.
#[derive(Debug, clap::Args)]
pub(crate) struct SanitizeOptions {
    /// The sanitizer
    #[arg(value_parser = ["address", "thread"])]
    pub(crate) which: String,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// Runs a suite.
pub(crate) fn run(workspace: &Workspace, suite: &str, options: &Options) -> Result<()> {
    let mut script = setup::script(workspace, "xtask/platforms/run.py")?;
    script.arg(suite);
    workspace::run(script.args(options.package.iter().flat_map(|it| ["-p", it])))
}

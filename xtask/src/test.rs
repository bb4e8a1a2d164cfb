//! `test` runs every test of the workspace, and lists what was skipped on this machine. `demo` runs
//! the demo, on the GPU or the software device.

use std::fs;
use std::time::Instant;

use anyhow::Result;

use crate::setup;
use crate::workspace::{self, Workspace};

/// The variable that names the file to which a test appends one line when it skips something.
const SKIPPED: &str = "CUDA_TEST_SKIPPED";

/// Options of `test` and `demo`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Arguments for `cargo test`, such as `-p cuda-sys` or a test's name, or for the demo
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// `cargo xtask test`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::try_default(workspace);
    fs::create_dir_all(&workspace.target)?;
    let skipped = workspace.target.join("skipped-tests.txt");
    fs::write(&skipped, "")?;

    let start = Instant::now();
    let names_packages = options
        .args
        .iter()
        .any(|arg| arg == "-p" || arg == "--package");
    // The tests of xtask run separately: in one build with the workspace, xtask would be rebuilt
    // with other features, and Windows does not allow a running program to be replaced.
    let scopes: &[&[&str]] = if names_packages {
        &[&[]]
    } else {
        &[&["--workspace", "--exclude", "xtask"], &["-p", "xtask"]]
    };
    let result = scopes.iter().try_for_each(|scope| {
        let mut test = workspace.cargo(["test", "--all-features"]);
        test.args(*scope).args(&options.args).env(SKIPPED, &skipped);
        workspace::run(&mut test)
    });

    let text = fs::read_to_string(&skipped)?;
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    if !lines.is_empty() {
        println!("skipped on this machine:");
        for line in lines {
            println!("  {line}");
        }
    }
    result?;
    println!(
        "all tests passed, in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// `cargo xtask demo`.
pub(crate) fn demo(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::try_default(workspace);
    let demo = "run --release --quiet -p examples --example demo --";
    workspace::run(workspace.cargo(demo.split(' ')).args(&options.args))
}

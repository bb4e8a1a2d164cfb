//! The tasks of this workspace: `cargo xtask <task>`.

mod api;
mod book;
mod bundle;
mod ci;
mod dist;
mod full;
mod functions;
mod generated;
mod matrix;
mod minimal;
mod observing;
mod paste;
mod platforms;
mod python;
mod regen_bindings;
mod setup;
mod source;
mod test;
mod tidy;
mod untested;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// The tasks of this workspace
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Fetch CUDA headers, NVRTC and libclang for a machine without a CUDA toolkit
    Setup(setup::Options),
    /// Compile CUDA C++ at run time, launch it, verify the results and time it
    Demo(test::Options),
    /// Run every test, and list what this machine had to skip
    Test(test::Options),
    /// Run everything that must hold before a change lands
    Ci(ci::Options),
    /// Regenerate the committed bindings from pinned headers
    RegenBindings(generated::Options),
    /// Check the style rules that no compiler checks
    Tidy,
    /// Run a large check at its full size
    Full(full::Options),
    /// Write docs/driver-functions.md, which lists the Rust item of each driver function
    Functions(generated::Options),
    /// Write docs/api, which lists the public items of each published crate
    Api(generated::Options),
    /// List the public functions that no test and no example names
    Untested,
    /// Build tests and examples for a GPU machine that has no Rust
    Bundle(bundle::Options),
    /// Run the tests under AddressSanitizer or ThreadSanitizer
    Sanitize(platforms::SanitizeOptions),
    /// Run the tests under valgrind
    Valgrind(platforms::Options),
    /// Run the tests for Windows, in Wine
    Wine(platforms::Options),
    /// Run the tests for 64-bit Arm, in qemu-aarch64
    Arm(platforms::Options),
    /// Compile the libraries for macOS and for Windows with MSVC
    Targets,
    /// Package the software device as a driver library, for third-party programs
    Dist(dist::Options),
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    match Workspace::locate().and_then(|workspace| run(&workspace, &task)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(workspace: &Workspace, task: &Task) -> Result<ExitCode> {
    match task {
        Task::Setup(options) => setup::run(workspace, options)?,
        Task::Demo(options) => test::demo(workspace, options)?,
        Task::Test(options) => test::run(workspace, options)?,
        Task::Ci(options) => return ci::run(workspace, options),
        Task::RegenBindings(options) => regen_bindings::run(workspace, *options)?,
        Task::Tidy => tidy::run(workspace)?,
        Task::Full(options) => full::run(workspace, options)?,
        Task::Functions(options) => functions::run(workspace, *options)?,
        Task::Api(options) => api::run(workspace, *options)?,
        Task::Untested => untested::run(workspace)?,
        Task::Bundle(options) => bundle::run(workspace, options)?,
        Task::Sanitize(options) => platforms::run(workspace, &options.which, &options.options)?,
        Task::Valgrind(options) => platforms::run(workspace, "valgrind", options)?,
        Task::Wine(options) => platforms::run(workspace, "wine", options)?,
        Task::Arm(options) => platforms::run(workspace, "arm", options)?,
        Task::Dist(options) => dist::run(workspace, options)?,
        Task::Targets => platforms::run(workspace, "targets", &platforms::Options::default())?,
    }
    Ok(ExitCode::SUCCESS)
}

//! The tasks of this workspace: `cargo xtask <task>`.

mod setup;
mod workspace;

use std::process::ExitCode;

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
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = Workspace::locate().and_then(|workspace| match cli.task {
        Task::Setup(options) => setup::run(&workspace, &options),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

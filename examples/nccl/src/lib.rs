//! Collective operations of NCCL on the buffers and streams of `cuda-driver`, in several processes
//! with one or more GPUs each.
//!
//! ```text
//! nccl launch [--processes N] COMMAND   starts N processes of COMMAND on this machine
//! nccl train [--gpus M] [--steps N]     trains a small network, each of M GPUs on a part of the data
//! nccl all-reduce [--gpus M] [--mib N] [--rounds N]   times an all-reduce
//! ```
//!
//! A process finds its number and the number of processes in the variables of the launcher that
//! started it: this program, `torchrun`, Slurm or MPI (see [`World::from_env`]). Without any, it is
//! the only process. Each GPU is a *rank* with a thread, a stream and a communicator of its own.
//!
//! If a rank fails, or if its process ends or stops responding, all other ranks fail within
//! [`Limits::silence`] and [`Limits::abort`].
//!
//! - `library` loads NCCL at run time, and `communicator` has the operations.
//! - `world` reads the variables of launchers, and `launcher` is one.
//! - `group` connects the processes: it delivers the id of the communicator, and reports failures.
//! - `train` and `timing` are the commands.

mod arguments;
mod communicator;
mod group;
mod launcher;
mod library;
mod ranks;
mod server;
mod timing;
mod train;
mod world;

use std::error::Error;
use std::process::ExitCode;

use cuda_driver::Driver;

pub use arguments::{Arguments, Command};
pub use communicator::Communicator;
pub use group::{Failure, Group, Limits};
pub use library::{Config, Functions, Nccl, RawCommunicator, UniqueId};
pub use world::World;

/// The result of an example. Any error ends it.
pub type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs the program. `load` returns NCCL for a driver.
pub fn main(
    arguments: impl Iterator<Item = String>,
    load: impl FnOnce(&Driver) -> Result<Nccl>,
) -> ExitCode {
    match run(arguments, load) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nccl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    arguments: impl Iterator<Item = String>,
    load: impl FnOnce(&Driver) -> Result<Nccl>,
) -> Result<()> {
    let arguments = Arguments::parse(arguments)?;
    match arguments.command {
        Command::Launch {
            processes,
            ref command,
        } => launcher::launch(processes, command),
        Command::Train { steps } => ranks::run(&arguments, load, |rank| train::run(rank, steps)),
        Command::AllReduce { mib, rounds } => {
            ranks::run(&arguments, load, |rank| timing::run(rank, mib, rounds))
        }
    }
}

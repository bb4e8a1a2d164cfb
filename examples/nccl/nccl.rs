//! Teaches: collective operations of NCCL on the buffers and streams of this crate, in several
//! processes with one or more GPUs each.
//!
//! Trains a small network on all GPUs and compares it with the same training on the host, or times
//! an all-reduce. The library of this package has the code; its documentation lists the commands.
//!
//! `cargo run -p nccl --example nccl -- launch --processes 2 train`

use std::process::ExitCode;

fn main() -> ExitCode {
    nccl::main(std::env::args().skip(1), |_| nccl::Nccl::find())
}

//! The program with a library in the place of NCCL. Its all-reduce copies to the host, exchanges
//! the data through files, and copies back, so that it runs on software devices.
//!
//! `FAKE_NCCL_DIR` is the folder for the files. `FAKE_NCCL_ERROR=1:20` makes the 20th all-reduce of
//! rank 1 fail later, as a broken connection does.

mod exchange;
mod functions;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use cuda_driver::Driver;
use cuda_sys::DriverLibrary;
use nccl::{Nccl, Result};

/// The driver of this process.
static DRIVER: OnceLock<Arc<DriverLibrary>> = OnceLock::new();

fn main() -> ExitCode {
    nccl::main(std::env::args().skip(1), load)
}

fn load(driver: &Driver) -> Result<Nccl> {
    let _ = DRIVER.set(Arc::clone(driver.library()));
    // SAFETY: the functions must behave as those of NCCL ← for the calls that the program makes,
    // they do.
    unsafe { Nccl::from_functions(functions::FUNCTIONS) }
}

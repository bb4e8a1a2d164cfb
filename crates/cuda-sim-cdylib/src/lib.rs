//! The software device as a driver library: every function of `cuda.h`, exported under its name.
//!
//! A process that loads this library has one software driver. The first call creates it as the
//! environment variable `CUDA_SIM` describes it (see [`cuda_sim::Builder`]).

use std::env;
use std::error::Error;
use std::sync::OnceLock;

use cuda_sys::{CUresult, DriverLibrary};

/// The environment variable that describes the device.
const VARIABLE: &str = "CUDA_SIM";

/// The software driver of this process, or the status that every call returns if it could not be
/// created.
fn driver() -> Result<&'static DriverLibrary, CUresult> {
    static DRIVER: OnceLock<Option<DriverLibrary>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| match load() {
        Ok(driver) => Some(driver),
        Err(error) => {
            eprintln!("cuda-sim: cannot create the software device: {error}");
            None
        }
    });
    driver.as_ref().ok_or(CUresult::CUDA_ERROR_SYSTEM_NOT_READY)
}

fn load() -> Result<DriverLibrary, Box<dyn Error>> {
    let text = env::var_os(VARIABLE).unwrap_or_default();
    let text = text.into_string().map_err(|text| {
        let text = text.to_string_lossy();
        format!("{VARIABLE} is set to {text}, which is not Unicode; correct or unset it")
    })?;
    let simulator = text.parse::<cuda_sim::Builder>()?.build()?;
    // The library keeps the driver alive.
    Ok(simulator.library()?)
}

/// The exported functions, generated from the function table of cuda-sys.
#[allow(non_snake_case, reason = "the names are C's")]
#[allow(clippy::too_many_arguments, reason = "the C functions have this many")]
mod exports {
    use cuda_sys::*;

    use super::driver;

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));

    const _: () = assert!(EXPORTS == FUNCTIONS.len(), "each function is exported once");
}

//! The software device as a driver library: every function of `cuda.h`, exported under its name.
//!
//! There is one software driver in a process that loads this, made by the first call as the
//! environment variable `CUDA_SIM` describes it (see [`cuda_sim::Builder`]).

use std::env;
use std::error::Error;
use std::sync::OnceLock;

use cuda_sys::{CUresult, DriverLibrary};

/// The environment variable that describes the device.
const VARIABLE: &str = "CUDA_SIM";

/// The software driver of this process; what every call answers if there is none.
fn driver() -> Result<&'static DriverLibrary, CUresult> {
    static DRIVER: OnceLock<Option<DriverLibrary>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| match load() {
        Ok(driver) => Some(driver),
        Err(error) => {
            eprintln!("cuda-sim: no software device: {error}");
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

/// What is exported, generated from the table of cuda-sys.
#[allow(non_snake_case, reason = "the names are C's")]
#[allow(clippy::too_many_arguments, reason = "the functions of C have as many")]
mod exports {
    use cuda_sys::*;

    use super::driver;

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));

    const _: () = assert!(EXPORTS == FUNCTIONS.len(), "each function is exported once");
}

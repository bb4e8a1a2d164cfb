//! Teaches: querying the driver and the properties of its devices.
//!
//! Prints the driver, the properties of each device, and the free memory. There is nothing to verify
//! but that no more memory is free than there is.
//!
//! `cargo run -p examples --example device_query`

use cuda_driver::prelude::*;
use examples::{Result, Session};

fn main() -> Result<()> {
    let session = Session::open()?;
    let driver: &Driver = session.device.driver();
    println!("Driver: {}, CUDA {}", driver.origin(), driver.version());
    println!("Bindings: {}", cuda_driver::bindings());
    for device in driver.devices()? {
        println!("\n{}", device.properties()?);
    }
    let (free, total) = session.context.memory_info()?;
    println!("\nDevice 0 has {} of {} MiB free", free >> 20, total >> 20);
    if free > total {
        return Err("more memory is free than there is".into());
    }
    Ok(())
}

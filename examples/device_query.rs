//! Teaches: querying the driver, the properties of its devices, and how they are connected.
//!
//! Prints the driver, the properties of each device, the connections of the devices, and the free
//! memory. It verifies that the free memory is at most the total memory. With a path, it writes a
//! picture of the connections there.
//!
//! `cargo run -p examples --example device_query -- [topology.svg]`

use cuda_driver::device::Topology;
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
    let topology = Topology::discover(driver)?;
    println!("\n{topology:#}");
    if let Some(error) = topology.nvml_error() {
        println!("No information about NVLink: {error}");
    }
    if let Some(path) = std::env::args_os().nth(1) {
        std::fs::write(path, topology.to_svg())?;
    }
    let (free, total) = session.context.memory_info()?;
    println!("\nDevice 0 has {} of {} MiB free", free >> 20, total >> 20);
    if free > total {
        return Err("more memory is free than there is".into());
    }
    Ok(())
}

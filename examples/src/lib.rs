//! What the examples share: a device to run on, a compiler for it, and how a result is checked.
//!
//! None of it is needed to use the crates; it only keeps each example to what it teaches.

// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

use std::error::Error;

use cuda_driver::prelude::*;
use cuda_nvrtc::{Nvrtc, Options, Program};

/// The result of an example: any error ends it.
pub type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A device, and a stream on it.
#[derive(Debug)]
pub struct Session {
    /// The device.
    pub device: Device,
    /// Its primary context.
    pub context: Context,
    /// The default stream of the context.
    pub stream: Stream,
    software: bool,
}

impl Session {
    /// The first GPU of this machine, or the software device; prints which.
    ///
    /// # Errors
    ///
    /// If neither can be had.
    pub fn open() -> Result<Self> {
        let choice = cuda_sim::gpu_or_software()?;
        println!("{choice}");
        let software = choice.is_software();
        let driver = Driver::new(choice.into_library())?;
        let device = driver.device(0)?;
        let context = device.primary_context()?;
        let stream = context.default_stream()?;
        Ok(Self {
            device,
            context,
            stream,
            software,
        })
    }

    /// Whether this is the software device, on which times say nothing about a GPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.software
    }

    /// Compiles CUDA C++ for this device with the NVRTC of this machine, and loads it.
    ///
    /// # Errors
    ///
    /// If NVRTC cannot be found, or what the compiler or the driver says.
    pub fn load(&self, name: &str, source: &str) -> Result<Module> {
        let program = Program::new(&Nvrtc::load()?, source).name(name);
        Ok(Module::compile(&self.context, &program, &Options::new())?)
    }
}

/// Compares a result with what the host computed, and prints that they agree.
///
/// # Errors
///
/// The first element that differs by more than `tolerance` relative to the larger of 1 and its
/// value.
pub fn verify(what: &str, got: &[f32], want: &[f32], tolerance: f32) -> Result<()> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements instead of {}", got.len(), want.len()).into());
    }
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = (got - want).abs();
        if difference.is_nan() || difference > tolerance * want.abs().max(1.0) {
            return Err(format!("{what}: element {index} is {got} instead of {want}").into());
        }
    }
    println!("{what}: {} elements verified", got.len());
    Ok(())
}

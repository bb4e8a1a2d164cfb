//! Code that the examples share: choosing a device, compiling for it, and checking results.
//!
//! The crates can be used without this code; it only keeps the examples short.

// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

use std::error::Error;
use std::fmt::Debug;

use cuda_driver::nvrtc::Source;
use cuda_driver::prelude::*;

/// The result of an example. Any error ends it.
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
    /// Opens the first GPU of this machine or, without one, the software device; prints which.
    ///
    /// # Errors
    ///
    /// Fails if neither can be opened.
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

    /// Returns whether this is the software device, whose times do not predict those of a GPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.software
    }

    /// Compiles CUDA C++ for this device and loads the module, for launches without `unsafe`.
    ///
    /// # Errors
    ///
    /// Fails if NVRTC cannot be loaded, if the source does not compile, or if the driver refuses
    /// the module.
    pub fn load(&self, name: &str, source: &str) -> Result<SafeModule> {
        let source = Source::new(source).name(name);
        Ok(SafeModule::from_source(&self.context, source)?)
    }
}

/// Compares a result with the host's reference `want`, and prints the number of verified elements.
///
/// # Errors
///
/// Fails if the lengths differ, or at the first element that differs by more than `tolerance`
/// relative to the larger of 1 and the magnitude of the reference.
pub fn verify(what: &str, got: &[f32], want: &[f32], tolerance: f32) -> Result<()> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), want.len()).into());
    }
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = (got - want).abs();
        if difference.is_nan() || difference > tolerance * want.abs().max(1.0) {
            return Err(format!("{what}: element {index} is {got}, expected {want}").into());
        }
    }
    println!("{what}: {} elements verified", got.len());
    Ok(())
}

/// Compares a result with the host's reference `want`, and prints the number of verified elements.
///
/// # Errors
///
/// Fails if the lengths differ, or at the first element that differs.
pub fn verify_equal<T: Debug + PartialEq>(what: &str, got: &[T], want: &[T]) -> Result<()> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), want.len()).into());
    }
    if let Some(index) = got.iter().zip(want).position(|(got, want)| got != want) {
        let (got, want) = (&got[index], &want[index]);
        return Err(format!("{what}: element {index} is {got:?}, expected {want:?}").into());
    }
    println!("{what}: {} elements verified", got.len());
    Ok(())
}

//! The drivers that the tests of this workspace run on: software drivers, and the driver of the GPU
//! if there is one.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is a part of tests, which panic if the machine cannot run them"
)]

use std::env;
use std::thread;
use std::time::Duration;

use cuda_driver::{Driver, Version};
use cuda_sim::{BuildError, Builder, Simulator};
use test_needs::found;

/// A software driver as `builder` describes it, including its version.
///
/// A process has a limited number of slots for software drivers, and tests run concurrently: waits
/// for a free slot.
pub fn built(builder: &Builder) -> Simulator {
    loop {
        match builder.clone().build() {
            Err(BuildError::TooMany { .. }) => thread::sleep(Duration::from_millis(5)),
            built => return built.unwrap(),
        }
    }
}

/// A software driver as `builder` describes it. Unless `builder` sets a version, it has the
/// [version](older) that the tests run on.
pub fn simulator(builder: &Builder) -> Simulator {
    let simulator = built(builder);
    let Some(version) = older() else {
        return simulator;
    };
    let newest = cuda_sys::BINDINGS.version;
    if simulator.library().unwrap().version() != newest {
        return simulator;
    }
    drop(simulator);
    built(&builder.clone().version(version.number()))
}

/// The CUDA version of the software drivers that tests run on, if it is not the newest:
/// `CUDA_TEST_DRIVER=12.0`.
pub fn older() -> Option<Version> {
    let text = env::var("CUDA_TEST_DRIVER").ok()?;
    let (major, minor) = text
        .split_once('.')
        .expect("CUDA_TEST_DRIVER must have the form 12.0");
    let number = major.parse::<u32>().unwrap() * 1000 + minor.parse::<u32>().unwrap() * 10;
    Some(Version::new(number))
}

/// The driver of the GPU, if there is one. Otherwise prints what is skipped, and fails if a GPU is
/// required.
#[track_caller]
pub fn gpu_driver() -> Option<Driver> {
    found("GPU", Driver::load())
}

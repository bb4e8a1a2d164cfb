//! What all suites of tests share: drivers to test on, and what is said of those that are not
//! there.

use std::env;
use std::thread;
use std::time::Duration;

use cuda_driver::{Driver, Version};
use cuda_sim::{BuildError, Builder, Simulator};
use test_needs::found;

/// A software driver as `builder` describes it, version and all.
///
/// A process has room for so many at once, and tests run beside each other: waits for room.
pub(crate) fn built(builder: &Builder) -> Simulator {
    loop {
        match builder.clone().build() {
            Err(BuildError::TooMany { .. }) => thread::sleep(Duration::from_millis(5)),
            built => return built.unwrap(),
        }
    }
}

/// A software driver as `builder` describes it, of the [version](older) that the tests run on
/// unless that names one.
pub(crate) fn simulator(builder: &Builder) -> Simulator {
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

/// The CUDA version of the software drivers that tests run on, where it is not the newest:
/// `CUDA_TEST_DRIVER=12.0`.
pub(crate) fn older() -> Option<Version> {
    let text = env::var("CUDA_TEST_DRIVER").ok()?;
    let (major, minor) = text.split_once('.').expect("CUDA_TEST_DRIVER is like 12.0");
    let number = major.parse::<u32>().unwrap() * 1000 + minor.parse::<u32>().unwrap() * 10;
    Some(Version::new(number))
}

/// The driver of the GPU, if there is one. Says what was skipped if not, and fails if it is
/// required.
pub(crate) fn gpu_driver(test: &str) -> Option<Driver> {
    found("GPU", test, Driver::load())
}

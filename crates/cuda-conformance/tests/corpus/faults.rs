//! Kernels that fail. They run only on software devices, because after a fault the whole process
//! cannot use the device.

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;

use crate::support::{Source, simulated};

const SOURCE: Source = Source::new("faults.cu", include_str!("kernels/faults.cu"));

/// Launches `name` on 8 numbers, where the second last is `culprit`. Returns the status, and the
/// software device's description of the fault.
fn fault<T: DeviceRepr>(name: &str, input: &[T; 8]) -> Vec<(Status, String)> {
    let statuses = simulated().map(|fixture| {
        let kernel = fixture.kernel(&SOURCE, name);
        let (values, mut out) = (fixture.upload(input), fixture.zeroed::<i32>(8));
        let config = LaunchConfig::new(1, 8);
        // SAFETY: some of these kernels access memory out of bounds; the software device checks
        // each access.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&values, &mut out, 8_u32))
        }
        .unwrap();
        let Err(Error::Driver(error)) = fixture.stream.synchronize() else {
            panic!("{name} did not fail on {}", fixture.name)
        };
        assert!(error.is_sticky());
        let simulator = fixture.simulator.as_ref().unwrap();
        (error.status(), simulator.fault(0).unwrap_or_default())
    });
    statuses.collect()
}

#[test]
fn an_assertion() {
    for (status, words) in fault("asserts", &[0, 1, 2, 4, 5, 6, 3, 8]) {
        assert_eq!(status, Status::CUDA_ERROR_ASSERT);
        assert!(words.contains("asserts"), "{words}");
    }
}

#[test]
fn true_assertion_has_no_effect() {
    for fixture in simulated() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<i32> = unsafe { fixture.map(&SOURCE, "asserts", &[9, 8, 7]) };
        assert_eq!(output, [9, 8, 7]);
    }
}

#[test]
fn a_store_out_of_bounds() {
    for (status, words) in fault("beyond", &[1_i32; 8]) {
        assert_eq!(status, Status::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(words.contains("beyond"), "{words}");
    }
}

#[test]
fn a_trap() {
    for (status, words) in fault("traps", &[0, 1, 2, 4, 5, 6, 7, 8]) {
        assert_eq!(status, Status::CUDA_ERROR_LAUNCH_FAILED);
        assert!(words.contains("traps"), "{words}");
    }
}

#[test]
fn a_load_that_is_not_aligned() {
    for (status, words) in fault("misaligned", &[1_u8; 8]) {
        assert_eq!(status, Status::CUDA_ERROR_MISALIGNED_ADDRESS);
        assert!(words.contains("misaligned"), "{words}");
    }
}

//! What errors say.

use cuda_driver::prelude::*;
use cuda_driver::{Error, Status};
use cuda_sim::Builder;

use crate::support::{MIX, software};

#[test]
fn memory_that_runs_out_is_an_error_with_the_bytes_asked_for() {
    let bench = software(Builder::new().memory(64 << 20));
    let stream = bench.stream();
    let error = DeviceBuffer::<f64>::zeroed(&stream, 100 << 20).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 800 << 20),
        "{error}"
    );
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
    // The device goes on.
    assert_eq!(
        DeviceBuffer::<u8>::zeroed(&stream, 3)
            .unwrap()
            .to_vec()
            .unwrap(),
        [0, 0, 0]
    );
}

#[test]
fn ptx_newer_than_the_driver_is_an_error_that_says_which_versions_met() {
    let bench = software(Builder::new().version(13000));
    let ptx = Ptx::new(MIX.replace(".version 7.0", ".version 9.5")).unwrap();
    let error = Module::load(&bench.context, &ptx).unwrap_err();
    assert_eq!(
        error.status(),
        Some(Status::CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    );
    let text = error.to_string();
    for version in ["PTX 9.5", "CUDA 13.0", "PTX 9.0"] {
        assert!(text.contains(version), "{version} is not in: {text}");
    }
    Module::load(&bench.context, &Ptx::new(MIX).unwrap()).unwrap();
}

#[test]
fn a_fault_is_told_as_sticky_at_the_next_synchronise_and_drops_stay_quiet() {
    let bench = software(Builder::new());
    let stream = bench.stream();
    let mix = bench.kernel(MIX, "mix");
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 16).unwrap();
    // SAFETY: none: the addresses are wild, which is what this test is about. It is a software device.
    unsafe {
        stream.launch(
            &mix,
            LaunchConfig::for_num_elems(1),
            (64_u64, 128_u64, 1_u32),
        )
    }
    .unwrap();
    let Err(Error::Driver(error)) = stream.synchronize() else {
        panic!("the fault was not told")
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(error.is_sticky());
    assert!(
        error
            .to_string()
            .contains("the device is lost to this process"),
        "{error}"
    );
    let Err(Error::Driver(again)) = buffer.to_vec() else {
        panic!("the device works again")
    };
    assert_eq!(again.status(), Status::CUDA_ERROR_ILLEGAL_ADDRESS);
    drop((buffer, mix, stream));
}

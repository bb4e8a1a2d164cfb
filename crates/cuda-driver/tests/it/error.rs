//! The contents of errors.

use std::ffi::CStr;
use std::ptr;

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::CUresult;
use cuda_sys::image::newest_ptx;

use crate::support::{MIX, gpu, software};

#[test]
fn out_of_memory_names_the_requested_bytes() {
    let fixture = software(Builder::new().memory(64 << 20));
    let stream = fixture.stream();
    let error = DeviceBuffer::<f64>::zeroed(&stream, 100 << 20).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 800 << 20),
        "{error}"
    );
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
    // The device is still usable.
    assert_eq!(
        DeviceBuffer::<u8>::zeroed(&stream, 3)
            .unwrap()
            .to_vec()
            .unwrap(),
        [0, 0, 0]
    );
}

/// Returns the name and the text of a status code, or `None` for a code that the driver lacks.
fn texts(driver: &Driver, code: u32) -> Option<[String; 2]> {
    let (library, code) = (driver.library(), CUresult(code));
    let (mut name, mut text) = (ptr::null(), ptr::null());
    // SAFETY: the pointer must be to a pointer ← it is to a local.
    let named = unsafe { library.cuGetErrorName(code, &raw mut name) };
    // SAFETY: the pointer must be to a pointer ← it is to a local.
    let described = unsafe { library.cuGetErrorString(code, &raw mut text) };
    assert_eq!(named, described, "{code}");
    named.is_success().then(|| {
        // SAFETY: the pointers must be to strings that end with a nul ← the driver returned them,
        // and its strings are static.
        [name, text].map(|text| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned())
    })
}

#[test]
fn all_codes_have_the_texts_of_the_gpu_driver() {
    let software = software(Builder::new());
    let Some(gpu) = gpu() else { return };
    let mut known = 0;
    for code in 0..1000 {
        // Either driver may be newer than the other.
        if let Some(theirs) = texts(gpu.context.driver(), code)
            && let Some(ours) = texts(software.context.driver(), code)
        {
            assert_eq!(ours, theirs, "{code}");
            known += 1;
        }
    }
    // Driver 580 has 101 codes.
    assert!(known > 80, "{known} codes");
}

#[test]
fn error_for_too_new_ptx_names_both_versions() {
    let old = [12000, 12080, 13000].map(|version| software(Builder::new().version(version)));
    for fixture in old.into_iter().chain(gpu()) {
        let driver = fixture.context.driver().version();
        let (major, minor) = newest_ptx(driver).unwrap();
        let newer = (major, minor + 1);
        let text = MIX.replace(".version 7.0", &format!(".version {}.{}", newer.0, newer.1));
        let error = Module::load(&fixture.context, &Ptx::new(text).unwrap()).unwrap_err();
        assert_eq!(
            error.status(),
            Some(Status::CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
            "{error}"
        );
        let text = error.to_string();
        for fact in [
            format!("PTX {}.{}", newer.0, newer.1),
            format!("CUDA {driver}"),
            format!("PTX up to {major}.{minor}"),
        ] {
            assert!(text.contains(&fact), "{fact} is not in: {text}");
        }
        Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    }
}

#[test]
fn next_synchronize_reports_sticky_fault_and_drops_none() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mix = fixture.kernel(MIX, "mix");
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 16).unwrap();
    // SAFETY: none: the addresses are invalid, which is the point of this test. It runs on a
    // software device.
    unsafe {
        stream.launch(
            &mix,
            LaunchConfig::for_num_elems(1).unwrap(),
            (64_u64, 128_u64, 1_u32),
        )
    }
    .unwrap();
    let Err(Error::Driver(error)) = stream.synchronize() else {
        panic!("the fault was not reported")
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(error.is_sticky());
    assert!(
        error
            .to_string()
            .contains("this process can no longer use device 0"),
        "{error}"
    );
    let Err(Error::Driver(again)) = buffer.to_vec() else {
        panic!("the device works again")
    };
    assert_eq!(again.status(), Status::CUDA_ERROR_ILLEGAL_ADDRESS);
    drop((buffer, mix, stream));
}

/// `main` and `unwrap` print `Debug`.
#[test]
fn errors_within_errors_print_their_text() {
    let Err(Error::LaunchConfig(config)) = LaunchConfig::for_num_elems(-1) else {
        panic!("a negative number of elements was accepted")
    };
    assert_eq!(format!("{config:?}"), config.to_string());
    let fixture = software(Builder::new());
    let mix = fixture.kernel(MIX, "mix");
    let Err(Error::Argument(argument)) = mix.typed::<(Writes<u32>,)>() else {
        panic!("a signature of another length was accepted")
    };
    assert_eq!(format!("{argument:?}"), argument.to_string());
    assert!(
        argument.to_string().contains("int or unsigned"),
        "{argument}"
    );
}

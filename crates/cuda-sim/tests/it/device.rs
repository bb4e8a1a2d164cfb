//! Devices and their properties.

use std::ffi::{CStr, c_char, c_int};

use cuda_sim::{Builder, CUresult};
use cuda_sys::{CUdevice_attribute as A, DriverLibrary};

use crate::support::{OK, bare, ok};

fn attribute(driver: &DriverLibrary, attribute: A) -> c_int {
    let mut value = -1;
    unsafe { ok(driver.cuDeviceGetAttribute(&raw mut value, attribute, 0)) };
    value
}

#[test]
fn nothing_works_before_init() {
    let (_simulator, driver) = bare(Builder::new());
    let mut count = 0;
    let status = unsafe { driver.cuDeviceGetCount(&raw mut count) };
    assert_eq!(status, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    unsafe { assert_eq!(driver.cuInit(1), CUresult::CUDA_ERROR_INVALID_VALUE) };
    unsafe { assert_eq!(driver.cuInit(0), OK) };
    unsafe { assert_eq!(driver.cuDeviceGetCount(&raw mut count), OK) };
    assert_eq!(count, 1);
}

#[test]
fn no_device_is_no_init() {
    let (_simulator, driver) = bare(Builder::new().devices(0));
    unsafe { assert_eq!(driver.cuInit(0), CUresult::CUDA_ERROR_NO_DEVICE) };
}

#[test]
fn devices_have_distinct_identities() {
    let (_simulator, driver) = bare(Builder::new().devices(3).memory(64 << 20));
    unsafe { ok(driver.cuInit(0)) };
    let mut uuids = Vec::new();
    for ordinal in 0..3 {
        let mut device = -1;
        unsafe { ok(driver.cuDeviceGet(&raw mut device, ordinal)) };
        let mut name = [0 as c_char; 64];
        unsafe { ok(driver.cuDeviceGetName(name.as_mut_ptr(), 64, device)) };
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap();
        assert_eq!(name, format!("Software device {ordinal} (cuda-sim)"));
        let mut uuid = cuda_sys::CUuuid { bytes: [0; 16] };
        unsafe { ok(driver.cuDeviceGetUuid_v2(&raw mut uuid, device)) };
        assert!(!uuids.contains(&uuid.bytes));
        uuids.push(uuid.bytes);
        let mut bytes = 0;
        unsafe { ok(driver.cuDeviceTotalMem_v2(&raw mut bytes, device)) };
        assert_eq!(bytes, 64 << 20);
        let mut bus = [0 as c_char; 16];
        unsafe { ok(driver.cuDeviceGetPCIBusId(bus.as_mut_ptr(), 16, device)) };
        let mut again = -1;
        unsafe { ok(driver.cuDeviceGetByPCIBusId(&raw mut again, bus.as_ptr())) };
        assert_eq!(again, device);
    }
    let mut device = -1;
    let status = unsafe { driver.cuDeviceGet(&raw mut device, 3) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_DEVICE);
    let status = unsafe { driver.cuDeviceGet(&raw mut device, -1) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_DEVICE);
}

#[test]
fn a_short_name_is_cut_and_ends_with_nul() {
    let (_simulator, driver) = bare(Builder::new());
    unsafe { ok(driver.cuInit(0)) };
    let mut name = [b'x' as c_char; 16];
    unsafe { ok(driver.cuDeviceGetName(name.as_mut_ptr(), 9, 0)) };
    let text: Vec<u8> = name.iter().map(|&c| c as u8).collect();
    assert_eq!(&text, b"Software\0xxxxxxx");
}

#[test]
fn limits_follow_the_compute_capability() {
    // From the table of technical specifications in the CUDA programming guide: the threads and the
    // KiB of shared memory of a multiprocessor, and the KiB that a block can opt into.
    for ((major, minor), threads, shared, optin) in [
        ((7, 5), 1024, 64, 64),
        ((8, 0), 2048, 164, 163),
        ((8, 6), 1536, 100, 99),
        ((9, 0), 2048, 228, 227),
        ((10, 0), 2048, 228, 227),
    ] {
        let (_simulator, driver) = bare(Builder::new().compute_capability(major, minor));
        unsafe { ok(driver.cuInit(0)) };
        let value = |name| attribute(&driver, name);
        assert_eq!(
            value(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            major as c_int
        );
        assert_eq!(
            value(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            minor as c_int
        );
        assert_eq!(
            value(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            threads
        );
        let of_sm = value(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
        assert_eq!(of_sm, shared << 10);
        let of_block = value(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        assert_eq!(of_block, optin << 10);
        assert_eq!(value(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    }
}

#[test]
fn an_attribute_that_does_not_exist_is_an_error() {
    let (_simulator, driver) = bare(Builder::new());
    unsafe { ok(driver.cuInit(0)) };
    let mut value = 5;
    for number in [0, 100_000] {
        let status = unsafe { driver.cuDeviceGetAttribute(&raw mut value, A(number), 0) };
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    assert_eq!(value, 5);
}

#[test]
fn error_codes_have_names() {
    let (_simulator, driver) = bare(Builder::new());
    let mut text = std::ptr::null();
    unsafe { ok(driver.cuGetErrorName(CUresult(700), &raw mut text)) };
    let name = unsafe { CStr::from_ptr(text) };
    assert_eq!(name.to_str(), Ok("CUDA_ERROR_ILLEGAL_ADDRESS"));
    let status = unsafe { driver.cuGetErrorName(CUresult(12345), &raw mut text) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.is_null());
}

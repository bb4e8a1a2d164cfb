//! The functions of a driver of a given version, and the results of `cuGetProcAddress`.

use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::ptr;

use cuda_sim::{Builder, CUresult, Simulator};
use cuda_sys::{CUdriverProcAddressQueryResult as Query, DriverLibrary, FUNCTIONS};

use crate::support::{OK, bare};

fn query(
    driver: &DriverLibrary,
    name: &str,
    version: i32,
    flags: u64,
) -> (CUresult, *mut c_void, Query) {
    let name = CString::new(name).unwrap();
    let mut found: *mut c_void = ptr::without_provenance_mut(0xABCD);
    let mut status = Query(99);
    let result = unsafe {
        driver.cuGetProcAddress_v2(
            name.as_ptr(),
            &raw mut found,
            version,
            flags,
            &raw mut status,
        )
    };
    (result, found, status)
}

#[test]
fn driver_has_exactly_the_functions_of_its_version() {
    let mut counts = Vec::new();
    for version in [12000, 12020, 12040, 13000, 13050] {
        let (_simulator, driver) = bare(Builder::new().version(version));
        let mut reported = 0;
        unsafe { assert_eq!(driver.cuDriverGetVersion(&raw mut reported), OK) };
        assert_eq!(reported as u32, version);
        // The table has one pointer for each row, in the order of the rows.
        let slots: *const *const () = ptr::from_ref(driver.table()).cast();
        let mut distinct = BTreeSet::new();
        let mut resolved = 0;
        for (index, function) in FUNCTIONS.iter().enumerate() {
            let slot = unsafe { *slots.add(index) };
            assert_eq!(
                !slot.is_null(),
                function.since().number() <= version,
                "{function:?}"
            );
            if !slot.is_null() {
                resolved += 1;
                distinct.insert(slot.addr());
            }
        }
        // Stubs and shims: functions that do the same may have been merged, others not.
        assert!(
            distinct.len() > resolved / 2,
            "{} of {resolved}",
            distinct.len()
        );
        counts.push(resolved);
    }
    let known = [12000, 12020, 12040, 13000, 13050].map(|version| {
        FUNCTIONS
            .iter()
            .filter(|row| row.since().number() <= version)
            .count()
    });
    assert_eq!(counts, known);
    assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
}

#[test]
fn the_newest_revision_that_is_old_enough_is_given() {
    let (_simulator, driver) = bare(Builder::new().version(13000));
    let address = |version| query(&driver, "cuCtxCreate", version, 0).1;
    let field = |function: *const ()| function.cast_mut().cast::<c_void>();
    assert_eq!(
        address(2000),
        field(driver.cuCtxCreate.unwrap() as *const ())
    );
    assert_eq!(
        address(3010),
        field(driver.cuCtxCreate.unwrap() as *const ())
    );
    assert_eq!(
        address(3020),
        field(driver.cuCtxCreate_v2.unwrap() as *const ())
    );
    assert_eq!(
        address(11030),
        field(driver.cuCtxCreate_v2.unwrap() as *const ())
    );
    assert_eq!(
        address(11040),
        field(driver.cuCtxCreate_v3.unwrap() as *const ())
    );
    assert_eq!(
        address(12050),
        field(driver.cuCtxCreate_v4.unwrap() as *const ())
    );
    assert_eq!(
        address(13000),
        field(driver.cuCtxCreate_v4.unwrap() as *const ())
    );
}

#[test]
fn unknown_names_and_unknown_versions_differ() {
    let (_simulator, driver) = bare(Builder::new().version(13000));
    let missing = (
        OK,
        ptr::null_mut(),
        Query::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
    );
    assert_eq!(query(&driver, "cuNoSuchFunction", 13000, 0), missing);
    assert_eq!(query(&driver, "cuCtxCreate_v4", 13000, 0), missing);
    // CUDA 13.4 introduced cuMemGetLocationInfo, which this driver does not know.
    assert_eq!(query(&driver, "cuMemGetLocationInfo", 13000, 0), missing);
    let old = (
        OK,
        ptr::null_mut(),
        Query::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
    );
    assert_eq!(query(&driver, "cuLibraryLoadData", 11080, 0), old);
    let untouched = ptr::without_provenance_mut(0xABCD);
    let refused = (CUresult::CUDA_ERROR_INVALID_VALUE, untouched, Query(99));
    assert_eq!(query(&driver, "cuInit", 13010, 0), refused);
    assert_eq!(query(&driver, "cuInit", 13000, 8), refused);
}

#[test]
fn the_per_thread_flag_selects_the_per_thread_variant() {
    let (_simulator, driver) = bare(Builder::new());
    let legacy = query(&driver, "cuStreamSynchronize", 12000, 1).1;
    let per_thread = query(&driver, "cuStreamSynchronize", 12000, 2).1;
    assert_ne!(legacy, per_thread);
    let field = driver.cuStreamSynchronize_ptsz.unwrap() as *const ();
    assert_eq!(per_thread, field.cast_mut().cast());
    // A function without a per-thread variant resolves to itself.
    assert_eq!(
        query(&driver, "cuInit", 12000, 2).1,
        query(&driver, "cuInit", 12000, 0).1
    );
}

#[test]
fn a_dropped_driver_returns_deinitialized() {
    let (simulator, driver) = bare(Builder::new());
    let get_version = driver.cuDriverGetVersion.unwrap();
    drop(simulator);
    let mut version = 0;
    // The library alone keeps the driver alive.
    unsafe { assert_eq!(get_version(&raw mut version), OK) };
    drop(driver);
    let status = unsafe { get_version(&raw mut version) };
    assert_eq!(status, CUresult::CUDA_ERROR_DEINITIALIZED);
}

#[test]
fn drivers_reject_handles_of_each_other() {
    let (old, old_driver) = bare(Builder::new().version(12000).devices(3));
    let (_new, new_driver) = bare(Builder::new().version(13050));
    assert_eq!(old_driver.version().number(), 12000);
    assert_eq!(new_driver.version().number(), 13050);
    unsafe { assert_eq!(old_driver.cuInit(0), OK) };
    let mut count = 0;
    unsafe { assert_eq!(old_driver.cuDeviceGetCount(&raw mut count), OK) };
    assert_eq!(count, 3);
    let status = unsafe { new_driver.cuDeviceGetCount(&raw mut count) };
    assert_eq!(status, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    assert_eq!(old.calls().values().sum::<u64>(), 2);
}

#[test]
fn unimplemented_functions_log_their_name() {
    let (simulator, driver) = bare(Builder::new());
    unsafe { assert_eq!(driver.cuInit(0), OK) };
    let name = "cuGraphicsUnregisterResource";
    assert!(!Simulator::implemented().contains(&name));
    let status = unsafe { driver.cuGraphicsUnregisterResource(ptr::null_mut()) };
    assert_eq!(status, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert_eq!(simulator.unimplemented_calls(), [name]);
    assert_eq!(simulator.calls()[name], 1);
}

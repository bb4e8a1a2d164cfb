//! With a real driver: each function resolves in the version that introduced it, to the address of
//! its export.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{DriverLibrary, DriverTable, FUNCTIONS};
use libloading::Library;

/// The driver of this machine; prints a message and returns `None` if there is none.
fn driver() -> Option<Arc<DriverLibrary>> {
    test_needs::found("GPU", DriverLibrary::system())
}

/// The addresses in the slots of the table; null for `None`.
fn addresses(table: &DriverTable) -> Vec<*const c_void> {
    assert_eq!(
        size_of::<DriverTable>(),
        FUNCTIONS.len() * size_of::<fn()>()
    );
    let slots = ptr::from_ref(table).cast::<*const c_void>();
    // SAFETY: that many pointers must be readable ← the table is `repr(C)` with one pointer for
    // each row, and `None` is null.
    unsafe { std::slice::from_raw_parts(slots, FUNCTIONS.len()) }.to_vec()
}

#[test]
fn functions_of_the_drivers_version_resolve() {
    let Some(driver) = driver() else { return };
    // SAFETY: the initializers must be sound to run ← the library is the driver, and is loaded
    // already.
    let exports = unsafe { Library::new(driver.origin()) }.expect("the library that is loaded");
    let (mut same, mut newer) = (0, 0);
    let mut exceptions = Vec::new();
    for (function, address) in FUNCTIONS.iter().zip(addresses(driver.table())) {
        if function.since() > driver.version() {
            assert!(address.is_null(), "{function:?} is newer than the driver");
            newer += 1;
            continue;
        }
        // SAFETY: the symbol's type must be right ← only its address is used.
        let export = unsafe { exports.get::<*const c_void>(function.name.as_bytes()) };
        match export.map(|symbol| *symbol) {
            Ok(export) if export == address => same += 1,
            Ok(_) if address.is_null() => {
                exceptions.push(format!("{function:?}: exported, not resolved"));
            }
            Ok(_) => exceptions.push(format!("{function:?}: resolved to another address")),
            Err(_) if address.is_null() => exceptions.push(format!("{function:?}: absent")),
            Err(_) => exceptions.push(format!("{function:?}: resolved, not exported")),
        }
    }
    println!(
        "driver {} ({}): {same} at the address of their export, {newer} newer than the driver",
        driver.version(),
        driver.origin()
    );
    for exception in &exceptions {
        println!("{exception}");
    }
    assert!(exceptions.is_empty(), "{exceptions:#?}");
    assert_eq!(same + newer, FUNCTIONS.len());
}

#[test]
fn the_driver_reports_one_version_and_initializes() {
    let Some(driver) = driver() else { return };
    let mut version = 0;
    // SAFETY: the pointer must be writable ← it is to a local.
    let status = unsafe { driver.cuDriverGetVersion(&raw mut version) };
    assert!(status.is_success(), "{status}");
    assert_eq!(u32::try_from(version), Ok(driver.version().number()));
    // SAFETY: nothing is required.
    let status = unsafe { driver.cuInit(0) };
    assert!(status.is_success(), "{status}");
}

//! Core dumps, on a driver that stores the attributes and on a GPU. The software device has none.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::{Mutex, OnceLock};

use cuda_driver::diagnostics::{CoreDumpFlags, CoreDumps, ProfilerCapture};
use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::{
    CUcoredumpSettings, CUdriverProcAddressQueryResult, CUresult, DriverLibrary, cuuint64_t,
};

use crate::support::{built, count_calls, gpu, software};

type Root = unsafe extern "C" fn(
    *const c_char,
    *mut *mut c_void,
    c_int,
    cuuint64_t,
    *mut CUdriverProcAddressQueryResult,
) -> CUresult;

/// The function of the software driver that finds the others.
static ROOT: OnceLock<Root> = OnceLock::new();
/// The attributes that were set, in order, and their values.
static VALUES: Mutex<BTreeMap<u32, Vec<u8>>> = Mutex::new(BTreeMap::new());
static ORDER: Mutex<Vec<u32>> = Mutex::new(Vec::new());

unsafe extern "C" fn set(
    attribute: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult {
    // SAFETY: the caller passes the size of the value.
    let size = unsafe { *size };
    // SAFETY: as above.
    let value = unsafe { slice::from_raw_parts(value.cast::<u8>(), size) };
    VALUES.lock().unwrap().insert(attribute.0, value.to_vec());
    ORDER.lock().unwrap().push(attribute.0);
    CUresult::CUDA_SUCCESS
}

unsafe extern "C" fn get(
    attribute: CUcoredumpSettings,
    to: *mut c_void,
    size: *mut usize,
) -> CUresult {
    let values = VALUES.lock().unwrap();
    let Some(value) = values.get(&attribute.0) else {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    };
    if !to.is_null() {
        // SAFETY: the caller passes the size of the memory.
        let room = unsafe { *size };
        let len = room.min(value.len());
        // SAFETY: the memory has at least `len` bytes.
        unsafe { value.as_ptr().copy_to_nonoverlapping(to.cast(), len) };
    }
    // SAFETY: the caller passes a writable pointer.
    unsafe { size.write(value.len()) };
    CUresult::CUDA_SUCCESS
}

unsafe extern "C" fn root(
    name: *const c_char,
    to: *mut *mut c_void,
    version: c_int,
    flags: cuuint64_t,
    found: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    // SAFETY: the caller passes a string.
    let text = unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap();
    // SAFETY: the arguments are those of the caller.
    let status = unsafe { ROOT.get().unwrap()(name, to, version, flags, found) };
    let own = match text {
        "cuCoredumpSetAttribute" | "cuCoredumpSetAttributeGlobal" => set as *mut c_void,
        "cuCoredumpGetAttribute" | "cuCoredumpGetAttributeGlobal" => get as *mut c_void,
        _ => return status,
    };
    // SAFETY: the caller passes a writable pointer.
    unsafe { to.write(own) };
    CUresult::CUDA_SUCCESS
}

#[test]
fn core_dumps_are_set_and_read_back() {
    let simulator = built(&Builder::new());
    let library = simulator.library().unwrap();
    let _ = ROOT.set(library.table().cuGetProcAddress_v2.unwrap());
    // SAFETY: `root` returns functions of the software driver, which is kept alive, or functions of
    // this file with the right signatures.
    let library = unsafe { DriverLibrary::from_proc_address(root, "test", library) }.unwrap();
    let driver = Driver::new(library).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();

    let flags = CoreDumpFlags::LIGHTWEIGHT | CoreDumpFlags::SKIP_ABORT;
    let dumps = CoreDumps::to("/tmp/a %p").flags(flags);
    driver.set_core_dumps(&dumps).unwrap();
    assert_eq!(driver.core_dumps().unwrap(), dumps);
    let file = CUcoredumpSettings::CU_COREDUMP_FILE.0;
    let enable = CUcoredumpSettings::CU_COREDUMP_ENABLE_ON_EXCEPTION.0;
    assert_eq!(VALUES.lock().unwrap()[&file], b"/tmp/a %p\0");
    assert_eq!(VALUES.lock().unwrap()[&enable], [1]);
    assert_eq!(ORDER.lock().unwrap().last(), Some(&enable));

    context
        .set_core_dumps(&dumps.clone().enabled(false))
        .unwrap();
    let now = context.core_dumps().unwrap();
    assert!(!now.is_enabled() && now.file().ends_with("a %p") && now.contents() == flags);
    // A driver without the attribute of the flags has none.
    let key = CUcoredumpSettings::CU_COREDUMP_GENERATION_FLAGS.0;
    VALUES.lock().unwrap().remove(&key);
    assert!(context.core_dumps().unwrap().contents().is_empty());

    let error = driver
        .set_core_dumps(&CoreDumps::to("x".repeat(1024)))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the core dump is 1024; at most 1023 is allowed")
    );
    let error = driver.set_core_dumps(&CoreDumps::to("a\0b")).unwrap_err();
    assert!(
        error.to_string().contains("NUL byte at offset 1"),
        "{error}"
    );
}

#[test]
fn the_software_device_refuses_core_dumps_by_name() {
    let fixture = software(Builder::new());
    let error = fixture
        .context
        .set_core_dumps(&CoreDumps::to("a"))
        .unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_NOT_SUPPORTED));
    assert!(
        error.to_string().starts_with("cuCoredumpSetAttribute"),
        "{error}"
    );
}

#[test]
fn a_gpu_keeps_the_settings_of_core_dumps() {
    let Some(fixture) = gpu() else { return };
    let before = fixture.context.core_dumps().unwrap();
    let dumps = CoreDumps::to("/tmp/cuda-driver-test.%p").flags(CoreDumpFlags::SKIP_ABORT);
    fixture
        .context
        .set_core_dumps(&dumps.enabled(false))
        .unwrap();
    let now = fixture.context.core_dumps().unwrap();
    assert!(
        now.file().starts_with("/tmp") && !now.is_enabled(),
        "{now:?}"
    );
    fixture.context.set_core_dumps(&before).unwrap();
}

#[test]
fn a_profiler_capture_starts_and_stops_once() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let range = ProfilerCapture::start(&fixture.context).unwrap();
    let counts = |name| count_calls(simulator, name);
    assert_eq!(
        (counts("cuProfilerStart"), counts("cuProfilerStop")),
        (1, 0)
    );
    drop(range);
    assert_eq!(
        (counts("cuProfilerStart"), counts("cuProfilerStop")),
        (1, 1)
    );
}

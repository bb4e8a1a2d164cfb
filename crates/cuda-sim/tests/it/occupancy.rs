//! How many blocks fit on a multiprocessor: numbers by hand, from the limits of the programming guide and the rules of
//! `cuda_occupancy.h`.

use std::ffi::CString;
use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{CUfunction, CUfunction_attribute, CUresult as R};

use crate::support::{ADD, Bench, bench, ok};

type F = CUfunction_attribute;

fn set(bench: &Bench, function: CUfunction, attribute: F, value: i32) {
    unsafe { ok(bench.cuFuncSetAttribute(function, attribute, value)) };
}

fn get(bench: &Bench, function: CUfunction, attribute: F) -> i32 {
    let mut value = -1;
    unsafe { ok(bench.cuFuncGetAttribute(&raw mut value, attribute, function)) };
    value
}

/// What is set of a kernel holds on a device, with no context there; what is set of a function goes before it.
#[test]
fn attributes_of_a_kernel_are_those_of_a_device() {
    let bench = bench(Builder::new().devices(2));
    let text = CString::new(ADD).unwrap();
    let mut library = ptr::null_mut();
    let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
    let (options, values) = (ptr::null_mut(), ptr::null_mut());
    let mut kernel = ptr::null_mut();
    unsafe {
        let image = text.as_ptr().cast();
        ok(bench.cuLibraryLoadData(
            &raw mut library,
            image,
            none,
            nothing,
            0,
            options,
            values,
            0,
        ));
        ok(bench.cuLibraryGetKernel(&raw mut kernel, library, c"add".as_ptr()));
    }
    let limit = F::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let carveout = F::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    let of_kernel = |attribute, device| {
        let mut value = -2;
        unsafe { ok(bench.cuKernelGetAttribute(&raw mut value, attribute, kernel, device)) };
        value
    };
    let function = || {
        let mut function = ptr::null_mut();
        unsafe { ok(bench.cuKernelGetFunction(&raw mut function, kernel)) };
        function
    };
    let first = function();
    set(&bench, first, carveout, 20);
    unsafe {
        ok(bench.cuKernelSetAttribute(limit, 100_000, kernel, 0));
        ok(bench.cuKernelSetAttribute(carveout, 30, kernel, 0));
        // No context is there.
        ok(bench.cuKernelSetAttribute(carveout, 40, kernel, 1));
    }
    assert_eq!([0, 1].map(|device| of_kernel(carveout, device)), [30, 40]);
    assert_eq!(
        [0, 1].map(|device| of_kernel(limit, device)),
        [100_000, 48 << 10]
    );
    assert_eq!(get(&bench, first, limit), 100_000);
    assert_eq!(get(&bench, first, carveout), 20);
    // Another context of the device, before and after something is set there.
    let mut other = ptr::null_mut();
    unsafe { ok(bench.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    let second = function();
    assert_ne!(first, second);
    assert_eq!(get(&bench, second, limit), 100_000);
    assert_eq!(get(&bench, second, carveout), 30);
    set(&bench, second, limit, 60_000);
    unsafe { ok(bench.cuKernelSetAttribute(limit, 70_000, kernel, 0)) };
    assert_eq!(
        [first, second].map(|f| get(&bench, f, limit)),
        [70_000, 60_000]
    );
    assert_eq!(of_kernel(limit, 0), 70_000);
    let status = unsafe { bench.cuKernelSetAttribute(carveout, 101, kernel, 1) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE);
    // Nor is one current.
    unsafe { ok(bench.cuCtxSetCurrent(ptr::null_mut())) };
    assert_eq!(
        of_kernel(F::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1),
        1024
    );
    assert_eq!(of_kernel(carveout, 1), 40);
}

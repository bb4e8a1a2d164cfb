//! The number of blocks that fit on a multiprocessor: values computed by hand from the limits of
//! the programming guide and the rules of `cuda_occupancy.h`.

use std::ffi::CString;
use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{CUfunction, CUfunction_attribute, CUresult as R};

use crate::support::{ADD, TestDevice, ok, test_device};

type F = CUfunction_attribute;

pub(crate) fn set(sim: &TestDevice, function: CUfunction, attribute: F, value: i32) {
    unsafe { ok(sim.cuFuncSetAttribute(function, attribute, value)) };
}

pub(crate) fn get(sim: &TestDevice, function: CUfunction, attribute: F) -> i32 {
    let mut value = -1;
    unsafe { ok(sim.cuFuncGetAttribute(&raw mut value, attribute, function)) };
    value
}

pub(crate) fn blocks(sim: &TestDevice, function: CUfunction, block: i32, dynamic: usize) -> i32 {
    let mut blocks = -1;
    let status = unsafe {
        sim.cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, block, dynamic)
    };
    ok(status);
    blocks
}

fn available(sim: &TestDevice, function: CUfunction, blocks: i32, block: i32) -> usize {
    let mut bytes = usize::MAX;
    let status = unsafe {
        sim.cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, blocks, block)
    };
    ok(status);
    bytes
}

#[test]
fn occupancy_is_what_the_tightest_limit_allows() {
    // sm_75: 1024 threads, 16 blocks, 64 KiB. sm_90: 2048 threads, 32 blocks, 228 KiB, of which
    // each block reserves 1 KiB.
    for (cc, block, dynamic, expected) in [
        ((7, 5), 32, 0, 16),
        ((7, 5), 1024, 0, 1),
        ((7, 5), 64, 20 << 10, 3),
        ((9, 0), 32, 0, 32),
        ((9, 0), 512, 0, 4),
        ((9, 0), 32, 40 << 10, 5),
        ((9, 0), 32, 48 << 10, 4),
        // Above 48 KiB only up to the limit that is set for the function.
        ((9, 0), 32, (48 << 10) + 1, 0),
        ((9, 0), 32, 75 << 10, 0),
        ((9, 0), 32, 300 << 10, 0),
        ((9, 0), 32, usize::MAX, 0),
    ] {
        let sim = test_device(Builder::new().compute_capability(cc.0, cc.1));
        let add = sim.function(sim.load(ADD), "add");
        let found = blocks(&sim, add, block, dynamic);
        assert_eq!(found, expected, "{cc:?} {block} {dynamic}");
    }
}

/// The limits are those of the table "Technical Specifications per Compute Capability" of the CUDA
/// C++ Programming Guide, which the NVIDIA Blackwell Tuning Guide repeats (section "Occupancy"):
///
/// | per multiprocessor | 10.0 | 12.0 |
/// |---|---|---|
/// | resident threads | 2048 | 1536 |
/// | resident blocks | 32 | 24 |
/// | shared memory | 228 KiB | 100 KiB |
/// | shared memory of a block | 227 KiB | 99 KiB |
///
/// CUDA reserves 1 KiB of shared memory for each block.
#[test]
fn occupancy_of_blackwell_follows_the_published_limits() {
    for (cc, threads, most_blocks, shared, of_block) in
        [((10, 0), 2048, 32, 228, 227), ((12, 0), 1536, 24, 100, 99)]
    {
        let sim = test_device(Builder::new().compute_capability(cc.0, cc.1));
        let add = sim.function(sim.load(ADD), "add");
        for block in [32, 64, 96, 128, 256, 512, 768, 1024] {
            let expected = (threads / block).min(most_blocks);
            assert_eq!(blocks(&sim, add, block, 0), expected, "{cc:?} {block}");
        }
        // Shared memory is the tightest limit.
        for kib in [8, 15, 24, 31, 48] {
            let expected = shared / (kib + 1);
            let found = blocks(&sim, add, 32, (kib as usize) << 10);
            assert_eq!(found, expected.min(most_blocks), "{cc:?} {kib} KiB");
        }
        let limit = F::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        set(&sim, add, limit, of_block << 10);
        let all = (of_block as usize) << 10;
        assert_eq!(blocks(&sim, add, 32, all), 1, "{cc:?}");
        assert_eq!(available(&sim, add, 1, 64), all, "{cc:?}");
        // One byte more than a block may have.
        let status = unsafe { sim.cuFuncSetAttribute(add, limit, (of_block << 10) + 1) };
        assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE, "{cc:?}");
    }
}

#[test]
fn a_function_has_the_shared_memory_that_it_is_allowed() {
    let sim = test_device(Builder::new());
    let module = sim.load(ADD);
    let limit = F::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let add = sim.function(module, "add");
    // Half of 228 KiB exceeds the default limit of 48 KiB. (An H200 does not count the KiB that is
    // reserved for each block.)
    assert_eq!(
        [1, 2, 6].map(|n| available(&sim, add, n, 64)),
        [48 << 10, 48 << 10, 38 << 10]
    );
    // `times_scale` has 512 bytes of static shared memory.
    let scale = sim.function(module, "times_scale");
    assert_eq!(available(&sim, scale, 1, 64), (48 << 10) - 512);
    set(&sim, add, limit, 227 << 10);
    assert_eq!(available(&sim, add, 1, 64), 227 << 10);
    assert_eq!(available(&sim, add, 2, 64), 114 << 10);
    assert_eq!(blocks(&sim, add, 32, 75 << 10), 3);
    assert_eq!(blocks(&sim, add, 32, 227 << 10), 1);
    assert_eq!(blocks(&sim, add, 32, (227 << 10) + 1), 0);
    set(&sim, add, limit, 1000);
    assert_eq!(blocks(&sim, add, 32, 1000), 32);
    assert_eq!(blocks(&sim, add, 32, 1001), 0);
    assert_eq!(available(&sim, add, 1, 64), 1000);
}

/// A block with 10 KiB takes 11 KiB; a multiprocessor can be configured for 0, 8, 16, 32, 64, 100,
/// 132, 164, 196 or 228 KiB.
#[test]
fn the_carve_out_limits_resident_blocks() {
    let sim = test_device(Builder::new());
    let add = sim.function(sim.load(ADD), "add");
    for (percent, expected, left) in [
        (-1, 228 / 11, 48),
        (100, 228 / 11, 48),
        // 50 % are 114 KiB: 100 KiB are too few, so 132 KiB are configured.
        (50, 132 / 11, 48),
        // 10 % are 22.8 KiB.
        (10, 32 / 11, 32 / 2),
        // Less than a block needs.
        (3, 1, 8 / 2),
        (0, 1, 8 / 2),
    ] {
        let carveout = F::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        set(&sim, add, carveout, percent);
        assert_eq!(blocks(&sim, add, 32, 10 << 10), expected, "{percent}");
        let left = [48 << 10, left << 10];
        assert_eq!(
            [1, 2].map(|n| available(&sim, add, n, 64)),
            left,
            "{percent}"
        );
    }
}

/// An attribute of a kernel applies to a device, even without a context there; an attribute of a
/// function takes precedence.
#[test]
fn attributes_of_a_kernel_are_those_of_a_device() {
    let sim = test_device(Builder::new().devices(2));
    let text = CString::new(ADD).unwrap();
    let library = sim.load_library(text.as_ptr().cast());
    let mut kernel = ptr::null_mut();
    unsafe { ok(sim.cuLibraryGetKernel(&raw mut kernel, library, c"add".as_ptr())) };
    let limit = F::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let carveout = F::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    let of_kernel = |attribute, device| {
        let mut value = -2;
        unsafe { ok(sim.cuKernelGetAttribute(&raw mut value, attribute, kernel, device)) };
        value
    };
    let function = || {
        let mut function = ptr::null_mut();
        unsafe { ok(sim.cuKernelGetFunction(&raw mut function, kernel)) };
        function
    };
    let first = function();
    set(&sim, first, carveout, 20);
    unsafe {
        ok(sim.cuKernelSetAttribute(limit, 100_000, kernel, 0));
        ok(sim.cuKernelSetAttribute(carveout, 30, kernel, 0));
        // The device has no context.
        ok(sim.cuKernelSetAttribute(carveout, 40, kernel, 1));
    }
    assert_eq!([0, 1].map(|device| of_kernel(carveout, device)), [30, 40]);
    assert_eq!(
        [0, 1].map(|device| of_kernel(limit, device)),
        [100_000, 48 << 10]
    );
    assert_eq!(get(&sim, first, limit), 100_000);
    assert_eq!(get(&sim, first, carveout), 20);
    // Another context of the device, before and after an attribute is set there.
    let mut other = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    let second = function();
    assert_ne!(first, second);
    assert_eq!(get(&sim, second, limit), 100_000);
    assert_eq!(get(&sim, second, carveout), 30);
    set(&sim, second, limit, 60_000);
    unsafe { ok(sim.cuKernelSetAttribute(limit, 70_000, kernel, 0)) };
    assert_eq!(
        [first, second].map(|f| get(&sim, f, limit)),
        [70_000, 60_000]
    );
    assert_eq!(of_kernel(limit, 0), 70_000);
    let status = unsafe { sim.cuKernelSetAttribute(carveout, 101, kernel, 1) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE);
    // No context is current either.
    unsafe { ok(sim.cuCtxSetCurrent(ptr::null_mut())) };
    assert_eq!(
        of_kernel(F::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1),
        1024
    );
    assert_eq!(of_kernel(carveout, 1), 40);
}

//! Random calls of the driver, valid and invalid.
//!
//! Host pointers point to memory that is valid for everything that a call may read or write there.
//! All else may be invalid: handles of destroyed objects, of objects that never existed or of
//! another kind, sizes, flags, enums and device pointers. Most calls get arguments that fit
//! together, because others test little more than the first check of a function.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use cuda_sim::{Builder, Schedule, Simulator};
use cuda_sys::*;

use crate::maker::Maker;

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

/// The length of a random input, as in `run.py`.
const LENGTH: usize = 4096;

/// The number of calls in one run.
const CALLS: usize = 64;

pub(crate) unsafe extern "C" fn host_function(_: *mut c_void) {}

unsafe extern "C" fn stream_callback(_: CUstream, _: CUresult, _: *mut c_void) {}

unsafe extern "C" fn dynamic_shared(threads: c_int) -> usize {
    threads.unsigned_abs() as usize
}

/// The functions that the software device implements, as indexes of the generated calls.
fn implemented() -> &'static [usize] {
    static IMPLEMENTED: OnceLock<Vec<usize>> = OnceLock::new();
    IMPLEMENTED.get_or_init(|| {
        let implemented = Simulator::implemented();
        (0..NAMES.len())
            .filter(|&index| implemented.contains(&NAMES[index]))
            .collect()
    })
}

/// Functions that most runs call first, so that there are objects of each kind.
const PREPARATION: &[&str] = &[
    "cuInit",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRetain",
    "cuCtxCreate_v2",
    "cuCtxEnablePeerAccess",
    "cuModuleLoadData",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleGetFunction",
    "cuModuleGetFunction",
    "cuFuncSetBlockShape",
    "cuParamSetSize",
    "cuLibraryLoadData",
    "cuLibraryLoadData",
    "cuLibraryGetKernel",
    "cuLibraryGetKernel",
    "cuStreamCreate",
    "cuStreamCreate",
    "cuEventCreate",
    "cuEventCreate",
    "cuIpcGetEventHandle",
    "cuEventRecord",
    "cuEventRecord",
    "cuMemAlloc_v2",
    "cuMemAlloc_v2",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemPoolCreate",
    "cuMemPoolExportToShareableHandle",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemPoolExportPointer",
    "cuMemPoolImportFromShareableHandle",
    "cuMemAddressReserve",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemMap",
    "cuMemSetAccess",
    "cuArrayCreate_v2",
    "cuArray3DCreate_v2",
    "cuMipmappedArrayCreate",
    "cuTexObjectCreate",
    "cuTexObjectCreate",
    "cuSurfObjectCreate",
    "cuUserObjectCreate",
    "cuImportExternalMemory",
    "cuImportExternalSemaphore",
    "cuLinkCreate_v2",
    "cuLinkAddData_v2",
    "cuDeviceGetDevResource",
    "cuDevResourceGenerateDesc",
    "cuGreenCtxCreate",
    "cuGraphCreate",
    "cuGraphCreate",
    "cuGraphRetainUserObject",
    "cuGraphConditionalHandleCreate",
    "cuGraphAddEmptyNode",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphAddHostNode",
    "cuGraphAddEventRecordNode",
    "cuGraphAddEventWaitNode",
    "cuGraphAddBatchMemOpNode",
    "cuGraphAddExternalSemaphoresSignalNode",
    "cuGraphAddExternalSemaphoresWaitNode",
    "cuGraphAddNode",
    "cuGraphClone",
    "cuGraphInstantiateWithFlags",
    // A graph that allocates memory cannot be a child, so the child is added first.
    "cuGraphCreate",
    "cuGraphAddChildGraphNode",
    "cuGraphCreate",
    "cuGraphAddMemAllocNode",
    "cuGraphAddMemFreeNode",
    "cuGraphInstantiateWithFlags",
    "cuCtxSynchronize",
];

/// Functions that are called more often than others, because the state that they change matters to
/// many others.
const OFTEN: &[&str] = &[
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuEventCreate",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLinkCreate_v2",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuLaunchCooperativeKernel",
    "cuGraphCreate",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddMemsetNode",
    "cuGraphAddMemcpyNode",
    "cuGraphAddNode",
    "cuGraphAddDependencies",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemMap",
];

/// Functions after which the objects of a context no longer exist. They are called seldom, because
/// most later calls fail.
const SELDOM: &[&str] = &[
    "cuCtxDestroy",
    "cuCtxDestroy_v2",
    "cuCtxDetach",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxReset_v2",
];

/// The number of calls after the device is lost or the context is destroyed; most of them fail.
const LAST: usize = 4;

/// Occupies all slots for software drivers but one: each slot has its own functions, which would
/// look like new coverage.
fn one_place() {
    static OTHERS: OnceLock<Vec<Simulator>> = OnceLock::new();
    OTHERS.get_or_init(|| {
        let build = || Builder::new().memory(2 << 20).build().ok();
        let mut all: Vec<Simulator> = std::iter::from_fn(build).collect();
        all.pop();
        all
    });
}

/// Makes the calls that `data` describes.
pub fn calls(data: &[u8]) {
    calls_observed(data, &mut |_, _| {});
}

/// Makes the calls that `data` describes. Calls `observe` with the name of each function and its
/// status.
pub fn calls_observed(data: &[u8], observe: &mut dyn FnMut(&'static str, CUresult)) {
    one_place();
    let (options, data) = data.split_first().unwrap_or((&0, &[]));
    let schedule = match options % 2 {
        0 => Schedule::Eager,
        _ => Schedule::Late { seed: 1 },
    };
    let simulator = Builder::new()
        .schedule(schedule)
        .check_all(options & 2 != 0)
        .memory(16 << 20)
        .devices(2)
        .host_memory(8 << 20)
        .capture_output(true)
        .instruction_limit(500)
        .build()
        .expect("no slot for a software driver is free");
    let driver = simulator.library().expect("a library");
    let mut maker = Maker::new(data, &driver);
    let mut context = ptr::null_mut();
    if maker.below(16) != 15 {
        for name in PREPARATION {
            step(&driver, &mut maker, named(name), true, observe);
        }
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuCtxGetCurrent(&raw mut context) };
    }
    let implemented = implemented();
    let mut last = None;
    for index in 0..CALLS {
        if maker.is_empty() || last.is_some_and(|last| index == last) {
            break;
        }
        let mut function = if maker.below(4) == 0 {
            named(OFTEN[maker.below(OFTEN.len())])
        } else {
            implemented[maker.below(implemented.len())]
        };
        if SELDOM.contains(&NAMES[function]) && maker.below(8) != 0 {
            function = named("cuCtxSynchronize");
        }
        step(&driver, &mut maker, function, false, observe);
        let is_usable = context.is_null() || {
            if maker.below(8) != 0 {
                // SAFETY: handles of the software driver are numbers, which may be invalid.
                unsafe { driver.cuCtxSetCurrent(context) };
            }
            let (mut free, mut total) = (0, 0);
            // SAFETY: the pointers are to locals.
            let status = unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) };
            status.is_success()
        };
        if !is_usable && last.is_none() {
            last = Some(index + LAST);
        }
    }
    drop(maker);
    let _ = simulator.live();
}

/// The index of a function in the generated calls.
fn named(name: &str) -> usize {
    static INDEXES: OnceLock<HashMap<&str, usize>> = OnceLock::new();
    let all = || NAMES.into_iter().zip(0..).collect();
    let index = INDEXES.get_or_init(all).get(name);
    *index.expect("the name of a function that is called")
}

fn step(
    driver: &DriverLibrary,
    maker: &mut Maker<'_>,
    index: usize,
    plain: bool,
    observe: &mut dyn FnMut(&'static str, CUresult),
) {
    maker.begin(NAMES[index], plain);
    let status = call(index, driver, maker);
    if trace() {
        eprintln!("{} {status}", NAMES[index]);
    }
    maker.end(status.is_success());
    observe(NAMES[index], status);
}

/// Whether to print each call, to understand a finding.
fn trace() -> bool {
    static TRACE: OnceLock<bool> = OnceLock::new();
    *TRACE.get_or_init(|| std::env::var_os("CUDA_FUZZ_TRACE").is_some())
}

/// The random bytes of an input with the length that `run.py` allows.
pub fn random(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    words.flat_map(u64::to_le_bytes).take(LENGTH).collect()
}

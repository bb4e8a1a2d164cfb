//! Random calls of the driver, valid and invalid.
//!
//! Host pointers point to memory that is valid for everything that a call may read or write there.
//! All else may be invalid: handles of destroyed objects, of objects that never existed or of
//! another kind, sizes, flags, enums and device pointers.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use cuda_sim::{Builder, Simulator};
use cuda_sys::*;

use crate::maker::{LONGEST_TEXT, Maker};

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

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

/// Functions that are called more often than others, so that there are objects to work with.
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
    "cuGraphAddDependencies",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuCtxSetCurrent",
];

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

/// Makes the calls that `data` describes. Calls `observe` with the name of each function and
/// whether it succeeded.
pub fn calls_observed(data: &[u8], observe: &mut dyn FnMut(&'static str, bool)) {
    one_place();
    let simulator = Builder::new()
        .memory(8 << 20)
        .devices(2)
        .host_memory(8 << 20)
        .capture_output(true)
        .instruction_limit(500)
        .build()
        .expect("no slot for a software driver is free");
    let driver = simulator.library().expect("a library");
    let named = |name: &str| NAMES.iter().position(|known| *known == name);
    let mut maker = Maker::new(data, &driver);
    // Most runs begin with a context.
    if maker.below(8) != 0 {
        for name in [
            "cuInit",
            "cuCtxCreate_v2",
            "cuModuleLoadData",
            "cuStreamCreate",
            "cuMemAlloc_v2",
        ] {
            maker.plainly(true);
            step(
                &driver,
                &mut maker,
                named(name).unwrap_or_default(),
                observe,
            );
        }
        maker.plainly(false);
    }
    let implemented = implemented();
    for _ in 0..CALLS {
        if maker.is_empty() {
            break;
        }
        let index = if maker.below(3) == 0 {
            named(OFTEN[maker.below(OFTEN.len())]).unwrap_or_default()
        } else {
            implemented[maker.below(implemented.len())]
        };
        step(&driver, &mut maker, index, observe);
    }
    drop(maker);
    let _ = simulator.live();
}

fn step(
    driver: &DriverLibrary,
    maker: &mut Maker<'_>,
    index: usize,
    observe: &mut dyn FnMut(&'static str, bool),
) {
    maker.begin(NAMES[index]);
    let status = call(index, driver, maker);
    if trace() {
        eprintln!("{} {status}", NAMES[index]);
    }
    maker.end(status.is_success());
    observe(NAMES[index], status.is_success());
}

/// Whether to print each call, to understand a finding.
fn trace() -> bool {
    static TRACE: OnceLock<bool> = OnceLock::new();
    *TRACE.get_or_init(|| std::env::var_os("CUDA_FUZZ_TRACE").is_some())
}

/// The texts that are loaded as modules.
pub(crate) const IMAGES: &[&CStr] = &[
    cstr(concat!(
        include_str!("../../crates/cuda-sim/tests/it/kernels/add.ptx"),
        "\0"
    )),
    cstr(concat!(
        include_str!("../../crates/cuda-sim/tests/it/kernels/graph.ptx"),
        "\0"
    )),
    cstr(concat!(
        include_str!("../../crates/cuda-sim/tests/it/kernels/trouble.ptx"),
        "\0"
    )),
    cstr(concat!(
        include_str!("../../crates/cuda-driver/tests/it/kernels/variables.ptx"),
        "\0"
    )),
    cstr(concat!(include_str!("../seeds/written/heap.ptx"), "\0")),
    cstr(concat!(
        include_str!("../seeds/written/linked_grid_barrier.ptx"),
        "\0"
    )),
    cstr(concat!(
        include_str!("../seeds/written/in_place_of_machine_code.ptx"),
        "\0"
    )),
    c".version 8.0\n.target sm_75\n.address_size 64\n",
    // The limit of registers is not a number, and the text is cut off.
    c"// cuda-sim linked image\n// cuda-sim registers x\n// cuda-sim bytes 99\n.version 8.0",
    // The first bytes of a cubin, a fat binary, the wrapper of a fat binary, and an archive.
    c"\x7fELF\x02\x01\x01",
    c"\x50\xed\x55\xba\x01",
    c"\xb1\x43\x62\x46\x01",
    c"!<arch>\nmachine code",
    c"no PTX",
];

/// The names that are looked up.
pub(crate) const STRINGS: &[&CStr] = &[
    c"add",
    c"times_scale",
    c"affine",
    c"count",
    c"trapped",
    c"null_store",
    c"misaligned",
    c"spin",
    c"bump",
    c"scale",
    c"factors",
    c"counter",
    c"odd",
    c"table",
    c"",
    c"nothing",
    c"0000:00:00.0",
    c"cuInit",
    c"cuMemAlloc",
    c"/nonexistent/file.ptx",
    c"heap",
    c"turns",
    c"store",
    c"libcudadevrt.a",
    c"/nonexistent/libcudadevrt.a",
];

const fn cstr(text: &'static str) -> &'static CStr {
    assert!(
        text.len() <= LONGEST_TEXT,
        "a text does not fit into a slot"
    );
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a text contains a NUL"),
    }
}

//! A software device whose calls a library sees that the test builds in place of CUPTI.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{env, mem, ptr};

use cuda_driver::prelude::*;
use cuda_driver::profile::Cupti;
use cuda_sim::Builder;
use cuda_sys::{
    CUcontext, CUdriverProcAddressQueryResult, CUfunction, CUgraphExec, CUlaunchConfig, CUresult,
    CUstream, DriverLibrary, GetProcAddress, cuuint64_t,
};

use crate::support::{Fixture, built, skip};

/// Builds the library with definitions, or returns `None` without a C compiler.
pub(super) fn build(name: &str, definitions: &[&str]) -> Option<PathBuf> {
    let folder = env::temp_dir().join(format!("cuda-driver-cupti-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join(format!("{name}.c"));
    let library = folder.join(format!("{name}.so"));
    std::fs::write(&source, include_str!("cupti.c")).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .args([&library, &source])
        .args(definitions.iter().map(|it| format!("-D{it}")))
        .output();
    let Ok(output) = built else {
        skip("no C compiler");
        return None;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    Some(library)
}

pub(super) fn open(library: &Path) -> cuda_driver::error::Result<Cupti> {
    // SAFETY: the functions of the library have the signatures of CUPTI's.
    unsafe { Cupti::open(library) }
}

/// The functions of the fake library that the test calls.
pub(super) struct Fake {
    call: unsafe extern "C" fn(u32) -> u32,
    work: unsafe extern "C" fn(u32, *const c_char, u32, CUcontext, CUstream, u64, u64, u64, u32),
    now: unsafe extern "C" fn(*mut u64) -> u32,
    pub(super) enabled: unsafe extern "C" fn() -> usize,
    pub(super) buffers: unsafe extern "C" fn() -> usize,
}

static FAKE: OnceLock<Fake> = OnceLock::new();
static ROOT: Mutex<Option<GetProcAddress>> = Mutex::new(None);
static CONTEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The end of the last work, so that the work of all calls follows one another.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The functions of the software device that this file replaces.
static REAL: [AtomicPtr<c_void>; 5] = [const { AtomicPtr::new(ptr::null_mut()) }; 5];
const NAMES: [&str; 5] = [
    "cuLaunchKernel",
    "cuMemcpyHtoDAsync",
    "cuMemsetD8Async",
    "cuGraphLaunch",
    "cuLaunchKernelEx",
];

/// The times in nanoseconds of what each call queues.
pub(super) const KERNEL: u64 = 2_345;
pub(super) const COPY_IN: u64 = 1_111;
pub(super) const FILL: u64 = 777;
pub(super) const NODE: u64 = 5_000;

pub(super) fn fake() -> &'static Fake {
    FAKE.get().unwrap()
}

/// Records work of `time` nanoseconds that begins after all other work.
fn work(kind: u32, name: *const c_char, call: u32, stream: CUstream, time: u64, bytes: u64) {
    let mut now = 0;
    // SAFETY: the pointer is to a local.
    unsafe { (fake().now)(&raw mut now) };
    let start = now.max(LAST.load(Ordering::Relaxed)) + 500;
    LAST.store(start + time, Ordering::Relaxed);
    let context = CONTEXT.load(Ordering::Relaxed).cast();
    // SAFETY: the name is a C string for kernels, or the kind of a copy.
    unsafe {
        (fake().work)(
            kind,
            name,
            call,
            context,
            stream,
            start,
            start + time,
            bytes,
            0,
        )
    };
}

fn real<T: Copy>(index: usize) -> T {
    let pointer = REAL[index].load(Ordering::Relaxed);
    assert_eq!(size_of::<T>(), size_of_val(&pointer));
    // SAFETY: `T` is the type of this function.
    unsafe { mem::transmute_copy(&pointer) }
}

type Launch = unsafe extern "C" fn(
    CUfunction,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    CUstream,
    *mut *mut c_void,
    *mut *mut c_void,
) -> CUresult;

#[allow(clippy::too_many_arguments, reason = "the signature of C")]
unsafe extern "C" fn launch(
    f: CUfunction,
    gx: c_uint,
    gy: c_uint,
    gz: c_uint,
    bx: c_uint,
    by: c_uint,
    bz: c_uint,
    shared: c_uint,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the number is that of the call.
    let call = unsafe { (fake().call)(307) };
    work(10, c"copy".as_ptr(), call, stream, KERNEL, 0);
    // SAFETY: the arguments are those of the caller.
    unsafe { real::<Launch>(0)(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra) }
}

type LaunchEx = unsafe extern "C" fn(
    *const CUlaunchConfig,
    CUfunction,
    *mut *mut c_void,
    *mut *mut c_void,
) -> CUresult;

unsafe extern "C" fn launch_ex(
    config: *const CUlaunchConfig,
    f: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the number is that of the call.
    let call = unsafe { (fake().call)(652) };
    // SAFETY: the caller passes a configuration.
    let stream = unsafe { (*config).hStream };
    work(10, c"copy".as_ptr(), call, stream, KERNEL, 0);
    // SAFETY: the arguments are those of the caller.
    unsafe { real::<LaunchEx>(4)(config, f, params, extra) }
}

type CopyIn = unsafe extern "C" fn(u64, *const c_void, usize, CUstream) -> CUresult;

unsafe extern "C" fn copy(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    // SAFETY: the number is that of the call.
    let call = unsafe { (fake().call)(277) };
    // 1 is a copy from the host to the device.
    work(
        1,
        ptr::without_provenance(1),
        call,
        stream,
        COPY_IN,
        bytes as u64,
    );
    // SAFETY: the arguments are those of the caller.
    unsafe { real::<CopyIn>(1)(to, from, bytes, stream) }
}

type Fill = unsafe extern "C" fn(u64, u8, usize, CUstream) -> CUresult;

unsafe extern "C" fn fill(to: u64, value: u8, count: usize, stream: CUstream) -> CUresult {
    // SAFETY: the number is that of the call.
    let call = unsafe { (fake().call)(216) };
    work(2, ptr::null(), call, stream, FILL, count as u64);
    // SAFETY: the arguments are those of the caller.
    unsafe { real::<Fill>(2)(to, value, count, stream) }
}

type Replay = unsafe extern "C" fn(CUgraphExec, CUstream) -> CUresult;

/// The graph has two nodes that overlap, and a copy after them.
unsafe extern "C" fn replay(graph: CUgraphExec, stream: CUstream) -> CUresult {
    // SAFETY: the number is that of the call.
    let call = unsafe { (fake().call)(514) };
    let mut now = 0;
    // SAFETY: the pointer is to a local.
    unsafe { (fake().now)(&raw mut now) };
    let start = now.max(LAST.load(Ordering::Relaxed)) + 500;
    LAST.store(start + 3 * NODE, Ordering::Relaxed);
    let context = CONTEXT.load(Ordering::Relaxed).cast();
    let parts = [
        (10, c"node_a".as_ptr(), 0, NODE, 0),
        (10, c"node_b".as_ptr(), NODE / 2, NODE, 0),
        (1, ptr::without_provenance(8), 2 * NODE, NODE, 4096),
    ];
    for (kind, name, at, time, bytes) in parts {
        let (start, end) = (start + at, start + at + time);
        // SAFETY: the name is a C string for kernels, or the kind of a copy.
        unsafe { (fake().work)(kind, name, call, context, stream, start, end, bytes, 9) };
    }
    // SAFETY: the arguments are those of the caller.
    unsafe { real::<Replay>(3)(graph, stream) }
}

unsafe extern "C" fn root(
    name: *const c_char,
    to: *mut *mut c_void,
    version: c_int,
    flags: cuuint64_t,
    found: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    let root = ROOT.lock().unwrap().unwrap();
    // SAFETY: the caller passes a string.
    let text = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    // SAFETY: the arguments are those of the caller.
    let status = unsafe { root(name, to, version, flags, found) };
    let own = [
        launch as *mut c_void,
        copy as *mut c_void,
        fill as *mut c_void,
        replay as *mut c_void,
        launch_ex as *mut c_void,
    ];
    // 2 is the flag of the functions for the stream of the thread, which are not replaced.
    if let Some(index) = NAMES.iter().position(|it| *it == text)
        && status == CUresult::CUDA_SUCCESS
        && flags != 2
    {
        // SAFETY: the caller passes a pointer that the call above has written.
        REAL[index].store(unsafe { to.read() }, Ordering::Relaxed);
        // SAFETY: the caller passes a writable pointer.
        unsafe { to.write(own[index]) };
    }
    status
}

/// A software device whose calls a library in the place of CUPTI sees, and that library.
pub(super) fn observed_device() -> Option<(Fixture, Cupti)> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    // The buffers are small, so that several are used.
    let path = LIBRARY
        .get_or_init(|| build("cupti", &["VERSION=130000", "SUBSCRIBE=0", "SMALL=2000"]))
        .as_ref()?;
    // SAFETY: running the initializers is sound, because there are none.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    FAKE.get_or_init(|| {
        macro_rules! get {
            ($name:literal) => {
                // SAFETY: the function has the type of the field.
                unsafe { *library.get($name).unwrap() }
            };
        }
        Fake {
            call: get!(b"fake_call"),
            work: get!(b"fake_work"),
            now: get!(b"cuptiGetTimestamp"),
            enabled: get!(b"fake_enabled"),
            buffers: get!(b"fake_buffers"),
        }
    });
    mem::forget(library);
    let simulator = built(&Builder::new());
    let library = simulator.library().unwrap();
    *ROOT.lock().unwrap() = library.table().cuGetProcAddress_v2;
    // SAFETY: `root` returns functions of the software driver, which is kept alive, or functions of
    // this file with the right signatures.
    let library = unsafe { DriverLibrary::from_proc_address(root, "test", library) }.unwrap();
    let driver = Driver::new(library.with_machine_code(false)).unwrap();
    let fixture = Fixture::of(&driver, None);
    CONTEXT.store(fixture.context.as_raw().cast(), Ordering::Relaxed);
    Some((fixture, open(path).unwrap()))
}

//! Unloading and freeing wait for the work of their own context, and of no other.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_sim::{Builder, CUresult as R, ReportKind};
use cuda_sys::{CUarray, CUcontext, CUmodule, CUstream, DriverTable};

use crate::support::{TestDevice, late, ok, test_device};

/// The time limit for a call that must not wait.
const AT_ONCE: Duration = Duration::from_secs(10);

/// PTX of a module with a variable of four words.
fn variable(values: [u32; 4]) -> String {
    let [a, b, c, d] = values;
    format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n\
         .visible .global .align 4 .u32 values[4] = {{{a}, {b}, {c}, {d}}};\n"
    )
}

const OURS: [u32; 4] = [1, 2, 3, 4];
const THEIRS: [u32; 4] = [90, 91, 92, 93];

fn address(sim: &TestDevice, module: CUmodule) -> u64 {
    let (mut addr, mut size) = (0, 0);
    let name = c"values".as_ptr();
    unsafe { ok(sim.cuModuleGetGlobal_v2(&raw mut addr, &raw mut size, module, name)) };
    assert_eq!(size, 16);
    addr
}

/// Another context, with a stream that waits for the host and then copies.
struct Other {
    context: CUcontext,
    stream: CUstream,
    flag: *mut u32,
    copy: u64,
}

impl Other {
    /// Creates a context on `device` and queues a copy of 16 bytes at `source` in its stream. Then
    /// the context of `sim` is current again.
    fn new(sim: &TestDevice, device: i32, source: u64) -> Self {
        let mut context = ptr::null_mut();
        unsafe { ok(sim.cuCtxCreate_v2(&raw mut context, 0, device)) };
        let (stream, flag) = (sim.stream(1), sim.pinned(4).cast::<u32>());
        let copy = sim.alloc(16);
        unsafe {
            flag.write_volatile(0);
            ok(sim.cuStreamWaitValue32_v2(stream, flag.addr() as u64, 1, 0));
            let own = sim.context;
            ok(sim.cuMemcpyPeerAsync(copy, context, source, own, 16, stream));
            ok(sim.cuCtxSetCurrent(own));
        }
        Self {
            context,
            stream,
            flag,
            copy,
        }
    }

    fn go(&self) {
        unsafe { self.flag.write_volatile(1) };
    }

    /// Lets the copy run. Returns its status and the copied words.
    fn finish(&self, sim: &TestDevice) -> (R, [u32; 4]) {
        self.go();
        let mut copied = [0; 4];
        unsafe {
            ok(sim.cuCtxSetCurrent(self.context));
            let status = sim.cuStreamSynchronize(self.stream);
            if status == R::CUDA_SUCCESS {
                ok(sim.cuMemcpyDtoH_v2(copied.as_mut_ptr().cast(), self.copy, 16));
            }
            ok(sim.cuCtxSetCurrent(sim.context));
            (status, copied)
        }
    }
}

/// Whether a call that another thread makes in the context of `sim` returns in time. If not, this
/// calls `release`, after which the call must return.
fn returns(
    sim: &TestDevice,
    within: Duration,
    call: impl FnOnce(&DriverTable) -> R + Send,
    release: impl FnOnce(),
) -> bool {
    let (driver, context) = (sim.driver.table(), sim.context.expose_provenance());
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            let context = ptr::with_exposed_provenance_mut(context);
            unsafe { ok(driver.cuCtxSetCurrent(context)) };
            let _ = sender.send(call(driver));
        });
        match receiver.recv_timeout(within) {
            Ok(status) => {
                ok(status);
                true
            }
            Err(_) => {
                release();
                ok(receiver.recv_timeout(AT_ONCE).unwrap());
                false
            }
        }
    })
}

/// Unloads a module while a copy of its variable is queued in another context.
fn unload(sim: &TestDevice, device: i32) -> (u64, Other) {
    let module = sim.load(&variable(OURS));
    let addr = address(sim, module);
    let other = Other::new(sim, device, addr);
    let module = module.expose_provenance();
    let unloaded = returns(
        sim,
        AT_ONCE,
        |driver| unsafe { driver.cuModuleUnload(ptr::with_exposed_provenance_mut(module)) },
        || other.go(),
    );
    assert!(unloaded, "unloading waited for another context");
    (addr, other)
}

#[test]
fn a_queued_peer_copy_reads_what_the_next_module_put_there() {
    for seed in [None, Some(1), Some(2), Some(3)] {
        for device in [0, 1] {
            let builder = seed.map_or_else(Builder::new, late);
            let sim = test_device(builder.devices(2));
            let (addr, other) = unload(&sim, device);
            let next = sim.load(&variable(THEIRS));
            assert_eq!(address(&sim, next), addr, "the address must be reused");
            assert_eq!(other.finish(&sim), (R::CUDA_SUCCESS, THEIRS));
        }
    }
}

#[test]
fn the_checker_reports_a_peer_copy_of_an_unloaded_module() {
    for device in [0, 1] {
        let sim = test_device(Builder::new().devices(2).check_freed(true));
        let (addr, other) = unload(&sim, device);
        let next = sim.load(&variable(THEIRS));
        assert_ne!(address(&sim, next), addr, "the address waits");
        let (status, _) = other.finish_lost(&sim);
        assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS);
        let reports = sim.simulator.take_reports();
        let report = &reports[0];
        assert_eq!(report.kind, ReportKind::UseAfterFree, "{report}");
        assert_eq!(report.access.map(|access| access.address), Some(addr));
        let text = report.to_string();
        assert!(
            text.starts_with("copy: invalid access to 16 bytes at"),
            "{text}"
        );
        assert!(
            text.contains("freed by the unloading of its module"),
            "{text}"
        );
    }
}

impl Other {
    /// Like [`finish`](Self::finish), for a copy that loses the device.
    fn finish_lost(&self, sim: &TestDevice) -> (R, Option<String>) {
        self.go();
        let status = unsafe { sim.cuStreamSynchronize(self.stream) };
        let fault = [0, 1].iter().find_map(|&i| sim.simulator.fault(i));
        (status, fault)
    }
}

#[test]
fn late_work_of_another_context_runs_after_the_unloading() {
    for seed in 0..24 {
        let sim = test_device(late(seed).devices(2));
        let module = sim.load(&variable(OURS));
        let addr = address(&sim, module);
        let mut context = ptr::null_mut();
        unsafe { ok(sim.cuCtxCreate_v2(&raw mut context, 0, seed as i32 % 2)) };
        let (stream, copy) = (sim.stream(1), sim.alloc(16));
        unsafe {
            ok(sim.cuMemcpyPeerAsync(copy, context, addr, sim.context, 16, stream));
            ok(sim.cuModuleUnload(module));
            ok(sim.cuCtxSetCurrent(sim.context));
            let next = sim.load(&variable(THEIRS));
            assert_eq!(address(&sim, next), addr);
            ok(sim.cuCtxSetCurrent(context));
            ok(sim.cuStreamSynchronize(stream));
        }
        assert_eq!(sim.download::<u32>(copy, 4), THEIRS, "seed {seed}");
    }
}

/// Creates something in the context of the sim, and returns a call that frees or unloads it.
type Make = fn(&TestDevice) -> Box<dyn FnOnce(&DriverTable) -> R + Send>;

fn library(sim: &TestDevice) -> usize {
    let text = CString::new(variable(OURS)).unwrap();
    let library = sim.load_library(text.as_ptr().cast());
    let (mut addr, mut size) = (0_u64, 0_usize);
    unsafe {
        // The library is loaded into the context when it is used there.
        let name = c"values".as_ptr();
        ok(sim.cuLibraryGetGlobal(&raw mut addr, &raw mut size, library, name));
    }
    library.expose_provenance()
}

fn array(sim: &TestDevice) -> usize {
    let mut desc: cuda_sys::CUDA_ARRAY_DESCRIPTOR = unsafe { std::mem::zeroed() };
    (desc.Width, desc.Height, desc.NumChannels) = (4, 4, 1);
    desc.Format = cuda_sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32;
    let mut array: CUarray = ptr::null_mut();
    unsafe { ok(sim.cuArrayCreate_v2(&raw mut array, &raw const desc)) };
    array.expose_provenance()
}

fn registered(sim: &TestDevice) -> usize {
    let memory: &'static mut [u8] = Box::leak(Box::new([0; 8192]));
    let start: *mut c_void = memory.as_mut_ptr().cast();
    unsafe { ok(sim.cuMemHostRegister_v2(start, 4096, 0)) };
    start.expose_provenance()
}

/// Calls that free or unload without being ordered by a stream.
const CALLS: [(&str, Make); 7] = [
    ("cuMemFree", |sim| {
        let addr = sim.alloc(64);
        Box::new(move |driver| unsafe { driver.cuMemFree_v2(addr) })
    }),
    ("cuMemFree of managed memory", |sim| {
        let mut addr = 0;
        unsafe { ok(sim.cuMemAllocManaged(&raw mut addr, 64, 1)) };
        Box::new(move |driver| unsafe { driver.cuMemFree_v2(addr) })
    }),
    ("cuMemFreeHost", |sim| {
        let start = sim.pinned(64).expose_provenance();
        Box::new(move |driver| unsafe {
            driver.cuMemFreeHost(ptr::with_exposed_provenance_mut(start))
        })
    }),
    ("cuMemHostUnregister", |sim| {
        let start = registered(sim);
        Box::new(move |driver| unsafe {
            driver.cuMemHostUnregister(ptr::with_exposed_provenance_mut(start))
        })
    }),
    ("cuModuleUnload", |sim| {
        let module = sim.load(&variable(OURS)).expose_provenance();
        Box::new(move |driver| unsafe {
            driver.cuModuleUnload(ptr::with_exposed_provenance_mut(module))
        })
    }),
    ("cuLibraryUnload", |sim| {
        let library = library(sim);
        Box::new(move |driver| unsafe {
            driver.cuLibraryUnload(ptr::with_exposed_provenance_mut(library))
        })
    }),
    ("cuArrayDestroy", |sim| {
        let array = array(sim);
        Box::new(move |driver| unsafe {
            driver.cuArrayDestroy(ptr::with_exposed_provenance_mut(array))
        })
    }),
];

#[test]
fn freeing_does_not_wait_for_another_context() {
    for device in [0, 1] {
        let sim = test_device(Builder::new().devices(2));
        let source = sim.upload(&OURS);
        let other = Other::new(&sim, device, source);
        for (name, make) in CALLS {
            let call = make(&sim);
            assert!(returns(&sim, AT_ONCE, call, || other.go()), "{name}");
        }
        assert_eq!(other.finish(&sim), (R::CUDA_SUCCESS, OURS));
    }
}

#[test]
fn freeing_waits_for_its_own_context() {
    let sim = test_device(Builder::new());
    let stream = sim.stream(1);
    let flag = sim.pinned(4).cast::<u32>();
    for (name, make) in CALLS {
        let call = make(&sim);
        unsafe {
            flag.write_volatile(0);
            ok(sim.cuStreamWaitValue32_v2(stream, flag.addr() as u64, 1, 0));
        }
        let release = || unsafe { flag.write_volatile(1) };
        let waited = !returns(&sim, Duration::from_millis(30), call, release);
        assert!(waited, "{name}");
    }
}

#[test]
fn a_copy_of_freed_page_locked_memory_is_reported() {
    let sim = test_device(Builder::new());
    let pinned = sim.pinned(16);
    let other = Other::new(&sim, 0, pinned.addr() as u64);
    let start = pinned.expose_provenance();
    let free = |driver: &DriverTable| unsafe {
        driver.cuMemFreeHost(ptr::with_exposed_provenance_mut(start))
    };
    assert!(returns(&sim, AT_ONCE, free, || other.go()));
    let (status, fault) = other.finish_lost(&sim);
    assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(fault.unwrap().contains("freed"));
    let reports = sim.simulator.take_reports();
    assert_eq!(reports[0].kind, ReportKind::UseAfterFree, "{}", reports[0]);
}

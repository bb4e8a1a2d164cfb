//! The functions of NCCL.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use cuda_sys::{CUcontext, CUdeviceptr, CUresult, CUstream, DriverLibrary};
use nccl::{Config, Functions, RawCommunicator, UniqueId};

use crate::DRIVER;
use crate::exchange::Exchange;

pub(crate) const FUNCTIONS: Functions = Functions {
    get_version,
    get_unique_id,
    get_error_string,
    get_last_error,
    comm_init_rank_config,
    comm_get_async_error,
    comm_finalize,
    comm_destroy,
    comm_abort,
    all_reduce,
};

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 4;
const REMOTE_ERROR: c_int = 6;
const IN_PROGRESS: c_int = 7;

/// The largest number of elements of an operation.
const MOST: usize = 1 << 20;
/// The operation at which a stream continues after an abort.
const ABORTED: u32 = u32::MAX / 2;

/// A communicator.
struct Communicator {
    driver: Arc<DriverLibrary>,
    context: CUcontext,
    /// Page-locked memory for MOST elements.
    host: *mut f32,
    /// The number of the last operation that is complete, in device memory.
    flag: CUdeviceptr,
    operations: AtomicU32,
    fails_at: Option<u32>,
    shared: Arc<Shared>,
    worker: Mutex<Option<Worker>>,
}

struct Worker {
    posts: Sender<Post>,
    thread: JoinHandle<()>,
}

/// An operation whose data are on the host.
struct Post {
    operation: u32,
    count: usize,
}

struct Shared {
    status: AtomicI32,
    is_aborted: AtomicBool,
}

/// The objects that the thread of a communicator uses.
struct Thread {
    driver: Arc<DriverLibrary>,
    context: CUcontext,
    host: *mut f32,
    flag: CUdeviceptr,
    exchange: Exchange,
    shared: Arc<Shared>,
}

// SAFETY: the memory must not be used by two threads at once ← a stream uses it before it posts an
// operation and after the thread has set the flag.
unsafe impl Send for Thread {}

fn ok(status: CUresult) {
    assert!(status.is_success(), "{status}");
}

unsafe extern "C" fn get_version(version: *mut c_int) -> c_int {
    // SAFETY: the pointer must be writable ← the caller guarantees it.
    unsafe { version.write(22_703) };
    SUCCESS
}

unsafe extern "C" fn get_unique_id(id: *mut UniqueId) -> c_int {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let text = format!("{}-{}", std::process::id(), now.as_nanos());
    let mut bytes = [0; 128];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    // SAFETY: as above.
    unsafe { id.write(UniqueId(bytes)) };
    SUCCESS
}

unsafe extern "C" fn get_error_string(status: c_int) -> *const c_char {
    let text = match status {
        INVALID_ARGUMENT => c"invalid argument",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        _ => c"unhandled error",
    };
    text.as_ptr()
}

unsafe extern "C" fn get_last_error(_: RawCommunicator) -> *const c_char {
    c"".as_ptr()
}

unsafe extern "C" fn comm_init_rank_config(
    communicator: *mut RawCommunicator,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: *const Config,
) -> c_int {
    // SAFETY: the pointer must be valid ← the caller guarantees it.
    if unsafe { (*config).blocking } != 0 {
        return INVALID_ARGUMENT;
    }
    let driver = Arc::clone(DRIVER.get().expect("the driver is set"));
    let (mut context, mut host, mut flag) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: the pointers must be writable ← they are to locals, here and below.
    ok(unsafe { driver.cuCtxGetCurrent(&raw mut context) });
    // SAFETY: as above.
    ok(unsafe { driver.cuMemAllocHost_v2(&raw mut host, MOST * size_of::<f32>()) });
    // SAFETY: as above.
    ok(unsafe { driver.cuMemAlloc_v2(&raw mut flag, 4) });
    // SAFETY: the memory has 4 bytes.
    ok(unsafe { driver.cuMemsetD32_v2(flag, 0, 1) });
    let shared = Arc::new(Shared {
        status: AtomicI32::new(IN_PROGRESS),
        is_aborted: AtomicBool::new(false),
    });
    let id: String =
        id.0.iter()
            .take_while(|it| **it != 0)
            .map(|it| char::from(*it))
            .collect();
    let thread = Thread {
        driver: Arc::clone(&driver),
        context,
        host: host.cast(),
        flag,
        exchange: Exchange::new(id, rank as usize, ranks as usize),
        shared: Arc::clone(&shared),
    };
    let (posts, receiver) = channel();
    let thread = thread::spawn(move || thread.run(&receiver));
    let fails_at = std::env::var("FAKE_NCCL_ERROR").ok().and_then(|text| {
        let (which, at) = text.split_once(':')?;
        (which == rank.to_string()).then(|| at.parse().expect("the number of an operation"))
    });
    let made = Box::new(Communicator {
        driver,
        context,
        host: host.cast(),
        flag,
        operations: AtomicU32::new(0),
        fails_at,
        shared,
        worker: Mutex::new(Some(Worker { posts, thread })),
    });
    // SAFETY: the pointer must be writable ← the caller guarantees it.
    unsafe { communicator.write(Box::into_raw(made).cast()) };
    IN_PROGRESS
}

impl Thread {
    /// Completes operations until the communicator ends.
    fn run(self, posts: &Receiver<Post>) {
        let driver = &self.driver;
        // SAFETY: the context must be alive ← its owner destroys the communicator first.
        ok(unsafe { driver.cuCtxSetCurrent(self.context) });
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local. The flag is NON_BLOCKING.
        ok(unsafe { driver.cuStreamCreate(&raw mut stream, 1) });
        let (exchange, is_aborted) = (&self.exchange, &self.shared.is_aborted);
        // The ranks meet.
        let met = exchange.sum(0, &[], is_aborted).is_some();
        self.shared.status.store(SUCCESS, Ordering::SeqCst);
        if met {
            for Post { operation, count } in posts {
                // SAFETY: the memory must have `count` elements and not change ← the caller of
                // `all_reduce` has checked it, and the stream waits for the flag.
                let data = unsafe { std::slice::from_raw_parts_mut(self.host, count) };
                let Some(sum) = exchange.sum(operation, data, is_aborted) else {
                    break;
                };
                data.copy_from_slice(&sum);
                self.set_flag(stream, operation);
            }
        }
        if is_aborted.load(Ordering::SeqCst) {
            self.set_flag(stream, ABORTED);
        }
        // SAFETY: the stream must be alive ← it was created above.
        ok(unsafe { driver.cuStreamSynchronize(stream) });
        // SAFETY: as above.
        ok(unsafe { driver.cuStreamDestroy_v2(stream) });
    }

    fn set_flag(&self, stream: CUstream, operation: u32) {
        // SAFETY: the memory must have 4 bytes ← that of the flag has.
        ok(unsafe {
            self.driver
                .cuMemsetD32Async(self.flag, operation, 1, stream)
        });
    }
}

/// # Safety
///
/// The communicator must be alive.
unsafe fn communicator<'a>(raw: RawCommunicator) -> Option<&'a Communicator> {
    // SAFETY: the pointer must be null or valid ← the caller guarantees it.
    unsafe { raw.cast::<Communicator>().as_ref() }
}

unsafe extern "C" fn comm_get_async_error(raw: RawCommunicator, status: *mut c_int) -> c_int {
    // SAFETY: the communicator must be alive ← the caller guarantees it.
    let Some(communicator) = (unsafe { communicator(raw) }) else {
        return INVALID_ARGUMENT;
    };
    let current = communicator.shared.status.load(Ordering::SeqCst);
    // SAFETY: the pointer must be writable ← the caller guarantees it.
    unsafe { status.write(current) };
    SUCCESS
}

unsafe extern "C" fn comm_finalize(raw: RawCommunicator) -> c_int {
    // SAFETY: as above.
    match unsafe { communicator(raw) } {
        Some(_) => SUCCESS,
        None => INVALID_ARGUMENT,
    }
}

unsafe extern "C" fn comm_destroy(raw: RawCommunicator) -> c_int {
    if raw.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the pointer must be that of `comm_init_rank_config` and not be used again ← the
    // caller guarantees it.
    let communicator = unsafe { Box::from_raw(raw.cast::<Communicator>()) };
    let worker = communicator.worker.lock().expect("no panic").take();
    let Worker { posts, thread } = worker.expect("a worker");
    drop(posts);
    thread.join().expect("no panic");
    // As NCCL, this needs no current context.
    // SAFETY: the context must be alive ← the communicator was.
    ok(unsafe {
        communicator
            .driver
            .cuCtxPushCurrent_v2(communicator.context)
    });
    // The work on the streams must end before its memory is freed.
    // SAFETY: no requirements.
    ok(unsafe { communicator.driver.cuCtxSynchronize() });
    // SAFETY: the memory must not be used ← see above.
    ok(unsafe { communicator.driver.cuMemFree_v2(communicator.flag) });
    // SAFETY: as above.
    ok(unsafe { communicator.driver.cuMemFreeHost(communicator.host.cast()) });
    // SAFETY: null is allowed.
    ok(unsafe { communicator.driver.cuCtxPopCurrent_v2(ptr::null_mut()) });
    SUCCESS
}

unsafe extern "C" fn comm_abort(raw: RawCommunicator) -> c_int {
    // SAFETY: the communicator must be alive ← the caller guarantees it.
    if let Some(communicator) = unsafe { communicator(raw) } {
        communicator.shared.is_aborted.store(true, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { comm_destroy(raw) }
}

unsafe extern "C" fn all_reduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    ty: c_int,
    operation: c_int,
    raw: RawCommunicator,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the communicator must be alive ← the caller guarantees it.
    let Some(communicator) = (unsafe { communicator(raw) }) else {
        return INVALID_ARGUMENT;
    };
    // 32-bit floating point, and addition.
    if (ty, operation) != (7, 0) || count > MOST {
        return INVALID_ARGUMENT;
    }
    let (driver, stream) = (&communicator.driver, stream.cast());
    let (host, bytes) = (communicator.host.cast(), count * size_of::<f32>());
    let operation = communicator.operations.fetch_add(1, Ordering::SeqCst) + 1;
    if communicator.fails_at == Some(operation) {
        communicator
            .shared
            .status
            .store(REMOTE_ERROR, Ordering::SeqCst);
    }
    let worker = communicator.worker.lock().expect("no panic");
    let posts = worker.as_ref().expect("a worker").posts.clone();
    let post = Box::new(move || {
        // The thread has ended after an abort.
        let _ = posts.send(Post { operation, count });
    }) as Box<dyn FnOnce() + Send>;
    let post = Box::into_raw(Box::new(post)).cast();
    // SAFETY: the buffer must have `bytes` bytes ← the caller guarantees it, and `host` has more.
    ok(unsafe { driver.cuMemcpyDtoHAsync_v2(host, from as CUdeviceptr, bytes, stream) });
    // SAFETY: the function must accept the pointer ← it is a boxed closure.
    ok(unsafe { driver.cuLaunchHostFunc(stream, Some(call), post) });
    // SAFETY: the memory must have 4 bytes ← that of the flag has. The flag 0 is GEQ.
    ok(unsafe { driver.cuStreamWaitValue32_v2(stream, communicator.flag, operation, 0) });
    // SAFETY: as for the first copy.
    ok(unsafe { driver.cuMemcpyHtoDAsync_v2(to as CUdeviceptr, host, bytes, stream) });
    SUCCESS
}

/// Calls a boxed closure.
unsafe extern "C" fn call(closure: *mut c_void) {
    // SAFETY: the pointer must be that of a boxed closure that is not used again ← `all_reduce`
    // passes one to each call.
    let closure = unsafe { Box::from_raw(closure.cast::<Box<dyn FnOnce() + Send>>()) };
    closure();
}

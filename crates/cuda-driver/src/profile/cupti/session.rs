//! The use of CUPTI by one profiler, and the functions that CUPTI calls.
//!
//! CUPTI has one user per process, and passes no user data to the functions that supply and receive
//! buffers. So the records that are being collected are in a static.
//!
//! CUPTI calls these functions on threads of its own, and on threads of the program within driver
//! calls, which may hold locks of this crate. So the rank of the locks here is the highest, and no
//! call of CUPTI is made while one of them is held.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{CStr, c_void};
use std::ptr;

use cuda_sys::cupti::{
    CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, CUPTI_API_ENTER, CUPTI_CB_DOMAIN_DRIVER_API,
    CUPTI_QUEUEING_CALLS, CUpti_ActivityKind, CUpti_CallbackData, CUpti_CallbackDomain,
    CUpti_SubscriberHandle, CUptiResult, CuptiTable,
};
use cuda_sys::{CUcontext, CUstream};

use super::Cupti;
use super::records::Records;
use crate::error::{CuptiError, Result};
use crate::lock::{Mutex, rank};

/// The kinds of records that the profiler uses.
const KINDS: [CUpti_ActivityKind; 4] = [
    CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY,
    CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMSET,
];

/// The memory of a buffer. NVIDIA recommends 1 to 10 MB.
const BUFFER: Layout = Layout::new::<[u64; 1 << 19]>();

thread_local! {
    /// The id of the last call in [`CUPTI_QUEUEING_CALLS`] that this thread made.
    static CORRELATION: Cell<u32> = const { Cell::new(0) };
}

/// The records that are being collected.
static COLLECTED: Mutex<Option<Collected>, { rank::ACTIVITIES }> = Mutex::new(None);

struct Collected {
    table: CuptiTable,
    /// The addresses of the buffers that CUPTI has.
    buffers: HashSet<usize>,
    records: Records,
}

/// The use of CUPTI, which ends when this is dropped.
pub(in super::super) struct Session {
    cupti: Cupti,
    subscriber: Subscriber,
    /// The kinds of records that are enabled.
    enabled: usize,
}

/// The handle of the subscriber.
struct Subscriber(CUpti_SubscriberHandle);

// SAFETY: the handle must be usable on any thread ← CUPTI documents that its functions for
// subscribers are thread-safe.
unsafe impl Send for Subscriber {}

// SAFETY: see `Send`.
unsafe impl Sync for Subscriber {}

/// Returns the id of the last call that this thread made, and forgets it. 0 means none.
pub(in super::super) fn take_correlation() -> u32 {
    CORRELATION.try_with(Cell::take).unwrap_or(0)
}

impl Session {
    /// Begins to collect records.
    pub(in super::super) fn start(cupti: &Cupti) -> Result<Self> {
        let mut collected = COLLECTED.lock();
        if collected.is_some() {
            return Err(CuptiError::InUse.into());
        }
        *collected = Some(Collected {
            table: *cupti.library.table(),
            buffers: HashSet::new(),
            records: Records::default(),
        });
        drop(collected);
        let mut session = Self {
            cupti: cupti.clone(),
            subscriber: Subscriber(ptr::null_mut()),
            enabled: 0,
        };
        // If this fails, dropping the session removes what was done.
        session.enable()?;
        Ok(session)
    }

    fn enable(&mut self) -> Result<()> {
        let table = *self.cupti.library.table();
        let handle = &raw mut self.subscriber.0;
        // SAFETY: the handle must be writable, and the callback stay callable ← it is a field, and
        // `on_call` is a static function.
        let status = unsafe { (table.cuptiSubscribe)(handle, on_call, ptr::null_mut()) };
        let status = match status {
            // What versions before CUDA 12 return, and some that other tools have replaced.
            CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED => {
                CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
            }
            status => status,
        };
        self.cupti.check(status, "cuptiSubscribe")?;
        for (_, number) in CUPTI_QUEUEING_CALLS {
            // SAFETY: the subscriber must be registered ← it was above.
            let status = unsafe {
                (table.cuptiEnableCallback)(
                    1,
                    self.subscriber.0,
                    CUPTI_CB_DOMAIN_DRIVER_API,
                    number,
                )
            };
            // Older versions do not have all functions.
            if status != CUptiResult::CUPTI_ERROR_INVALID_PARAMETER {
                self.cupti.check(status, "cuptiEnableCallback")?;
            }
        }
        // SAFETY: the functions must stay callable ← they are static.
        let status = unsafe { (table.cuptiActivityRegisterCallbacks)(on_request, on_complete) };
        self.cupti.check(status, "cuptiActivityRegisterCallbacks")?;
        for kind in KINDS {
            // SAFETY: no pointers.
            let status = unsafe { (table.cuptiActivityEnable)(kind) };
            self.cupti.check(status, "cuptiActivityEnable")?;
            self.enabled += 1;
        }
        Ok(())
    }

    /// Returns the current time of CUPTI's clock in nanoseconds.
    pub(in super::super) fn now(&self) -> Result<u64> {
        let mut now = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        let status = unsafe { (self.cupti.library.cuptiGetTimestamp)(&raw mut now) };
        self.cupti.check(status, "cuptiGetTimestamp")?;
        Ok(now)
    }

    /// Returns the id that a context has in the records.
    ///
    /// # Safety
    ///
    /// The context is alive.
    pub(super) unsafe fn context_id(&self, context: CUcontext) -> Result<u32> {
        let mut id = 0;
        // SAFETY: the context must be alive and the pointer writable ← the caller guarantees the
        // former, and it points to a local.
        let status = unsafe { (self.cupti.library.cuptiGetContextId)(context, &raw mut id) };
        self.cupti.check(status, "cuptiGetContextId")?;
        Ok(id)
    }

    /// Returns the id that a stream has in the records.
    ///
    /// # Safety
    ///
    /// The context and the stream are alive; a null stream is a default stream of C.
    pub(super) unsafe fn stream_id(
        &self,
        context: CUcontext,
        stream: CUstream,
        is_per_thread: bool,
    ) -> Result<u32> {
        let mut id = 0;
        let library = &self.cupti.library;
        // SAFETY: context and stream must be alive, and the pointer writable ← the caller
        // guarantees the former, and it points to a local.
        let status = unsafe {
            (library.cuptiGetStreamIdEx)(context, stream, u8::from(is_per_thread), &raw mut id)
        };
        self.cupti.check(status, "cuptiGetStreamIdEx")?;
        Ok(id)
    }

    /// Returns the records of the work that is complete.
    pub(super) fn records(&self) -> Records {
        self.flush();
        let collected = COLLECTED.lock();
        collected
            .as_ref()
            .map_or_else(Records::default, |it| it.records.clone())
    }

    /// Makes CUPTI return its buffers.
    fn flush(&self) {
        // A failure means that records are missing; their work has no time then.
        // SAFETY: no pointers; this is not called by CUPTI.
        let _ =
            unsafe { (self.cupti.library.cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) };
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let table = *self.cupti.library.table();
        if self.enabled > 0 {
            self.flush();
        }
        for kind in KINDS.into_iter().take(self.enabled) {
            // A drop cannot return the error.
            // SAFETY: no pointers.
            let _ = unsafe { (table.cuptiActivityDisable)(kind) };
        }
        if !self.subscriber.0.is_null() {
            // SAFETY: the subscriber must be registered ← the handle is set when it is.
            let _ = unsafe { (table.cuptiUnsubscribe)(self.subscriber.0) };
        }
        let collected = COLLECTED.lock().take();
        drop(collected);
    }
}

impl Cupti {
    /// Returns the name of a status.
    pub(super) fn text(&self, status: CUptiResult) -> String {
        let mut text = ptr::null();
        // SAFETY: the pointer must be writable ← it points to a local.
        let got = unsafe { (self.library.cuptiGetResultString)(status, &raw mut text) };
        if got != CUptiResult::CUPTI_SUCCESS || text.is_null() {
            return "unknown status".to_owned();
        }
        // SAFETY: the pointer must be a C string ← a successful call sets it to a constant one.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

/// Keeps the id of a call for [`take_correlation`].
unsafe extern "C" fn on_call(
    _: *mut c_void,
    domain: CUpti_CallbackDomain,
    _: u32,
    data: *const c_void,
) {
    if domain != CUPTI_CB_DOMAIN_DRIVER_API || data.is_null() {
        return;
    }
    let data = data.cast::<CUpti_CallbackData>();
    // SAFETY: the pointer must be to the parameters of a callback ← in this domain it is.
    let site = unsafe { (*data).callbackSite };
    if site != CUPTI_API_ENTER {
        return;
    }
    // SAFETY: see above.
    let id = unsafe { (*data).correlationId };
    let _ = CORRELATION.try_with(|it| it.set(id));
}

/// Allocates a buffer.
unsafe extern "C" fn on_request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let mut new = ptr::null_mut();
    if let Some(collected) = COLLECTED.lock().as_mut() {
        // SAFETY: the size must not be 0 ← it is a constant.
        new = unsafe { alloc::alloc(BUFFER) };
        collected.buffers.insert(new.addr());
    }
    // SAFETY: the pointer must be writable ← CUPTI passes pointers to its variables. Null means
    // that there is no buffer.
    unsafe { buffer.write(new) };
    // SAFETY: see above.
    unsafe { size.write(if new.is_null() { 0 } else { BUFFER.size() }) };
    // SAFETY: see above.
    unsafe { most.write(0) };
}

/// Reads the records in a buffer, and frees it.
unsafe extern "C" fn on_complete(_: CUcontext, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    // A buffer of an earlier session is not read.
    let table = COLLECTED.lock().as_mut().and_then(|collected| {
        let is_own = collected.buffers.remove(&buffer.addr());
        is_own.then_some(collected.table)
    });
    // Reading calls CUPTI, so the lock is not held.
    if let Some(table) = table {
        let mut records = Records::default();
        // SAFETY: the bytes must be records of a known version, and the names of kernels exist ←
        // CUPTI has just filled them in; a session exists only for a known version.
        unsafe { records.add_buffer(&table, buffer, valid.min(BUFFER.size())) };
        if let Some(collected) = COLLECTED.lock().as_mut() {
            collected.records.append(records);
        }
    }
    // SAFETY: the buffer must have been allocated with this layout ← `on_request` allocates all
    // buffers, and CUPTI returns each once.
    unsafe { alloc::dealloc(buffer, BUFFER) };
}

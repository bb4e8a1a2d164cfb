//! Streams: queues of work on a device.
//!
//! Where C's streams are bare handles, these keep their context alive, and a stream that is dropped with work in
//! it finishes that work.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_sys::{CUresult, CUstream};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::event::Event;
use crate::handle::{Destroy, Handle};

bitflags::bitflags! {
    /// How a stream behaves. Bits that are not named here are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StreamFlags: u32 {
        /// Neither waits for the NULL stream of the context, nor makes it wait.
        const NON_BLOCKING = 1;
        const _ = !0;
    }
}

/// A queue of work: what is queued on one stream runs in order, streams run beside each other.
///
/// Cloning it gives another handle of the same stream. The stream is destroyed when the last handle and the
/// last buffer that it used are gone; work still in it runs to its end.
#[derive(Clone)]
pub struct Stream {
    /// Before `context`: a stream goes before its context.
    state: Arc<StreamState>,
    context: Context,
}

/// A stream without its context: what the context itself can hold.
pub(crate) struct StreamState {
    handle: Handle<RawStream>,
    /// Never used twice in a process, unlike the handle.
    id: u64,
    /// How many use events were recorded on it. Held while recording, so that numbers are in the stream's order.
    turns: Mutex<u64>,
}

struct RawStream;

impl Destroy for RawStream {
    type Raw = SendPtr<cuda_sys::CUstream_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the stream must be alive ← the handle owns it. Work still in it runs to its end.
        unsafe { call!(driver, cuStreamDestroy_v2(raw.0)) }
    }
}

/// A raw handle that may go to another thread.
pub(crate) struct SendPtr<T>(pub(crate) *mut T);

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SendPtr<T> {}

impl<T> fmt::Debug for SendPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: the pointer is never followed here, it only names an object of the driver, which is thread safe
// (docs/safety.md, Threads).
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SendPtr<T> {}

impl StreamState {
    /// `cuStreamCreateWithPriority(flags, priority)`.
    pub(crate) fn create(context: &Context, flags: u32, priority: i32) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let driver = context.driver();
        let mut raw = ptr::null_mut();
        let current = context.enter()?;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe {
            call!(
                driver,
                cuStreamCreateWithPriority(&raw mut raw, flags, priority)
            )
        }?;
        drop(current);
        // SAFETY: nobody else must destroy it ← it was made just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self {
            handle,
            id,
            turns: Mutex::default(),
        }))
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.handle.raw().0
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.handle.driver()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn turns(&self) -> MutexGuard<'_, u64> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all that was queued is done.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream must be alive ← `self` owns it.
        unsafe { call!(self.driver(), cuStreamSynchronize(self.raw())) }
    }

    /// Whether all that was queued is known to be done.
    pub(crate) fn is_done(&self) -> bool {
        // SAFETY: the stream must be alive ← `self` owns it.
        unsafe { call!(self.driver(), cuStreamQuery(self.raw())) }.is_ok()
    }

    /// Makes the stream wait for a raw event.
    pub(crate) fn wait(&self, event: cuda_sys::CUevent) -> Result<(), DriverError> {
        // SAFETY: stream and event must be alive for the call ← the caller has the event, `self` the stream; what
        // the event stands for is taken over by the driver at the call.
        unsafe { call!(self.driver(), cuStreamWaitEvent(self.raw(), event, 0)) }
    }
}

impl Stream {
    /// `cuStreamCreateWithPriority(flags, priority)`—Creates a stream in `context`.
    ///
    /// `priority` 0 is the default, a lower number is more urgent; one out of the device's range is moved into it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY`, or `CUDA_ERROR_INVALID_VALUE` for flags that the driver does not know.
    #[doc(alias = "cuStreamCreate")]
    #[doc(alias = "cuStreamCreateWithPriority")]
    pub fn new(context: &Context, flags: StreamFlags, priority: i32) -> Result<Self> {
        let state = StreamState::create(context, flags.bits(), priority)?;
        Ok(Self::of_state(context, state))
    }

    pub(crate) fn of_state(context: &Context, state: Arc<StreamState>) -> Self {
        Self {
            state,
            context: context.clone(),
        }
    }

    /// The context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The raw stream. It stays alive as long as a handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.state.raw()
    }

    /// `cuStreamSynchronize()`—Waits until all that was queued on the stream is done.
    ///
    /// # Errors
    ///
    /// A fault of any kernel that was still running: see [`DriverError::is_sticky`].
    #[doc(alias = "cuStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.state.synchronize()?)
    }

    /// `cuStreamQuery()`—Whether all that was queued on the stream is done.
    ///
    /// # Errors
    ///
    /// A fault of any kernel that was still running.
    #[doc(alias = "cuStreamQuery")]
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: the stream must be alive ← `self` owns it.
        match unsafe { call!(self.state.driver(), cuStreamQuery(self.as_raw())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// `cuStreamWaitEvent(event)`—Makes what is queued on the stream from now on wait for `event`.
    ///
    /// The event may be of another context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the event is of another driver, or what the call answers.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.driver()
            .expect_handles_of(event.context().driver(), "the event")?;
        Ok(self.state.wait(event.as_raw())?)
    }

    pub(crate) fn state(&self) -> &Arc<StreamState> {
        &self.state
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.context.driver()
    }

    /// An error if `context` is not this stream's.
    #[inline]
    pub(crate) fn expect_context(&self, context: &Context, what: &'static str) -> Result<()> {
        if *context == self.context {
            Ok(())
        } else {
            Err(Error::OtherContext { what })
        }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.state.id == other.state.id
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.as_raw())
    }
}

//! The methods of `StreamState` that need the context of the stream, and its checkpoints. The type
//! itself is in `stream_state`, so that the context can own it.
//!
//! If a use has no event of its own, a wait for it takes an event at the tail of its stream. That
//! is wrong if the tail comes after an operation that waits for the host: a wait for a value, or a
//! host function. So an event, called a checkpoint, is recorded before each of those, and starts a
//! new epoch of the stream. A use stores the epoch in which it was queued, and a wait for the use
//! takes the checkpoint that ended that epoch.

mod checkpoint;

use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUstream, CUstreamCaptureStatus};

use super::StreamFlags;
use crate::context::{Context, Current};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::Handle;
use crate::stream_state::{Kind, StreamState};
use crate::types::SendPtr;

/// How a stream treats calls that queue work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// The stream runs the work.
    Inactive,
    /// The stream captures the work into a graph.
    Active,
    /// A capture was invalidated. The stream rejects work until the capture is ended.
    Invalidated,
}

/// The handle of a stream for a call that queues work: see [`StreamState::queueing`].
pub(crate) struct Queueing<'a> {
    raw: CUstream,
    /// Keeps the context current during the call, if the handle depends on it.
    current: Option<Current<'a>>,
}

impl<'a> Queueing<'a> {
    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(crate) fn into_current(self) -> Option<Current<'a>> {
        self.current
    }
}

impl StreamState {
    /// `cuStreamCreateWithPriority(flags, priority)`—Creates a stream.
    pub(crate) fn create(context: &Context, flags: u32, priority: i32) -> Result<Arc<Self>> {
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
        // SAFETY: the handle must be the only owner ← the stream was created just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let is_blocking = !StreamFlags::from_bits_retain(flags).contains(StreamFlags::NON_BLOCKING);
        let this = Arc::new(Self::of_handle(handle, is_blocking, context.launches()));
        if is_blocking {
            context.streams().add_blocking(&this);
        }
        Ok(this)
    }

    /// Creates the state of a default stream of C in `context`.
    pub(super) fn default_of(context: &Context, kind: Kind) -> Arc<Self> {
        let this = Arc::new(Self::of_default(kind, context.launches(), context.driver()));
        if kind == Kind::Legacy {
            context.streams().add_blocking(&this);
        }
        this
    }

    /// Prepares a call that queues work on this stream: returns the handle for it, and makes
    /// `context`, which must be the stream's, current if the handle needs that.
    ///
    /// Work on the legacy stream waits for the blocking streams, and later work on the blocking
    /// streams waits for that work. So if a stream may be waiting for the host, each blocking
    /// stream gets a checkpoint first, so that earlier uses on it can still be waited for
    /// separately. A default stream cannot be used without a current context, and only this
    /// function and [`bind_for_query`](Self::bind_for_query) provide one, so no call that queues
    /// work can skip the step.
    #[inline]
    pub(crate) fn queueing<'a>(&self, context: &'a Context) -> Result<Queueing<'a>, DriverError> {
        let current = match self.kind() {
            Kind::Own => self.bind_for_query(context)?,
            Kind::Legacy | Kind::PerThread => {
                let current = self.bind_for_query(context)?;
                if self.may_delay_others() {
                    self.with_tails(context, |_| Ok(()))?;
                }
                current
            }
        };
        Ok(Queueing {
            raw: self.raw(),
            current,
        })
    }

    /// Returns whether work that is queued here may wait for the host and make other streams
    /// wait too.
    fn may_delay_others(&self) -> bool {
        self.kind() == Kind::Legacy && self.driver().may_wait_for_host()
    }

    /// Makes `context`, which must be the stream's, current for a call that needs it and queues
    /// nothing. Fails if other code captures the stream.
    #[inline]
    pub(crate) fn bind_for_query<'a>(
        &self,
        context: &'a Context,
    ) -> Result<Option<Current<'a>>, DriverError> {
        if self.kind() == Kind::Own {
            if self.may_capture() {
                self.expect_no_capture()?;
            }
            Ok(None)
        } else {
            context.enter().map(Some)
        }
    }

    /// Fails if other code captures the stream.
    #[cold]
    fn expect_no_capture(&self) -> Result<(), DriverError> {
        let driver = self.driver();
        // SAFETY: the stream must be alive ← `self` owns it, or its owner.
        match unsafe { status_of(driver, self.raw()) }? {
            CaptureStatus::Inactive => Ok(()),
            CaptureStatus::Active | CaptureStatus::Invalidated => {
                Err(DriverError::of_capture(driver.version()))
            }
        }
    }

    /// Returns `true` if launches need further work only because other code may capture the stream,
    /// and it does not capture it now. They are then launches as on any other stream, because the
    /// capture status is all that the further work would query.
    ///
    /// # Errors
    ///
    /// Fails if other code captures the stream, and launches need no other work.
    #[cold]
    pub(crate) fn is_not_captured(&self) -> Result<bool, DriverError> {
        if !self.may_only_be_captured() {
            return Ok(false);
        }
        self.expect_no_capture()?;
        Ok(true)
    }

    /// Returns whether other code that may capture the stream does so now.
    pub(crate) fn is_captured(&self) -> bool {
        self.may_capture()
            && self
                .expect_no_capture()
                .is_err_and(|error| error.is_of_capture())
    }

    /// Waits until all queued work is complete. Used where the program did not ask for the wait, so
    /// the call must not break a capture of other code.
    pub(crate) fn synchronize(&self, context: &Context) -> Result<(), DriverError> {
        let _relaxed = self.driver().relaxed();
        self.synchronize_explicitly(context)
    }

    /// Waits until all queued work is complete, where the program explicitly asked for the wait.
    pub(crate) fn synchronize_explicitly(&self, context: &Context) -> Result<(), DriverError> {
        let _current = self.bind_for_query(context)?;
        self.mark_complete_after(|| {
            // SAFETY: the stream must be alive ← `self` owns it.
            unsafe { call!(self.driver(), cuStreamSynchronize(self.raw())) }
        })
    }

    /// Returns whether all queued work is known to be complete.
    pub(crate) fn is_done(&self, context: &Context) -> bool {
        let Ok(_current) = self.bind_for_query(context) else {
            return false;
        };
        let _relaxed = self.driver().relaxed();
        // SAFETY: the stream must be alive ← `self` owns it.
        unsafe { call!(self.driver(), cuStreamQuery(self.raw())) }.is_ok()
    }

    /// Makes the stream wait for a raw event.
    pub(crate) fn wait(
        &self,
        context: &Context,
        event: cuda_sys::CUevent,
    ) -> Result<(), DriverError> {
        if self.driver().may_wait_for_host() {
            // The work before the event may wait for the host.
            self.queue_host_wait(context, || self.wait_at_once(context, event))
        } else {
            self.wait_at_once(context, event)
        }
    }

    /// Makes the stream wait for a raw event without a checkpoint. Only for a stream without uses
    /// that other streams may have to wait for, and while no stream may wait for the host.
    pub(crate) fn wait_at_once(
        &self,
        context: &Context,
        event: cuda_sys::CUevent,
    ) -> Result<(), DriverError> {
        let _current = self.bind_for_query(context)?;
        // SAFETY: the stream and the event must be alive during the call ← `self` owns the stream,
        // and the caller owns the event; the driver captures the state of the event during the
        // call.
        unsafe { call!(self.driver(), cuStreamWaitEvent(self.raw(), event, 0)) }
    }
}

/// `cuStreamIsCapturing()`—Returns whether a stream is being captured.
///
/// # Safety
///
/// The stream is alive. If it is a default stream, its context is current.
pub(super) unsafe fn status_of(
    driver: &Driver,
    raw: CUstream,
) -> Result<CaptureStatus, DriverError> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream must be alive and the pointer writable ← the caller guarantees the former;
    // the pointer is to a local.
    unsafe { call!(driver, cuStreamIsCapturing(raw, &raw mut status)) }?;
    Ok(match status {
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => CaptureStatus::Inactive,
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => CaptureStatus::Active,
        _ => CaptureStatus::Invalidated,
    })
}

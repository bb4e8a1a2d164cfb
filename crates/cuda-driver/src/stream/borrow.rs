//! Streams that other code created.

use std::any::Any;
use std::ptr;
use std::sync::Arc;

use cuda_sys::CUstream;

use super::state::status_of;
use super::{CaptureStatus, Stream, StreamFlags};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::stream_state::{Kind, LEGACY, PER_THREAD, StreamState};
use crate::types::SendPtr;

/// Streams that other code created.
impl Stream {
    /// Borrows a stream that other code created: another library, or raw calls.
    ///
    /// **What other code queues on the stream is ordered only with other work on that stream.** A
    /// buffer that other code uses there has to be ordered by [`using`](Self::using), or by an
    /// explicit [`join`](Self::join) or [`wait`](Self::wait). What this crate queues on the stream
    /// is ordered as on any other stream, at the same cost.
    ///
    /// The handle refers to `raw` itself: it neither creates nor destroys a stream. `owner` keeps
    /// the stream alive, and is dropped after the last handle and the last buffer that was used on
    /// the stream. All handles of one stream are equal and share their state. If the stream is
    /// known already, because it was borrowed before or because this crate created it, this
    /// function returns another handle of it and drops `owner`.
    ///
    /// NULL and `CU_STREAM_LEGACY` are the [legacy stream](Context::legacy_stream) of `context`,
    /// and `CU_STREAM_PER_THREAD` is its [per-thread stream](Context::per_thread_stream).
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] or [`Error::ForeignContext`] if the stream belongs to another
    /// context, and [`Error::Capturing`] if the stream is being captured.
    ///
    /// # Safety
    ///
    /// - `raw` is a stream of the driver of `context`, NULL, or one of the two constants.
    /// - The stream is alive as long as `owner` has not been dropped.
    /// - The owner of the stream does not capture it while this crate queues work on it: not during
    ///   a call that names this handle or a buffer that was created or used on it, and not while
    ///   this buffer is dropped. After [`allow_capture`](Self::allow_capture), the owner may
    ///   capture the stream, but does not begin a capture during these calls.
    #[doc(alias = "cuStreamGetCtx")]
    pub unsafe fn borrow_raw(
        context: &Context,
        raw: CUstream,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        match raw.addr() {
            0 | LEGACY => return Ok(context.legacy_stream()),
            PER_THREAD => return Ok(context.per_thread_stream()),
            _ => {}
        }
        let driver = context.driver();
        // SAFETY: the stream must be alive ← the caller guarantees it as long as `owner` exists.
        unsafe { expect_context(context, raw) }?;
        // SAFETY: as above.
        let status = unsafe { status_of(driver, raw) }?;
        if status != CaptureStatus::Inactive {
            return Err(Error::Capturing {
                what: "borrowing a stream that other code captures",
            });
        }
        // This call would invalidate a capture of the stream.
        // SAFETY: as above.
        let flags = unsafe { flags_of(driver, raw) }?;
        let is_blocking = !flags.contains(StreamFlags::NON_BLOCKING);
        // SAFETY: the stream must be alive as long as `owner` exists ← the caller guarantees it.
        let handle = unsafe { Handle::foreign(driver, SendPtr(raw), owner) };
        let state = context.streams().find_or_add(raw, || {
            let state = StreamState::of_handle(handle, is_blocking, context.launches());
            let state = Arc::new(state);
            if is_blocking {
                context.streams().add_blocking(&state);
            }
            state
        });
        context.streams().inherit_observer(&state);
        Ok(Self::of_state(context, state))
    }

    /// `cuStreamIsCapturing()`—Allows that other code captures the stream. From now on each call on
    /// any handle of the stream asks first whether it is being captured, and fails if it is. The
    /// capture stays intact.
    ///
    /// Asking takes one driver call for each call on this stream (`cargo bench -p benches --bench
    /// launch_pairs` prints its cost); other streams are not affected. The permission cannot be
    /// withdrawn, because other code may rely on it.
    ///
    /// While the stream is being captured, no event can be recorded on it. So memory with uses on
    /// it cannot be used on other streams either: these calls fail with the same error,
    /// [`Error::Capturing`]. If a buffer with such memory is dropped, the memory is freed after the
    /// capture.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a default stream of C: the legacy stream cannot be captured, and
    /// each thread has its own per-thread stream.
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn allow_capture(&self) -> Result<()> {
        if self.state().kind() != Kind::Own {
            return Err(Error::Unsupported {
                what: "allowing captures of a default stream; create a stream with `Stream::new`",
            });
        }
        self.state().allow_capture();
        Ok(())
    }

    /// Whether this stream is [borrowed](Self::borrow_raw) from other code.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.state().is_foreign()
    }
}

/// `cuStreamGetCtx()`—Fails unless the stream `raw` belongs to `context`.
///
/// # Safety
///
/// The stream is alive.
unsafe fn expect_context(context: &Context, raw: CUstream) -> Result<()> {
    let mut of_stream = ptr::null_mut();
    // SAFETY: the stream must be alive and the pointer writable ← the caller guarantees the former;
    // the pointer is to a local.
    unsafe { call!(context.driver(), cuStreamGetCtx(raw, &raw mut of_stream)) }?;
    context.expect_raw(of_stream, "the stream")
}

/// `cuStreamGetFlags()`—Returns the flags that a stream was created with.
///
/// # Safety
///
/// The stream is alive.
unsafe fn flags_of(driver: &Driver, raw: CUstream) -> Result<StreamFlags> {
    let mut flags = 0;
    // SAFETY: the stream must be alive and the pointer writable ← the caller guarantees the former;
    // the pointer is to a local.
    unsafe { call!(driver, cuStreamGetFlags(raw, &raw mut flags)) }?;
    Ok(StreamFlags::from_bits_retain(flags))
}

//! The capture status of a stream (`cuStreamIsCapturing`).

use cuda_sys::{CUstream, CUstreamCaptureStatus};

use super::Stream;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::stream_state::Kind;

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

/// Captures by other code.
impl Stream {
    /// `cuStreamIsCapturing()`—Returns whether other code is capturing on this stream.
    /// [Captures](crate::Graph::capture) of this crate use streams of their own.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT` if this is the legacy stream and a stream that it waits
    /// for is capturing.
    #[doc(alias = "cuStreamIsCapturing")]
    #[doc(alias = "cudaStreamIsCapturing")]
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        // Not by `bind_for_query`, which fails if the stream is being captured.
        let is_default = self.state().kind() != Kind::Own;
        let _current = is_default.then(|| self.context().enter()).transpose()?;
        // SAFETY: the stream must be alive, and its context current if it is a default stream ←
        // `self` is borrowed, and `_current` makes the context current.
        Ok(unsafe { status_of(self.driver(), self.as_raw()) }?)
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

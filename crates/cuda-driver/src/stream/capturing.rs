//! Whether a stream captures.

use cuda_sys::CUstreamCaptureStatus;

use super::Stream;
use crate::driver::call;
use crate::error::Result;

/// What a stream does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// It runs them.
    Inactive,
    /// It captures them.
    Active,
    /// It did, until something broke the capture; it refuses them until that is ended.
    Invalidated,
}

impl Stream {
    /// `cuStreamIsCapturing()`—Whether other code captures on this stream.
    /// [Captures](crate::Graph::capture) of this crate use streams of their own.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT` if this is the legacy stream and one that it waits for
    /// captures, or what the call answers.
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let _current = self.bind_to_ask()?;
        // SAFETY: the stream must be alive, the pointer writable ← it is borrowed; a local.
        unsafe {
            call!(
                self.driver(),
                cuStreamIsCapturing(self.as_raw(), &raw mut status)
            )
        }?;
        Ok(match status {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => CaptureStatus::Inactive,
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => CaptureStatus::Active,
            _ => CaptureStatus::Invalidated,
        })
    }
}

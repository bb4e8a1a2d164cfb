//! The capture status of a stream (`cuStreamIsCapturing`).

use cuda_sys::CUstreamCaptureStatus;

use super::Stream;
use crate::driver::call;
use crate::error::Result;

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
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let _current = self.bind_for_query()?;
        // SAFETY: the stream must be alive and the pointer writable ← `self` is borrowed, and
        // `status` is a local.
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

//! The capture status of a stream (`cuStreamIsCapturing`).

use super::Stream;
use super::state::{CaptureStatus, status_of};
use crate::error::Result;
use crate::stream_state::Kind;

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

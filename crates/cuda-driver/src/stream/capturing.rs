//! The capture status of a stream (`cuStreamIsCapturing`).

use super::Stream;
use super::state::{CaptureStatus, status_of};
use crate::error::Result;
use crate::stream_state::Kind;

/// Captures of the stream.
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

    /// Returns whether calls on the stream are captured instead of run: by an [eager
    /// capture](crate::graph::EagerCapture) on any thread, or by other code. The contents of a
    /// buffer that is written on the stream are then those of a later launch of the graph, so a
    /// cache must not keep them.
    ///
    /// # Errors
    ///
    /// Fails as [`capture_status`](Self::capture_status) does.
    pub fn is_captured(&self) -> Result<bool> {
        Ok(self.state().is_recorded() || self.capture_status()? != CaptureStatus::Inactive)
    }
}

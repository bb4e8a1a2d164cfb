//! Replays of graphs with checked launches: each replay takes the records of its nodes.

use std::cell::Cell;
use std::sync::Arc;

use cuda_sys::{CUresult, calls};

use super::GraphExec;
use super::exec::Inner;
use crate::error::{DriverError, Result};
use crate::safe::{ReplayRecords, SafeLaunch};
use crate::stream::Stream;

/// Replays with a report.
impl GraphExec {
    /// `cuGraphLaunch()`—Queues the graph on `stream`, as [`launch`](Self::launch) does, and
    /// returns a value that can be waited for. A wait returns the violations of this launch and of
    /// earlier ones on the stream.
    ///
    /// # Errors
    ///
    /// The errors of [`launch`](Self::launch).
    #[doc(alias = "cuGraphLaunch")]
    #[doc(alias = "cudaGraphLaunch")]
    pub fn launch_reported<'a>(&self, stream: &'a Stream) -> Result<SafeLaunch<'a>> {
        let reported = self.queue(stream)?;
        Ok(reported.unwrap_or_else(|| SafeLaunch::proven(stream)))
    }
}

impl Inner {
    /// Queues a replay by calling `launch`, and the calls that take the records of its nodes.
    pub(super) fn replay_checked<'a>(
        &self,
        stream: &'a Stream,
        may_wait_for_host: bool,
        launch: impl Fn() -> Result<(), DriverError>,
    ) -> Result<Option<SafeLaunch<'a>>> {
        loop {
            let nodes = self.checked.get();
            // Allocated before the locks of the replay are taken.
            let records = ReplayRecords::new(stream, &nodes)?;
            let is_changed = Cell::new(false);
            let queue = || {
                // Called under the replay lock, so no other thread changes the nodes now.
                if !Arc::ptr_eq(&nodes, &self.checked.get()) {
                    is_changed.set(true);
                    let status = CUresult::CUDA_ERROR_NOT_READY;
                    let version = stream.driver().version();
                    return Err(DriverError::new(status, calls::cuGraphLaunch, version));
                }
                launch()?;
                // SAFETY: the replay must be queued, and the next one must wait for these calls ←
                // it was queued just above, and the argument `is_longer` of `replay` is true.
                unsafe { records.queue(stream, &nodes) }
            };
            let replayed = self.record.replay(stream, may_wait_for_host, true, queue);
            records.commit(stream);
            if is_changed.get() {
                // Another thread has changed the executable. Nothing was queued.
                continue;
            }
            replayed?;
            let report = records.into_report(&nodes);
            let replays = self.record.identity();
            return Ok(Some(SafeLaunch::reporting(stream, report, replays)));
        }
    }
}

//! The launches in flight on a stream.

use crate::stream::Stream;
use crate::types::LaunchesInFlight;

/// Comparison with a stream.
impl LaunchesInFlight {
    /// Returns whether the launches were queued on `stream`.
    #[must_use]
    pub fn are_of(&self, stream: &Stream) -> bool {
        self.stream() == stream.as_raw().addr()
    }
}

/// Kernel launches that are not known to be complete.
impl Stream {
    /// Returns the launches on this stream that are not known to be complete: those since the last
    /// successful wait for the stream or its context, at most 64.
    ///
    /// A launch of a graph is one entry, such as `a graph (mix, copy)`. Launches of other code are
    /// not included.
    #[must_use]
    pub fn launches_in_flight(&self) -> LaunchesInFlight {
        let launches = self.context().launches();
        launches.names_of(self.state().launches())
    }
}

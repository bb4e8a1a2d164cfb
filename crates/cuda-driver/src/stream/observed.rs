//! Streams whose work is observed, for the profiler.

use super::Stream;
use crate::observer::{Site, Work};
use crate::subscriber::event;
use crate::types::WorkKind;

/// The flags of an event that records the time (`CU_EVENT_DEFAULT`).
const TIMED: u32 = 0;

impl<'a> Work<'a> {
    /// Work without a name of its own, such as a copy.
    pub(crate) fn of_kind(kind: WorkKind, bytes: usize) -> Self {
        Self {
            kind,
            name: kind.name(),
            bytes: bytes as u64,
            kernel: None,
        }
    }

    /// A launch of the graph with this name.
    pub(crate) fn graph(name: &'a str) -> Self {
        Self {
            name,
            ..Self::of_kind(WorkKind::Graph, 0)
        }
    }
}

impl Stream {
    /// Calls `queue`, which makes one call that queues `work`, and reports it to the observer of
    /// the stream.
    #[inline]
    pub(crate) fn observed<R, E>(
        &self,
        work: Work<'_>,
        queue: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        event!(
            trace,
            kind = work.kind.name(),
            name = work.name,
            bytes = work.bytes,
            stream = self.as_raw().addr(),
            "work"
        );
        if cfg!(feature = "profile") && self.state().observer().is_set() {
            self.observe(&work, queue)
        } else {
            queue()
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn observe<R, E>(
        &self,
        work: &Work<'_>,
        queue: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let Some(observer) = self.state().observer().get() else {
            return queue();
        };
        // A default stream of C needs its context for the events too.
        let Ok(queueing) = self.queueing() else {
            return queue();
        };
        let create = |count| self.context().create_events(TIMED, count);
        let site = Site {
            driver: self.driver(),
            raw: queueing.raw(),
            id: self.state().id(),
            create: &create,
        };
        let ticket = observer.begin(&site, work);
        let result = queue();
        observer.end(&site, work, ticket, result.is_ok());
        drop(queueing);
        result
    }

    /// Reports a change of the allocated memory to the observer of the stream.
    #[inline]
    pub(crate) fn memory_changed(&self, change: i64) {
        if cfg!(feature = "profile")
            && self.state().observer().is_set()
            && let Some(observer) = self.state().observer().get()
        {
            observer.memory(change);
        }
    }
}

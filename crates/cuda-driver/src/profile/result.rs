//! The results of a profiler.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cupti::Backend;
use crate::observer::KernelResources;
use crate::types::{LaunchConfig, WorkKind};

/// The work that a [`Profiler`](super::Profiler) has observed.
///
/// Times are counted from the start of the profiler.
#[derive(Clone)]
pub struct Profile {
    pub(super) device: String,
    pub(super) backend: Backend,
    pub(super) operations: Vec<Operation>,
    pub(super) streams: Vec<String>,
    pub(super) threads: Vec<String>,
    pub(super) kernels: HashMap<Arc<str>, Kernel>,
    pub(super) ranges: Vec<UserRange>,
    pub(super) memory: Vec<MemoryChange>,
}

/// The code that queued a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A call of this crate.
    Call,
    /// A node of a graph, which a call of this crate launched. Only [`Backend::Cupti`] sees nodes.
    GraphNode,
    /// Other code, such as a library or raw calls. Only [`Backend::Cupti`] sees its work.
    OtherCode,
}

/// A piece of work that was queued on a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub(super) kind: WorkKind,
    pub(super) origin: Origin,
    /// The id of the call in the records of CUPTI; 0 if there is none.
    pub(super) correlation: u32,
    pub(super) name: Arc<str>,
    pub(super) stream: u32,
    pub(super) thread: u32,
    pub(super) range: Option<u32>,
    pub(super) bytes: u64,
    pub(super) queued: u64,
    pub(super) call: u64,
    /// The start and the duration.
    pub(super) run: Option<(i64, u64)>,
}

/// A range that the program opened with [`Profiler::range`](super::Profiler::range).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRange {
    pub(super) name: Arc<str>,
    pub(super) thread: u32,
    pub(super) parent: Option<u32>,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// An allocation or a free of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    pub(super) time: u64,
    pub(super) change: i64,
    pub(super) allocated: i64,
}

/// The first launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    pub(super) config: LaunchConfig,
    pub(super) resources: KernelResources,
    /// Whether the resources include the occupancy. Those from CUPTI do not.
    pub(super) has_occupancy: bool,
}

impl Profile {
    /// The operations, in the order in which they were queued.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The ranges of the program, in the order in which they began.
    #[must_use]
    pub fn ranges(&self) -> &[UserRange] {
        &self.ranges
    }

    /// The allocations and frees on the streams that were observed.
    #[must_use]
    pub fn memory(&self) -> &[MemoryChange] {
        &self.memory
    }

    /// The source of the times.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The names of the streams: [`Operation::stream`] is an index of this list.
    #[must_use]
    pub fn streams(&self) -> &[String] {
        &self.streams
    }

    /// The names of the threads: [`Operation::thread`] is an index of this list.
    #[must_use]
    pub fn threads(&self) -> &[String] {
        &self.threads
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Sorts the operations, ends open ranges at `now`, and corrects the clock of the device.
    pub(super) fn prepare(&mut self, now: u64) {
        self.operations.sort_by_key(|operation| operation.queued);
        for range in &mut self.ranges {
            if range.end == range.start {
                range.end = now.max(range.start + 1);
            }
        }
        // No work begins before the call that queues it. If one seems to, the comparison of the
        // clocks was wrong by that much.
        let early = |operation: &Operation| {
            let (start, _) = operation.run?;
            Some(operation.queued.cast_signed() - start)
        };
        let offset = self
            .operations
            .iter()
            .filter_map(early)
            .max()
            .unwrap_or(0)
            .max(0);
        for operation in &mut self.operations {
            if let Some((start, _)) = &mut operation.run {
                *start += offset;
            }
        }
    }

    /// Returns the operations of each stream whose times are known, in the order in which they ran.
    /// Work of several threads can seem to overlap; each start is moved to the end before it.
    pub(super) fn rows(&self) -> Vec<Vec<(&Operation, i64, u64)>> {
        let mut rows = vec![Vec::new(); self.streams.len()];
        for operation in &self.operations {
            if let (Some((start, duration)), Some(row)) =
                (operation.run, rows.get_mut(operation.stream as usize))
            {
                row.push((operation, start, duration));
            }
        }
        for row in &mut rows {
            row.sort_by_key(|(_, start, duration)| (*start, *duration));
            let mut last = i64::MIN;
            for (_, start, duration) in row {
                let end = *start + duration.cast_signed();
                *start = (*start).max(last);
                *duration = (end - *start).max(0).unsigned_abs();
                last = *start + duration.cast_signed();
            }
        }
        rows
    }
}

impl Operation {
    /// Returns the kind of the queued work.
    #[must_use]
    pub fn kind(&self) -> WorkKind {
        self.kind
    }

    /// The code that queued the work.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The name of the kernel or the graph; for other work, its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index of the stream.
    #[must_use]
    pub fn stream(&self) -> usize {
        self.stream as usize
    }

    /// The index of the thread that queued the work.
    #[must_use]
    pub fn thread(&self) -> usize {
        self.thread as usize
    }

    /// The index of the innermost range in which the work was queued.
    #[must_use]
    pub fn range(&self) -> Option<usize> {
        self.range.map(|range| range as usize)
    }

    /// The bytes that were copied or filled; for a kernel, those of its buffers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The time at which the call began that queued the work. For work of other code, it is the
    /// time at which the work began.
    #[must_use]
    pub fn queued(&self) -> Duration {
        Duration::from_nanos(self.queued)
    }

    /// The time that the call took. It is 0 for the nodes of a graph and for work of other code.
    #[must_use]
    pub fn call(&self) -> Duration {
        Duration::from_nanos(self.call)
    }

    /// The time at which the work began. `None` if it is not known: the work was not complete, or
    /// other code captured the stream.
    #[must_use]
    pub fn start(&self) -> Option<Duration> {
        let (start, _) = self.run?;
        Some(Duration::from_nanos(start.max(0).unsigned_abs()))
    }

    /// The time that the work took, if it is known.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let (_, duration) = self.run?;
        Some(Duration::from_nanos(duration))
    }
}

impl UserRange {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index of the range around this one.
    #[must_use]
    pub fn parent(&self) -> Option<usize> {
        self.parent.map(|parent| parent as usize)
    }

    /// The time at which the range began.
    #[must_use]
    pub fn start(&self) -> Duration {
        Duration::from_nanos(self.start)
    }

    /// The time that the host spent in the range.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.end.saturating_sub(self.start))
    }
}

impl MemoryChange {
    /// The time at which the call was made.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time)
    }

    /// The bytes that were allocated, or freed if the number is negative.
    #[must_use]
    pub fn change(&self) -> i64 {
        self.change
    }

    /// The bytes that are allocated then, less those that were allocated before the profiler
    /// started. It is negative after more of the earlier memory was freed.
    #[must_use]
    pub fn allocated(&self) -> i64 {
        self.allocated
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Profile({} operations on {} streams of {})",
            self.operations.len(),
            self.streams.len(),
            self.device
        )
    }
}

//! Statistics per kernel and per kind of work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::result::{Kernel, Operation, Origin, Profile};
use crate::types::{LaunchConfig, WorkKind};

/// The statistics of all operations with the same kind and name.
#[derive(Clone, Debug)]
pub struct Summary {
    kind: WorkKind,
    name: Arc<str>,
    count: usize,
    bytes: u64,
    /// The bytes of the operations whose times are known.
    timed_bytes: u64,
    /// The times in nanoseconds that are known, in ascending order.
    times: Vec<u64>,
    kernel: Option<Kernel>,
}

/// Statistics.
impl Profile {
    /// Returns the statistics of each kernel and each other kind of work, those with the longest
    /// total time first.
    ///
    /// The nodes of graphs count as kernels, copies and fills. The time of a graph is that from the
    /// start of its first node to the end of its last.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary> {
        let mut indices: HashMap<(WorkKind, &str), usize> = HashMap::new();
        let mut all: Vec<Summary> = Vec::new();
        for operation in &self.operations {
            let key = (operation.kind, operation.name());
            let index = *indices.entry(key).or_insert(all.len());
            if index == all.len() {
                all.push(Summary::new(operation, &self.kernels));
            }
            if let Some(summary) = all.get_mut(index) {
                summary.add(operation);
            }
        }
        for summary in &mut all {
            summary.times.sort_unstable();
        }
        all.sort_by_key(|summary| std::cmp::Reverse(summary.total()));
        all
    }

    /// Returns the total time of the work that was queued within a range, including ranges inside
    /// it.
    #[must_use]
    pub fn time_of_range(&self, range: usize) -> Duration {
        let is_inside = |operation: &&Operation| {
            let mut at = operation.range();
            while let Some(index) = at {
                if index == range {
                    return true;
                }
                at = self.ranges.get(index).and_then(|outer| outer.parent());
            }
            false
        };
        // A graph counts, and its nodes do not.
        let is_call = |operation: &&Operation| operation.origin != Origin::GraphNode;
        let inside = self.operations.iter().filter(is_call).filter(is_inside);
        inside.filter_map(Operation::duration).sum()
    }
}

impl Summary {
    fn new(operation: &Operation, kernels: &HashMap<Arc<str>, Kernel>) -> Self {
        let is_kernel = operation.kind == WorkKind::Kernel;
        Self {
            kind: operation.kind,
            name: Arc::clone(&operation.name),
            count: 0,
            bytes: 0,
            timed_bytes: 0,
            times: Vec::new(),
            kernel: kernels.get(&operation.name).filter(|_| is_kernel).copied(),
        }
    }

    fn add(&mut self, operation: &Operation) {
        self.count += 1;
        self.bytes += operation.bytes;
        if let Some((_, duration)) = operation.run {
            self.times.push(duration);
            self.timed_bytes += operation.bytes;
        }
    }

    /// The kind of work.
    #[must_use]
    pub fn kind(&self) -> WorkKind {
        self.kind
    }

    /// The name of the kernel or the graph; for other work, its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How often the work was queued.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of these have a known time.
    #[must_use]
    pub fn timed(&self) -> usize {
        self.times.len()
    }

    /// The sum of the bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The sum of the times.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.times.iter().sum())
    }

    /// The shortest time.
    #[must_use]
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.times.first().copied().unwrap_or(0))
    }

    /// The longest time.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.times.last().copied().unwrap_or(0))
    }

    /// The mean time.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let count = self.times.len().max(1) as u64;
        Duration::from_nanos(self.times.iter().sum::<u64>() / count)
    }

    /// The time that 95 of 100 operations do not exceed.
    #[must_use]
    pub fn p95(&self) -> Duration {
        // The smallest index that has 95 % of the times at or before it.
        let rank = (self.times.len() * 95).div_ceil(100).saturating_sub(1);
        Duration::from_nanos(self.times.get(rank).copied().unwrap_or(0))
    }

    /// The gigabytes (10⁹ bytes) per second; `None` without bytes or times. For a kernel, each
    /// buffer counts once, however often the kernel accesses it.
    #[must_use]
    pub fn gigabytes_per_second(&self) -> Option<f64> {
        let nanoseconds = self.total().as_nanos() as f64;
        (self.timed_bytes > 0 && nanoseconds > 0.0).then(|| self.timed_bytes as f64 / nanoseconds)
    }

    /// The shape of the first launch of a kernel.
    #[must_use]
    pub fn config(&self) -> Option<LaunchConfig> {
        Some(self.kernel?.config)
    }

    /// The registers of each thread of a kernel.
    #[must_use]
    pub fn registers(&self) -> Option<u32> {
        Some(self.kernel?.resources.registers)
    }

    /// The static and dynamic shared memory of each block in bytes, in the first launch.
    #[must_use]
    pub fn shared_bytes(&self) -> Option<u32> {
        let kernel = self.kernel?;
        Some(kernel.resources.static_shared + kernel.config.shared_bytes)
    }

    /// The local memory of each thread of a kernel in bytes.
    #[must_use]
    pub fn local_bytes(&self) -> Option<u32> {
        Some(self.kernel?.resources.local)
    }

    /// The share of the warps of a multiprocessor that the kernel can keep active, from 0 to 1, in
    /// the shape of the first launch. `None` for a kernel that only nodes of graphs or other code
    /// launched.
    #[must_use]
    pub fn occupancy(&self) -> Option<f32> {
        let kernel = self.kernel.filter(|kernel| kernel.has_occupancy)?;
        Some(kernel.resources.occupancy)
    }
}

//! Statistics of a cache.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Refusal;
use crate::lock::lock;

/// Statistics of a [`Cache`](super::Cache) since it was opened, and the current usage of its
/// folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Compilations that were found in the cache.
    pub hits: u64,
    /// Compilations that were performed, whether stored or not.
    pub misses: u64,
    /// Compilations that were stored.
    pub stores: u64,
    /// Entries that were found but depend on headers that have changed.
    pub stale: u64,
    /// Entries that were found but were truncated or altered.
    pub corrupt: u64,
    /// Entries that this process evicted, least recently used first.
    pub evictions: u64,
    /// Compilations that were not stored, by reason.
    pub refusals: BTreeMap<Refusal, u64>,
    /// Compilations that were to be stored but could not be written.
    pub write_failures: u64,
    /// The last problem with the folder, such as missing permissions or a full disk.
    pub problem: Option<String>,
    /// The number of entries in the folder, including those of other processes.
    pub entries: u64,
    /// The total size of the entries in bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) stores: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) corrupt: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) write_failures: AtomicU64,
    refusals: Mutex<BTreeMap<Refusal, u64>>,
    problem: Mutex<Option<String>>,
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn refuse(&self, refusal: Refusal) {
        *lock(&self.refusals).entry(refusal).or_default() += 1;
    }

    pub(super) fn set_problem(&self, problem: String) {
        *lock(&self.problem) = Some(problem);
    }

    pub(super) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Returns the statistics, with the number of entries and bytes in the folder added.
    pub(super) fn stats(&self, (entries, bytes): (u64, u64)) -> CacheStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refusals = lock(&self.refusals);
        CacheStats {
            hits: of(&self.hits),
            misses: of(&self.misses),
            stores: of(&self.stores),
            stale: of(&self.stale),
            corrupt: of(&self.corrupt),
            evictions: of(&self.evictions),
            refusals: refusals.clone(),
            write_failures: of(&self.write_failures),
            problem: self.problem(),
            entries,
            bytes,
        }
    }
}

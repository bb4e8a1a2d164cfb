//! Reports of checked launches that `SafeLaunch::wait` has not returned. The next synchronization
//! of their stream returns them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Violation;
use crate::lock::{Mutex, rank};

/// The report of one launch of a kernel, or of one replay of a graph.
pub(crate) trait Report: Send + Sync {
    /// Waits for the launch, and returns its next violation. Each is returned once. A launch of a
    /// kernel has at most one.
    fn take(&self) -> Option<Violation>;

    /// Waits for the launch. Returns whether it has violations that were not taken.
    fn settle(&self) -> bool;
}

/// The reports of a stream. All handles of the stream share them.
#[derive(Default)]
pub(crate) struct Reports {
    lists: Mutex<Lists, { rank::REPORTS }>,
    /// The length of both lists, so that a synchronization without reports takes no lock.
    count: AtomicUsize,
}

#[derive(Default)]
struct Lists {
    /// The reports whose violation is known, the oldest first. They have no device memory.
    found: Vec<Arc<dyn Report>>,
    /// The reports of launches that may still run, the oldest first.
    queued: Vec<Arc<dyn Report>>,
}

impl Lists {
    fn len(&self) -> usize {
        self.found.len() + self.queued.len()
    }
}

/// The largest number of checked launches whose records were not read. One more launch waits for
/// the oldest of them and reads its record.
const MAX_RECORDS: usize = 64;

impl Reports {
    /// Adds a report. If there are too many records, waits for the oldest launch, and drops its
    /// report if it has no violation.
    pub(crate) fn add(&self, report: Arc<dyn Report>) {
        let mut lists = self.lists.lock();
        lists.queued.push(report);
        let oldest = (lists.queued.len() > MAX_RECORDS).then(|| lists.queued.remove(0));
        self.count.store(lists.len(), Ordering::Release);
        drop(lists);
        if let Some(oldest) = oldest
            && oldest.settle()
        {
            let mut lists = self.lists.lock();
            lists.found.push(oldest);
            self.count.store(lists.len(), Ordering::Release);
        }
    }

    /// Removes a report all of whose violations were taken.
    pub(crate) fn remove(&self, report: &Arc<dyn Report>) {
        let mut lists = self.lists.lock();
        let remove = |list: &mut Vec<Arc<dyn Report>>| {
            let position = list.iter().position(|other| Arc::ptr_eq(other, report));
            position.map(|position| list.remove(position))
        };
        let removed = remove(&mut lists.found).or_else(|| remove(&mut lists.queued));
        self.count.store(lists.len(), Ordering::Release);
        // A report may own a handle of a context, which must not be dropped under the lock.
        drop(lists);
        drop(removed);
    }

    /// Takes the first violation. The reports after it stay in the lists.
    pub(crate) fn take(&self) -> Option<Violation> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut lists = self.lists.lock();
        let all = std::mem::take(&mut *lists);
        self.count.store(0, Ordering::Release);
        drop(lists);
        let mut found = all.found.into_iter();
        let mut queued = all.queued.into_iter();
        let mut both = found.by_ref().chain(queued.by_ref());
        let first = both.find_map(|report| Some((report.take()?, report)));
        let (violation, report) = first.unzip();
        // A replay may have more violations.
        let again = report.filter(|report: &Arc<dyn Report>| report.settle());
        let mut lists = self.lists.lock();
        lists.found.splice(0..0, again.into_iter().chain(found));
        lists.queued.splice(0..0, queued);
        self.count.store(lists.len(), Ordering::Release);
        violation
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reports({})", self.count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::error::ViolationKind;

    /// A launch of thread `number` of one block, with or without a violation.
    struct Launch {
        number: u32,
        has_violation: AtomicBool,
        is_settled: AtomicBool,
    }

    fn launch(number: u32, has_violation: bool) -> Arc<Launch> {
        Arc::new(Launch {
            number,
            has_violation: AtomicBool::new(has_violation),
            is_settled: AtomicBool::new(false),
        })
    }

    impl Report for Launch {
        fn take(&self) -> Option<Violation> {
            self.settle();
            let is_found = self.has_violation.swap(false, Ordering::Relaxed);
            is_found.then(|| Violation {
                kernel: String::from("k"),
                kind: ViolationKind::Read,
                ptx_line: 1,
                source: None,
                block: [0; 3],
                thread: [self.number, 0, 0],
                address: 0,
                bytes: 4,
                argument: None,
                argument_bytes: 0,
                offset: 0,
                surface: None,
                threads: 1,
            })
        }

        fn settle(&self) -> bool {
            self.is_settled.store(true, Ordering::Relaxed);
            self.has_violation.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn records_are_bounded_after_a_violation() {
        let reports = Reports::default();
        let launches: Vec<_> = (0..300).map(|n| launch(n, n % 100 == 0)).collect();
        for launch in &launches {
            reports.add(Arc::clone(launch) as Arc<dyn Report>);
            let is_queued = |launch: &&Arc<Launch>| !launch.is_settled.load(Ordering::Relaxed);
            let queued = launches[..=launch.number as usize].iter().filter(is_queued);
            assert!(queued.count() <= MAX_RECORDS, "launch {}", launch.number);
        }
        let taken = std::iter::from_fn(|| reports.take());
        let threads: Vec<u32> = taken.map(|violation| violation.thread[0]).collect();
        assert_eq!(threads, [0, 100, 200]);
        assert_eq!(reports.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_removed_report_is_not_taken() {
        let reports = Reports::default();
        let all: Vec<Arc<dyn Report>> = (0..100)
            .map(|n| launch(n, true) as Arc<dyn Report>)
            .collect();
        for report in &all {
            reports.add(Arc::clone(report));
        }
        // One whose record was read, and one that is still queued.
        reports.remove(&all[0]);
        reports.remove(&all[99]);
        let taken = std::iter::from_fn(|| reports.take());
        let threads: Vec<u32> = taken.map(|violation| violation.thread[0]).collect();
        assert_eq!(threads, (1..99).collect::<Vec<u32>>());
    }
}

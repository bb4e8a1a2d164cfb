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
    list: Mutex<Vec<Arc<dyn Report>>, { rank::REPORTS }>,
    /// The length of `list`, so that a synchronization without reports takes no lock.
    count: AtomicUsize,
}

/// The largest number of checked launches whose reports were not taken. One more launch waits for
/// the oldest.
const MAX_RECORDS: usize = 64;

impl Reports {
    /// Adds a report. If there are too many, waits for the oldest launch, and drops its report if
    /// it has no violation.
    pub(crate) fn add(&self, report: Arc<dyn Report>) {
        let mut list = self.list.lock();
        list.push(report);
        let oldest = (list.len() > MAX_RECORDS).then(|| list.remove(0));
        self.count.store(list.len(), Ordering::Release);
        drop(list);
        if let Some(oldest) = oldest
            && oldest.settle()
        {
            self.put_first(vec![oldest]);
        }
    }

    /// Removes a report all of whose violations were taken.
    pub(crate) fn remove(&self, report: &Arc<dyn Report>) {
        let mut list = self.list.lock();
        let position = list.iter().position(|other| Arc::ptr_eq(other, report));
        let removed = position.map(|position| list.remove(position));
        self.count.store(list.len(), Ordering::Release);
        // A report may own a handle of a context, which must not be dropped under the lock.
        drop(list);
        drop(removed);
    }

    /// Takes the first violation. The reports after it stay in the list.
    pub(crate) fn take(&self) -> Option<Violation> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let all = std::mem::take(&mut *list);
        self.count.store(0, Ordering::Release);
        drop(list);
        let mut all = all.into_iter();
        let found = all.find_map(|report| Some((report.take()?, report)));
        let (violation, report) = found.unzip();
        let has_more = |report: &Arc<dyn Report>| report.settle();
        self.put_first(report.filter(has_more).into_iter().chain(all).collect());
        violation
    }

    fn put_first(&self, mut reports: Vec<Arc<dyn Report>>) {
        if reports.is_empty() {
            return;
        }
        let mut list = self.list.lock();
        reports.append(&mut list);
        *list = reports;
        self.count.store(list.len(), Ordering::Release);
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reports({})", self.count.load(Ordering::Relaxed))
    }
}

//! Reports of checked launches that no call has returned yet. A call in which the host waits
//! returns the violations of the launches that it has waited for.
//!
//! A static counter has the number of reports in the process. If it is 0, a wait loads it and does
//! nothing else.

mod print;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use print::print;
pub(crate) use report::{MemoryUse, Report};

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::error::{Error, Result, Violation, Violations};
use crate::lock::{Mutex, rank};

/// The origin of a launch. The numbers are addresses of objects that exist as long as the report,
/// and ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The [identity](crate::context::Context::identity) of the context.
    pub(crate) context: usize,
    /// The id of the stream, as the thread that made the launch sees it.
    pub(crate) stream: u64,
    /// The executable of a replay, or 0.
    pub(crate) replays: usize,
}

/// The launches that a call has waited for.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    streams: SmallVec<[u64; 1]>,
    context: Option<usize>,
    /// The memory, each with whether the wait was one for all uses, and not only for writes.
    memory: SmallVec<[(MemoryUse, bool); 1]>,
    replays: SmallVec<[usize; 1]>,
    /// Only launches with a smaller number.
    before: u64,
    /// Launches with a smaller number that conflict with the use of the memory have been waited
    /// for. The event after the launch may still follow, as a use of memory has an event of its
    /// own.
    begun: u64,
}

/// Whether a call has waited for a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The call did not ask for it.
    No,
    /// The call did if the launch is complete.
    IfComplete,
    /// The call did.
    Yes,
}

impl Waited {
    fn for_none() -> Self {
        Self {
            streams: SmallVec::new(),
            context: None,
            memory: SmallVec::new(),
            replays: SmallVec::new(),
            before: u64::MAX,
            begun: 0,
        }
    }

    /// The launches on the stream with this id.
    pub(crate) fn for_stream(id: u64) -> Self {
        Self::for_streams([id])
    }

    /// The launches on the streams with these ids.
    pub(crate) fn for_streams(ids: impl IntoIterator<Item = u64>) -> Self {
        Self {
            streams: ids.into_iter().collect(),
            ..Self::for_none()
        }
    }

    /// The launches in the context with this identity.
    pub(crate) fn for_context(identity: usize) -> Self {
        Self {
            context: Some(identity),
            ..Self::for_none()
        }
    }

    /// The replays of these executables.
    pub(crate) fn for_replays(replays: SmallVec<[usize; 1]>) -> Self {
        Self {
            replays,
            ..Self::for_none()
        }
    }

    /// Adds the launches that used the memory, and the replays of these executables. `is_write`
    /// says whether the wait is one for all uses, and `begun` is the number of [`begin`].
    pub(crate) fn add_memory(
        &mut self,
        memory: MemoryUse,
        is_write: bool,
        replays: SmallVec<[usize; 1]>,
        begun: u64,
    ) {
        self.memory.push((memory, is_write));
        self.replays.extend(replays);
        self.begun = begun;
    }

    /// Only launches up to the one with this number.
    pub(crate) fn up_to(mut self, number: u64) -> Self {
        self.before = number.saturating_add(1);
        self
    }

    fn includes(&self, entry: &Entry) -> Wait {
        let Place {
            context,
            stream,
            replays,
        } = entry.place;
        if entry.number >= self.before {
            return Wait::No;
        }
        let uses = self.memory.iter().filter_map(|(memory, is_write)| {
            let was_written = entry.report.uses(memory)?;
            Some(*is_write || was_written)
        });
        let conflicts = uses.max();
        let is_known = self.streams.contains(&stream)
            || self.context == Some(context)
            || (replays != 0 && self.replays.contains(&replays));
        match conflicts {
            Some(true) if entry.number < self.begun => Wait::Yes,
            Some(_) => Wait::IfComplete,
            None if is_known => Wait::IfComplete,
            None => Wait::No,
        }
    }

    /// Fails with the violations of these launches that were not reported, in the order of the
    /// launches. A launch that is not complete is left out: the call has not waited for it.
    ///
    /// # Errors
    ///
    /// [`Error::Violation`].
    pub(crate) fn report(&self) -> Result<()> {
        let mut found: Vec<(u64, Vec<Violation>)> = Vec::new();
        for reports in all() {
            for (entry, wait) in reports.matching(self) {
                if wait == Wait::Yes {
                    // The launch is complete; its event may not be.
                    entry.report.settle();
                }
                if let Some(violations) = entry.report.take() {
                    reports.remove(entry.number);
                    found.push((entry.number, violations));
                }
            }
        }
        found.sort_by_key(|(number, _)| *number);
        let found = found.into_iter().flat_map(|(_, violations)| violations);
        match Violations::new(found.collect()) {
            Some(violations) => Err(Error::Violation(violations)),
            None => Ok(()),
        }
    }
}

/// The launches before a point in a stream, such as an event, and their reports.
#[derive(Clone)]
pub(crate) struct Mark {
    waited: Waited,
    /// Keeps the reports until the point was waited for.
    _reports: Arc<Reports>,
}

impl Mark {
    /// Marks the launches that were made so far. Returns `None` if there are no reports.
    #[inline]
    pub(crate) fn new(reports: &Arc<Reports>, waited: impl FnOnce() -> Waited) -> Option<Self> {
        any().then(|| Self {
            waited: Waited {
                before: NUMBER.load(Ordering::Acquire),
                ..waited()
            },
            _reports: Arc::clone(reports),
        })
    }

    /// Marks the launches up to the one with this number.
    pub(crate) fn up_to(reports: &Arc<Reports>, waited: Waited, number: u64) -> Self {
        Self {
            waited: waited.up_to(number),
            _reports: Arc::clone(reports),
        }
    }

    /// Adds memory that is waited for from now on: see [`Waited::add_memory`].
    pub(crate) fn add_memory(
        &mut self,
        memory: MemoryUse,
        is_write: bool,
        replays: SmallVec<[usize; 1]>,
    ) {
        let begun = NUMBER.load(Ordering::Acquire);
        self.waited.add_memory(memory, is_write, replays, begun);
    }

    /// Fails as [`Waited::report`] does, after a wait for the point.
    pub(crate) fn report(&self) -> Result<()> {
        self.waited.report()
    }

    /// Fails as [`report`](Self::report) does, also with launches after the point.
    pub(crate) fn report_until_now(mut self) -> Result<()> {
        self.waited.before = u64::MAX;
        self.report()
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.waited.fmt(f)
    }
}

/// The mark of an object that is recorded again and again, such as an event.
#[derive(Default)]
pub(crate) struct MarkSlot {
    is_set: AtomicBool,
    mark: Mutex<Option<Mark>, { rank::EVENT_MARK }>,
}

impl MarkSlot {
    #[inline]
    pub(crate) fn set(&self, mark: Option<Mark>) {
        if mark.is_some() || self.is_set.load(Ordering::Relaxed) {
            self.replace(mark);
        }
    }

    #[cold]
    fn replace(&self, mark: Option<Mark>) {
        let mut slot = self.mark.lock();
        self.is_set.store(mark.is_some(), Ordering::Relaxed);
        let former = std::mem::replace(&mut *slot, mark);
        // Reports may own the last handle of a context, which must not be dropped under the lock.
        drop(slot);
        drop(former);
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<Mark> {
        if !any() {
            return None;
        }
        self.mark.lock().clone()
    }

    /// Fails as [`Mark::report`] does.
    #[inline]
    pub(crate) fn report(&self) -> Result<()> {
        self.get().map_or(Ok(()), |mark| mark.report())
    }
}

/// The reports of a stream. All handles of the stream share them.
#[derive(Default)]
pub(crate) struct Reports {
    /// In the order of the launches.
    entries: Mutex<Vec<Entry>, { rank::REPORTS }>,
    /// Whether these reports are in [`ALL`].
    is_listed: AtomicBool,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    place: Place,
    /// Whether the records were read. The report has no device memory then.
    is_settled: bool,
    report: Arc<dyn Report>,
}

/// The number of entries of all [`Reports`].
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The number of the next launch.
static NUMBER: AtomicU64 = AtomicU64::new(1);
/// The reports of all streams with checked launches.
static ALL: Mutex<Vec<Weak<Reports>>, { rank::ALL_REPORTS }> = Mutex::new(Vec::new());

/// The largest number of checked launches of a stream whose records were not read. One more launch
/// waits for the oldest of them and reads its record.
const MAX_RECORDS: usize = 64;

/// Whether there may be violations that were not reported.
#[inline]
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

/// Returns the number of the next launch if there may be violations that were not reported. Called
/// before a wait for memory.
#[inline]
pub(crate) fn begin() -> Option<u64> {
    any().then(|| NUMBER.load(Ordering::Acquire))
}

/// The reports of all launches. The result must be dropped without a lock.
fn unread() -> Vec<Arc<dyn Report>> {
    let all = all();
    let reports = all.iter().flat_map(|reports| {
        let entries = reports.entries.lock();
        entries
            .iter()
            .map(|it| Arc::clone(&it.report))
            .collect::<Vec<_>>()
    });
    reports.collect()
}

/// The reports of all streams. The result must be dropped without a lock.
fn all() -> Vec<Arc<Reports>> {
    ALL.lock().iter().filter_map(Weak::upgrade).collect()
}

impl Reports {
    /// Adds the report of a launch, and returns its number. If there are too many records, waits
    /// for the oldest launch, and drops its report if it has no violation.
    pub(crate) fn add(self: &Arc<Self>, place: Place, report: Arc<dyn Report>) -> u64 {
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            print::at_end_of_process(unread);
            let mut all = ALL.lock();
            all.retain(|reports| reports.strong_count() > 0);
            all.push(Arc::downgrade(self));
        }
        let mut entries = self.entries.lock();
        COUNT.fetch_add(1, Ordering::AcqRel);
        let number = NUMBER.fetch_add(1, Ordering::AcqRel);
        entries.push(Entry {
            number,
            place,
            is_settled: false,
            report,
        });
        let mut queued = entries.iter_mut().filter(|entry| !entry.is_settled);
        let oldest = queued.next().filter(|_| queued.count() >= MAX_RECORDS);
        let oldest = oldest.map(|entry| {
            entry.is_settled = true;
            entry.clone()
        });
        drop(entries);
        if let Some(oldest) = oldest
            && !oldest.report.settle()
        {
            self.remove(oldest.number);
        }
        number
    }

    fn matching(&self, waited: &Waited) -> Vec<(Entry, Wait)> {
        let entries = self.entries.lock();
        let entries = entries.iter().map(|entry| (entry, waited.includes(entry)));
        let entries = entries.filter(|(_, wait)| *wait != Wait::No);
        entries.map(|(entry, wait)| (entry.clone(), wait)).collect()
    }

    fn remove(&self, number: u64) {
        let mut entries = self.entries.lock();
        let position = entries.iter().position(|entry| entry.number == number);
        let removed = position.map(|position| entries.remove(position));
        drop(entries);
        if removed.is_some() {
            COUNT.fetch_sub(1, Ordering::AcqRel);
        }
        // A report may own a handle of a context, which must not be dropped under the lock.
        drop(removed);
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let entries = std::mem::take(&mut *self.entries.lock());
        COUNT.fetch_sub(entries.len(), Ordering::AcqRel);
        for entry in entries {
            print::leave(entry.report);
        }
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reports({})", self.entries.lock().len())
    }
}

//! The list of pending entries, and the reaper thread that polls them.
//!
//! One thread serves all contexts and drivers of the process. So it makes only calls that never
//! wait, and leaves everything else, such as dropping the memory of a transfer, to the worker
//! thread of the context.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use cuda_sys::CUresult;

use super::{Entry, Id, Late, LateFence};
use crate::context::Context;
use crate::deferred::{is_reaper, mark_reaper, must_not_wait, quietly};
use crate::error::DriverError;
use crate::fence::Fence;
use crate::lock::{Mutex, rank};

/// The interval at which the reaper thread polls the driver.
const TICK: Duration = Duration::from_millis(100);
/// An entry fails after this many failed polls, or after one if the device is lost.
const FAILURES: u32 = 3;

struct State {
    entries: BTreeMap<Id, Entry>,
    next: usize,
    /// Whether the reaper thread is running.
    is_watched: bool,
}

static PENDING: Mutex<State, { rank::PENDING }> = Mutex::new(State {
    entries: BTreeMap::new(),
    next: 1,
    is_watched: false,
});

/// Lists `entry`, so that it is polled from now on.
pub(crate) fn add(entry: Entry) -> Id {
    let mut state = PENDING.lock();
    let id = Id(state.next);
    state.next = state.next.wrapping_add(1);
    state.entries.insert(id, entry);
    ensure(&mut state);
    id
}

/// Takes an entry out of the list. The caller becomes its only owner.
pub(crate) fn take(id: Id) -> Option<Entry> {
    PENDING.lock().entries.remove(&id)
}

/// Sets the fence of an entry, if the entry is still listed.
pub(crate) fn set_fence(id: Id, fence: Fence) {
    if let Some(entry) = PENDING.lock().entries.get_mut(&id) {
        entry.fence = Some(fence);
    }
}

/// Ends the complete entries of a context now instead of at the next poll. The caller must not hold
/// a lock.
pub(crate) fn sweep(context: &Context) {
    let waits = |entry: &Entry| entry.run.is_none() && entry.fence.is_some();
    let probes: Vec<Probe> = {
        let state = PENDING.lock();
        let own = state
            .entries
            .iter()
            .filter(|(_, it)| it.context == *context);
        own.filter(|(_, it)| waits(it)).map(Probe::new).collect()
    };
    for probe in probes {
        if probe.query() == Ok(true) {
            quietly(|| probe.ask());
        }
    }
}

/// Starts the reaper thread unless it is running. If no thread can be started, entries end only
/// when the driver reports them.
fn ensure(state: &mut State) {
    if !state.is_watched {
        let thread = thread::Builder::new().name(String::from("cuda-driver pending"));
        state.is_watched = thread.spawn(watch).is_ok();
    }
}

/// The parts of an entry that are needed to poll it.
struct Probe {
    id: Id,
    fence: Option<Fence>,
    late: Option<Late>,
    /// Declared last: it has to be dropped after the fence.
    context: Context,
}

fn watch() {
    mark_reaper();
    loop {
        thread::sleep(TICK);
        let mut state = PENDING.lock();
        if state.entries.is_empty() {
            state.is_watched = false;
            return;
        }
        let probes: Vec<Probe> = state.entries.iter().map(Probe::new).collect();
        drop(state);
        for probe in probes {
            quietly(|| probe.ask());
        }
    }
}

impl Probe {
    fn new((id, entry): (&Id, &Entry)) -> Self {
        Self {
            id: *id,
            fence: entry.fence.clone(),
            late: entry.late.clone(),
            context: entry.context.clone(),
        }
    }

    fn ask(self) {
        if self.fence.is_none() && self.late.is_some() && is_reaper() {
            // Recording a fence may wait for a thread that is queuing work.
            let driver = self.context.driver().clone();
            if !driver.has_deferred() {
                driver.defer(move || self.ask());
            }
            return;
        }
        match self.query() {
            Ok(false) => {}
            Ok(true) => {
                if let Some(entry) = take_if(self.id, |entry| entry.run.is_none()) {
                    drop(self);
                    finish(entry, |entry| entry.end(Ok(())));
                }
            }
            // Other code is capturing, so the state is not known yet.
            Err(error) if error.status() == CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {}
            Err(error) => {
                let is_over = |entry: &mut Entry| {
                    entry.failures += 1;
                    error.is_sticky() || entry.failures >= FAILURES
                };
                if let Some(entry) = take_if(self.id, is_over) {
                    drop(self);
                    finish(entry, move |entry| entry.fail(error));
                }
            }
        }
    }

    /// Returns whether the driver reports the work as complete. Does not invalidate a capture of
    /// other code.
    fn query(&self) -> Result<bool, DriverError> {
        if let Some(fence) = &self.fence {
            return fence.query();
        }
        match self.late.as_ref().map(|late| late()) {
            Some(LateFence::Complete) => return Ok(true),
            Some(LateFence::Recorded(fence)) => set_fence(self.id, fence),
            Some(LateFence::NotYet) | None => {}
        }
        // No fence was recorded so far. A query of any stream shows whether the device is lost.
        self.context.probe().map(|()| false)
    }
}

/// Ends an entry by calling `end`: now, or on the worker thread of its context if its drop may wait
/// and waiting is not allowed here.
fn finish(entry: Entry, end: impl FnOnce(Entry) + Send + 'static) {
    let owns = entry.run.is_some() || entry.memory.is_some();
    if owns && must_not_wait() {
        let driver = entry.context.driver().clone();
        driver.defer(move || end(entry));
    } else {
        end(entry);
    }
}

/// Takes an entry out of the list if it is listed and `is_over` returns true.
fn take_if(id: Id, is_over: impl FnOnce(&mut Entry) -> bool) -> Option<Entry> {
    let mut state = PENDING.lock();
    if is_over(state.entries.get_mut(&id)?) {
        state.entries.remove(&id)
    } else {
        None
    }
}

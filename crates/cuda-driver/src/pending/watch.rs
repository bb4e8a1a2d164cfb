//! The list of what is pending, and the thread that looks after it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{Entry, Id, Late, quietly};
use crate::context::Context;
use crate::driver::Driver;
use crate::error::DriverError;
use crate::event::UseEvent;
use crate::lock::{Condvar, Mutex, rank};

/// How often the driver is asked for what it has not reported.
const TICK: Duration = Duration::from_millis(100);
/// Asking may fail so often before what is pending counts as failed; once if the device is lost.
const FAILURES: u32 = 3;

struct Watch {
    state: Mutex<State, { rank::PENDING }>,
    /// Something was deferred.
    deferred: Condvar,
}

struct State {
    entries: BTreeMap<Id, Entry>,
    deferred: Vec<Box<dyn FnOnce() + Send>>,
    next: usize,
    /// Whether the thread runs.
    is_watched: bool,
}

static WATCH: Watch = Watch {
    state: Mutex::new(State {
        entries: BTreeMap::new(),
        deferred: Vec::new(),
        next: 1,
        is_watched: false,
    }),
    deferred: Condvar::new(),
};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Set on the thread that looks after what is pending.
    static IS_WATCH: Cell<bool> = const { Cell::new(false) };
}

/// This thread is the driver's, inside a host function, until the guard goes.
pub(super) struct Inside {
    before: bool,
}

impl Inside {
    pub(super) fn enter() -> Self {
        Self {
            before: INSIDE.replace(true),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Whether this is inside a host function, where the driver must not be called.
#[inline]
pub(crate) fn is_inside_host_function() -> bool {
    INSIDE.get()
}

/// Whether calls that give something back must be [deferred](defer): inside a host function, and while such calls are
/// still to come. What was dropped first, as a stream before its context, is so given back first.
#[inline]
pub(crate) fn must_defer(driver: &Driver) -> bool {
    is_inside_host_function() || driver.deferred().load(Ordering::Acquire) > 0
}

/// Waits until what was deferred is done; answers whether it is. Not inside a host function, which may hold it up.
pub(crate) fn settle(driver: &Driver) -> bool {
    let start = Instant::now();
    while must_defer(driver) {
        if is_inside_host_function() || start.elapsed() > 10 * TICK {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Does `work` on the thread that looks after what is pending, soon, and in the order in which it was deferred.
pub(crate) fn defer(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    let driver = driver.clone();
    driver.deferred().fetch_add(1, Ordering::AcqRel);
    let work = move || {
        quietly(work);
        driver.deferred().fetch_sub(1, Ordering::AcqRel);
    };
    let mut state = WATCH.state.lock();
    state.deferred.push(Box::new(work));
    ensure(&mut state);
    WATCH.deferred.notify_all();
}

/// Gives something back by `work`: now, or behind all that is still to be given back. `work` gives back itself what it owns: what it
/// only dropped would be deferred again, and come behind its own context.
#[inline]
pub(crate) fn in_turn(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    if must_defer(driver) {
        defer(driver, work);
    } else {
        work();
    }
}

/// Does `work` now, or, inside a host function, where calls are not allowed, on the thread that looks after what is pending.
pub(crate) fn outside(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    if is_inside_host_function() {
        defer(driver, work);
    } else {
        work();
    }
}

/// Does `work`, which may wait for the device: now, or on a thread of its own where nothing must wait, which is inside a host
/// function and on the thread that looks after what is pending.
pub(crate) fn waiting(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    if !is_inside_host_function() && !IS_WATCH.get() {
        return work();
    }
    on_own_thread(driver, work);
}

/// Runs `work`, which may wait for the device, on a thread of its own.
pub(crate) fn on_own_thread(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    // Shared, so that it is not lost where no thread can be started.
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>, { rank::WAITING_WORK }>| work.lock().take();
    let thread = thread::Builder::new().name(String::from("cuda-driver waiting"));
    let own = Arc::clone(&work);
    let started = thread.spawn(move || {
        if let Some(work) = take(&own) {
            quietly(work);
        }
    });
    if started.is_err()
        && let Some(work) = take(&work)
    {
        defer(driver, work);
    }
}

/// Lists `entry`, to be looked after from now on.
pub(crate) fn add(entry: Entry) -> Id {
    let mut state = WATCH.state.lock();
    let id = Id(state.next);
    state.next = state.next.wrapping_add(1);
    state.entries.insert(id, entry);
    ensure(&mut state);
    id
}

/// Takes an entry out of the list: it is the caller's now, and nobody else has it or gets it.
pub(crate) fn take(id: Id) -> Option<Entry> {
    WATCH.state.lock().entries.remove(&id)
}

/// Notes the event behind an entry, if it is still listed.
pub(crate) fn set_event(id: Id, event: UseEvent) {
    if let Some(entry) = WATCH.state.lock().entries.get_mut(&id) {
        entry.event = Some(event);
    }
}

/// Lets go of what is known to be done in a context now, rather than when the driver is asked next. Nothing must be locked.
pub(crate) fn sweep(context: &Context) {
    let waits = |entry: &Entry| entry.run.is_none() && entry.event.is_some();
    let probes: Vec<Probe> = {
        let state = WATCH.state.lock();
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

/// Sees to it that the thread runs. Where none can be started, what is pending is only what the driver reports, and what
/// was deferred waits for the next time.
fn ensure(state: &mut State) {
    if !state.is_watched {
        let thread = thread::Builder::new().name(String::from("cuda-driver pending"));
        state.is_watched = thread.spawn(watch).is_ok();
    }
}

/// An entry as the driver can be asked for it.
struct Probe {
    id: Id,
    event: Option<UseEvent>,
    late: Option<Late>,
    /// Last: it goes behind the event.
    context: Context,
}

fn watch() {
    IS_WATCH.set(true);
    let mut asked = Instant::now();
    loop {
        let mut state = WATCH.state.lock();
        if state.deferred.is_empty() {
            let left = TICK.saturating_sub(asked.elapsed());
            state = WATCH.deferred.wait_timeout(state, left).0;
        }
        let deferred = mem::take(&mut state.deferred);
        let is_time = asked.elapsed() >= TICK;
        if deferred.is_empty() && state.entries.is_empty() && is_time {
            state.is_watched = false;
            return;
        }
        let probes: Vec<Probe> = if is_time {
            state.entries.iter().map(Probe::new).collect()
        } else {
            Vec::new()
        };
        drop(state);
        for work in deferred {
            quietly(work);
        }
        for probe in probes {
            quietly(|| probe.ask());
        }
        if is_time {
            asked = Instant::now();
        }
    }
}

impl Probe {
    fn new((id, entry): (&Id, &Entry)) -> Self {
        Self {
            id: *id,
            event: entry.event.clone(),
            late: entry.late.clone(),
            context: entry.context.clone(),
        }
    }

    fn ask(self) {
        match self.query() {
            Ok(false) => {}
            Ok(true) => {
                if let Some(entry) = take_if(self.id, |entry| entry.run.is_none()) {
                    drop(self);
                    entry.end(Ok(()));
                }
            }
            Err(error) => {
                let is_over = |entry: &mut Entry| {
                    entry.failures += 1;
                    error.is_sticky() || entry.failures >= FAILURES
                };
                if let Some(entry) = take_if(self.id, is_over) {
                    drop(self);
                    entry.fail(error);
                }
            }
        }
    }

    /// Whether it is done, as far as the driver tells.
    fn query(&self) -> Result<bool, DriverError> {
        if let Some(event) = &self.event {
            return event.query();
        }
        match self.late.as_ref().map(|late| late()) {
            Some(Ok(None)) => return Ok(true),
            Some(Ok(Some(event))) => set_event(self.id, event),
            Some(Err(_)) | None => {}
        }
        // Nothing was recorded behind it so far. That the device is lost, any stream tells.
        self.context.probe().map(|()| false)
    }
}

/// Takes an entry out of the list if it is there and `is_over` says so.
fn take_if(id: Id, is_over: impl FnOnce(&mut Entry) -> bool) -> Option<Entry> {
    let mut state = WATCH.state.lock();
    if is_over(state.entries.get_mut(&id)?) {
        state.entries.remove(&id)
    } else {
        None
    }
}

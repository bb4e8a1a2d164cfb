//! The list of what is pending, and the service thread that looks after it.
//!
//! One thread serves all contexts and drivers of the process. So it makes only calls that never
//! wait, and leaves everything else, such as dropping what a transfer owned, to the worker thread
//! of the context.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::CUresult;

use super::{Entry, Id, Late, quietly};
use crate::context::Context;
use crate::driver::Driver;
use crate::error::DriverError;
use crate::event::UseEvent;
use crate::lock::{Mutex, rank};

/// How often the driver is asked for what it has not reported.
const TICK: Duration = Duration::from_millis(100);
/// Asking may fail so often before what is pending counts as failed; once if the device is lost.
const FAILURES: u32 = 3;

struct State {
    entries: BTreeMap<Id, Entry>,
    next: usize,
    /// Whether the service thread runs.
    is_watched: bool,
}

static PENDING: Mutex<State, { rank::PENDING }> = Mutex::new(State {
    entries: BTreeMap::new(),
    next: 1,
    is_watched: false,
});

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Set on the service thread.
    static IS_SERVICE: Cell<bool> = const { Cell::new(false) };
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

/// Whether this thread must not wait for the device nor for the program: it is inside a host
/// function, or it is the service thread, which looks after what is pending for all contexts and
/// drivers.
#[inline]
pub(crate) fn must_not_wait() -> bool {
    INSIDE.get() || IS_SERVICE.get()
}

/// Whether calls that give back an object of the context that `driver` is the handle of must be
/// [deferred](defer): where nothing may wait, and while earlier ones of the same context are still
/// to come. What was dropped first, as a stream before its context, is so given back first. Other
/// contexts are not concerned.
#[inline]
pub(crate) fn must_defer(driver: &Driver) -> bool {
    must_not_wait() || driver.jobs().is_open()
}

/// Waits up to a second until what was deferred of the context that `driver` is the handle of is
/// done; returns whether it is. Waits for nothing where nothing may wait.
pub(crate) fn settle(driver: &Driver) -> bool {
    let start = Instant::now();
    while must_defer(driver) {
        if must_not_wait() || start.elapsed() > 10 * TICK {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Does `work` on the worker thread of the context that `driver` is the handle of, behind all that
/// was deferred there before. `work` may wait; it breaks no capture of other code.
pub(crate) fn defer(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    driver.jobs().add(job(driver, work));
}

/// `work` as a job of a worker thread.
fn job(driver: &Driver, work: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    let driver = driver.clone();
    Box::new(move || {
        let _relaxed = driver.relaxed();
        work();
    })
}

/// Gives something back by `work`: now, or behind all that is still to be given back in its
/// context. `work` gives back itself what it owns: what it only dropped would be deferred again,
/// and come behind its own context.
#[inline]
pub(crate) fn in_turn(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    if must_defer(driver) {
        defer(driver, work);
    } else {
        work();
    }
}

/// Does `work`, which may wait: now, or on a worker thread where nothing may wait.
pub(crate) fn outside(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    if must_not_wait() {
        defer(driver, work);
    } else {
        work();
    }
}

/// Does `work`, which waits until a whole context is idle and owns all that it needs: now, or on a
/// worker thread where nothing may wait. Other deferred work of the context does not wait for it.
pub(crate) fn waiting(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    if must_not_wait() {
        on_worker(driver, work);
    } else {
        let _relaxed = driver.relaxed();
        work();
    }
}

/// Does `work`, as [`waiting`], on a worker thread from wherever it is called.
pub(crate) fn on_worker(driver: &Driver, work: impl FnOnce() + Send + 'static) {
    driver.jobs().add_wait(job(driver, work));
}

/// Lists `entry`, to be looked after from now on.
pub(crate) fn add(entry: Entry) -> Id {
    let mut state = PENDING.lock();
    let id = Id(state.next);
    state.next = state.next.wrapping_add(1);
    state.entries.insert(id, entry);
    ensure(&mut state);
    id
}

/// Takes an entry out of the list: it is the caller's now, and nobody else has it or gets it.
pub(crate) fn take(id: Id) -> Option<Entry> {
    PENDING.lock().entries.remove(&id)
}

/// Notes the event behind an entry, if it is still listed.
pub(crate) fn set_event(id: Id, event: UseEvent) {
    if let Some(entry) = PENDING.lock().entries.get_mut(&id) {
        entry.event = Some(event);
    }
}

/// Lets go of what is known to be done in a context now, rather than when the driver is asked next.
/// Nothing must be locked.
pub(crate) fn sweep(context: &Context) {
    let waits = |entry: &Entry| entry.run.is_none() && entry.event.is_some();
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

/// Starts the service thread unless it runs. Where none can be started, what is pending is only
/// what the driver reports.
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
    IS_SERVICE.set(true);
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
            event: entry.event.clone(),
            late: entry.late.clone(),
            context: entry.context.clone(),
        }
    }

    fn ask(self) {
        if self.event.is_none() && self.late.is_some() && IS_SERVICE.get() {
            // Recording an event may have to wait for a thread that queues something.
            let driver = self.context.driver().clone();
            if !driver.jobs().is_open() {
                defer(&driver, move || self.ask());
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
            // Other code captures: the answer is not known yet.
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

    /// Whether it is done, as far as the driver says. Breaks no capture of other code.
    fn query(&self) -> Result<bool, DriverError> {
        if let Some(event) = &self.event {
            return event.query();
        }
        match self.late.as_ref().map(|late| late()) {
            Some(Ok(None)) => return Ok(true),
            Some(Ok(Some(event))) => set_event(self.id, event),
            Some(Err(_)) | None => {}
        }
        // No event was recorded behind it so far. Any stream tells whether the device is lost.
        self.context.probe().map(|()| false)
    }
}

/// Ends an entry by `end`: now, or on the worker thread of its context if it owns something whose
/// drop may wait and nothing may wait here.
fn finish(entry: Entry, end: impl FnOnce(Entry) + Send + 'static) {
    let owns = entry.run.is_some() || entry.keep.is_some();
    if owns && must_not_wait() {
        let driver = entry.context.driver().clone();
        defer(&driver, move || end(entry));
    } else {
        end(entry);
    }
}

/// Takes an entry out of the list if it is there and `is_over` says so.
fn take_if(id: Id, is_over: impl FnOnce(&mut Entry) -> bool) -> Option<Entry> {
    let mut state = PENDING.lock();
    if is_over(state.entries.get_mut(&id)?) {
        state.entries.remove(&id)
    } else {
        None
    }
}

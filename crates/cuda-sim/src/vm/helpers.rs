//! Helper threads: threads of rayon's pool that work on a launch together with the thread that
//! started it.
//!
//! A launch never waits for a helper that has not started. `rayon::scope` does: if the pool is busy
//! with a long kernel, a short launch would wait for that kernel. So a helper is a job of its own,
//! which finds out when it starts whether its launch still runs.
//!
//! Helpers are requested a few at a time. A launch of many short blocks is over before a sleeping
//! thread has woken up, and waking one thread for each core would take longer than the launch.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::lock::{lock, wait};

/// The number of helpers that are requested together. Each helper that starts requests the same
/// number again.
const BATCH: usize = 2;

/// The number of requested helpers that no thread has started yet, over all launches.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Work that several threads can do together.
pub(super) trait Work: Sync {
    /// Works until there is nothing to do for one more thread.
    fn help(&self);

    /// The number of helpers that would have something to do.
    fn useful_helpers(&self) -> usize;
}

/// Whether a helper of some launch waits for a thread of the pool.
pub(super) fn any_waiting() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// The helpers of one launch.
pub(super) struct Helpers {
    state: Mutex<State>,
    /// Notified when the last running helper has ended.
    ended: Condvar,
    /// The largest number of helpers.
    most: usize,
}

struct State {
    /// The work; `None` after the launch has ended.
    work: Option<Erased>,
    /// Helpers that no thread has started yet.
    waiting: usize,
    running: usize,
    /// The first panic of a helper.
    panic: Option<Box<dyn Any + Send>>,
}

/// A [`Work`] without its lifetime.
#[derive(Clone, Copy)]
struct Erased(NonNull<dyn Work>);

// SAFETY: the pointer may be used on other threads ← it comes from a shared reference, and `Work`
// requires `Sync`.
unsafe impl Send for Erased {}

impl Helpers {
    /// Calls `lead` on this thread, with up to `most` helpers for `work`, which `lead` requests
    /// with [`request`](Self::request). Returns when `lead` has returned and no helper is running.
    ///
    /// # Panics
    ///
    /// Panics if `lead` or a helper does.
    pub(super) fn run(work: &dyn Work, most: usize, lead: impl FnOnce(&Arc<Self>)) {
        let work: NonNull<dyn Work + '_> = NonNull::from(work);
        // SAFETY: the types differ only in a lifetime, so they have the same layout ← both are
        // pointers to `dyn Work`. The pointer is dereferenced only in `start`, while a helper
        // counts as running; `End` waits for running helpers and removes the pointer, and it is
        // dropped before `work`, which the caller lends for the whole call.
        let work = unsafe {
            std::mem::transmute::<NonNull<dyn Work + '_>, NonNull<dyn Work + 'static>>(work)
        };
        let helpers = Arc::new(Self {
            state: Mutex::new(State {
                work: Some(Erased(work)),
                waiting: 0,
                running: 0,
                panic: None,
            }),
            ended: Condvar::new(),
            most,
        });
        let end = End(&helpers);
        lead(&helpers);
        drop(end);
        let panic = lock(&helpers.state).panic.take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Requests a few helpers, but no more than are useful in all.
    pub(super) fn request(self: &Arc<Self>, useful: usize) {
        let count = {
            let mut state = lock(&self.state);
            let present = state.waiting + state.running;
            let count = useful.min(self.most).saturating_sub(present).min(BATCH);
            if state.work.is_none() || count == 0 {
                return;
            }
            state.waiting += count;
            WAITING.fetch_add(count, Ordering::Relaxed);
            count
        };
        for _ in 0..count {
            let helpers = Arc::clone(self);
            rayon::spawn(move || helpers.start());
        }
    }

    /// Runs one helper on this thread, unless the launch has ended.
    fn start(self: Arc<Self>) {
        let work = {
            let mut state = lock(&self.state);
            let Some(work) = state.work else {
                return;
            };
            state.waiting -= 1;
            WAITING.fetch_sub(1, Ordering::Relaxed);
            state.running += 1;
            work
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the work must be alive ← it outlives `End`, which waits until no helper is
            // running, and this one counts as running until the end of this function.
            let work = unsafe { work.0.as_ref() };
            if !any_waiting() {
                self.request(work.useful_helpers());
            }
            work.help();
        }));
        let mut state = lock(&self.state);
        state.running -= 1;
        if let Err(panic) = ended {
            state.panic.get_or_insert(panic);
        }
        if state.running == 0 {
            self.ended.notify_all();
        }
    }
}

/// Ends the work when it is dropped: helpers that have not started never will, and those that run
/// are waited for.
struct End<'a>(&'a Helpers);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.work = None;
        WAITING.fetch_sub(state.waiting, Ordering::Relaxed);
        state.waiting = 0;
        while state.running > 0 {
            state = wait(&self.0.ended, state);
        }
    }
}

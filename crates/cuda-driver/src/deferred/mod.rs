//! Worker threads for deferred work: they free objects that were dropped where waiting is not
//! allowed.
//!
//! A call such as `cuMemFree` waits for all work in its context, which can take as long as the
//! program likes. So the deferred jobs of one context never wait for those of another: each context
//! has its own queue, and each driver has one for objects that belong to no context. The
//! thread of a queue is started for its first job, and ends when it has been idle for [`IDLE`].
//!
//! A queue has two lanes, so there are at most two threads for each context:
//!
//! - The ordered lane frees objects in the order of their drops, so that a context is destroyed
//!   after its objects.
//! - The other lane has jobs that wait until the whole context is idle, which is how modules are
//!   unloaded. They own what they need, so nothing has to follow them, and the ordered lane does
//!   not wait for them.

mod thread_state;

pub(crate) use thread_state::{
    InsideHostFunction, is_inside_host_function, is_reaper, mark_reaper, must_not_wait,
};

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::lock::{Condvar, Mutex, rank};

/// A thread ends after being idle for this long.
const IDLE: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// The deferred jobs of one context, or of a driver for objects that belong to no context.
#[derive(Default)]
pub(crate) struct Jobs {
    ordered: Arc<Lane>,
    waits: Arc<Lane>,
}

/// A queue of jobs that one thread runs in order.
#[derive(Default)]
struct Lane {
    state: Mutex<State, { rank::DEFERRED }>,
    /// Notified when a job was added.
    added: Condvar,
    /// The number of jobs that are queued or running.
    open: AtomicUsize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether a thread serves the lane.
    is_served: bool,
}

impl Jobs {
    /// Returns whether an ordered job is queued or running.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.ordered.open.load(Ordering::Acquire) > 0
    }

    /// Returns whether a job that waits until its context is idle is queued or running.
    pub(crate) fn has_waits(&self) -> bool {
        self.waits.open.load(Ordering::Acquire) > 0
    }

    /// Adds a job after all ordered ones.
    pub(crate) fn add(&self, job: Job) {
        self.ordered.add(job);
    }

    /// Adds a job that waits until its context is idle.
    pub(crate) fn add_wait(&self, job: Job) {
        self.waits.add(job);
    }
}

impl Lane {
    fn add(self: &Arc<Self>, job: Job) {
        self.open.fetch_add(1, Ordering::AcqRel);
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if !state.is_served {
            let lane = Arc::clone(self);
            let thread = thread::Builder::new().name(String::from("cuda-driver worker"));
            // If no thread can be started, the jobs wait until the next one is added.
            state.is_served = thread.spawn(move || lane.serve()).is_ok();
        }
        drop(state);
        self.added.notify_one();
    }

    fn serve(&self) {
        loop {
            let mut state = self.state.lock();
            let mut is_late = false;
            while state.jobs.is_empty() && !is_late {
                let (locked, waited) = self.added.wait_timeout(state, IDLE);
                state = locked;
                is_late = waited.timed_out();
            }
            let Some(job) = state.jobs.pop_front() else {
                state.is_served = false;
                return;
            };
            drop(state);
            quietly(job);
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs")
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}

/// Runs `work` and swallows a panic; the panic hook has already reported it.
pub(crate) fn quietly(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // The drop of the payload could panic again.
        mem::forget(panic);
    }
}

/// Returns the message of a panic.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

//! Queues of work: what streams are made of.
//!
//! Every queued operation is a node of a graph whose edges say what must be complete before it
//! starts. All ordering rules of CUDA become edges when an operation is submitted:
//!
//! - within a queue, each operation follows the one before it;
//! - waiting for an event adds an edge from the operation that recorded it;
//! - an operation in the *legacy* queue of a group (a context) follows the last one of each
//!   *blocking* queue of that group, and an operation in a blocking queue follows the last one of
//!   the legacy queue. *Free* queues (`CU_STREAM_NON_BLOCKING`) take no part in this.
//!
//! So an order of execution is legal exactly if it respects the edges, and a [`Schedule`] is a
//! choice among the legal orders:
//!
//! - [`Schedule::Eager`] starts each operation as soon as it is ready, on a few threads;
//! - [`Schedule::Late`] starts nothing until somebody waits for an operation. Then operations run
//!   one at a time, each picked at random (by the seed) from those that are ready; how often one is
//!   picked that the waiter does not need is itself drawn anew for each wait, so some waits run the
//!   bare minimum and leave all else for later. A query of unfinished work answers "not ready" a
//!   few times and then counts as a short wait, so that loops end.
//!
//! With one thread that submits and waits, a seed of the late schedule fixes the whole order. An
//! operation that takes very long (a host function that blocks until the program does something)
//! does not hold up the others for ever: after a grace period they go on beside it, because that is
//! legal too.
//!
//! Host functions run on a thread of their own, as the driver's do; work that waits for a value in
//! memory holds no thread.

mod graph;
mod threads;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::lock::lock;

use graph::{Demand, State};
pub(crate) use graph::{GroupId, Kind, OpId, QueueId};

/// When queued operations run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// As soon as they may, on several threads: what hardware does when it is idle.
    #[default]
    Eager,
    /// As late as they may, in an adversarial order that follows from the seed.
    Late {
        /// Selects the order.
        seed: u64,
    },
}

/// What an operation does.
pub(crate) enum Work {
    /// Runs once, on a thread of the device.
    Device(Box<dyn FnOnce() + Send>),
    /// Runs once, on the thread for host functions.
    Host(Box<dyn FnOnce() + Send>),
    /// Is complete once this answers true; tried again and again. Must be quick and must not use
    /// the engine.
    Poll(Box<dyn FnMut() -> bool + Send>),
    /// Runs once, on a thread of the device, and is complete when the steps that it answers are.
    Expand(Box<dyn FnOnce() -> Plan + Send>),
}

/// One of several operations that go into the engine together.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) work: Work,
    /// Which steps before this one it follows.
    pub(crate) after: Vec<usize>,
    /// What it follows besides.
    pub(crate) outside: Vec<OpId>,
}

/// What an operation turns into.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Follows all of them.
    pub(crate) then: Option<Work>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device(_) => "Device",
            Self::Host(_) => "Host",
            Self::Poll(_) => "Poll",
            Self::Expand(_) => "Expand",
        })
    }
}

/// How often conditions of waiting operations are looked at while nothing else happens.
const POLL: Duration = Duration::from_micros(200);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something may be ready to run.
    work: Condvar,
    /// Something is complete.
    done: Condvar,
    threads: threads::Threads,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The queues of one software driver and the threads that run them.
#[derive(Debug)]
pub(crate) struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    pub(crate) fn new(schedule: Schedule) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(schedule)),
            work: Condvar::new(),
            done: Condvar::new(),
            threads: threads::Threads::default(),
        });
        Self { shared }
    }

    /// A new group, with its legacy queue.
    pub(crate) fn group(&self) -> (GroupId, QueueId) {
        self.shared.lock().add_group()
    }

    /// A new queue in a group.
    pub(crate) fn queue(&self, group: GroupId, kind: Kind) -> QueueId {
        self.shared.lock().add_queue(group, kind)
    }

    /// Forgets a queue; what is in it still runs.
    pub(crate) fn close_queue(&self, queue: QueueId) {
        self.shared.lock().remove_queue(queue);
    }

    /// Forgets a group and its queues.
    pub(crate) fn close_group(&self, group: GroupId) {
        self.shared.lock().remove_group(group);
    }

    /// Puts an operation at the end of `queue`, to start after `after` too.
    pub(crate) fn submit(&self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let host = matches!(work, Work::Host(_));
        let mut state = self.shared.lock();
        let op = state.submit(queue, after, work);
        threads::ensure(&self.shared, &state, host);
        drop(state);
        self.shared.work.notify_all();
        op
    }

    /// As [`submit`](Self::submit), except that if `queue` is a legacy queue, what is put into the
    /// queues that are ordered with it later does not wait for this operation.
    pub(crate) fn submit_aside(&self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let host = matches!(work, Work::Host(_));
        let mut state = self.shared.lock();
        let op = state.submit_aside(queue, after, work);
        threads::ensure(&self.shared, &state, host);
        drop(state);
        self.shared.work.notify_all();
        op
    }

    /// Puts `steps` at the end of `queue` as one: the first of them start after `after` too, and
    /// what comes next in the queue follows `last`, which follows all of them. Returns the steps,
    /// with `last` as the last.
    pub(crate) fn submit_steps(
        &self,
        queue: QueueId,
        after: &[OpId],
        steps: Vec<Step>,
        last: Work,
    ) -> Vec<OpId> {
        let host = steps.iter().any(|step| matches!(step.work, Work::Host(_)));
        let mut state = self.shared.lock();
        let ops = state.submit_steps(queue, after, steps, last);
        threads::ensure(&self.shared, &state, host);
        drop(state);
        self.shared.work.notify_all();
        ops
    }

    /// Runs `work` in its turn in `queue`, and returns when it is done.
    pub(crate) fn run(&self, queue: QueueId, work: Box<dyn FnOnce() + Send>) {
        let claimed = self.shared.lock().claim_if_idle(queue);
        match claimed {
            Some(op) => {
                threads::guarded(work);
                self.shared.lock().complete(op);
                self.shared.done.notify_all();
                self.shared.work.notify_all();
            }
            None => {
                let op = self.submit(queue, &[], Work::Device(work));
                self.wait(&[op]);
            }
        }
    }

    /// Returns when all of `ops` are complete.
    pub(crate) fn wait(&self, ops: &[OpId]) {
        let mut state = self.shared.lock();
        state.demand(ops, Demand::Complete);
        if ops.iter().any(|&op| state.is_pending(op)) {
            threads::ensure(&self.shared, &state, false);
            self.shared.work.notify_all();
        }
        while ops.iter().any(|&op| state.is_pending(op)) {
            state = self
                .shared
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns when the operations that run now have ended, apart from host functions. What has not
    /// started is not waited for.
    pub(crate) fn settle(&self) {
        let mut state = self.shared.lock();
        let running = state.running();
        while running.iter().any(|&op| state.is_running(op)) {
            state = self
                .shared
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether all of `ops` are complete.
    pub(crate) fn query(&self, ops: &[OpId]) -> bool {
        let mut state = self.shared.lock();
        let pending: Vec<OpId> = ops
            .iter()
            .copied()
            .filter(|&op| state.is_pending(op))
            .collect();
        if pending.is_empty() {
            return true;
        }
        if state.query_counts(&pending) {
            threads::ensure(&self.shared, &state, false);
            self.shared.work.notify_all();
        }
        false
    }

    /// What must be complete for `queue` to be empty as of now.
    pub(crate) fn tail(&self, queue: QueueId) -> Vec<OpId> {
        self.shared.lock().tail(queue)
    }

    /// The last operations of all queues of `group`.
    pub(crate) fn group_tail(&self, group: GroupId) -> Vec<OpId> {
        self.shared.lock().group_tail(group)
    }

    /// What was put into queues that were gone.
    pub(crate) fn orphans(&self) -> Vec<OpId> {
        self.shared.lock().orphans()
    }

    /// How many operations are not complete.
    pub(crate) fn pending(&self) -> usize {
        self.shared.lock().pending()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let unrun = self.shared.lock().stop();
        self.shared.work.notify_all();
        self.shared.threads.join();
        // Dropped without the lock: closures may own anything.
        drop(unrun);
    }
}

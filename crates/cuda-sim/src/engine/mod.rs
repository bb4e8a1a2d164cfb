//! Work queues, which implement streams.
//!
//! Every queued operation is a node of a dependency graph; its edges are the operations that must
//! complete before it starts. All ordering rules of CUDA become edges when an operation is
//! submitted:
//!
//! - within a queue, each operation follows the one before it;
//! - waiting for an event adds an edge from the operation that recorded it;
//! - an operation in the *legacy* queue of a group (a context) follows the last one of each
//!   *blocking* queue of that group, and an operation in a blocking queue follows the last one of
//!   the legacy queue. *Non-blocking* queues (`CU_STREAM_NON_BLOCKING`) take no part in this.
//!
//! An order of execution is legal if and only if it respects the edges, and a [`Schedule`] selects
//! one of the legal orders:
//!
//! - [`Schedule::Eager`] starts each operation as soon as it is ready, on a few threads;
//! - [`Schedule::Late`] starts nothing until the program waits for an operation. Then operations
//!   run one at a time, each picked at random (by the seed) from those that are ready. The
//!   probability of picking an operation that the waiter does not need is drawn again for each
//!   wait, so some waits run the bare minimum and leave everything else for later. A query of
//!   unfinished work reports "not ready" a few times and then counts as a short wait, so that
//!   polling loops end.
//!
//! If one thread submits and waits, the seed of the late schedule determines the whole order. An
//! operation that takes very long (a host function that blocks until the program does something)
//! does not delay the others forever: after a grace period they run concurrently with it, which is
//! also a legal order.
//!
//! Host functions run on their own thread, as in the driver. An operation that waits for a value in
//! memory occupies no thread.

mod graph;
#[cfg(test)]
mod tests;
mod threads;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::lock::{lock, wait};

use graph::{Demand, State};
pub(crate) use graph::{GroupId, Kind, OpId, QueueId};

/// The order in which queued operations run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// Operations start as soon as they may, on several threads, like on idle hardware.
    #[default]
    Eager,
    /// Operations start as late as they may, in an adversarial order that the seed determines.
    Late {
        /// Selects the order.
        seed: u64,
    },
}

/// The work of one operation.
pub(crate) enum Work {
    /// Runs once, on a thread of the device.
    Device(Box<dyn FnOnce() + Send>),
    /// Runs once, on the thread for host functions.
    Host(Box<dyn FnOnce() + Send>),
    /// A condition that is polled repeatedly; the operation completes when it returns true. It must
    /// return quickly and must not use the engine.
    Poll(Box<dyn FnMut() -> bool + Send>),
    /// Runs once, on a device thread. The operation completes when the steps of the returned plan
    /// do.
    Expand(Box<dyn FnOnce() -> Plan + Send>),
}

/// One of several operations that are submitted together.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) work: Work,
    /// The indices of earlier steps that this one depends on.
    pub(crate) after: Vec<usize>,
    /// Further dependencies, on operations outside of the plan.
    pub(crate) outside: Vec<OpId>,
}

/// The steps of a [`Work::Expand`] operation.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Runs after all steps.
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

/// The interval at which the conditions of waiting operations are polled while nothing else
/// happens.
const POLL: Duration = Duration::from_micros(200);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when an operation may be ready to run.
    work: Condvar,
    /// Notified when an operation has completed.
    done: Condvar,
    threads: threads::Threads,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The queues of one software driver and the threads that execute them.
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

    /// Creates a group and its legacy queue.
    pub(crate) fn group(&self) -> (GroupId, QueueId) {
        self.shared.lock().add_group()
    }

    /// Creates a queue in a group.
    pub(crate) fn queue(&self, group: GroupId, kind: Kind) -> QueueId {
        self.shared.lock().add_queue(group, kind)
    }

    /// Closes a queue; operations that it already holds still run.
    pub(crate) fn close_queue(&self, queue: QueueId) {
        self.shared.lock().remove_queue(queue);
    }

    /// Closes a group and its queues.
    pub(crate) fn close_group(&self, group: GroupId) {
        self.shared.lock().remove_group(group);
    }

    /// Appends an operation to `queue`, which also depends on `after`.
    pub(crate) fn submit(&self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let host = matches!(work, Work::Host(_));
        let mut state = self.shared.lock();
        let op = state.submit(queue, after, work);
        threads::ensure(&self.shared, &state, host);
        drop(state);
        self.shared.work.notify_all();
        op
    }

    /// Submits an operation like [`submit`](Self::submit), but if `queue` is a legacy queue, later
    /// operations in the queues that are ordered with it do not wait for this operation.
    pub(crate) fn submit_aside(&self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let host = matches!(work, Work::Host(_));
        let mut state = self.shared.lock();
        let op = state.submit_aside(queue, after, work);
        threads::ensure(&self.shared, &state, host);
        drop(state);
        self.shared.work.notify_all();
        op
    }

    /// Appends `steps` and then `last` to `queue` as one unit. Steps without dependencies among the
    /// steps also depend on `after`; `last` depends on all steps, and the next operation of the
    /// queue depends on `last`. Returns the operations of the steps, followed by that of `last`.
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

    /// Runs `work` when its turn in `queue` comes, and returns when it is done.
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

    /// Waits until all of `ops` are complete.
    pub(crate) fn wait(&self, ops: &[OpId]) {
        let mut state = self.shared.lock();
        state.demand(ops, Demand::Complete);
        if ops.iter().any(|&op| state.is_pending(op)) {
            threads::ensure(&self.shared, &state, false);
            self.shared.work.notify_all();
        }
        while ops.iter().any(|&op| state.is_pending(op)) {
            state = wait(&self.shared.done, state);
        }
    }

    /// Makes the scheduler complete `ops` without a wait of the program.
    pub(crate) fn urge(&self, ops: &[OpId]) {
        let mut state = self.shared.lock();
        state.demand(ops, Demand::Complete);
        threads::ensure(&self.shared, &state, false);
        drop(state);
        self.shared.work.notify_all();
    }

    /// Waits until the operations that are running now have ended, except host functions.
    /// Operations that have not started are not waited for.
    pub(crate) fn settle(&self) {
        let mut state = self.shared.lock();
        let running = state.running();
        while running.iter().any(|&op| state.is_running(op)) {
            state = wait(&self.shared.done, state);
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

    /// The incomplete operations that would have to complete for `queue` to be empty.
    pub(crate) fn tail(&self, queue: QueueId) -> Vec<OpId> {
        self.shared.lock().tail(queue)
    }

    /// The last incomplete operation of each queue of `group`.
    pub(crate) fn group_tail(&self, group: GroupId) -> Vec<OpId> {
        self.shared.lock().group_tail(group)
    }

    /// Operations that were submitted to queues that no longer exist.
    pub(crate) fn orphans(&self) -> Vec<OpId> {
        self.shared.lock().orphans()
    }

    /// The number of operations that are not complete.
    pub(crate) fn pending(&self) -> usize {
        self.shared.lock().pending()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let unrun = self.shared.lock().stop();
        self.shared.work.notify_all();
        self.shared.threads.join();
        // Drop without holding the lock: the closures may own anything.
        drop(unrun);
    }
}

//! The dependency graph of queued operations and the scheduler that picks the next one. All of its
//! state is behind one lock.

mod late;
mod poll;
mod steps;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::{Plan, Schedule, Work};
use crate::random::Random;

pub(crate) type OpId = u64;
pub(crate) type QueueId = u64;
pub(crate) type GroupId = u64;

/// The ordering of a queue relative to the legacy queue of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The legacy default stream.
    Legacy,
    /// Ordered with the legacy queue.
    Blocking,
    /// Not ordered with the legacy queue.
    NonBlocking,
}

/// The progress of an operation that a waiter needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// The operation must complete.
    Complete,
    /// The scheduler must make progress towards the operation, but need not complete it.
    Step,
}

#[derive(Debug)]
struct Queue {
    group: GroupId,
    kind: Kind,
    last: Option<OpId>,
    /// The last operation that other queues wait for; set only for a legacy queue.
    barrier: Option<OpId>,
    /// The queue accepts no more operations.
    closed: bool,
}

#[derive(Debug)]
struct Group {
    legacy: QueueId,
    queues: Vec<QueueId>,
}

#[derive(Debug)]
struct Node {
    /// The incomplete operations that this node depends on.
    after: Vec<OpId>,
    /// The operations that depend on this node.
    before: Vec<OpId>,
    /// The work; taken out when the node starts.
    work: Option<Work>,
    queries_left: Option<usize>,
}

#[derive(Debug)]
struct Wanted {
    kind: Demand,
    /// The probability that the scheduler picks among all ready operations, not only the needed
    /// ones.
    detour: f64,
}

/// The next thing for a worker thread to do.
pub(super) enum Task {
    Run(OpId, Box<dyn FnOnce() + Send>),
    Expand(OpId, Box<dyn FnOnce() -> Plan + Send>),
    /// There is nothing to do now. Look again after this time, or when notified.
    Sleep(Option<Duration>),
    Stop,
}

#[derive(Debug)]
pub(super) struct State {
    late: Option<Random>,
    next: u64,
    nodes: HashMap<OpId, Node>,
    /// Nodes without incomplete dependencies that have not started, in submission order.
    ready: BTreeMap<OpId, Ready>,
    running: HashMap<OpId, (Instant, bool)>,
    /// Operations that threads of the program run themselves.
    claimed: HashSet<OpId>,
    queues: HashMap<QueueId, Queue>,
    /// Operations that were submitted to queues that no longer exist.
    orphans: Vec<OpId>,
    groups: HashMap<GroupId, Group>,
    wanted: BTreeMap<OpId, Wanted>,
    /// The operation that the late schedule picked, until a thread of the right kind takes it.
    picked: Option<OpId>,
    /// Set when the other threads should look for work: an operation was picked that a thread of
    /// the other kind may have to run, or an operation has completed.
    announce: bool,
    /// Set when an operation has completed, until its waiters are woken.
    completed: bool,
    /// Whether an idle thread sleeps with a time limit. The other idle threads sleep without one.
    pub(super) polling: bool,
    /// How often threads have looked for work.
    #[cfg(test)]
    pub(super) polls: u64,
    stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Device,
    Host,
    Poll,
}

impl State {
    pub(super) fn new(schedule: Schedule) -> Self {
        let late = match schedule {
            Schedule::Eager => None,
            Schedule::Late { seed } => Some(Random::new(seed)),
        };
        Self {
            late,
            next: 0,
            nodes: HashMap::new(),
            ready: BTreeMap::new(),
            running: HashMap::new(),
            claimed: HashSet::new(),
            queues: HashMap::new(),
            orphans: Vec::new(),
            groups: HashMap::new(),
            wanted: BTreeMap::new(),
            picked: None,
            announce: false,
            completed: false,
            polling: false,
            #[cfg(test)]
            polls: 0,
            stopped: false,
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn add_group(&mut self) -> (GroupId, QueueId) {
        let (group, legacy) = (self.fresh(), self.fresh());
        self.groups.insert(
            group,
            Group {
                legacy,
                queues: vec![legacy],
            },
        );
        self.queues.insert(
            legacy,
            Queue {
                group,
                kind: Kind::Legacy,
                last: None,
                barrier: None,
                closed: false,
            },
        );
        (group, legacy)
    }

    pub(super) fn add_queue(&mut self, group: GroupId, kind: Kind) -> QueueId {
        let queue = self.fresh();
        self.queues.insert(
            queue,
            Queue {
                group,
                kind,
                last: None,
                barrier: None,
                closed: false,
            },
        );
        if let Some(group) = self.groups.get_mut(&group) {
            group.queues.push(queue);
        }
        queue
    }

    /// Removes a queue once it is empty; until then, waits of its group still include it.
    pub(super) fn remove_queue(&mut self, queue: QueueId) {
        let Some(entry) = self.queues.get_mut(&queue) else {
            return;
        };
        entry.closed = true;
        let group = entry.group;
        self.forget_closed(group);
    }

    fn forget_closed(&mut self, group: GroupId) {
        let Some(group) = self.groups.get_mut(&group) else {
            return;
        };
        let (queues, nodes) = (&mut self.queues, &self.nodes);
        group.queues.retain(|id| {
            let keep = queues.get(id).is_some_and(|queue| {
                !queue.closed || queue.last.is_some_and(|op| nodes.contains_key(&op))
            });
            if !keep {
                queues.remove(id);
            }
            keep
        });
    }

    pub(super) fn remove_group(&mut self, group: GroupId) {
        if let Some(group) = self.groups.remove(&group) {
            for queue in group.queues {
                self.queues.remove(&queue);
            }
        }
    }

    pub(super) fn is_pending(&self, op: OpId) -> bool {
        self.nodes.contains_key(&op)
    }

    pub(super) fn pending(&self) -> usize {
        self.nodes.len()
    }

    /// The dependencies of an operation that would be submitted to `queue` now.
    pub(super) fn tail(&self, queue: QueueId) -> Vec<OpId> {
        let Some(queue) = self.queues.get(&queue) else {
            return Vec::new();
        };
        let mut tail: Vec<OpId> = queue.last.into_iter().collect();
        if let Some(group) = self.groups.get(&queue.group) {
            match queue.kind {
                Kind::Legacy => tail.extend(
                    group
                        .queues
                        .iter()
                        .filter_map(|id| self.queues.get(id))
                        .filter(|other| other.kind == Kind::Blocking)
                        .filter_map(|other| other.last),
                ),
                Kind::Blocking => {
                    tail.extend(
                        self.queues
                            .get(&group.legacy)
                            .and_then(|legacy| legacy.barrier),
                    );
                }
                Kind::NonBlocking => {}
            }
        }
        tail.retain(|&op| self.is_pending(op));
        tail
    }

    pub(super) fn group_tail(&self, group: GroupId) -> Vec<OpId> {
        let queues = self
            .groups
            .get(&group)
            .into_iter()
            .flat_map(|group| &group.queues);
        queues
            .filter_map(|id| self.queues.get(id)?.last)
            .filter(|&op| self.is_pending(op))
            .collect()
    }

    pub(super) fn submit(&mut self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let op = self.append(queue, after, work);
        self.set_last(queue, op, true);
        op
    }

    /// Submits an operation like [`submit`](Self::submit), but if `queue` is a legacy queue, other
    /// queues do not wait for the operation.
    pub(super) fn submit_aside(&mut self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let op = self.append(queue, after, work);
        self.set_last(queue, op, false);
        op
    }

    fn append(&mut self, queue: QueueId, after: &[OpId], work: Work) -> OpId {
        let op = self.fresh();
        let mut follows = self.tail(queue);
        follows.extend(after.iter().copied().filter(|&op| self.is_pending(op)));
        follows.sort_unstable();
        follows.dedup();
        self.insert(op, follows, work);
        op
    }

    /// Records `op` as the last operation of `queue`. Later operations of `queue` depend on it; if
    /// `op` is a barrier, so do those of the queues that are ordered with `queue`.
    fn set_last(&mut self, queue: QueueId, op: OpId, is_barrier: bool) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            // Another thread has destroyed the stream in the meantime.
            let nodes = &self.nodes;
            self.orphans.retain(|op| nodes.contains_key(op));
            self.orphans.push(op);
            return;
        };
        queue.last = Some(op);
        if is_barrier {
            queue.barrier = Some(op);
        }
        if queue.kind == Kind::Legacy {
            let group = queue.group;
            self.forget_closed(group);
        }
    }

    /// The operations that are running now, except host functions.
    pub(super) fn running(&self) -> Vec<OpId> {
        let running = self.running.iter().filter(|(_, (_, host))| !host);
        let running = running.map(|(&op, _)| op);
        running.chain(self.claimed.iter().copied()).collect()
    }

    /// Whether an operation has started and has not ended.
    pub(super) fn is_running(&self, op: OpId) -> bool {
        self.running.contains_key(&op) || self.claimed.contains(&op)
    }

    /// Operations that were submitted to queues that no longer exist. A wait for a context waits
    /// for all of them, because their context is unknown.
    pub(super) fn orphans(&self) -> Vec<OpId> {
        let mut orphans = self.orphans.clone();
        orphans.retain(|&op| self.is_pending(op));
        orphans
    }

    /// Inserts a node with the dependencies `follows`, all of which are pending.
    fn insert(&mut self, op: OpId, follows: Vec<OpId>, work: Work) {
        for before in &follows {
            if let Some(node) = self.nodes.get_mut(before) {
                node.before.push(op);
            }
        }
        let free = follows.is_empty();
        let node = Node {
            after: follows,
            before: Vec::new(),
            work: Some(work),
            queries_left: None,
        };
        self.nodes.insert(op, node);
        if free {
            self.make_ready(op);
        }
    }

    /// Creates an operation that the caller runs itself immediately, if `queue` has no pending
    /// work.
    pub(super) fn claim_if_idle(&mut self, queue: QueueId) -> Option<OpId> {
        if !self.tail(queue).is_empty() {
            return None;
        }
        let op = self.fresh();
        let queue = self.queues.get_mut(&queue)?;
        (queue.last, queue.barrier) = (Some(op), Some(op));
        self.claimed.insert(op);
        let node = Node {
            after: Vec::new(),
            before: Vec::new(),
            work: None,
            queries_left: None,
        };
        self.nodes.insert(op, node);
        // The operation bypasses the schedule: it ends before the caller does anything else.
        Some(op)
    }

    fn make_ready(&mut self, op: OpId) {
        let kind = match self.nodes.get(&op).and_then(|node| node.work.as_ref()) {
            Some(Work::Device(_) | Work::Expand(_)) => Ready::Device,
            Some(Work::Host(_)) => Ready::Host,
            Some(Work::Poll(_)) => Ready::Poll,
            None => return,
        };
        self.ready.insert(op, kind);
    }

    pub(super) fn complete(&mut self, op: OpId) {
        self.running.remove(&op);
        self.claimed.remove(&op);
        self.wanted.remove(&op);
        let Some(node) = self.nodes.remove(&op) else {
            return;
        };
        for next in node.before {
            let Some(node) = self.nodes.get_mut(&next) else {
                continue;
            };
            node.after.retain(|&before| before != op);
            if node.after.is_empty() {
                self.make_ready(next);
            }
        }
        self.wanted.retain(|_, wanted| wanted.kind != Demand::Step);
        self.completed = true;
        self.announce = true;
    }

    /// The next task for a thread; `host` is true for the thread that runs host functions.
    pub(super) fn next_task(&mut self, host: bool) -> Task {
        #[cfg(test)]
        {
            self.polls += 1;
        }
        if self.stopped {
            return Task::Stop;
        }
        let kind = if host { Ready::Host } else { Ready::Device };
        if self.late.is_some() {
            return match self.next_late(kind) {
                Some(op) => self.start(op),
                None => Task::Sleep(self.idle_time(host)),
            };
        }
        if !host {
            self.poll_all();
        }
        match self
            .ready
            .iter()
            .find(|&(_, &ready)| ready == kind)
            .map(|(&op, _)| op)
        {
            Some(op) => self.start(op),
            None => Task::Sleep(self.idle_time(host)),
        }
    }

    fn start(&mut self, op: OpId) -> Task {
        let kind = self.ready.remove(&op);
        match self.nodes.get_mut(&op).and_then(|node| node.work.take()) {
            Some(Work::Device(work) | Work::Host(work)) => {
                self.running
                    .insert(op, (Instant::now(), kind == Some(Ready::Host)));
                Task::Run(op, work)
            }
            Some(Work::Expand(work)) => {
                self.running.insert(op, (Instant::now(), false));
                Task::Expand(op, work)
            }
            Some(Work::Poll(_)) | None => Task::Sleep(Some(super::POLL)),
        }
    }

    /// Returns whether other threads should look for work, and resets that.
    pub(super) fn take_announcement(&mut self) -> bool {
        std::mem::take(&mut self.announce)
    }

    /// Returns whether an operation has completed since the last call.
    pub(super) fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.completed)
    }

    /// The number of threads that have work now, between 1 and `most`.
    pub(super) fn useful_threads(&self, most: usize) -> usize {
        let ready = self.ready.values().filter(|&&ready| ready == Ready::Device);
        ready.take(most).count().max(1)
    }

    /// Stops the scheduler and returns the work that has not started.
    pub(super) fn stop(&mut self) -> Vec<Work> {
        self.stopped = true;
        self.nodes
            .values_mut()
            .filter_map(|node| node.work.take())
            .collect()
    }
}

//! The late schedule: which operation runs next, and when operations run at all.

use std::collections::HashSet;
use std::time::Duration;

use super::{Demand, OpId, Ready, State, Wanted};

/// The time that one operation runs before the late schedule starts others concurrently.
const GRACE: Duration = Duration::from_secs(2);
/// The grace period of a host function, which may wait for the program.
const HOST_GRACE: Duration = Duration::from_millis(50);
/// The largest number of queries of one operation that report "not ready" before a query counts as
/// a wait.
const QUERIES: usize = 4;

impl State {
    /// Records that a thread waits for `ops`.
    pub(in crate::engine) fn demand(&mut self, ops: &[OpId], kind: Demand) {
        let Some(random) = &mut self.late else {
            return;
        };
        for &op in ops {
            if self.nodes.contains_key(&op) {
                let detour = [0.0, 0.5, 1.0][random.below(3)];
                let wanted = self.wanted.entry(op).or_insert(Wanted { kind, detour });
                if kind == Demand::Complete {
                    wanted.kind = kind;
                }
            }
        }
    }

    /// Counts a query of unfinished operations; returns whether it counts as a wait.
    pub(in crate::engine) fn query_counts(&mut self, ops: &[OpId]) -> bool {
        let (Some(random), Some(&op)) = (&mut self.late, ops.last()) else {
            return false;
        };
        let Some(node) = self.nodes.get_mut(&op) else {
            return false;
        };
        let left = node
            .queries_left
            .get_or_insert_with(|| random.below(QUERIES + 1));
        if *left > 0 {
            *left -= 1;
            return false;
        }
        self.demand(&[op], Demand::Step);
        true
    }

    /// Returns the operation that a thread for operations of this kind starts now.
    pub(super) fn next_late(&mut self, kind: Ready) -> Option<OpId> {
        if self.picked.is_none() {
            self.pick();
        }
        // A thread of the other kind takes the other operations.
        self.picked.take_if(|op| self.ready.get(op) == Some(&kind))
    }

    /// Returns the time until the running operations no longer delay others; `None` if they delay
    /// none now.
    pub(super) fn grace(&self) -> Option<Duration> {
        let rest = self.running.values().filter_map(|&(since, host)| {
            let grace = if host { HOST_GRACE } else { GRACE };
            grace.checked_sub(since.elapsed())
        });
        rest.filter(|rest| !rest.is_zero()).max()
    }

    /// Chooses the next operation of the late schedule, if it is time for one.
    fn pick(&mut self) {
        // Polling operations whose condition holds need no thread; complete them here.
        while let Some(op) = self.chosen() {
            if self.ready.get(&op) != Some(&Ready::Poll) {
                self.picked = Some(op);
                self.announce = true;
                return;
            }
            self.ready.remove(&op);
            self.complete(op);
        }
    }

    fn chosen(&mut self) -> Option<OpId> {
        if self.wanted.is_empty() || self.grace().is_some() {
            return None;
        }
        let satisfied = self.satisfied();
        // The only host thread may be blocked. A chosen host function that it cannot take would
        // keep the device threads from all other operations.
        let host_is_busy = self.running.values().any(|&(_, host)| host);
        let can_run = |op: &OpId, ready| match ready {
            Ready::Device => true,
            Ready::Host => !host_is_busy,
            Ready::Poll => satisfied.contains(op),
        };
        let all: Vec<OpId> = self
            .ready
            .iter()
            .filter(|&(op, &ready)| can_run(op, ready))
            .map(|(&op, _)| op)
            .collect();
        let needed = self.needed();
        let useful: Vec<OpId> = all
            .iter()
            .copied()
            .filter(|op| needed.contains(op))
            .collect();
        let detour = self
            .wanted
            .values()
            .map(|wanted| wanted.detour)
            .fold(0.0, f64::max);
        let random = self.late.as_mut()?;
        let among = if useful.is_empty() || random.chance(detour) {
            &all
        } else {
            &useful
        };
        among.get(random.below(among.len())).copied()
    }

    /// The wanted operations and all of their transitive dependencies.
    fn needed(&self) -> HashSet<OpId> {
        let mut needed = HashSet::new();
        let mut open: Vec<OpId> = self.wanted.keys().copied().collect();
        while let Some(op) = open.pop() {
            if needed.insert(op)
                && let Some(node) = self.nodes.get(&op)
            {
                open.extend(&node.after);
            }
        }
        needed
    }
}

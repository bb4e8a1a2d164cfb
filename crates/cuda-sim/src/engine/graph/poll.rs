//! Operations that wait for a condition, and how long idle threads sleep.

use std::time::Duration;

use super::{OpId, Ready, State};
use crate::engine::{POLL, Work};

impl State {
    /// The time after which one idle thread must look for work although it was not notified; `None`
    /// if there is nothing to do until then.
    pub(in crate::engine) fn idle_time(&self, host: bool) -> Option<Duration> {
        if host {
            return None;
        }
        if self.late.is_some() {
            if self.wanted.is_empty() {
                return None;
            }
            if let Some(rest) = self.grace() {
                return Some(rest);
            }
        }
        let polls = self.ready.values().any(|&ready| ready == Ready::Poll);
        polls.then_some(POLL)
    }

    /// Completes every waiting operation whose condition holds; returns whether there was one.
    pub(super) fn poll_all(&mut self) -> bool {
        let mut any = false;
        while let Some(op) = self.satisfied().first().copied() {
            self.ready.remove(&op);
            self.complete(op);
            any = true;
        }
        any
    }

    /// Polls the waiting operations and returns those whose condition holds.
    pub(super) fn satisfied(&mut self) -> Vec<OpId> {
        let nodes = &mut self.nodes;
        let polls = self
            .ready
            .iter()
            .filter(|&(_, &ready)| ready == Ready::Poll);
        polls
            .filter(
                |&(op, _)| match nodes.get_mut(op).and_then(|node| node.work.as_mut()) {
                    Some(Work::Poll(condition)) => condition(),
                    _ => false,
                },
            )
            .map(|(&op, _)| op)
            .collect()
    }
}

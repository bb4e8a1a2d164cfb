//! The state of stream captures.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use cuda_sys::CUgraphEdgeData;

use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::model::{Link, Owner};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::stream::Stream;
use crate::driver::status::{CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, INVALID_VALUE, Status};
use crate::engine::QueueId;

/// A capture in progress.
#[derive(Debug)]
pub(in crate::driver) struct Capture {
    pub(in crate::driver) graph: u64,
    pub(in crate::driver) mode: u32,
    pub(in crate::driver) thread: ThreadId,
    pub(in crate::driver) origin: QueueId,
    /// Whether it has failed or ended. Events that are recorded in the capture share this value and
    /// may outlive the capture.
    pub(in crate::driver) is_over: Arc<AtomicBool>,
}

impl Capture {
    pub(in crate::driver) fn is_valid(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// Marks the capture as failed: it can only be ended, without a graph.
    pub(in crate::driver) fn invalidate(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// A stream that takes part in a capture.
#[derive(Debug)]
pub(in crate::driver) struct Branch {
    pub(in crate::driver) capture: u64,
    /// The dependencies of the next node.
    pub(in crate::driver) after: Vec<Link>,
    pub(in crate::driver) context: u64,
    pub(in crate::driver) is_blocking: bool,
    /// The copy of `after` that the last query returned; the program holds pointers to it.
    pub(in crate::driver) shown: (Vec<usize>, Vec<CUgraphEdgeData>),
}

impl Branch {
    pub(in crate::driver) fn new(capture: u64, after: Vec<Link>, stream: &Stream) -> Self {
        Self {
            capture,
            after,
            context: stream.context.handle,
            is_blocking: stream.is_blocking(),
            shown: Default::default(),
        }
    }

    /// Adds dependencies to the next node.
    pub(in crate::driver) fn follow(&mut self, links: &[Link]) {
        for link in links {
            if !self.after.iter().any(|(node, _)| *node == link.0) {
                self.after.push(*link);
            }
        }
    }
}

impl GraphState {
    pub(in crate::driver) fn invalidate(&self, capture: u64) {
        if let Some(capture) = self.captures.get(&capture) {
            capture.invalidate();
        }
    }

    /// Returns the capture in which `stream` takes part, if any. Fails with `INVALIDATED` if the
    /// capture has failed.
    pub(in crate::driver) fn capture_of(&self, stream: &Stream) -> Status<Option<u64>> {
        let Some(branch) = self.branches.get(&stream.queue) else {
            return Ok(None);
        };
        match self.captures.get(&branch.capture) {
            Some(capture) if capture.is_valid() => Ok(Some(branch.capture)),
            _ => Err(CAPTURE_INVALIDATED),
        }
    }

    /// Returns the captures that work in the legacy stream of a context would have to wait for.
    pub(in crate::driver) fn implied(&self, stream: &Stream) -> Vec<u64> {
        if !stream.is_legacy() {
            return Vec::new();
        }
        let branches = self.branches.values();
        branches
            .filter(|branch| branch.is_blocking && branch.context == stream.context.handle)
            .map(|branch| branch.capture)
            .collect()
    }

    /// Fails if `stream` is the legacy stream and a stream that it waits for is being captured.
    pub(in crate::driver) fn check_implied(&mut self, stream: &Stream) -> Status {
        let implied = self.implied(stream);
        if implied.is_empty() {
            return Ok(());
        }
        for capture in implied {
            self.invalidate(capture);
        }
        Err(CAPTURE_IMPLICIT)
    }

    /// Appends a node to a captured stream.
    pub(in crate::driver) fn append(&mut self, stream: &Stream, payload: Payload) -> Status {
        let Some(branch) = self.branches.get(&stream.queue) else {
            return Err(INVALID_VALUE);
        };
        let graph = self
            .captures
            .get(&branch.capture)
            .ok_or(INVALID_VALUE)?
            .graph;
        let mut after = branch.after.clone();
        // The program may have removed nodes from the graph.
        let nodes = &self.graph(graph)?.nodes;
        after.retain(|(node, _)| nodes.contains_key(node));
        let node = self.add_checked(graph, after, payload)?;
        if let Some(branch) = self.branches.get_mut(&stream.queue) {
            branch.after = vec![(node, Default::default())];
        }
        Ok(())
    }

    /// Returns whether every node of `links` is in `ends` or precedes a node in `ends`.
    pub(in crate::driver) fn all_reach(&self, links: &[Link], ends: &[Link]) -> bool {
        let mut seen = HashSet::new();
        let mut open: Vec<u64> = ends.iter().map(|&(node, _)| node).collect();
        while let Some(node) = open.pop() {
            if seen.insert(node)
                && let Ok(node) = self.node(node)
            {
                open.extend(node.after.iter().map(|&(from, _)| from));
            }
        }
        // Nodes that the program removed are ignored.
        links
            .iter()
            .all(|(node, _)| seen.contains(node) || self.node(*node).is_err())
    }

    /// Ends a capture and removes its graph, if the graph was created for the capture.
    pub(in crate::driver) fn discard_capture(&mut self, id: u64) {
        if let Some(capture) = self.captures.remove(&id) {
            capture.invalidate();
            self.branches.retain(|_, branch| branch.capture != id);
            let is_own = |graph: &super::Graph| graph.owner == Owner::Capture(id);
            if self.graphs.get(&capture.graph).is_some_and(is_own) {
                self.remove_graph(capture.graph);
            }
        }
    }
}

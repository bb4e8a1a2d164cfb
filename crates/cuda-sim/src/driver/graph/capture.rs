//! Stream capture, which turns the work that is queued in a stream into nodes of a graph.
//!
//! A capture begins in one stream, its origin, and spreads to streams that wait for its events.
//! Each of these streams is a [`Branch`], which stores the dependencies of its next node. An
//! illegal call invalidates the captures that it affects, as the documentation says.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use cuda_sys::CUgraphEdgeData;

use super::World;
use super::model::{Link, Owner};
use super::payload::Payload;
use crate::driver::context::Context;
use crate::driver::event::{Event, Marked, Record};
use crate::driver::instance::Instance;
use crate::driver::status::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNSUPPORTED,
    INVALID_DEVICE, INVALID_VALUE, Status,
};
use crate::driver::stream::Stream;
use crate::engine::QueueId;

/// A capture in progress.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) graph: u64,
    pub(super) mode: u32,
    pub(super) thread: ThreadId,
    pub(super) origin: QueueId,
    /// Whether it has failed or ended. Events that are recorded in the capture share this value and
    /// may outlive the capture.
    pub(super) is_over: Arc<AtomicBool>,
}

impl Capture {
    pub(super) fn is_valid(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// Marks the capture as failed: it can only be ended, without a graph.
    pub(super) fn invalidate(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// A stream that takes part in a capture.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) capture: u64,
    /// The dependencies of the next node.
    pub(super) after: Vec<Link>,
    pub(super) context: u64,
    pub(super) is_blocking: bool,
    /// The copy of `after` that the last query returned; the program holds pointers to it.
    pub(super) shown: (Vec<usize>, Vec<CUgraphEdgeData>),
}

impl Branch {
    pub(super) fn new(capture: u64, after: Vec<Link>, stream: &Stream) -> Self {
        Self {
            capture,
            after,
            context: stream.context.handle,
            is_blocking: stream.is_blocking(),
            shown: Default::default(),
        }
    }

    /// Adds dependencies to the next node.
    pub(super) fn follow(&mut self, links: &[Link]) {
        for link in links {
            if !self.after.iter().any(|(node, _)| *node == link.0) {
                self.after.push(*link);
            }
        }
    }
}

impl World {
    pub(super) fn invalidate(&self, capture: u64) {
        if let Some(capture) = self.captures.get(&capture) {
            capture.invalidate();
        }
    }

    /// Returns the capture in which `stream` takes part, if any. Fails with `INVALIDATED` if the
    /// capture has failed.
    fn capture_of(&self, stream: &Stream) -> Status<Option<u64>> {
        let Some(branch) = self.branches.get(&stream.queue) else {
            return Ok(None);
        };
        match self.captures.get(&branch.capture) {
            Some(capture) if capture.is_valid() => Ok(Some(branch.capture)),
            _ => Err(CAPTURE_INVALIDATED),
        }
    }

    /// Returns the captures that work in the legacy stream of a context would have to wait for.
    pub(super) fn implied(&self, stream: &Stream) -> Vec<u64> {
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
    fn check_implied(&mut self, stream: &Stream) -> Status {
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
    fn append(&mut self, stream: &Stream, payload: Payload) -> Status {
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
    pub(super) fn all_reach(&self, links: &[Link], ends: &[Link]) -> bool {
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
    pub(super) fn discard_capture(&mut self, id: u64) {
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

impl Instance {
    /// Adds a node with the result of `payload` if `stream` is being captured. Returns whether it
    /// is.
    pub(in crate::driver) fn captured(
        &self,
        stream: &Stream,
        payload: impl FnOnce() -> Status<Payload>,
    ) -> Status<bool> {
        if !self.graphs.is_capturing() {
            return Ok(false);
        }
        let mut world = self.graphs.lock();
        if world.capture_of(stream)?.is_none() {
            world.check_implied(stream)?;
            return Ok(false);
        }
        let payload = payload()?;
        world.append(stream, payload)?;
        Ok(true)
    }

    /// Fails for a call that is not allowed on a stream that is being captured, or that is
    /// potentially unsafe during captures.
    pub(in crate::driver) fn uncapturable(&self, stream: &Stream) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let mut world = self.graphs.lock();
        if let Some(capture) = world.capture_of(stream)? {
            world.invalidate(capture);
            return Err(CAPTURE_UNSUPPORTED);
        }
        world.check_implied(stream)?;
        drop(world);
        self.potentially_unsafe()
    }

    /// Fails if a stream of the context is being captured, which makes synchronization of the whole
    /// context illegal.
    pub(in crate::driver) fn no_capture_in(&self, context: &Context) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let world = self.graphs.lock();
        let branches = world.branches.values();
        let captures: Vec<u64> = branches
            .filter(|branch| branch.context == context.handle)
            .map(|branch| branch.capture)
            .collect();
        for &capture in &captures {
            world.invalidate(capture);
        }
        if captures.is_empty() {
            Ok(())
        } else {
            Err(CAPTURE_UNSUPPORTED)
        }
    }

    /// Invalidates the capture in which a stream takes part, if any.
    pub(in crate::driver) fn invalidate_at(&self, stream: &Stream) {
        if self.graphs.is_capturing() {
            let world = self.graphs.lock();
            if let Ok(Some(capture)) = world.capture_of(stream) {
                world.invalidate(capture);
            }
        }
    }

    pub(in crate::driver) fn invalidate(&self, capture: u64) {
        self.graphs.lock().invalidate(capture);
    }

    /// Discards the captures of the streams of a context that is being destroyed.
    pub(in crate::driver) fn abandon_captures_in(&self, context: &Context) {
        if !self.graphs.is_capturing() {
            return;
        }
        let mut world = self.graphs.lock();
        let branches = world.branches.values();
        let ours = branches.filter(|branch| branch.context == context.handle);
        let captures: Vec<u64> = ours.map(|branch| branch.capture).collect();
        for capture in captures {
            world.discard_capture(capture);
        }
    }

    /// Discards the capture of a stream that is being destroyed, unless another stream of the
    /// capture has joined all its work.
    pub(in crate::driver) fn abandon_capture(&self, stream: &Stream) {
        if !self.graphs.is_capturing() {
            return;
        }
        let mut world = self.graphs.lock();
        let Some(branch) = world.branches.remove(&stream.queue) else {
            return;
        };
        let Some(capture) = world.captures.get(&branch.capture) else {
            return;
        };
        if capture.origin == stream.queue {
            world.discard_capture(branch.capture);
            return;
        }
        let others = world.branches.values();
        let others = others.filter(|other| other.capture == branch.capture);
        let ends: Vec<Link> = others.flat_map(|other| other.after.clone()).collect();
        if !world.all_reach(&branch.after, &ends) {
            world.invalidate(branch.capture);
        }
    }

    /// Records an event in a captured stream: as a node if the event is external, otherwise as a
    /// mark for other streams of the capture.
    pub(in crate::driver) fn capture_record(
        &self,
        stream: &Stream,
        event: &Arc<Event>,
        is_external: bool,
    ) -> Status<bool> {
        if is_external {
            return self.captured(stream, || Ok(Payload::Record(Arc::clone(event))));
        }
        if !self.graphs.is_capturing() {
            return Ok(false);
        }
        let mut world = self.graphs.lock();
        let Some(capture) = world.capture_of(stream)? else {
            world.check_implied(stream)?;
            return Ok(false);
        };
        let after = world
            .branches
            .get(&stream.queue)
            .map(|branch| branch.after.clone());
        let is_over = world
            .captures
            .get(&capture)
            .map(|capture| Arc::clone(&capture.is_over));
        *event.record() = Some(Record::Captured(Marked {
            capture,
            is_over: is_over.unwrap_or_default(),
            after: after.unwrap_or_default(),
        }));
        Ok(true)
    }

    /// Waits for an event during capture, which may add the stream to a capture.
    pub(in crate::driver) fn capture_wait(
        &self,
        stream: &Stream,
        event: &Arc<Event>,
        is_external: bool,
    ) -> Status<bool> {
        let record = event.record().clone();
        if !self.graphs.is_capturing() {
            return match record {
                Some(Record::Captured(marked)) => Err(marked.error()),
                _ => Ok(false),
            };
        }
        if is_external {
            return self.captured(stream, || Ok(Payload::Wait(Arc::clone(event))));
        }
        let mut world = self.graphs.lock();
        let own = world.capture_of(stream)?;
        match (own, record) {
            (None, Some(Record::Captured(marked))) => {
                let is_valid = |found: &Capture| found.is_valid();
                if !world.captures.get(&marked.capture).is_some_and(is_valid) {
                    return Err(marked.error());
                }
                let Marked { capture, after, .. } = marked;
                if stream.is_legacy() {
                    world.invalidate(capture);
                    return Err(CAPTURE_IMPLICIT);
                }
                let branch = Branch::new(capture, after, stream);
                world.branches.insert(stream.queue, branch);
                Ok(true)
            }
            (None, _) => {
                world.check_implied(stream)?;
                Ok(false)
            }
            (Some(own), Some(Record::Captured(Marked { capture, after, .. })))
                if own == capture =>
            {
                if let Some(branch) = world.branches.get_mut(&stream.queue) {
                    branch.follow(&after);
                }
                Ok(true)
            }
            (Some(own), Some(Record::Captured(Marked { capture, .. }))) => {
                world.invalidate(own);
                if world.captures.contains_key(&capture) {
                    world.invalidate(capture);
                    return Err(CAPTURE_MERGE);
                }
                Err(CAPTURE_ISOLATION)
            }
            (Some(own), Some(Record::Queued(_))) => {
                world.invalidate(own);
                Err(CAPTURE_ISOLATION)
            }
            // The event was never recorded, so there is no dependency.
            (Some(_), None) => Ok(true),
        }
    }

    /// Captures an allocation and returns its address, or `None` if the stream is not being
    /// captured.
    pub(in crate::driver) fn capture_alloc(
        &self,
        stream: &Stream,
        device: usize,
        size: u64,
    ) -> Status<Option<u64>> {
        if !self.graphs.is_capturing() {
            return Ok(None);
        }
        let mut world = self.graphs.lock();
        let Some(capture) = world.capture_of(stream)? else {
            world.check_implied(stream)?;
            return Ok(None);
        };
        let graph = world.captures.get(&capture).ok_or(INVALID_VALUE)?.graph;
        let device = self.devices.get(device).ok_or(INVALID_DEVICE)?;
        let memory = self.graphs.reserve(device, size, graph)?;
        let addr = memory.addr;
        world.note_memory(&memory);
        world.append(stream, Payload::Alloc(memory))?;
        Ok(Some(addr))
    }

    /// Captures a free, which must be of memory that a graph allocated. Returns whether the stream
    /// is being captured.
    pub(in crate::driver) fn capture_free(&self, stream: &Stream, addr: u64) -> Status<bool> {
        if !self.graphs.is_capturing() {
            return Ok(false);
        }
        let mut world = self.graphs.lock();
        let Some(capture) = world.capture_of(stream)? else {
            world.check_implied(stream)?;
            return Ok(false);
        };
        let graph = world.captures.get(&capture).ok_or(INVALID_VALUE)?.graph;
        let memory = world.memory_to_free(graph, addr)?;
        world.append(stream, Payload::Free(memory))?;
        Ok(true)
    }

    /// Fails if `stream` is being captured. Used for calls that cannot be captured but are safe
    /// during other captures: launches of graphs, and blocking copies and fills.
    pub(in crate::driver) fn no_capture_on(&self, stream: &Stream) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let mut world = self.graphs.lock();
        if let Some(capture) = world.capture_of(stream)? {
            world.invalidate(capture);
            return Err(CAPTURE_UNSUPPORTED);
        }
        world.check_implied(stream)
    }
}

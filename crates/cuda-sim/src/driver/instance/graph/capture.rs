//! Stream capture, which turns the work that is queued in a stream into nodes of a graph.
//!
//! A capture begins in one stream, its origin, and spreads to streams that wait for its events.
//! Each of these streams is a [`Branch`], which stores the dependencies of its next node. An
//! illegal call invalidates the captures that it affects, as the documentation says.

use std::sync::Arc;

use crate::driver::instance::Instance;
use crate::driver::objects::context::Context;
use crate::driver::objects::event::{CapturedRecord, Event, Record};
use crate::driver::objects::graph::capture::{Branch, Capture};
use crate::driver::objects::graph::model::Link;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::stream::Stream;
use crate::driver::status::{
    CAPTURE_IMPLICIT, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNSUPPORTED, INVALID_DEVICE,
    INVALID_VALUE, Status,
};

impl Instance {
    /// Adds a node with the result of `payload` if `stream` is being captured. Returns whether
    /// `stream` is being captured.
    pub(in crate::driver) fn captured(
        &self,
        stream: &Stream,
        payload: impl FnOnce() -> Status<Payload>,
    ) -> Status<bool> {
        if !self.graphs.is_capturing() {
            return Ok(false);
        }
        let mut state = self.graphs.lock();
        if state.capture_of(stream)?.is_none() {
            state.check_implied(stream)?;
            return Ok(false);
        }
        let payload = payload()?;
        state.append(stream, payload)?;
        Ok(true)
    }

    /// Checks a call that cannot be captured and is potentially unsafe. If `stream` is being
    /// captured, fails and invalidates that capture. Otherwise fails, and invalidates, as
    /// [`potentially_unsafe`](Self::potentially_unsafe) does.
    pub(in crate::driver) fn uncapturable(&self, stream: &Stream) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let mut state = self.graphs.lock();
        if let Some(capture) = state.capture_of(stream)? {
            state.invalidate(capture);
            return Err(CAPTURE_UNSUPPORTED);
        }
        state.check_implied(stream)?;
        drop(state);
        self.potentially_unsafe()
    }

    /// Fails, and invalidates the captures, if streams of the context are being captured: then the
    /// whole context cannot be synchronized.
    pub(in crate::driver) fn no_capture_in(&self, context: &Context) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let state = self.graphs.lock();
        let branches = state.branches.values();
        let captures: Vec<u64> = branches
            .filter(|branch| branch.context == context.handle)
            .map(|branch| branch.capture)
            .collect();
        for &capture in &captures {
            state.invalidate(capture);
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
            let state = self.graphs.lock();
            if let Ok(Some(capture)) = state.capture_of(stream) {
                state.invalidate(capture);
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
        let mut state = self.graphs.lock();
        let branches = state.branches.values();
        let ours = branches.filter(|branch| branch.context == context.handle);
        let captures: Vec<u64> = ours.map(|branch| branch.capture).collect();
        for capture in captures {
            state.discard_capture(capture);
        }
    }

    /// Discards the capture of a stream that is being destroyed, unless another stream of the
    /// capture has joined all its work.
    pub(in crate::driver) fn abandon_capture(&self, stream: &Stream) {
        if !self.graphs.is_capturing() {
            return;
        }
        let mut state = self.graphs.lock();
        let Some(branch) = state.branches.remove(&stream.queue) else {
            return;
        };
        let Some(capture) = state.captures.get(&branch.capture) else {
            return;
        };
        if capture.origin == stream.queue {
            state.discard_capture(branch.capture);
            return;
        }
        let others = state.branches.values();
        let others = others.filter(|other| other.capture == branch.capture);
        let ends: Vec<Link> = others.flat_map(|other| other.after.clone()).collect();
        if !state.all_reach(&branch.after, &ends) {
            state.invalidate(branch.capture);
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
        let mut state = self.graphs.lock();
        let Some(capture) = state.capture_of(stream)? else {
            state.check_implied(stream)?;
            return Ok(false);
        };
        let after = state
            .branches
            .get(&stream.queue)
            .map(|branch| branch.after.clone());
        let is_over = state
            .captures
            .get(&capture)
            .map(|capture| Arc::clone(&capture.is_over));
        *event.record() = Some(Record::Captured(CapturedRecord {
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
        let mut state = self.graphs.lock();
        let own = state.capture_of(stream)?;
        match (own, record) {
            (None, Some(Record::Captured(marked))) => {
                let is_valid = |found: &Capture| found.is_valid();
                if !state.captures.get(&marked.capture).is_some_and(is_valid) {
                    return Err(marked.error());
                }
                let CapturedRecord { capture, after, .. } = marked;
                if stream.is_legacy() {
                    state.invalidate(capture);
                    return Err(CAPTURE_IMPLICIT);
                }
                let branch = Branch::new(capture, after, stream);
                state.branches.insert(stream.queue, branch);
                Ok(true)
            }
            (None, _) => {
                state.check_implied(stream)?;
                Ok(false)
            }
            (Some(own), Some(Record::Captured(CapturedRecord { capture, after, .. })))
                if own == capture =>
            {
                if let Some(branch) = state.branches.get_mut(&stream.queue) {
                    branch.follow(&after);
                }
                Ok(true)
            }
            (Some(own), Some(Record::Captured(CapturedRecord { capture, .. }))) => {
                state.invalidate(own);
                if state.captures.contains_key(&capture) {
                    state.invalidate(capture);
                    return Err(CAPTURE_MERGE);
                }
                Err(CAPTURE_ISOLATION)
            }
            (Some(own), Some(Record::Queued(_))) => {
                state.invalidate(own);
                Err(CAPTURE_ISOLATION)
            }
            // The event was never recorded, so it adds no dependency.
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
        let mut state = self.graphs.lock();
        let Some(capture) = state.capture_of(stream)? else {
            state.check_implied(stream)?;
            return Ok(None);
        };
        let graph = state.captures.get(&capture).ok_or(INVALID_VALUE)?.graph;
        let device = self.devices.get(device).ok_or(INVALID_DEVICE)?;
        let memory = self.graphs.reserve(device, size, graph)?;
        let addr = memory.addr;
        state.note_memory(&memory);
        state.append(stream, Payload::Alloc(memory))?;
        Ok(Some(addr))
    }

    /// Captures a free, which must be of memory that a graph allocated. Returns whether the stream
    /// is being captured.
    pub(in crate::driver) fn capture_free(&self, stream: &Stream, addr: u64) -> Status<bool> {
        if !self.graphs.is_capturing() {
            return Ok(false);
        }
        let mut state = self.graphs.lock();
        let Some(capture) = state.capture_of(stream)? else {
            state.check_implied(stream)?;
            return Ok(false);
        };
        let graph = state.captures.get(&capture).ok_or(INVALID_VALUE)?.graph;
        let memory = state.memory_to_free(graph, addr)?;
        state.append(stream, Payload::Free(memory))?;
        Ok(true)
    }

    /// Fails, and invalidates the capture, if `stream` is being captured. Used for calls that
    /// cannot be captured but are safe during other captures: launches of graphs, and blocking
    /// copies and fills.
    pub(in crate::driver) fn no_capture_on(&self, stream: &Stream) -> Status {
        if !self.graphs.is_capturing() {
            return Ok(());
        }
        let mut state = self.graphs.lock();
        if let Some(capture) = state.capture_of(stream)? {
            state.invalidate(capture);
            return Err(CAPTURE_UNSUPPORTED);
        }
        state.check_implied(stream)
    }
}

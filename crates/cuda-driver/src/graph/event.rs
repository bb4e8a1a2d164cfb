//! Event nodes.

use std::sync::Arc;

use cuda_sys::CUgraphNode;

use super::change::ChangeNode;
use super::params::{Adding, Changing, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::event::Event;
use crate::types::node::{Edge, Node, node_kind};

/// Events.
impl Graph {
    /// `cuGraphAddEventRecordNode(event)`—Adds a node that records an event in each launch, once
    /// the node's dependencies are done.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OtherContext`] if the event is of another context.
    #[doc(alias = "cuGraphAddEventRecordNode")]
    #[doc(alias = "cudaGraphAddEventRecordNode")]
    pub fn add_event_record(
        &mut self,
        after: &[Edge],
        event: &Arc<Event>,
    ) -> Result<Node<node_kind::EventRecord>> {
        let owners = event_owners(self.context(), event)?;
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.add(after, owners, &mut RecordNode(event)) }
    }

    /// `cuGraphAddEventWaitNode(event)`—Adds a node that waits for the work which the event
    /// represents at the time of the launch.
    ///
    /// # Errors
    ///
    /// The errors of [`add_event_record`](Self::add_event_record).
    #[doc(alias = "cuGraphAddEventWaitNode")]
    #[doc(alias = "cudaGraphAddEventWaitNode")]
    pub fn add_event_wait(
        &mut self,
        after: &[Edge],
        event: &Arc<Event>,
    ) -> Result<Node<node_kind::EventWait>> {
        let mut owners = event_owners(self.context(), event)?;
        // The work before the event may wait for the host program.
        owners.note_host_wait();
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.add(after, owners, &mut WaitNode(event)) }
    }
}

/// New parameters of event nodes.
impl GraphExec {
    /// `cuGraphExecEventRecordNodeSetEvent(node)`—Changes the event that a node records, from the
    /// next launch on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel),
    /// [`Error::OtherContext`] if the event is of another context.
    #[doc(alias = "cuGraphExecEventRecordNodeSetEvent")]
    #[doc(alias = "cudaGraphExecEventRecordNodeSetEvent")]
    pub fn set_event_record(
        &self,
        node: Node<node_kind::EventRecord>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let owners = event_owners(self.context(), event)?;
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.set(node, owners, &mut RecordNode(event)) }
    }

    /// `cuGraphExecEventWaitNodeSetEvent(node)`—Changes the event that a node waits for, from the
    /// next launch on.
    ///
    /// # Errors
    ///
    /// The errors of [`set_event_record`](Self::set_event_record).
    #[doc(alias = "cuGraphExecEventWaitNodeSetEvent")]
    #[doc(alias = "cudaGraphExecEventWaitNodeSetEvent")]
    pub fn set_event_wait(
        &self,
        node: Node<node_kind::EventWait>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let mut owners = event_owners(self.context(), event)?;
        // The work before the event may wait for the host program.
        owners.note_host_wait();
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.set(node, owners, &mut WaitNode(event)) }
    }
}

/// Changes of event nodes.
impl Graph {
    /// `cuGraphEventRecordNodeSetEvent(node)`—Changes the event that a node of this graph records.
    /// Executables that exist already are not affected.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the event is of another context, and the errors of
    /// [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphEventRecordNodeSetEvent")]
    #[doc(alias = "cudaGraphEventRecordNodeSetEvent")]
    pub fn set_event_record(
        &mut self,
        node: Node<node_kind::EventRecord>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let owners = event_owners(self.context(), event)?;
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.change(node, owners, &mut RecordNode(event)) }
    }

    /// `cuGraphEventWaitNodeSetEvent(node)`—Changes the event that a node of this graph waits for.
    /// Executables that exist already are not affected.
    ///
    /// # Errors
    ///
    /// The errors of [`set_event_record`](Self::set_event_record).
    #[doc(alias = "cuGraphEventWaitNodeSetEvent")]
    #[doc(alias = "cudaGraphEventWaitNodeSetEvent")]
    pub fn set_event_wait(
        &mut self,
        node: Node<node_kind::EventWait>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let mut owners = event_owners(self.context(), event)?;
        // The work before the event may wait for the host program.
        owners.note_host_wait();
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.change(node, owners, &mut WaitNode(event)) }
    }
}

/// The parameters of a node that records an event.
struct RecordNode<'a>(&'a Event);

/// The parameters of a node that waits for an event.
struct WaitNode<'a>(&'a Event);

impl NodeParams for RecordNode<'_> {
    type Kind = node_kind::EventRecord;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let event = self.0.as_raw();
        // SAFETY: pointers, graph and event must be valid ← the caller guarantees it for those of
        // `it`; the event is borrowed.
        unsafe { call_add!(it, cuGraphAddEventRecordNode, event) }
    }
}

impl ChangeNode for RecordNode<'_> {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        let event = self.0.as_raw();
        // SAFETY: node and event must be valid ← the caller guarantees it for the node; the event
        // is borrowed.
        unsafe { call!(driver, cuGraphEventRecordNodeSetEvent(node, event)) }
    }
}

impl SetNodeParams for RecordNode<'_> {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        let event = self.0.as_raw();
        // SAFETY: executable, node and event must be valid ← the caller guarantees it for those of
        // `it`; the event is borrowed.
        unsafe { call_set!(it, cuGraphExecEventRecordNodeSetEvent, event) }
    }
}

impl NodeParams for WaitNode<'_> {
    type Kind = node_kind::EventWait;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let event = self.0.as_raw();
        // SAFETY: pointers, graph and event must be valid ← the caller guarantees it for those of
        // `it`; the event is borrowed.
        unsafe { call_add!(it, cuGraphAddEventWaitNode, event) }
    }
}

impl ChangeNode for WaitNode<'_> {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        let event = self.0.as_raw();
        // SAFETY: node and event must be valid ← the caller guarantees it for the node; the event
        // is borrowed.
        unsafe { call!(driver, cuGraphEventWaitNodeSetEvent(node, event)) }
    }
}

impl SetNodeParams for WaitNode<'_> {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        let event = self.0.as_raw();
        // SAFETY: executable, node and event must be valid ← the caller guarantees it for those of
        // `it`; the event is borrowed.
        unsafe { call_set!(it, cuGraphExecEventWaitNodeSetEvent, event) }
    }
}

/// Returns the owner of an event for a graph in `context`.
fn event_owners(context: &Context, event: &Arc<Event>) -> Result<Owners> {
    if event.context() != context {
        return Err(Error::other_context("the event", event.context(), context));
    }
    let mut owners = Owners::default();
    owners.retain(Arc::clone(event));
    Ok(owners)
}

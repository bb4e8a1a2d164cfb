//! Event nodes.

use std::sync::Arc;

use super::build::Adding;
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::types::node::{Edge, Node, NodeKind, node_kind};

impl Graph {
    /// `cuGraphAddEventRecordNode(event)`—Adds a node that records an event in each launch, when
    /// the nodes that it depends on are done.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OtherContext`] if the event is of another context.
    #[doc(alias = "cuGraphAddEventRecordNode")]
    pub fn event_record(
        &mut self,
        after: &[Edge],
        event: &Arc<Event>,
    ) -> Result<Node<node_kind::EventRecord>> {
        let owners = event_owners(self.context(), event)?;
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers, graph and event must be valid ← those of `it` are, and the node
            // keeps the event alive.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddEventRecordNode(
                        it.node,
                        it.graph,
                        it.after,
                        it.count,
                        event.as_raw()
                    )
                )
            }
        };
        // SAFETY: the call must add an event node with these edges that uses only what `owners`
        // keeps ← it does; `owners` keeps the event.
        let id = unsafe { self.add(NodeKind::EventRecord, after, owners, add) }?;
        Ok(Node::new(id))
    }

    /// `cuGraphAddEventWaitNode(event)`—Adds a node that waits for the work which the event
    /// represents at the time of the launch.
    ///
    /// # Errors
    ///
    /// The errors of [`event_record`](Self::event_record).
    #[doc(alias = "cuGraphAddEventWaitNode")]
    pub fn event_wait(
        &mut self,
        after: &[Edge],
        event: &Arc<Event>,
    ) -> Result<Node<node_kind::EventWait>> {
        let mut owners = event_owners(self.context(), event)?;
        // The work before the event may wait for the host program.
        owners.note_blocking();
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers, graph and event must be valid ← those of `it` are, and the node
            // keeps the event alive.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddEventWaitNode(it.node, it.graph, it.after, it.count, event.as_raw())
                )
            }
        };
        // SAFETY: the call must add an event node with these edges that uses only what `owners`
        // keeps ← it does; `owners` keeps the event.
        let id = unsafe { self.add(NodeKind::EventWait, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// Returns the owner of an event for a graph in `context`.
pub(super) fn event_owners(context: &Context, event: &Arc<Event>) -> Result<Owners> {
    if event.context() != context {
        return Err(Error::OtherContext { what: "the event" });
    }
    let mut owners = Owners::default();
    owners.keep(Arc::clone(event));
    Ok(owners)
}

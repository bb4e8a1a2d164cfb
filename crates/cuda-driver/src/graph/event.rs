//! Event nodes.

use std::sync::Arc;

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::{Graph, Owners};
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::event::Event;

impl Graph {
    /// `cuGraphAddEventRecordNode(event)`—A node that records an event when the nodes before it are
    /// done, in each launch.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::OtherContext`] if the event is of another context, or what
    /// the call answers.
    #[doc(alias = "cuGraphAddEventRecordNode")]
    pub fn event_record(
        &mut self,
        after: &[Edge],
        event: &Arc<Event>,
    ) -> Result<Node<node_kind::EventRecord>> {
        let owners = event_owners(self.context(), event)?;
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers, graph and event must be valid ← those of `it` are, and the node
            // keeps the event.
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
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does.
        let id = unsafe { self.add(NodeKind::EventRecord, after, owners, add) }?;
        Ok(Node::new(id))
    }

    /// `cuGraphAddEventWaitNode(event)`—A node that waits for what an event stands for when the
    /// graph is launched.
    ///
    /// # Errors
    ///
    /// As [`event_record`](Self::event_record).
    #[doc(alias = "cuGraphAddEventWaitNode")]
    pub fn event_wait(
        &mut self,
        after: &[Edge],
        event: &Arc<Event>,
    ) -> Result<Node<node_kind::EventWait>> {
        let mut owners = event_owners(self.context(), event)?;
        // What it stands for may wait for the program.
        owners.note_blocking();
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers, graph and event must be valid ← those of `it` are, and the node
            // keeps the event.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddEventWaitNode(it.node, it.graph, it.after, it.count, event.as_raw())
                )
            }
        };
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does.
        let id = unsafe { self.add(NodeKind::EventWait, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// What keeps an event for a graph in `context`.
pub(super) fn event_owners(context: &Context, event: &Arc<Event>) -> Result<Owners> {
    if event.context() != context {
        return Err(Error::OtherContext { what: "the event" });
    }
    let mut owners = Owners::default();
    owners.keep(Arc::clone(event));
    Ok(owners)
}

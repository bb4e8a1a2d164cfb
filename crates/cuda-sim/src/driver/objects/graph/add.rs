//! The rules for adding nodes to graphs.

use cuda_sys::{CUgraphEdgeData, CUgraphNode};

use crate::driver::arg::In;
use crate::driver::objects::edge::Edge;
use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::model::{Link, Owner};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};

/// Reads the dependencies of a new node.
pub(in crate::driver) fn links(
    after: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
) -> Status<Vec<Link>> {
    let link = |index| {
        let node = after.get_at(index)?.addr() as u64;
        Ok((node, Edge::read(data, index)?))
    };
    (0..count).map(link).collect()
}

/// The maximum nesting depth of graphs. The limit of the real driver is not documented.
pub(in crate::driver) const MOST_NESTED: usize = 256;

impl GraphState {
    /// Adds a node. Fails if the graph does not allow it or the dependencies are invalid.
    pub(in crate::driver) fn add_checked(
        &mut self,
        graph: u64,
        links: Vec<Link>,
        payload: Payload,
    ) -> Status<u64> {
        self.check_links(graph, &links)?;
        let is_kernel = matches!(payload, Payload::Kernel(_));
        let has_data = links.iter().any(|(_, edge)| !edge.is_default());
        if has_data && !is_kernel {
            return Err(INVALID_VALUE);
        }
        // The rules for bodies of conditional nodes are checked when the graph is instantiated.
        if payload.is_memory() && self.graph(graph)?.is_child() {
            return Err(NOT_SUPPORTED);
        }
        if let Payload::Free(memory) = &payload {
            memory.note_free(graph);
        }
        self.add_node(graph, links, payload)
    }

    /// Fails for a graph that cannot be copied.
    pub(in crate::driver) fn check_copyable(&self, graph: u64) -> Status {
        // The manual does not say to which node the handle would refer after a copy.
        let unique = |payload: &Payload| payload.is_memory() || payload.is_device_updatable();
        if self.any_node(graph, &unique) {
            return Err(NOT_SUPPORTED);
        }
        if self.any_node(graph, &Payload::is_conditional) {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    /// Creates the payload of a child graph node of `graph`.
    pub(in crate::driver) fn child(
        &mut self,
        graph: u64,
        child: u64,
        moves: bool,
    ) -> Status<Payload> {
        if self.graph(child)?.is_child() || self.depth(graph) + self.height(child) >= MOST_NESTED {
            return Err(NOT_SUPPORTED);
        }
        let holds_parent = |payload: &Payload| payload.inner().contains(&graph);
        if child == graph || self.any_node(child, &holds_parent) {
            return Err(INVALID_VALUE);
        }
        if moves {
            if !self.graph(child)?.is_of_user() {
                return Err(INVALID_VALUE);
            }
            return Ok(Payload::Child(child));
        }
        self.check_copyable(child)?;
        Ok(Payload::Child(self.clone_graph(child, Owner::User)?))
    }
    /// Replaces the graph in a child graph node by a clone of `child`.
    pub(in crate::driver) fn exchange_child(&mut self, node: u64, child: u64) -> Status {
        let Payload::Child(old) = self.node(node)?.payload else {
            return Err(INVALID_VALUE);
        };
        let graph = self.graph_of_node(node)?;
        let payload = self.child(graph, child, false)?;
        for inner in payload.inner() {
            self.graph_mut(inner)?.owner = Owner::Node(node);
        }
        self.node_mut(node)?.payload = payload;
        self.remove_graph(old);
        Ok(())
    }
}

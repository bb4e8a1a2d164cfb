//! The tracked state of a graph: its nodes, their edges and owners.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cuda_sys::{CUgraph_st, CUgraphNode_st};

use super::Owners;
use super::conflicts::{Conflicts, NodeAccess};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::types::SendPtr;
use crate::types::node::{Edge, EdgeKind, NodeId, NodeKind};

/// The index of a node in its graph. [`Parts::next_index`] limits the number of nodes, so that it
/// fits.
pub(super) type NodeIndex = u32;

pub(crate) struct RawGraph;

impl Destroy for RawGraph {
    type Raw = SendPtr<CUgraph_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the graph must be alive and not in use by another thread ← the handle is its only
        // owner and destroys it here. Executables made from it stay valid.
        unsafe { call!(driver, cuGraphDestroy(raw.0)) }
    }
}

/// A graph of the driver, with the body graphs of its conditional nodes. The driver does not allow
/// concurrent use of a graph, so one lock protects them all.
pub(crate) struct Root {
    /// The first field: a graph is destroyed before what its nodes use, and before its context.
    /// `None` once the driver has destroyed it.
    handle: Mutex<Option<Handle<RawGraph>>, { rank::GRAPH_HANDLE }>,
    parts: Mutex<Vec<Parts>, { rank::GRAPH }>,
    /// The number of captures into the graph that are under way.
    captures: AtomicUsize,
    context: Context,
}

impl Root {
    pub(super) fn new(handle: Handle<RawGraph>, context: &Context) -> Self {
        let parts = Parts::new(handle.raw());
        Self {
            parts: Mutex::new(vec![parts]),
            captures: AtomicUsize::new(0),
            handle: Mutex::new(Some(handle)),
            context: context.clone(),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Parts>> {
        self.parts.lock()
    }

    /// Locks a graph that no other thread has a reference to yet.
    pub(super) fn lock_unshared(&self) -> std::sync::MutexGuard<'_, Vec<Parts>> {
        self.parts.lock_unshared()
    }

    /// Notes that a capture into the graph begins.
    pub(super) fn begin_capture(&self) {
        self.captures.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that a capture into the graph has ended.
    pub(super) fn end_capture(&self) {
        self.captures.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns whether a capture into the graph is under way.
    pub(super) fn is_capturing(&self) -> bool {
        self.captures.load(Ordering::Acquire) > 0
    }

    /// Records that the driver has destroyed the graph: every later call on it fails, as it has
    /// neither a handle nor nodes. Returns the former state, which the caller must drop without
    /// holding a lock.
    pub(super) fn abandon(&self, all: &mut [Parts]) -> Vec<Parts> {
        if let Some(handle) = self.take_handle() {
            handle.abandon();
        }
        take_all(all)
    }

    /// Destroys the graph because it must never be instantiated again. Afterwards its state is the
    /// same as after [`abandon`](Self::abandon).
    pub(super) fn give_up(&self, all: &mut [Parts]) -> Vec<Parts> {
        drop(self.take_handle());
        take_all(all)
    }

    fn take_handle(&self) -> Option<Handle<RawGraph>> {
        self.handle.lock().take()
    }

    pub(super) fn close(self) -> Result<(), DriverError> {
        let Self {
            parts,
            handle,
            context: _context,
            ..
        } = self;
        let handle = handle.into_inner();
        let closed = handle.map_or(Ok(()), Handle::close);
        drop(parts);
        closed
    }
}

/// Empties all graphs and returns their former state.
fn take_all(all: &mut [Parts]) -> Vec<Parts> {
    all.iter_mut().map(Parts::take).collect()
}

/// The state of one graph: the top-level graph or a body.
pub(crate) struct Parts {
    pub(crate) raw: SendPtr<CUgraph_st>,
    /// The number of the graph, unique in the process.
    pub(crate) id: u64,
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) conflicts: Conflicts,
    /// The index of the outer graph and of the conditional node there; `None` for the top-level
    /// graph.
    pub(crate) parent: Option<(usize, u32)>,
    /// Whether there are edges from a node to an earlier one.
    pub(super) has_edges_back: bool,
    /// Whether the graph has changed in other ways than by adding nodes and edges: some were
    /// removed, or it was captured.
    pub(super) is_reshaped: bool,
    /// The number of changes that are no longer visible in `nodes`: see [`changes`](Self::changes).
    changes: usize,
    /// The number of the graph that this one was cloned from.
    origin: Option<u64>,
    /// The owners that belong to no tracked node.
    pub(crate) others: Vec<Arc<Owners>>,
    /// The nodes whose allocations no node frees yet.
    pub(super) unfreed: BTreeSet<NodeIndex>,
    /// The device-updatable nodes and their handles. These nodes are never removed.
    pub(super) device_nodes: Vec<(NodeIndex, u64)>,
}

/// The tracked state of a node.
#[derive(Clone)]
pub(crate) struct NodeInfo {
    pub(crate) raw: SendPtr<CUgraphNode_st>,
    pub(crate) kind: NodeKind,
    pub(crate) after: Vec<(u32, EdgeKind)>,
    pub(crate) owners: Arc<Owners>,
    /// The accesses of the bodies, if this is a conditional node.
    pub(crate) inside: Vec<NodeAccess>,
}

/// Converts the index or the number of nodes. The cast cannot truncate, because `index_after`
/// limits the number of nodes to `NodeIndex::MAX`.
pub(super) fn index(number: usize) -> NodeIndex {
    number as NodeIndex
}

/// Returns the index of a node that follows `count` nodes.
fn index_after(count: usize) -> Result<NodeIndex> {
    match NodeIndex::try_from(count) {
        Ok(index) if index < NodeIndex::MAX => Ok(index),
        _ => Err(Error::Unsupported {
            what: "a graph of more than 4,294,967,295 nodes; divide it into several graphs",
        }),
    }
}

impl NodeInfo {
    /// Returns whether the node was removed from its graph. Its index is not reused.
    pub(super) fn is_gone(&self) -> bool {
        self.raw.0.is_null()
    }

    /// Returns the accesses of the node and of its bodies.
    pub(super) fn accesses(&self) -> Vec<NodeAccess> {
        let mut accesses = self.owners.accesses();
        accesses.extend_from_slice(&self.inside);
        accesses
    }

    /// Returns whether one of these accesses conflicts with the node or with its bodies.
    pub(super) fn conflicts_with(&self, accesses: &[NodeAccess]) -> bool {
        let is_so = |inside: &NodeAccess| accesses.iter().any(|other| inside.conflicts_with(other));
        self.owners.conflicts_with(accesses) || self.inside.iter().any(is_so)
    }
}

impl Parts {
    pub(super) fn new(raw: SendPtr<CUgraph_st>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            raw,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            nodes: Vec::new(),
            conflicts: Conflicts::default(),
            parent: None,
            has_edges_back: false,
            is_reshaped: false,
            changes: 0,
            origin: None,
            others: Vec::new(),
            unfreed: BTreeSet::new(),
            device_nodes: Vec::new(),
        }
    }

    /// Fails if a node of these graphs allocates memory that no node frees.
    pub(super) fn expect_all_freed(all: &[Self]) -> Result<()> {
        match all.iter().find_map(|parts| parts.unfreed.first()) {
            Some(node) => Err(Error::GraphMemoryKept { node: *node }),
            None => Ok(()),
        }
    }

    /// Returns the index of a node. Fails if it is in another graph or was removed.
    pub(crate) fn index_of(&self, node: NodeId) -> Result<u32> {
        if node.graph != self.id {
            return Err(Error::OtherGraph);
        }
        match self.nodes.get(node.index as usize) {
            Some(info) if info.is_gone() => Err(Error::NodeGone),
            Some(_) => Ok(node.index),
            None => Err(Error::OtherGraph),
        }
    }

    /// Returns the edges of a new node: those given, and those from earlier nodes with conflicting
    /// accesses.
    pub(super) fn edges(
        &self,
        given: &[Edge],
        accesses: &[NodeAccess],
    ) -> Result<Vec<(u32, EdgeKind)>> {
        let mut after: Vec<(u32, EdgeKind)> = Vec::with_capacity(given.len());
        for edge in given {
            let from = self.index_of(edge.from)?;
            match after.iter_mut().find(|(known, _)| *known == from) {
                // Of two edges from one node, the stronger one counts.
                Some((_, kind)) if edge.kind == EdgeKind::Full => *kind = EdgeKind::Full,
                Some(_) => {}
                None => after.push((from, edge.kind)),
            }
        }
        // Later nodes first: what they depend on needs no edge of its own.
        let topology = self.topology();
        for other in self.conflicts.against(accesses).into_iter().rev() {
            let is_given = after.iter().any(|(from, _)| *from == other);
            if !is_given && !topology.is_done_before(other, &after) {
                after.push((other, EdgeKind::Full));
            }
        }
        Ok(after)
    }

    pub(super) fn topology(&self) -> Topology<'_> {
        Topology {
            nodes: &self.nodes,
            has_edges_back: self.has_edges_back,
        }
    }

    /// Returns the index of the next node. Fails if the graph is full.
    pub(super) fn next_index(&self) -> Result<NodeIndex> {
        index_after(self.nodes.len())
    }

    /// Returns the indices of all nodes.
    pub(super) fn indices(&self) -> Range<NodeIndex> {
        0..index(self.nodes.len())
    }

    /// Adds a new node and its accesses to the tracked state. `index` is the result of
    /// [`next_index`](Self::next_index).
    pub(super) fn push(
        &mut self,
        index: NodeIndex,
        info: NodeInfo,
        accesses: &[NodeAccess],
    ) -> NodeId {
        let does_not_wait = |other: u32| {
            info.after
                .iter()
                .any(|(from, kind)| *from == other && *kind != EdgeKind::Full)
        };
        self.conflicts.note(index, accesses, does_not_wait);
        self.nodes.push(info);
        NodeId {
            graph: self.id,
            index,
        }
    }

    /// Returns the existing edge between two nodes. Fails if a new one would close a cycle.
    pub(super) fn check_edge(&self, from: u32, to: u32) -> Result<Option<EdgeKind>> {
        let after = |node: u32| self.nodes.get(node as usize).map(|node| &node.after[..]);
        let known = after(to).unwrap_or_default();
        if let Some((_, kind)) = known.iter().find(|(known, _)| *known == from) {
            return Ok(Some(*kind));
        }
        if from == to
            || self
                .topology()
                .is_before(to, after(from).unwrap_or_default(), false)
        {
            return Err(Error::GraphCycle { from, to });
        }
        Ok(None)
    }

    /// Adds an edge to the tracked state.
    pub(super) fn push_edge(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.has_edges_back |= from > to;
        if let Some(node) = self.nodes.get_mut(to as usize) {
            node.after.push((from, kind));
        }
    }

    /// Returns the edge that is missing between `node`, which is not the last node, and `other`,
    /// now that `node` has these additional accesses. It has the direction of the partial
    /// dependency that exists already, or else leads from the earlier node to the later one.
    pub(super) fn missing_edge(
        &self,
        node: u32,
        other: u32,
        accesses: &[NodeAccess],
    ) -> Option<(u32, u32)> {
        let topology = self.topology();
        let info = self.nodes.get(other as usize)?;
        if other == node || !info.conflicts_with(accesses) || topology.are_ordered(other, node) {
            return None;
        }
        let leads = |from: u32, to: u32| {
            let to = self.nodes.get(to as usize);
            to.is_some_and(|to| topology.is_before(from, &to.after, false))
        };
        if leads(node, other) {
            Some((node, other))
        } else if leads(other, node) {
            Some((other, node))
        } else {
            Some((other.min(node), other.max(node)))
        }
    }

    /// Notes a change that is not visible in the number of nodes.
    pub(super) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// Returns a number that grows with every node that is added or changed, and with every body
    /// that is removed.
    pub(super) fn changes(all: &[Self]) -> usize {
        all.iter()
            .map(|parts| parts.changes + parts.nodes.len())
            .sum()
    }

    /// Empties the graph and returns its former state.
    pub(super) fn take(&mut self) -> Self {
        let mut nothing = Self::new(SendPtr(std::ptr::null_mut()));
        nothing.changes = self.changes + self.nodes.len() + 1;
        std::mem::replace(self, nothing)
    }

    /// Makes this graph a copy of `origin` with these nodes.
    pub(super) fn take_over(&mut self, origin: &Self, nodes: Vec<NodeInfo>) {
        self.nodes = nodes;
        self.conflicts = origin.conflicts.clone();
        self.has_edges_back = origin.has_edges_back;
        self.is_reshaped = origin.is_reshaped;
        self.unfreed = origin.unfreed.clone();
        self.origin = Some(origin.id);
    }

    /// Returns the copy of a node of the graph that this one was cloned from.
    pub(super) fn copy_of(&self, node: NodeId) -> Result<NodeId> {
        if self.origin != Some(node.graph) {
            return Err(Error::OtherGraph);
        }
        let copy = NodeId {
            graph: self.id,
            ..node
        };
        self.index_of(copy).map(|_| copy)
    }
}

/// The nodes of a graph and the dependencies between them.
#[derive(Clone, Copy)]
pub(super) struct Topology<'a> {
    pub(super) nodes: &'a [NodeInfo],
    pub(super) has_edges_back: bool,
}

impl Topology<'_> {
    /// Returns whether `node` is done before a node with the edges `after` begins.
    fn is_done_before(&self, node: u32, after: &[(u32, EdgeKind)]) -> bool {
        self.is_before(node, after, true)
    }

    /// Returns whether a path leads from `node` to a node with the edges `after`. If `done` is set,
    /// only paths count that guarantee that `node` is done.
    pub(super) fn is_before(&self, node: u32, after: &[(u32, EdgeKind)], done: bool) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut left: Vec<(u32, EdgeKind)> = after.to_vec();
        while let Some((from, kind)) = left.pop() {
            if from == node && (kind == EdgeKind::Full || !done) {
                return true;
            }
            // Without backward edges, nodes depend only on earlier nodes.
            let leads = self.has_edges_back || from > node;
            if leads
                && let Some(seen) = seen.get_mut(from as usize)
                && !std::mem::replace(seen, true)
            {
                left.extend(
                    self.nodes
                        .get(from as usize)
                        .iter()
                        .flat_map(|it| &it.after),
                );
            }
        }
        false
    }

    /// Returns whether one of two nodes is done before the other begins.
    pub(super) fn are_ordered(&self, one: u32, other: u32) -> bool {
        let is_done = |node: u32, next: u32| {
            let next = self.nodes.get(next as usize);
            next.is_some_and(|next| self.is_done_before(node, &next.after))
        };
        is_done(one, other) || is_done(other, one)
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, NodeIndex, index_after};

    #[test]
    fn a_graph_holds_at_most_the_nodes_that_have_an_index() {
        let most = NodeIndex::MAX as usize;
        assert_eq!(index_after(most - 1), Ok(NodeIndex::MAX - 1));
        for count in [most, most + 1, 2 * most] {
            let full = index_after(count);
            assert!(matches!(full, Err(Error::Unsupported { .. })), "{count}");
        }
    }
}

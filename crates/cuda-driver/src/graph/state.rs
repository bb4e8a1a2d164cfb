//! The tracked state of an executable, as far as changes of the executable need it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::conflicts::NodeAccess;
use super::parts::{NodeInfo, Parts, Topology, index};
use super::{NodeKind, Owners};
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::safe::CheckedNode;
use crate::types::node::NodeId;

/// The part of an executable that updates change.
pub(super) struct State {
    /// The graph and the bodies of its conditional nodes, with the nodes that they had when the
    /// executable was made.
    graphs: Vec<Nodes>,
    /// Owners that may be used by any node.
    pub(super) others: Vec<Arc<Owners>>,
    /// Owners that are only kept alive.
    kept: Vec<Arc<Owners>>,
}

/// The nodes of a graph or a body.
struct Nodes {
    /// The number of the graph that this one was made from: the driver identifies the nodes by
    /// those of that graph.
    id: u64,
    nodes: Vec<NodeInfo>,
    has_edges_back: bool,
    is_reshaped: bool,
    /// The index of the outer graph and of the conditional node there.
    parent: Option<(usize, u32)>,
    /// The indices of the device-updatable nodes.
    device_nodes: Vec<usize>,
}

/// The position of a node: the index of its graph, and its index there.
pub(super) type NodePosition = (usize, usize);

impl State {
    /// Creates the state of an executable that is made from these graphs now.
    pub(super) fn new(all: &[Parts]) -> Self {
        let nodes = |parts: &Parts| Nodes {
            id: parts.id,
            nodes: parts.nodes.clone(),
            has_edges_back: parts.has_edges_back,
            is_reshaped: parts.is_reshaped,
            parent: parts.parent,
            device_nodes: parts.device_nodes.iter().map(|it| it.0 as usize).collect(),
        };
        let mut graphs: Vec<Nodes> = all.iter().map(nodes).collect();
        // The accesses of bodies are looked up at the nodes of the bodies.
        let parents: Vec<_> = graphs.iter().filter_map(|body| body.parent).collect();
        for (outer, node) in parents {
            let outer = graphs.get_mut(outer);
            if let Some(info) = outer.and_then(|outer| outer.nodes.get_mut(node as usize)) {
                info.inside.clear();
            }
        }
        let others = all.iter().flat_map(|parts| &parts.others);
        Self {
            graphs,
            others: others.cloned().collect(),
            kept: Vec::new(),
        }
    }

    pub(super) fn each(&self, f: impl FnMut(&Arc<Owners>)) {
        self.all().for_each(f);
    }

    pub(super) fn any(&self, is_so: impl Fn(&Owners) -> bool) -> bool {
        self.all().any(|it| is_so(it))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Owners>> {
        let nodes = self.graphs.iter().flat_map(|graph| &graph.nodes);
        let owners = nodes.map(|node| &node.owners);
        owners.chain(&self.others).chain(&self.kept)
    }

    /// Returns a description that names the first kernels, for the list of recent launches.
    pub(super) fn described(&self) -> String {
        /// The number of kernels that the description names.
        const NAMED: usize = 4;
        let mut names: Vec<String> = Vec::new();
        self.each(|owners| {
            owners.each_kernel(&mut |kernel| {
                if !names.iter().any(|name| name == kernel.name()) {
                    names.push(kernel.name().to_owned());
                }
            });
        });
        let more = if names.len() > NAMED { ", …" } else { "" };
        names.truncate(NAMED);
        match &*names {
            [] => "a graph without kernels".to_owned(),
            names => format!("a graph ({}{more})", names.join(", ")),
        }
    }

    pub(super) fn check_closures(&self) -> Result<()> {
        self.all().try_for_each(|owners| owners.check_closures())
    }

    /// Returns the position of a node of the graph that the executable was made from.
    pub(super) fn position_of(&self, node: NodeId) -> Result<NodePosition> {
        let graph = self.graphs.iter().position(|graph| graph.id == node.graph);
        let position = graph.map(|graph| (graph, node.index as usize));
        position
            .filter(|position| self.node(*position).is_some())
            .ok_or(Error::OtherGraph)
    }

    pub(super) fn node(&self, (graph, node): NodePosition) -> Option<&NodeInfo> {
        self.graphs.get(graph)?.nodes.get(node)
    }

    pub(super) fn node_mut(&mut self, (graph, node): NodePosition) -> Option<&mut NodeInfo> {
        self.graphs.get_mut(graph)?.nodes.get_mut(node)
    }

    /// Returns whether a node is device-updatable.
    pub(super) fn is_device_updatable(&self, (graph, node): NodePosition) -> bool {
        let graph = self.graphs.get(graph);
        graph.is_some_and(|graph| graph.device_nodes.contains(&node))
    }

    /// Returns whether any node is device-updatable.
    pub(super) fn has_device_nodes(&self) -> bool {
        self.graphs.iter().any(|it| !it.device_nodes.is_empty())
    }

    /// Fails if a node that is not ordered with this one has a conflicting access. The check is
    /// repeated for the conditional nodes around it.
    pub(super) fn check_order(&self, position: NodePosition, owners: &Owners) -> Result<()> {
        let accesses = owners.accesses();
        let mut next = Some(position);
        while let Some((at, this)) = next {
            let Some(graph) = self.graphs.get(at) else {
                break;
            };
            let topology = Topology {
                nodes: &graph.nodes,
                has_edges_back: graph.has_edges_back,
            };
            let this = index(this);
            let mut beside = (0..).zip(&graph.nodes).filter(|(other, info)| {
                *other != this && !info.is_gone() && !topology.are_ordered(*other, this)
            });
            let is_other = |owners: &Arc<Owners>| owners.conflicts_with(&accesses);
            let is_anywhere = self.others.iter().any(is_other);
            let unordered_conflict =
                beside.find(|(other, _)| is_anywhere || self.conflicts_with(at, *other, &accesses));
            if let Some((other, _)) = unordered_conflict {
                return Err(Error::GraphOrder { other });
            }
            next = graph.parent.map(|(outer, node)| (outer, node as usize));
        }
        Ok(())
    }

    /// Returns whether one of these accesses conflicts with a node or with its bodies.
    fn conflicts_with(&self, graph: usize, node: u32, accesses: &[NodeAccess]) -> bool {
        let own = self.node((graph, node as usize));
        if own.is_some_and(|info| info.conflicts_with(accesses)) {
            return true;
        }
        let bodies = self.graphs.iter().enumerate();
        let mut bodies = bodies.filter(|(_, body)| body.parent == Some((graph, node)));
        bodies.any(|(at, body)| {
            (0..index(body.nodes.len())).any(|inner| self.conflicts_with(at, inner, accesses))
        })
    }

    /// Returns the state after an update from another graph.
    ///
    /// The driver pairs the nodes of both graphs, by the order in which nodes and edges were added
    /// and removed. If both graphs have only had nodes and edges added, and are equal, nodes with
    /// the same index are paired. Otherwise the pairing is unknown, and any node may have become
    /// any other. No owner may depend on the pairing being right, so the executable as a whole
    /// keeps the owners of all nodes: as `kept` if the nodes are paired, else as `others`.
    pub(super) fn like(&self, all: &[Parts]) -> Self {
        let new = Self::new(all);
        let owners = new.graphs.iter().flat_map(|graph| &graph.nodes);
        let owners: Vec<Arc<Owners>> = owners.map(|node| Arc::clone(&node.owners)).collect();
        let is_paired = self.is_paired_with(&new);
        let (mut others, mut kept) = (new.others, Vec::new());
        if is_paired {
            kept = owners;
        } else {
            others.extend(owners);
        }
        let mut new = new.graphs.into_iter();
        let graph = |old: &Nodes| {
            let new = new.next();
            let mut new = new
                .filter(|_| is_paired)
                .map(|graph| graph.nodes.into_iter());
            let node = |old: &NodeInfo| {
                let new = new.as_mut().and_then(Iterator::next);
                let (owners, inside) = new.map(|new| (new.owners, new.inside)).unwrap_or_default();
                NodeInfo {
                    raw: old.raw,
                    kind: old.kind,
                    after: old.after.clone(),
                    owners,
                    inside,
                }
            };
            Nodes {
                id: old.id,
                nodes: old.nodes.iter().map(node).collect(),
                has_edges_back: old.has_edges_back,
                is_reshaped: old.is_reshaped,
                parent: old.parent,
                device_nodes: old.device_nodes.clone(),
            }
        };
        Self {
            graphs: self.graphs.iter().map(graph).collect(),
            others,
            kept,
        }
    }

    /// Returns whether nodes with the same index are paired: both graphs have nodes of the same
    /// kinds and with the same edges, in the same order, and nothing was removed or captured.
    fn is_paired_with(&self, other: &Self) -> bool {
        let shape = |node: &NodeInfo| -> (NodeKind, bool) { (node.kind, node.is_gone()) };
        let is_same = |one: &Nodes, other: &Nodes| {
            let mut nodes = one.nodes.iter().zip(&other.nodes);
            !(one.is_reshaped || other.is_reshaped)
                && one.parent == other.parent
                && one.nodes.len() == other.nodes.len()
                && nodes.all(|(one, other)| shape(one) == shape(other) && one.after == other.after)
        };
        let mut graphs = self.graphs.iter().zip(&other.graphs);
        self.graphs.len() == other.graphs.len() && graphs.all(|(one, other)| is_same(one, other))
    }
}

/// The nodes of an executable that launch checked copies of kernels. They change only under the
/// replay lock, like the nodes of the executable.
#[derive(Default)]
pub(super) struct CheckedNodes {
    nodes: Mutex<Arc<[Arc<CheckedNode>]>, { rank::CHECKED_NODES }>,
    /// Whether there are any, so that other replays take no lock.
    any: AtomicBool,
}

impl CheckedNodes {
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Arc<[Arc<CheckedNode>]> {
        Arc::clone(&self.nodes.lock())
    }

    /// Sets the nodes to those of an executable in this state.
    pub(super) fn set(&self, state: &State) {
        let mut nodes = Vec::new();
        state.each(|owners| owners.collect_checked(&mut nodes));
        if nodes.is_empty() && !self.any() {
            return;
        }
        self.any.store(!nodes.is_empty(), Ordering::Release);
        let former = mem::replace(&mut *self.nodes.lock(), nodes.into());
        // A node owns memory, which must not be freed under the lock.
        drop(former);
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::{NodeInfo, NodeKind, Parts, State};
    use crate::types::SendPtr;
    use crate::types::node::EdgeKind;

    /// Returns a graph of two nodes, the second of which depends on the first.
    fn graph() -> Parts {
        let mut parts = Parts::new(SendPtr(ptr::null_mut()));
        for after in [vec![], vec![(0, EdgeKind::Full)]] {
            let info = NodeInfo {
                raw: SendPtr(ptr::dangling_mut()),
                kind: NodeKind::Empty,
                after,
                owners: std::sync::Arc::default(),
                inside: Vec::new(),
            };
            let index = parts.next_index().unwrap();
            parts.push(index, info, &[]);
        }
        parts
    }

    #[test]
    fn nodes_pair_by_index_if_nothing_was_removed() {
        let (plain, mut reshaped) = (graph(), graph());
        reshaped.is_reshaped = true;
        let mut copy = Parts::new(SendPtr(ptr::null_mut()));
        copy.take_over(&reshaped, reshaped.nodes.clone());
        let [plain, reshaped, copy] = [plain, reshaped, copy].map(|it| State::new(&[it]));
        assert!(plain.is_paired_with(&State::new(&[graph()])));
        for other in [&reshaped, &copy] {
            assert!(!plain.is_paired_with(other) && !other.is_paired_with(&plain));
            assert!(!other.is_paired_with(other));
        }
        let mut longer = graph();
        let last = longer.nodes[1].clone();
        let index = longer.next_index().unwrap();
        longer.push(index, last, &[]);
        assert!(!plain.is_paired_with(&State::new(&[longer])));
    }
}

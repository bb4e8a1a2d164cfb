//! The data model of graphs: nodes, edges, and owners.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::driver::handle::fresh;
use crate::driver::objects::edge::Edge;
use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::conditional::Cell;
use crate::driver::objects::graph::object::Object;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::{INVALID_VALUE, Status};

impl GraphState {
    /// Returns whether a capture adds nodes to the graph. (The real driver does not protect a graph
    /// that contains the graph under capture.)
    pub(in crate::driver) fn is_captured_into(&self, graph: u64) -> bool {
        self.captures.values().any(|capture| capture.graph == graph)
    }
}

/// The node at the other end of an edge, and the data of the edge.
pub(in crate::driver) type Link = (u64, Edge);

/// The owner of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Owner {
    User,
    /// The node that embeds it.
    Node(u64),
    /// The capture that adds nodes to it.
    Capture(u64),
}

#[derive(Debug)]
pub(in crate::driver) struct Node {
    pub(in crate::driver) payload: Payload,
    pub(in crate::driver) after: Vec<Link>,
    pub(in crate::driver) before: Vec<Link>,
    /// The number of the node in its graph, counted from 0.
    pub(in crate::driver) local_id: u32,
}

#[derive(Debug)]
pub(in crate::driver) struct Graph {
    pub(in crate::driver) owner: Owner,
    pub(in crate::driver) id: u32,
    /// The nodes by handle, which is the order of creation.
    pub(in crate::driver) nodes: BTreeMap<u64, Node>,
    next_local_id: u32,
    /// The user objects that the graph retains, with the number of references.
    pub(in crate::driver) objects: BTreeMap<u64, (Arc<Object>, u32)>,
    /// The nodes of this graph, by the node of the original graph from which they were cloned.
    pub(in crate::driver) clone_of: HashMap<u64, u64>,
    /// The conditional handles that were created for it.
    pub(in crate::driver) conditionals: Vec<(u64, Arc<Cell>)>,
    /// Whether it is the body of a conditional node.
    pub(in crate::driver) is_body: bool,
}

impl Graph {
    /// Returns whether the program made the graph, and owns it.
    pub(in crate::driver) fn is_of_user(&self) -> bool {
        self.owner == Owner::User
    }

    /// Returns whether it is the graph of a child graph node.
    pub(in crate::driver) fn is_child(&self) -> bool {
        matches!(self.owner, Owner::Node(_)) && !self.is_body
    }

    pub(in crate::driver) fn has_memory_nodes(&self) -> bool {
        self.nodes
            .values()
            .any(|node| matches!(node.payload, Payload::Alloc(_) | Payload::Free(_)))
    }
}

impl GraphState {
    pub(in crate::driver) fn graph(&self, handle: u64) -> Status<&Graph> {
        self.graphs.get(&handle).ok_or(INVALID_VALUE)
    }

    pub(in crate::driver) fn graph_mut(&mut self, handle: u64) -> Status<&mut Graph> {
        self.graphs.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    pub(in crate::driver) fn graph_of_node(&self, node: u64) -> Status<u64> {
        self.graph_of.get(&node).copied().ok_or(INVALID_VALUE)
    }

    pub(in crate::driver) fn node(&self, handle: u64) -> Status<&Node> {
        let graph = self.graph(self.graph_of_node(handle)?)?;
        graph.nodes.get(&handle).ok_or(INVALID_VALUE)
    }

    pub(in crate::driver) fn node_mut(&mut self, handle: u64) -> Status<&mut Node> {
        let graph_handle = self.graph_of_node(handle)?;
        let graph = self.graph_mut(graph_handle)?;
        graph.nodes.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    pub(in crate::driver) fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    pub(in crate::driver) fn add_graph(&mut self, owner: Owner) -> u64 {
        let handle = fresh();
        let graph = Graph {
            owner,
            id: self.next_id(),
            nodes: BTreeMap::new(),
            next_local_id: 0,
            objects: BTreeMap::new(),
            clone_of: HashMap::new(),
            conditionals: Vec::new(),
            is_body: false,
        };
        self.graphs.insert(handle, graph);
        handle
    }

    /// Fails with `INVALID_VALUE` unless all links are distinct nodes of `graph`.
    pub(in crate::driver) fn check_links(&self, graph: u64, links: &[Link]) -> Status {
        let nodes = &self.graph(graph)?.nodes;
        let mut seen = std::collections::HashSet::new();
        for &(node, edge) in links {
            let from = nodes.get(&node).ok_or(INVALID_VALUE)?;
            let is_kernel = matches!(from.payload, Payload::Kernel(_));
            if !seen.insert(node) || (!edge.is_default() && !is_kernel) {
                return Err(INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Adds a node that depends on `links`, which the caller has checked.
    pub(in crate::driver) fn add_node(
        &mut self,
        graph: u64,
        links: Vec<Link>,
        payload: Payload,
    ) -> Status<u64> {
        let handle = fresh();
        let target = self.graph_mut(graph)?;
        for &(from, edge) in &links {
            if let Some(from) = target.nodes.get_mut(&from) {
                from.before.push((handle, edge));
            }
        }
        let inner = payload.inner();
        let local_id = target.next_local_id;
        target.next_local_id += 1;
        let node = Node {
            payload,
            after: links,
            before: Vec::new(),
            local_id,
        };
        target.nodes.insert(handle, node);
        self.graph_of.insert(handle, graph);
        for graph in inner {
            self.graph_mut(graph)?.owner = Owner::Node(handle);
        }
        Ok(handle)
    }

    pub(in crate::driver) fn add_edge(&mut self, from: u64, to: u64, edge: Edge) -> Status {
        self.node_mut(from)?.before.push((to, edge));
        self.node_mut(to)?.after.push((from, edge));
        Ok(())
    }

    pub(in crate::driver) fn remove_edge(&mut self, from: u64, to: u64, edge: Edge) -> Status {
        self.node_mut(from)?
            .before
            .retain(|&link| link != (to, edge));
        self.node_mut(to)?
            .after
            .retain(|&link| link != (from, edge));
        Ok(())
    }

    /// Removes a node from its graph, together with the graphs that it contains.
    pub(in crate::driver) fn remove_node(&mut self, handle: u64) -> Status {
        let graph_handle = self.graph_of_node(handle)?;
        let graph = self.graph_mut(graph_handle)?;
        let node = graph.nodes.remove(&handle).ok_or(INVALID_VALUE)?;
        for other in graph.nodes.values_mut() {
            other.after.retain(|&(from, _)| from != handle);
            other.before.retain(|&(to, _)| to != handle);
        }
        self.graph_of.remove(&handle);
        for inner in node.payload.inner() {
            self.remove_graph(inner);
        }
        Ok(())
    }

    /// Removes a graph with its nodes and the graphs that they contain.
    pub(in crate::driver) fn remove_graph(&mut self, handle: u64) {
        let Some(graph) = self.graphs.remove(&handle) else {
            return;
        };
        for (node, content) in graph.nodes {
            self.graph_of.remove(&node);
            for inner in content.payload.inner() {
                self.remove_graph(inner);
            }
        }
    }

    /// Clones a graph with its nodes and retains its user objects once more.
    pub(in crate::driver) fn clone_graph(&mut self, original: u64, owner: Owner) -> Status<u64> {
        let copy = self.add_graph(owner);
        let source = self.graph(original)?;
        let nodes: Vec<(u64, Payload, Vec<Link>)> = source
            .nodes
            .iter()
            .map(|(&handle, node)| (handle, node.payload.clone(), node.after.clone()))
            .collect();
        let objects = source.objects.clone();
        let mut new = HashMap::new();
        for (handle, payload, _) in &nodes {
            let payload = match payload {
                Payload::Child(child) => Payload::Child(self.clone_graph(*child, Owner::User)?),
                other => other.clone(),
            };
            new.insert(*handle, self.add_node(copy, Vec::new(), payload)?);
        }
        for (handle, _, after) in &nodes {
            for (from, edge) in after {
                if let (Some(&from), Some(&to)) = (new.get(from), new.get(handle)) {
                    self.add_edge(from, to, *edge)?;
                }
            }
        }
        let graph = self.graph_mut(copy)?;
        graph.objects = objects;
        graph.clone_of = new;
        Ok(copy)
    }

    /// Returns the number of graphs that enclose this one.
    pub(in crate::driver) fn depth(&self, graph: u64) -> usize {
        let around = |graph: &u64| match self.graphs.get(graph)?.owner {
            Owner::Node(node) => self.graph_of.get(&node).copied(),
            Owner::User | Owner::Capture(_) => None,
        };
        std::iter::successors(Some(graph), around).skip(1).count()
    }

    /// Returns the nesting depth of the graphs inside this one.
    pub(in crate::driver) fn height(&self, graph: u64) -> usize {
        let nodes = self.graphs.get(&graph).map(|graph| graph.nodes.values());
        let inner = nodes
            .into_iter()
            .flatten()
            .flat_map(|node| node.payload.inner());
        inner.map(|graph| 1 + self.height(graph)).max().unwrap_or(0)
    }

    /// Returns whether a graph, or a graph inside of it, has a node for which `which` is true.
    pub(in crate::driver) fn any_node(
        &self,
        graph: u64,
        which: &impl Fn(&Payload) -> bool,
    ) -> bool {
        let Some(graph) = self.graphs.get(&graph) else {
            return false;
        };
        graph.nodes.values().any(|node| {
            which(&node.payload)
                || node
                    .payload
                    .inner()
                    .into_iter()
                    .any(|inner| self.any_node(inner, which))
        })
    }
}

//! Executable graphs: copies of graphs, sorted and validated.

use std::collections::HashMap;
use std::sync::Arc;

use cuda_sys::CUgraphInstantiateResult;

use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::conditional::Cell;
use crate::driver::objects::graph::memory::GraphMemory;
use crate::driver::objects::graph::model::Link;
use crate::driver::objects::graph::object::Object;
use crate::driver::objects::graph::payload::Payload;
use crate::engine::OpId;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
pub(in crate::driver) const AUTO_FREE: u64 = 1;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`
pub(in crate::driver) const NODE_PRIORITY: u64 = 8;

/// An executable graph.
#[derive(Debug)]
pub(in crate::driver) struct Exec {
    /// The graph from which it was instantiated.
    pub(in crate::driver) graph: u64,
    pub(in crate::driver) id: u32,
    pub(in crate::driver) flags: u64,
    pub(in crate::driver) template: Template,
    /// The operation that ends the last launch.
    pub(in crate::driver) last: Option<OpId>,
}

/// The nodes in the order of creation, and an order in which they can run.
#[derive(Clone, Debug, Default)]
pub(in crate::driver) struct Template {
    pub(in crate::driver) nodes: Vec<ExecNode>,
    pub(in crate::driver) order: Vec<usize>,
    /// The user objects that launches keep alive.
    objects: Vec<Arc<Object>>,
    /// The conditional values; those with a default are reset when a launch begins.
    cells: Vec<Arc<Cell>>,
}

#[derive(Clone, Debug)]
pub(in crate::driver) struct ExecNode {
    /// The node of the original graph.
    pub(in crate::driver) source: u64,
    pub(in crate::driver) payload: Payload,
    pub(in crate::driver) after: Vec<usize>,
    pub(in crate::driver) links: Vec<Link>,
    pub(in crate::driver) is_enabled: bool,
    /// The child graph, or the bodies of a conditional node.
    pub(in crate::driver) inner: Vec<Template>,
}

/// The reason why a graph cannot be instantiated, and the node that causes it.
pub(in crate::driver) type InstantiateError = (CUgraphInstantiateResult, u64);

impl Template {
    /// Visits all nodes, including nested ones.
    pub(in crate::driver) fn visit<'a>(&'a self, see: &mut impl FnMut(&'a ExecNode)) {
        for node in &self.nodes {
            see(node);
            for inner in &node.inner {
                inner.visit(see);
            }
        }
    }

    /// Visits this graph and all nested graphs.
    fn visit_graphs<'a>(&'a self, see: &mut impl FnMut(&'a Self)) {
        see(self);
        for inner in self.nodes.iter().flat_map(|node| &node.inner) {
            inner.visit_graphs(see);
        }
    }

    /// Returns the user objects of this graph and of all nested graphs.
    pub(in crate::driver) fn objects(&self) -> Vec<Arc<Object>> {
        let mut all = Vec::new();
        self.visit_graphs(&mut |it| all.extend(it.objects.iter().cloned()));
        all
    }

    /// Returns the conditional values of this graph and of all nested graphs.
    pub(in crate::driver) fn cells(&self) -> Vec<Arc<Cell>> {
        let mut all = Vec::new();
        self.visit_graphs(&mut |it| all.extend(it.cells.iter().cloned()));
        all
    }

    /// Takes over the parameters, user objects and conditional values of `new`. Nodes of both are
    /// matched by position.
    pub(in crate::driver) fn update(&mut self, new: Self) {
        self.objects = new.objects;
        self.cells = new.cells;
        for (own, new) in self.nodes.iter_mut().zip(new.nodes) {
            own.payload = new.payload;
            for (own, new) in own.inner.iter_mut().zip(new.inner) {
                own.update(new);
            }
        }
    }

    /// Returns whether kernels can update one of its nodes.
    pub(in crate::driver) fn is_device_updatable(&self) -> bool {
        let mut found = false;
        self.visit(&mut |node| found |= node.payload.is_device_updatable());
        found
    }

    /// Returns the node that was made from `source`.
    pub(in crate::driver) fn find_mut(&mut self, source: u64) -> Option<&mut ExecNode> {
        for node in &mut self.nodes {
            if node.source == source {
                return Some(node);
            }
            for inner in &mut node.inner {
                if let Some(found) = inner.find_mut(source) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Returns the memory that the nodes allocate, and the memory that they free.
    pub(in crate::driver) fn memory(&self) -> [Vec<Arc<GraphMemory>>; 2] {
        let (mut allocated, mut freed) = (Vec::new(), Vec::new());
        self.visit(&mut |node| match &node.payload {
            Payload::Alloc(memory) => allocated.push(Arc::clone(memory)),
            Payload::Free(memory) => freed.push(Arc::clone(memory)),
            _ => {}
        });
        [allocated, freed]
    }

    /// Returns the most memory of a device that is allocated at once, if `allocated` bytes are at
    /// the start and the nodes run in their order.
    pub(in crate::driver) fn peak_memory(&self, device: usize, mut allocated: u64) -> u64 {
        let mut peak = allocated;
        for node in self.order.iter().filter_map(|&index| self.nodes.get(index)) {
            match &node.payload {
                Payload::Alloc(memory) if memory.device.ordinal == device => {
                    allocated += memory.size;
                }
                Payload::Free(memory) if memory.device.ordinal == device => {
                    allocated = allocated.saturating_sub(memory.size);
                }
                _ => {}
            }
            peak = peak.max(allocated);
            for inner in &node.inner {
                peak = peak.max(inner.peak_memory(device, allocated));
            }
        }
        peak
    }

    /// Returns an order in which each node comes after its dependencies, or the index of a node in
    /// a cycle.
    fn sorted(&self) -> Result<Vec<usize>, usize> {
        let mut open: Vec<usize> = self.nodes.iter().map(|node| node.after.len()).collect();
        let mut next = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for &before in &node.after {
                next[before].push(index);
            }
        }
        let mut order: Vec<usize> = (0..open.len()).filter(|&index| open[index] == 0).collect();
        let mut done = 0;
        while let Some(&index) = order.get(done) {
            done += 1;
            for &after in &next[index] {
                open[after] -= 1;
                if open[after] == 0 {
                    order.push(after);
                }
            }
        }
        match open.iter().position(|&left| left > 0) {
            Some(stuck) => Err(stuck),
            None => Ok(order),
        }
    }
}

impl GraphState {
    /// Creates a copy of a graph in its current state.
    pub(in crate::driver) fn template(&self, graph: u64) -> Result<Template, InstantiateError> {
        self.template_in(graph, false)
    }

    /// Creates the copy of a graph that may be the body of a conditional node.
    fn template_in(&self, graph: u64, is_in_body: bool) -> Result<Template, InstantiateError> {
        let invalid = |node| {
            (
                CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
                node,
            )
        };
        let graph = self.graphs.get(&graph).ok_or(invalid(0))?;
        let numbers: HashMap<u64, usize> = graph.nodes.keys().copied().zip(0..).collect();
        let mut template = Template {
            objects: graph
                .objects
                .values()
                .map(|(object, _)| Arc::clone(object))
                .collect(),
            cells: graph
                .conditionals
                .iter()
                .map(|(_, cell)| Arc::clone(cell))
                .collect(),
            ..Template::default()
        };
        let is_in_body = is_in_body || graph.is_body;
        for (&source, node) in &graph.nodes {
            if is_in_body && !node.payload.may_be_in_body() {
                return Err(invalid(source));
            }
            let inner = node.payload.inner().into_iter();
            let number = |&(from, _): &Link| numbers.get(&from).copied();
            template.nodes.push(ExecNode {
                source,
                payload: node.payload.clone(),
                after: node.after.iter().filter_map(number).collect(),
                links: node.after.clone(),
                is_enabled: true,
                inner: inner
                    .map(|inner| self.template_in(inner, is_in_body))
                    .collect::<Result<_, _>>()?,
            });
        }
        template.order = template
            .sorted()
            .map_err(|stuck| invalid(template.nodes[stuck].source))?;
        Ok(template)
    }
}

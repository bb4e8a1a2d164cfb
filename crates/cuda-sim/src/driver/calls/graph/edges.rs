//! Edges, and queries of the nodes and edges of a graph.

use cuda_sys::{CUgraph_st, CUgraphEdgeData, CUgraphNode, CUgraphNode_st, CUgraphNodeType};

use crate::driver::arg::{Arg, In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::edge::Edge;
use crate::driver::objects::graph::model::Link;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::{INVALID_VALUE, LOSSY_QUERY, Status};

/// Returns a null array of edge data, which means default edges.
pub(in crate::driver) fn no_data() -> In<CUgraphEdgeData> {
    // SAFETY: a null pointer is never dereferenced.
    unsafe { std::ptr::null::<CUgraphEdgeData>().wrap() }
}

exports! {
    cuGraphGetNodes => graph_get_nodes;
    cuGraphGetRootNodes => graph_get_root_nodes;
    cuGraphGetEdges => graph_get_edges;
    cuGraphGetEdges_v2 => graph_get_edges_v2;
    cuGraphNodeGetType => graph_node_get_type;
    cuGraphNodeGetDependencies => graph_node_get_dependencies;
    cuGraphNodeGetDependencies_v2 => graph_node_get_dependencies_v2;
    cuGraphNodeGetDependentNodes => graph_node_get_dependent_nodes;
    cuGraphNodeGetDependentNodes_v2 => graph_node_get_dependent_nodes_v2;
    cuGraphAddDependencies => graph_add_dependencies;
    cuGraphAddDependencies_v2 => graph_add_dependencies_v2;
    cuGraphRemoveDependencies => graph_remove_dependencies;
    cuGraphRemoveDependencies_v2 => graph_remove_dependencies_v2;
}

/// Returns a list in the manner of `cuda.h`: without an output array its length, otherwise as many
/// elements as there is room for.
fn put_list<T>(
    items: &[T],
    count: Out<usize>,
    wants_list: bool,
    mut put: impl FnMut(usize, Option<&T>),
) -> Status {
    if !wants_list {
        return count.set(items.len());
    }
    let room = count.get()?;
    for index in 0..room {
        put(index, items.get(index));
    }
    count.set(items.len().min(room))
}

fn put_nodes(items: &[u64], nodes: Out<CUgraphNode>, count: Out<usize>) -> Status {
    put_list(items, count, !nodes.is_null(), |index, node| {
        nodes.set_at(index, pointer(node.copied().unwrap_or(0)));
    })
}

fn put_links(
    links: &[Link],
    nodes: Out<CUgraphNode>,
    data: Option<Out<CUgraphEdgeData>>,
    count: Out<usize>,
) -> Status {
    let data = data.filter(|data| !data.is_null());
    if nodes.is_null() && data.is_some() {
        return Err(INVALID_VALUE);
    }
    // An output array of length 0 is rejected, as the real driver does.
    if !nodes.is_null() && count.get()? == 0 {
        return Err(INVALID_VALUE);
    }
    if data.is_none() && !nodes.is_null() && links.iter().any(|(_, edge)| !edge.is_default()) {
        return Err(LOSSY_QUERY);
    }
    put_list(links, count, !nodes.is_null(), |index, link| {
        let (node, edge) = link.copied().unwrap_or_default();
        nodes.set_at(index, pointer(node));
        if let Some(data) = data {
            data.set_at(index, edge.raw());
        }
    })
}

impl Call {
    fn graph_get_nodes(
        &self,
        graph: Out<CUgraph_st>,
        nodes: Out<CUgraphNode>,
        count: Out<usize>,
    ) -> Status {
        let state = self.graphs.lock();
        let all: Vec<u64> = state.graph(graph.handle())?.nodes.keys().copied().collect();
        put_nodes(&all, nodes, count)
    }

    fn graph_get_root_nodes(
        &self,
        graph: Out<CUgraph_st>,
        nodes: Out<CUgraphNode>,
        count: Out<usize>,
    ) -> Status {
        let state = self.graphs.lock();
        let all = state.graph(graph.handle())?.nodes.iter();
        let roots = all.filter(|(_, node)| node.after.is_empty());
        let roots: Vec<u64> = roots.map(|(&handle, _)| handle).collect();
        put_nodes(&roots, nodes, count)
    }

    fn graph_get_edges(
        &self,
        graph: Out<CUgraph_st>,
        from: Out<CUgraphNode>,
        to: Out<CUgraphNode>,
        count: Out<usize>,
    ) -> Status {
        self.put_edges(graph, [from, to], None, count)
    }

    fn graph_get_edges_v2(
        &self,
        graph: Out<CUgraph_st>,
        from: Out<CUgraphNode>,
        to: Out<CUgraphNode>,
        data: Out<CUgraphEdgeData>,
        count: Out<usize>,
    ) -> Status {
        self.put_edges(graph, [from, to], Some(data), count)
    }

    fn put_edges(
        &self,
        graph: Out<CUgraph_st>,
        [from, to]: [Out<CUgraphNode>; 2],
        data: Option<Out<CUgraphEdgeData>>,
        count: Out<usize>,
    ) -> Status {
        let state = self.graphs.lock();
        let nodes = state.graph(graph.handle())?.nodes.iter();
        let edges: Vec<(u64, u64, Edge)> = nodes
            .flat_map(|(&to, node)| node.after.iter().map(move |&(from, edge)| (from, to, edge)))
            .collect();
        let data = data.filter(|data| !data.is_null());
        let wants_list = !from.is_null();
        if from.is_null() != to.is_null() || (!wants_list && data.is_some()) {
            return Err(INVALID_VALUE);
        }
        if wants_list && data.is_none() && edges.iter().any(|(.., edge)| !edge.is_default()) {
            return Err(LOSSY_QUERY);
        }
        put_list(&edges, count, wants_list, |index, edge| {
            let (first, second, edge) = edge.copied().unwrap_or_default();
            from.set_at(index, pointer(first));
            to.set_at(index, pointer(second));
            if let Some(data) = data {
                data.set_at(index, edge.raw());
            }
        })
    }

    fn graph_node_get_type(&self, node: Out<CUgraphNode_st>, kind: Out<CUgraphNodeType>) -> Status {
        kind.required()?;
        kind.set(self.graphs.lock().node(node.handle())?.payload.kind())
    }

    fn graph_node_get_dependencies(
        &self,
        node: Out<CUgraphNode_st>,
        nodes: Out<CUgraphNode>,
        count: Out<usize>,
    ) -> Status {
        put_links(
            &self.graphs.lock().node(node.handle())?.after,
            nodes,
            None,
            count,
        )
    }

    fn graph_node_get_dependencies_v2(
        &self,
        node: Out<CUgraphNode_st>,
        nodes: Out<CUgraphNode>,
        data: Out<CUgraphEdgeData>,
        count: Out<usize>,
    ) -> Status {
        put_links(
            &self.graphs.lock().node(node.handle())?.after,
            nodes,
            Some(data),
            count,
        )
    }

    fn graph_node_get_dependent_nodes(
        &self,
        node: Out<CUgraphNode_st>,
        nodes: Out<CUgraphNode>,
        count: Out<usize>,
    ) -> Status {
        put_links(
            &self.graphs.lock().node(node.handle())?.before,
            nodes,
            None,
            count,
        )
    }

    fn graph_node_get_dependent_nodes_v2(
        &self,
        node: Out<CUgraphNode_st>,
        nodes: Out<CUgraphNode>,
        data: Out<CUgraphEdgeData>,
        count: Out<usize>,
    ) -> Status {
        put_links(
            &self.graphs.lock().node(node.handle())?.before,
            nodes,
            Some(data),
            count,
        )
    }

    fn graph_add_dependencies(
        &self,
        graph: Out<CUgraph_st>,
        from: In<CUgraphNode>,
        to: In<CUgraphNode>,
        count: usize,
    ) -> Status {
        self.graph_add_dependencies_v2(graph, from, to, no_data(), count)
    }

    /// `cuGraphAddDependencies()`—Adds either all edges or none. Cycles are detected when the graph
    /// is instantiated.
    fn graph_add_dependencies_v2(
        &self,
        graph: Out<CUgraph_st>,
        from: In<CUgraphNode>,
        to: In<CUgraphNode>,
        data: In<CUgraphEdgeData>,
        count: usize,
    ) -> Status {
        let mut state = self.graphs.lock();
        let mut new = std::collections::HashSet::new();
        let mut edges = Vec::new();
        let nodes = &state.graph(graph.handle())?.nodes;
        for index in 0..count {
            let from = from.get_at(index)?.addr() as u64;
            let to = to.get_at(index)?.addr() as u64;
            let edge = Edge::read(data, index)?;
            let source = nodes.get(&from).ok_or(INVALID_VALUE)?;
            let target = nodes.get(&to).ok_or(INVALID_VALUE)?;
            let both_kernels = matches!(source.payload, Payload::Kernel(_))
                && matches!(target.payload, Payload::Kernel(_));
            let known = target.after.iter().any(|&(node, _)| node == from);
            if from == to
                || known
                || !new.insert((from, to))
                || (!edge.is_default() && !both_kernels)
            {
                return Err(INVALID_VALUE);
            }
            edges.push((from, to, edge));
        }
        for (from, to, edge) in edges {
            state.add_edge(from, to, edge)?;
        }
        Ok(())
    }

    fn graph_remove_dependencies(
        &self,
        graph: Out<CUgraph_st>,
        from: In<CUgraphNode>,
        to: In<CUgraphNode>,
        count: usize,
    ) -> Status {
        self.graph_remove_dependencies_v2(graph, from, to, no_data(), count)
    }

    fn graph_remove_dependencies_v2(
        &self,
        graph: Out<CUgraph_st>,
        from: In<CUgraphNode>,
        to: In<CUgraphNode>,
        data: In<CUgraphEdgeData>,
        count: usize,
    ) -> Status {
        let mut state = self.graphs.lock();
        let model = state.graph(graph.handle())?;
        if count > 0 && model.has_memory_nodes() {
            return Err(INVALID_VALUE);
        }
        let mut edges: Vec<(u64, u64, Edge)> = Vec::new();
        for index in 0..count {
            let from = from.get_at(index)?.addr() as u64;
            let to = to.get_at(index)?.addr() as u64;
            let edge = Edge::read(data, index)?;
            let target = model.nodes.get(&to).ok_or(INVALID_VALUE)?;
            if !target.after.contains(&(from, edge)) || edges.contains(&(from, to, edge)) {
                return Err(INVALID_VALUE);
            }
            edges.push((from, to, edge));
        }
        for (from, to, edge) in edges {
            state.remove_edge(from, to, edge)?;
        }
        Ok(())
    }
}

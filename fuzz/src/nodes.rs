//! Graphs and their nodes: a call gets nodes of the graph that it names, of the type that its
//! function needs.

use std::ptr;

use cuda_sys::{
    CUgraph, CUgraphNode, CUgraphNodeType, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

use crate::maker::Maker;

/// The largest number of nodes that are looked at.
const NODES: usize = 64;

/// A part of the names of the functions for nodes of one type, and the type.
const TYPES: &[(&str, u32)] = &[
    ("KernelNode", 0),
    ("MemcpyNode", 1),
    ("MemsetNode", 2),
    ("HostNode", 3),
    ("ChildGraphNode", 4),
    ("EventWaitNode", 6),
    ("EventRecordNode", 7),
    ("SemaphoresSignalNode", 8),
    ("SemaphoresWaitNode", 9),
    ("MemAllocNode", 10),
    ("MemFreeNode", 11),
    ("BatchMemOpNode", 12),
];

/// The graphs and nodes from which the arguments of a call are chosen.
#[derive(Default)]
pub(crate) struct Graphs {
    /// The graph whose nodes the call gets, or 0.
    pub(crate) current: u64,
    /// Whether a list of nodes of the call has none.
    pub(crate) is_empty: bool,
    /// The last node in the arguments of the call, or 0.
    node: u64,
    /// The type of the last node, or of a node that the call adds.
    pub(crate) node_type: Option<u32>,
    /// The place of an edge in the list of edges.
    edge: Option<usize>,
}

fn handle<T>(value: u64) -> *mut T {
    ptr::without_provenance_mut(value as usize)
}

impl Maker<'_> {
    /// Makes a graph that fits the function. Nodes come from it, or from the graph that was cloned.
    pub(crate) fn fitting_graph(&mut self) -> u64 {
        // The node that comes first is of the original.
        if self.function == "cuGraphNodeFindInClone" && self.graphs.current != 0 {
            let original = self.graphs.current;
            let all = self.known.handles("CUgraph");
            let clone = all.iter().find(|&&it| self.known.parent(it) == original);
            return clone.copied().unwrap_or(0);
        }
        // An executable graph takes only a child with the same nodes.
        if self.function == "cuGraphExecChildGraphNodeSetParams" {
            let mut child: CUgraph = ptr::null_mut();
            let node = handle(self.graphs.node);
            // SAFETY: the pointer is to a local.
            unsafe {
                self.driver
                    .cuGraphChildGraphNodeGetGraph(node, &raw mut child)
            };
            return child.addr() as u64;
        }
        let graph = self.known_handle("CUgraph");
        self.graphs.current = graph;
        graph
    }

    /// Makes a graph that can be executed; nodes come from its graph.
    pub(crate) fn fitting_exec(&mut self) -> u64 {
        let exec = self.known_handle("CUgraphExec");
        self.graphs.current = self.known.parent(exec);
        exec
    }

    /// Makes a stream. If the function needs one that is captured, there is one, and nodes come
    /// from its graph.
    pub(crate) fn fitting_stream(&mut self) -> u64 {
        let captured = ["EndCapture", "UpdateCapture", "GetCaptureInfo"]
            .iter()
            .any(|part| self.function.contains(part));
        if !captured {
            return self.known_handle("CUstream");
        }
        let all = self.known.handles("CUstream").to_vec();
        for stream in all {
            let graph = self.captured_graph(stream);
            if graph != 0 {
                self.graphs.current = graph;
                return stream;
            }
        }
        let stream = self.known_handle("CUstream");
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: handles of the software driver are numbers, which may be invalid.
        unsafe { self.driver.cuStreamBeginCapture_v2(handle(stream), mode) };
        self.graphs.current = self.captured_graph(stream);
        stream
    }

    /// The graph into which a stream is captured, or 0.
    fn captured_graph(&self, stream: u64) -> u64 {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut graph: CUgraph = ptr::null_mut();
        let stream: CUstream = handle(stream);
        // SAFETY: the pointers are to locals or null, which the function allows.
        unsafe {
            self.driver.cuStreamGetCaptureInfo_v2(
                stream,
                &raw mut status,
                ptr::null_mut(),
                &raw mut graph,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
            graph.addr() as u64
        } else {
            0
        }
    }

    /// Makes a node of the call's graph.
    pub(crate) fn fitting_node(&mut self, param: &str) -> u64 {
        let adds = self.function.starts_with("cuGraphAdd");
        let graph = self.graphs.current;
        if adds || graph != 0 && ["from", "to"].contains(&param) {
            return self.dependency(graph, param);
        }
        let wanted = TYPES
            .iter()
            .find(|(part, _)| self.function.contains(part))
            .map(|entry| entry.1);
        let mut graphs = vec![graph];
        if graph == 0 {
            graphs = self.known.handles("CUgraph").to_vec();
            let first = self.below(graphs.len().max(1));
            graphs.rotate_left(first);
        }
        if self.function == "cuGraphNodeFindInClone" {
            let known = &self.known;
            graphs.retain(|&graph| {
                let mut all = known.handles("CUgraph").iter();
                all.any(|&other| known.parent(other) == graph)
            });
        }
        for graph in graphs {
            let mut nodes = self.nodes_of(graph);
            if wanted.is_some() {
                nodes.retain(|&node| self.type_of(node) == wanted);
            }
            if nodes.is_empty() {
                continue;
            }
            let node = nodes[self.below(nodes.len())];
            self.graphs.current = graph;
            self.graphs.node = node;
            self.graphs.node_type = self.type_of(node);
            return node;
        }
        0
    }

    /// Makes a node for a list of nodes. The edges that are removed exist, and those that are added
    /// make no cycle.
    fn dependency(&mut self, graph: u64, param: &str) -> u64 {
        if self.function.contains("RemoveDependencies") {
            let edges = self.edges_of(graph);
            if edges.is_empty() {
                self.graphs.is_empty = true;
                return 0;
            }
            let chosen = match self.graphs.edge {
                Some(edge) => edge,
                None => self.below(edges.len()),
            };
            self.graphs.edge = Some(chosen);
            return edges[chosen % edges.len()][usize::from(param == "to")];
        }
        let nodes = self.nodes_of(graph);
        let half = nodes.len().div_ceil(2);
        let (start, count) = match param {
            "from" => (0, half),
            "to" => (half, nodes.len() - half),
            _ => (0, nodes.len()),
        };
        if count == 0 {
            self.graphs.is_empty = true;
            return 0;
        }
        nodes[start + self.below(count)]
    }

    /// The parameters that the call's node has, because an executable graph takes no others with
    /// another number of operations or with memory of another kind.
    pub(crate) fn own_params(&mut self, name: &str) -> Option<Vec<u64>> {
        let is_changed = self.plain && self.function.starts_with("cuGraphExec");
        if !is_changed || self.below(4) == 0 {
            return None;
        }
        let node = handle(self.graphs.node);
        let mut words = vec![0_u64; 32];
        let place = words.as_mut_ptr();
        let status = match name {
            // SAFETY: the structure has fewer words.
            "CUDA_MEMCPY3D" => unsafe {
                self.driver.cuGraphMemcpyNodeGetParams(node, place.cast())
            },
            // SAFETY: as above, the structure has fewer words.
            "CUDA_BATCH_MEM_OP_NODE_PARAMS" => unsafe {
                self.driver
                    .cuGraphBatchMemOpNodeGetParams(node, place.cast())
            },
            _ => return None,
        };
        status.is_success().then_some(words)
    }

    fn nodes_of(&self, graph: u64) -> Vec<u64> {
        let (mut nodes, mut count) = ([ptr::null_mut(); NODES], NODES);
        // SAFETY: there is room for `count` nodes.
        let status = unsafe {
            self.driver
                .cuGraphGetNodes(handle(graph), nodes.as_mut_ptr(), &raw mut count)
        };
        if !status.is_success() {
            return Vec::new();
        }
        let nodes = nodes.iter().take(count.min(NODES));
        nodes.map(|node| node.addr() as u64).collect()
    }

    fn edges_of(&self, graph: u64) -> Vec<[u64; 2]> {
        let none: [CUgraphNode; NODES] = [ptr::null_mut(); NODES];
        let (mut from, mut to, mut count) = (none, none, NODES);
        // SAFETY: there is room for `count` edges.
        let status = unsafe {
            self.driver.cuGraphGetEdges(
                handle(graph),
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                &raw mut count,
            )
        };
        if !status.is_success() {
            return Vec::new();
        }
        let edges = from.iter().zip(&to).take(count.min(NODES));
        edges
            .map(|(from, to)| [from.addr() as u64, to.addr() as u64])
            .collect()
    }

    fn type_of(&self, node: u64) -> Option<u32> {
        let mut sort = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: the pointer is to a local.
        let status = unsafe { self.driver.cuGraphNodeGetType(handle(node), &raw mut sort) };
        status.is_success().then_some(sort.0)
    }
}

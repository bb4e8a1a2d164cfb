//! Nodes of graphs as values, and the edges between them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use cuda_sys::CUgraphEdgeData;

/// The identity of a node of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// The number of the graph, unique in the process.
    pub(crate) graph: u64,
    /// The index among the nodes of the graph, in the order in which they were added.
    pub(crate) index: u32,
}

/// A node of a graph. `K`, a type of [`node_kind`], says what the node does.
pub struct Node<K> {
    id: NodeId,
    kind: PhantomData<fn() -> K>,
}

/// A dependency on a node, to be passed when another node is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    pub(crate) from: NodeId,
    pub(crate) kind: EdgeKind,
}

/// The progress that a node must have made before its dependent can begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeKind {
    /// The node is done. This is the default edge of CUDA (`CU_GRAPH_DEPENDENCY_TYPE_DEFAULT`),
    /// which the documentation of this crate calls a full edge.
    #[default]
    Full,
    /// Between two kernels: every block of the first has called `griddepcontrol.launch_dependents`
    /// or has ended. The second sees the writes of the first only after `griddepcontrol.wait`.
    /// Requires CUDA 12.3.
    Programmatic,
    /// Between two kernels: every block of the first has begun. Requires CUDA 12.3.
    LaunchOrder,
}

/// The kinds of nodes.
pub mod node_kind {
    /// Implemented by the types of this module.
    pub(crate) trait Kind {
        const VALUE: NodeKind;
    }

    macro_rules! kinds {
        ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
            $(
                $(#[$doc])*
                #[derive(Clone, Copy, Debug)]
                pub enum $name {}
            )*

            $(
                impl Kind for $name {
                    const VALUE: NodeKind = NodeKind::$name;
                }
            )*

            /// The kind of a node, as a value.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[non_exhaustive]
            pub enum NodeKind {
                $($(#[$doc])* $name,)*
            }

            impl NodeKind {
                /// Returns the driver's constant of the kind.
                #[must_use]
                pub const fn as_raw(self) -> cuda_sys::CUgraphNodeType {
                    match self {
                        $(Self::$name => cuda_sys::CUgraphNodeType::$raw),*
                    }
                }

                /// Returns the kind of a driver constant, or `None` if this crate does not know it.
                pub(crate) fn of_raw(raw: cuda_sys::CUgraphNodeType) -> Option<Self> {
                    match raw {
                        $(cuda_sys::CUgraphNodeType::$raw => Some(Self::$name),)*
                        _ => None,
                    }
                }
            }
        };
    }

    kinds! {
        /// Launches a kernel.
        Kernel = CU_GRAPH_NODE_TYPE_KERNEL;
        /// Copies memory.
        Memcpy = CU_GRAPH_NODE_TYPE_MEMCPY;
        /// Fills memory.
        Memset = CU_GRAPH_NODE_TYPE_MEMSET;
        /// Calls a closure.
        Host = CU_GRAPH_NODE_TYPE_HOST;
        /// Runs another graph.
        Child = CU_GRAPH_NODE_TYPE_GRAPH;
        /// Does nothing, but can be depended on.
        Empty = CU_GRAPH_NODE_TYPE_EMPTY;
        /// Waits for an event.
        EventWait = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
        /// Records an event.
        EventRecord = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
        /// Signals a semaphore of another API.
        ExternalSignal = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
        /// Waits for a semaphore of another API.
        ExternalWait = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
        /// Allocates memory.
        Alloc = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        /// Frees memory.
        Free = CU_GRAPH_NODE_TYPE_MEM_FREE;
        /// Waits for values in memory and writes values.
        BatchMemOp = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
        /// Runs one or none of its body graphs, or runs a body repeatedly.
        Conditional = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    }
}

pub use node_kind::NodeKind;

impl NodeId {
    /// Returns a full edge: the dependent begins when this node is done.
    #[must_use]
    pub fn edge(self) -> Edge {
        Edge {
            from: self,
            kind: EdgeKind::Full,
        }
    }

    /// Returns an edge of the given kind.
    #[must_use]
    pub fn edge_of(self, kind: EdgeKind) -> Edge {
        Edge { from: self, kind }
    }
}

impl<K> Node<K> {
    /// Wraps `id`, which must be a node of this kind.
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            kind: PhantomData,
        }
    }

    /// Returns the identity of the node, without its kind.
    #[must_use]
    pub fn id(self) -> NodeId {
        self.id
    }

    /// Returns a full edge: the dependent begins when this node is done.
    #[must_use]
    pub fn edge(self) -> Edge {
        self.id.edge()
    }
}

/// Edges with other conditions than the completion of the kernel.
impl Node<node_kind::Kernel> {
    /// Returns an edge to a kernel that begins when this one triggers it: see
    /// [`EdgeKind::Programmatic`].
    #[must_use]
    pub fn programmatic_edge(self) -> Edge {
        self.id.edge_of(EdgeKind::Programmatic)
    }

    /// Returns an edge to a kernel that begins when this one has begun: see
    /// [`EdgeKind::LaunchOrder`].
    #[must_use]
    pub fn launch_order_edge(self) -> Edge {
        self.id.edge_of(EdgeKind::LaunchOrder)
    }
}

impl EdgeKind {
    pub(crate) fn raw(self) -> CUgraphEdgeData {
        // `CU_GRAPH_KERNEL_NODE_PORT_…` and `CU_GRAPH_DEPENDENCY_TYPE_…`.
        let (from_port, type_) = match self {
            Self::Full => (0, 0),
            Self::Programmatic => (1, 1),
            Self::LaunchOrder => (2, 0),
        };
        CUgraphEdgeData {
            from_port,
            to_port: 0,
            type_,
            reserved: [0; 5],
        }
    }

    pub(crate) fn of_raw(raw: &CUgraphEdgeData) -> Self {
        match raw.from_port {
            1 => Self::Programmatic,
            2 => Self::LaunchOrder,
            _ => Self::Full,
        }
    }
}

impl Edge {
    /// Returns the node that the edge comes from.
    #[must_use]
    pub fn from(self) -> NodeId {
        self.from
    }

    /// Returns the progress that this node must have made.
    #[must_use]
    pub fn kind(self) -> EdgeKind {
        self.kind
    }
}

impl<K> From<Node<K>> for NodeId {
    fn from(node: Node<K>) -> Self {
        node.id
    }
}

impl<K> Clone for Node<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Node<K> {}

impl<K> PartialEq for Node<K> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<K> Eq for Node<K> {}

impl<K> Hash for Node<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<K> fmt::Debug for Node<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.id.index)
    }
}

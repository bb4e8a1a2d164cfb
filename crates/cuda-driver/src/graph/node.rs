//! Nodes of graphs as values, and the edges between them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use cuda_sys::CUgraphEdgeData;

/// A node of a graph, whatever it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// Which graph, of all that a process ever has.
    pub(crate) graph: u64,
    /// The place among its nodes, in the order in which they were added.
    pub(crate) index: u32,
}

/// A node of a graph that does what `K`, of [`node_kind`], says.
pub struct Node<K> {
    id: NodeId,
    kind: PhantomData<fn() -> K>,
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    pub(crate) from: NodeId,
    pub(crate) kind: EdgeKind,
}

/// How far a node must have come for the next to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeKind {
    /// It is done.
    #[default]
    Full,
    /// Between two kernels: every block of the first has called `griddepcontrol.launch_dependents`
    /// or has ended. The second sees the writes of the first only behind `griddepcontrol.wait`.
    /// CUDA 12.3 on.
    Programmatic,
    /// Between two kernels: every block of the first has begun. CUDA 12.3 on.
    LaunchOrder,
}

/// What nodes do.
pub mod node_kind {
    macro_rules! kinds {
        ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
            $(
                $(#[$doc])*
                #[derive(Clone, Copy, Debug)]
                pub enum $name {}
            )*

            /// What a node does, where only the running program knows.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[non_exhaustive]
            pub enum NodeKind {
                $($(#[$doc])* $name,)*
            }

            impl NodeKind {
                /// As the driver names it.
                #[must_use]
                pub const fn as_raw(self) -> cuda_sys::CUgraphNodeType {
                    match self {
                        $(Self::$name => cuda_sys::CUgraphNodeType::$raw),*
                    }
                }

                /// What the driver says that a node does.
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
        /// Does nothing: others wait for it.
        Empty = CU_GRAPH_NODE_TYPE_EMPTY;
        /// Waits for an event.
        EventWait = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
        /// Records an event.
        EventRecord = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
        /// Allocates memory.
        Alloc = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        /// Frees memory.
        Free = CU_GRAPH_NODE_TYPE_MEM_FREE;
        /// Waits for values and sets them.
        BatchMemOp = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
        /// Runs one of its body graphs, none, or one again and again.
        Conditional = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    }
}

pub use node_kind::NodeKind;

impl NodeId {
    /// The edge to a node that waits until this one is done.
    #[must_use]
    pub fn edge(self) -> Edge {
        Edge {
            from: self,
            kind: EdgeKind::Full,
        }
    }

    /// An edge of another kind.
    #[must_use]
    pub fn edge_of(self, kind: EdgeKind) -> Edge {
        Edge { from: self, kind }
    }
}

impl<K> Node<K> {
    /// `id` must be a node of this kind.
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            kind: PhantomData,
        }
    }

    /// The node without what it does.
    #[must_use]
    pub fn id(self) -> NodeId {
        self.id
    }

    /// The edge to a node that waits until this one is done.
    #[must_use]
    pub fn edge(self) -> Edge {
        self.id.edge()
    }
}

impl Node<node_kind::Kernel> {
    /// The edge to a kernel that may begin when this one allows it: see [`EdgeKind::Programmatic`].
    #[must_use]
    pub fn programmatic_edge(self) -> Edge {
        self.id.edge_of(EdgeKind::Programmatic)
    }

    /// The edge to a kernel that may begin when this one has begun: see [`EdgeKind::LaunchOrder`].
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
    /// The node that it comes from.
    #[must_use]
    pub fn from(self) -> NodeId {
        self.from
    }

    /// How far that must have come.
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

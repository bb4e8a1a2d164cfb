//! Graphs that the driver refuses.

use std::fmt;

use cuda_sys::{CUgraphExecUpdateResult, CUgraphInstantiateResult};

use super::DriverError;
use crate::graph::{NodeId, NodeKind};

/// Why a graph could not be made an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstantiateError {
    pub(crate) source: DriverError,
    pub(crate) reason: CUgraphInstantiateResult,
    pub(crate) node: Option<(NodeId, NodeKind)>,
}

/// Why an executable graph could not become like another graph. It is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphUpdateError {
    pub(crate) source: DriverError,
    pub(crate) reason: CUgraphExecUpdateResult,
    pub(crate) node: Option<(NodeId, NodeKind)>,
}

impl InstantiateError {
    /// The call that failed.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// The reason that the driver gives.
    #[must_use]
    pub fn reason(&self) -> CUgraphInstantiateResult {
        self.reason
    }

    /// The node that is in the way, and what it does, if the driver names one that is known.
    #[must_use]
    pub fn node(&self) -> Option<(NodeId, NodeKind)> {
        self.node
    }
}

impl GraphUpdateError {
    /// The call that failed.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// The reason that the driver gives.
    #[must_use]
    pub fn reason(&self) -> CUgraphExecUpdateResult {
        self.reason
    }

    /// The node of the other graph that is in the way, and what it does, if the driver names one
    /// that is known.
    #[must_use]
    pub fn node(&self) -> Option<(NodeId, NodeKind)> {
        self.node
    }
}

fn at(f: &mut fmt::Formatter<'_>, node: Option<(NodeId, NodeKind)>) -> fmt::Result {
    match node {
        Some((node, kind)) => write!(f, ", at node {} ({kind:?})", node.index),
        None => Ok(()),
    }
}

impl fmt::Display for InstantiateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CUgraphInstantiateResult as Reason;
        let reason = match self.reason {
            Reason::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE => "the graph has no valid structure",
            Reason::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED => {
                "a node cannot be run in this way"
            }
            Reason::CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED => {
                "nodes of several contexts cannot be run in this way"
            }
            Reason::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED => {
                "a conditional handle has no node"
            }
            _ => "the graph cannot be made an executable",
        };
        write!(f, "{}: {reason} ({})", self.source, self.reason.0)?;
        at(f, self.node)
    }
}

impl fmt::Display for GraphUpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CUgraphExecUpdateResult as Reason;
        let reason = match self.reason {
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED => "nodes or edges are others",
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED => "a node is of another kind",
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED
            | Reason::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE => {
                "the kernel of a node is another"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED => {
                "parameters changed that cannot"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED => {
                "attributes changed that cannot"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED => "a node cannot be changed so",
            _ => "the executable cannot be changed so",
        };
        write!(f, "{}: {reason} ({})", self.source, self.reason.0)?;
        at(f, self.node)
    }
}

//! Errors of instantiating and updating graphs.

use std::fmt;

use cuda_sys::{CUgraphExecUpdateResult, CUgraphInstantiateResult};

use super::DriverError;
use crate::types::{NodeId, NodeKind};

/// The reason why a graph could not be instantiated.
#[derive(Clone, PartialEq, Eq)]
pub struct InstantiateError {
    pub(crate) source: DriverError,
    pub(crate) reason: CUgraphInstantiateResult,
    pub(crate) node: Option<(NodeId, NodeKind)>,
}

/// The reason why an executable graph could not be updated from another graph. The executable is
/// unchanged.
#[derive(Clone, PartialEq, Eq)]
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

    /// The reason that the driver reports.
    #[must_use]
    pub fn reason(&self) -> CUgraphInstantiateResult {
        self.reason
    }

    /// The node that caused the failure and its kind, if the driver reports a node that this crate
    /// knows.
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

    /// The reason that the driver reports.
    #[must_use]
    pub fn reason(&self) -> CUgraphExecUpdateResult {
        self.reason
    }

    /// The node of the other graph that caused the failure and its kind, if the driver reports a
    /// node that this crate knows.
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
            Reason::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE => {
                "the structure of the graph is invalid"
            }
            Reason::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED => {
                "the operation of a node is not supported with these instantiation flags"
            }
            Reason::CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED => {
                "nodes of several contexts are not supported with these instantiation flags"
            }
            Reason::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED => {
                "a conditional handle is not used by any node"
            }
            _ => "the graph cannot be instantiated",
        };
        write!(f, "{}: {reason} ({})", self.source, self.reason.0)?;
        at(f, self.node)
    }
}

impl fmt::Display for GraphUpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CUgraphExecUpdateResult as Reason;
        let reason = match self.reason {
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED => {
                "the nodes or edges of the graphs differ"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED => "the kind of a node changed",
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED
            | Reason::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE => {
                "the kernel of a node changed in an unsupported way"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED => {
                "parameters of a node changed that cannot be updated"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED => {
                "attributes of a node changed that cannot be updated"
            }
            Reason::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED => {
                "a node does not support this update"
            }
            _ => "the executable graph cannot be updated from this graph",
        };
        write!(f, "{}: {reason} ({})", self.source, self.reason.0)?;
        at(f, self.node)
    }
}

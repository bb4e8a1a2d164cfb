//! Host nodes: nodes that call closures.

use std::sync::Arc;

use cuda_sys::{CUDA_HOST_NODE_PARAMS, CUgraphNode};

use super::change::ChangeNode;
use super::owners::OnFailure;
use super::params::{Adding, Changing, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::pending::{self, Closure};
use crate::types::node::{Edge, Node, node_kind};

/// Host functions.
impl Graph {
    /// `cuGraphAddHostNode(function)`—Adds a node that calls a closure once in each launch.
    ///
    /// The rules of [`Stream::launch_host`](crate::Stream::launch_host) apply: the closure must not
    /// call the driver, nor wait for code that does. It is dropped when no launch can call it any
    /// more. [`GraphExec::check_host`](crate::GraphExec::check_host) reports whether it panicked.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`](crate::Error::OtherGraph) or
    /// [`Error::NodeGone`](crate::Error::NodeGone) if an edge does not come from a node of this
    /// graph.
    #[doc(alias = "cuGraphAddHostNode")]
    #[doc(alias = "cudaGraphAddHostNode")]
    pub fn add_host(
        &mut self,
        after: &[Edge],
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Node<node_kind::Host>> {
        let (mut params, owners) = host_node(function);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the closure.
        unsafe { self.add(after, owners, &mut params) }
    }
}

/// New parameters of host functions.
impl GraphExec {
    /// `cuGraphExecHostNodeSetParams(node)`—Changes the closure that a host node calls, from the
    /// next launch on. Launches in flight call the old closure.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`](crate::Error::OtherGraph) and
    /// [`Error::NodeGone`](crate::Error::NodeGone) as for [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    #[doc(alias = "cudaGraphExecHostNodeSetParams")]
    pub fn set_host(
        &self,
        node: Node<node_kind::Host>,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<()> {
        let (mut params, owners) = host_node(function);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the closure.
        unsafe { self.set(node, owners, &mut params) }
    }
}

/// The parameters of a host node.
struct HostNode(CUDA_HOST_NODE_PARAMS);

impl NodeParams for HostNode {
    type Kind = node_kind::Host;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let params = &raw const self.0;
        // SAFETY: pointers and graph must be valid, and the function callable with this data at any
        // later time ← the caller guarantees the former for those of `it`; the data is a number, by
        // which the function looks up the closure.
        unsafe { call_add!(it, cuGraphAddHostNode, params) }
    }
}

/// Changes of host functions.
impl Graph {
    /// `cuGraphHostNodeSetParams(node)`—Changes the closure that a host node of this graph calls.
    /// See [`set_kernel`](Self::set_kernel) for executables.
    ///
    /// # Errors
    ///
    /// The errors of [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphHostNodeSetParams")]
    #[doc(alias = "cudaGraphHostNodeSetParams")]
    pub fn set_host(
        &mut self,
        node: Node<node_kind::Host>,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<()> {
        let (mut params, owners) = host_node(function);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the closure.
        unsafe { self.change(node, owners, &mut params) }
    }
}

impl ChangeNode for HostNode {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        // SAFETY: the node must be valid, and the function callable with this data at any later
        // time ← the caller guarantees the former; the data is a number, by which the function
        // looks up the closure.
        unsafe { call!(driver, cuGraphHostNodeSetParams(node, &raw const self.0)) }
    }
}

impl SetNodeParams for HostNode {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        let params = &raw const self.0;
        // SAFETY: executable and node must be valid, and the function callable with this data at
        // any later time ← the caller guarantees the former for those of `it`; the data is a
        // number, by which the function looks up the closure.
        unsafe { call_set!(it, cuGraphExecHostNodeSetParams, params) }
    }
}

/// Returns the parameters of a call of the closure, and the owner of the closure.
fn host_node(function: impl Fn() + Send + Sync + 'static) -> (HostNode, Owners) {
    let closure = Arc::new(Closure::new(function));
    let params = CUDA_HOST_NODE_PARAMS {
        fn_: Some(pending::called_again),
        userData: closure.as_data(),
    };
    let mut owners = Owners::default();
    owners.note_host_wait();
    owners.add_closure(&closure);
    (HostNode(params), owners)
}

impl OnFailure for Arc<Closure> {
    fn poison(&self, _: DriverError) {}
}

//! Host nodes: nodes that call closures.

use std::sync::Arc;

use cuda_sys::CUDA_HOST_NODE_PARAMS;

use super::build::Adding;
use super::owners::Told;
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::pending::{self, Closure};
use crate::types::node::{Edge, Node, NodeKind, node_kind};

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
    pub fn host(
        &mut self,
        after: &[Edge],
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Node<node_kind::Host>> {
        let (params, owners) = host_of(function);
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid, and the function callable with this data at
            // any later time ← those of `it` are; the data is a number, by which the function looks
            // up the closure.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddHostNode(it.node, it.graph, it.after, it.count, &raw const params)
                )
            }
        };
        // SAFETY: the call must add a host node with these edges that uses only what `owners` keeps
        // ← it does; `owners` keeps the closure.
        let id = unsafe { self.add(NodeKind::Host, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// Returns the parameters of a call of the closure for the driver, and the owner of the closure.
pub(super) fn host_of(
    function: impl Fn() + Send + Sync + 'static,
) -> (CUDA_HOST_NODE_PARAMS, Owners) {
    let closure = Arc::new(Closure::new(function));
    let params = CUDA_HOST_NODE_PARAMS {
        fn_: Some(pending::called_again),
        userData: closure.as_data(),
    };
    let mut owners = Owners::default();
    owners.note_blocking();
    owners.add_closure(&closure);
    (params, owners)
}

impl Told for Arc<Closure> {
    fn suspect(&self, _: DriverError) {}
}

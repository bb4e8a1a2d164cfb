//! Host nodes: closures in the order of a graph.

use std::sync::Arc;

use cuda_sys::CUDA_HOST_NODE_PARAMS;

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::owners::Told;
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::pending::{self, Closure};

impl Graph {
    /// `cuGraphAddHostNode(function)`—A node that calls a closure, once in each launch.
    ///
    /// What [`Stream::launch_host`](crate::Stream::launch_host) says of closures holds here: it
    /// must not call the driver, nor wait for something that does. It is dropped when no launch can
    /// call it any more. That it panicked, [`GraphExec::check_host`](crate::GraphExec::check_host)
    /// tells.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`](crate::Error::OtherGraph), or what the call answers.
    #[doc(alias = "cuGraphAddHostNode")]
    pub fn host(
        &mut self,
        after: &[Edge],
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Node<node_kind::Host>> {
        let (params, owners) = host_of(function);
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid, the function callable with this at any
            // later time ← those of `it` are, and it only looks for a closure of this number.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddHostNode(it.node, it.graph, it.after, it.count, &raw const params)
                )
            }
        };
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does.
        let id = unsafe { self.add(NodeKind::Host, after, owners, add) }?;
        Ok(Node::new(id))
    }
}

/// A closure as the driver takes it, and what keeps it.
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

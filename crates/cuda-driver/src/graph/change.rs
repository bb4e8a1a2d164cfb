//! Changes of the nodes of a graph (`cuGraphKernelNodeSetParams` and the calls for other kinds of
//! nodes). Executables that exist already are not affected.
//!
//! In C the program must know whether the new parameters need further edges. Here they are added as
//! for a new node.

use std::sync::Arc;

use cuda_sys::CUgraphNode;

use super::build::propagate;
use super::conflicts::NodeAccess;
use super::params::NodeParams;
use super::parts::{NodeIndex, Parts};
use super::{Graph, Owners};
use crate::driver::Driver;
use crate::error::{DriverError, Error, Result};
use crate::types::node::{EdgeKind, Node};

/// The parameters of a node that can change in a graph.
pub(super) trait ChangeNode: NodeParams {
    /// Makes the driver call that gives these parameters to `node`.
    ///
    /// # Safety
    ///
    /// The node is alive, and its graph is locked.
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError>;
}

impl Graph {
    /// Gives a node of this graph other parameters; `owners` lists what the node then uses. Adds
    /// the edges between this node and nodes with conflicting accesses.
    ///
    /// # Safety
    ///
    /// A node with these parameters uses only what `owners` keeps alive.
    pub(super) unsafe fn change<P: ChangeNode>(
        &mut self,
        node: Node<P::Kind>,
        owners: Owners,
        params: &mut P,
    ) -> Result<()> {
        if self.root.is_capturing() {
            return Err(Error::Capturing {
                what: "changing a node",
            });
        }
        let context = self.root.context();
        let driver = context.driver();
        if owners.may_wait_for_host() {
            driver.note_host_wait();
        }
        let accesses = owners.accesses();
        // Declared before the lock, so that the former owners are dropped after it is released.
        let mut owners = Arc::new(owners);
        let mut all = self.root.lock();
        let index = all[self.at].index_of(node.id())?;
        all[self.at].check_change(index, &accesses)?;
        // The edges come first: a later failure then leaves only superfluous edges.
        propagate(&mut all, self.at, driver, &accesses)?;
        let parts = &mut all[self.at];
        for other in parts.indices() {
            // Checked one by one, because each new edge orders further nodes.
            if let Some((from, to)) = parts.missing_edge(index, other, &accesses) {
                parts.add_edge(driver, from, to, EdgeKind::Full)?;
            }
        }
        let _current = context.enter()?;
        // SAFETY: the node must be alive, and its graph locked ← `all` locks the graph, which has
        // the node.
        unsafe { params.change(driver, parts.raw_of(index)) }?;
        parts.exchange_owners(index, &mut owners);
        Ok(())
    }
}

impl Parts {
    /// Fails if a node must not get these accesses: if kernels change the node, or if the node
    /// would conflict with an earlier node that depends on it, or with a later one on which it
    /// depends. The order of conflicting nodes is always that in which they were added.
    fn check_change(&self, node: NodeIndex, accesses: &[NodeAccess]) -> Result<()> {
        if self.device_nodes.iter().any(|(known, _)| *known == node) {
            return Err(Error::Unsupported {
                what: "changing a device-updatable node of a graph; change it in the executable \
                       with `GraphExec::set_kernel`",
            });
        }
        let topology = self.topology();
        let leads = |from: NodeIndex, to: NodeIndex| {
            let to = self.nodes.get(to as usize);
            to.is_some_and(|to| topology.is_before(from, &to.after, false))
        };
        let is_reversed = |other: NodeIndex| {
            let (earlier, later) = (node.min(other), node.max(other));
            let info = self.nodes.get(other as usize);
            other != node
                && info.is_some_and(|info| !info.is_gone() && info.conflicts_with(accesses))
                && leads(later, earlier)
        };
        if self.has_edges_back
            && let Some(other) = self.indices().find(|&other| is_reversed(other))
        {
            return Err(Error::GraphOrderReversed { other });
        }
        Ok(())
    }

    /// Replaces the owners of a node by `owners`, and returns the former ones there.
    fn exchange_owners(&mut self, node: NodeIndex, owners: &mut Arc<Owners>) {
        if let Some(info) = self.nodes.get_mut(node as usize) {
            std::mem::swap(&mut info.owners, owners);
        }
        self.conflicts = self.conflicts_anew();
        self.note_change();
    }
}

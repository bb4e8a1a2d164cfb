//! Removes nodes and edges from graphs.

use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUresult, calls};

use super::Graph;
use super::conflicts::Conflicts;
use super::parts::{NodeIndex, NodeInfo, Parts};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::types::SendPtr;
use crate::types::node::{Edge, EdgeKind, NodeId, NodeKind};

/// Removal of nodes and edges.
impl Graph {
    /// `cuGraphDestroyNode(node)`—Removes a node. Its dependents then depend on its dependencies.
    ///
    /// Executables that were made before still contain the node and keep what it uses, but the node
    /// can no longer be changed in them. The bodies of a conditional node are removed with it:
    /// every later call on them fails. The value of a removed conditional node should be given to
    /// another node, if the driver allows it: [`instantiate`](Self::instantiate) may refuse a graph
    /// that has a value without a node.
    ///
    /// # Errors
    ///
    /// The node stays in the graph after an error.
    ///
    /// - [`Error::OtherGraph`] if the node is in another graph, [`Error::NodeGone`] if it was
    ///   removed before.
    /// - [`Error::Capturing`] while the graph is being captured.
    /// - [`Error::Unsupported`] for nodes that allocate or free memory, for
    ///   [device-updatable](Self::set_device_updatable) nodes, and if an edge other than a full one
    ///   would have to become a full one.
    /// - [`Error::Driver`] if the graph allocates memory: the driver removes no nodes from such
    ///   graphs.
    #[doc(alias = "cuGraphDestroyNode")]
    #[doc(alias = "cudaGraphDestroyNode")]
    pub fn remove(&mut self, node: impl Into<NodeId>) -> Result<()> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        if self.root.is_capturing() {
            return Err(Error::Capturing {
                what: "removing a node",
            });
        }
        let node = all[self.at].index_of(node.into())?;
        if Parts::is_device_updatable(&all, self.at, node) {
            return Err(Error::Unsupported {
                what: "removing a device-updatable node; build the graph again without it",
            });
        }
        let edges = all[self.at].edges_around(node)?;
        let parts = &mut all[self.at];
        parts.is_reshaped = true;
        for (from, to) in edges {
            parts.add_edge(driver, from, to, EdgeKind::Full)?;
        }
        let raw = parts.raw_of(node);
        // SAFETY: the node must be alive and not used afterwards ← the graph is locked and has it;
        // `take_out` below marks it as removed.
        unsafe { call!(driver, cuGraphDestroyNode(raw)) }?;
        let mut gone = Vec::new();
        take_bodies(&mut all, self.at, node, &mut gone);
        let info = all[self.at].take_out(node);
        drop(all);
        // Dropped without holding a lock, because the drop may run arbitrary code.
        drop((info, gone));
        Ok(())
    }

    /// `cuGraphRemoveDependencies()`—Removes the dependency of `to` on the node of `edge`.
    ///
    /// # Errors
    ///
    /// The graph is unchanged after an error.
    ///
    /// - [`Error::GraphOrder`] if nodes with conflicting accesses to the same memory would no
    ///   longer be ordered.
    /// - [`Error::OtherGraph`] if one of the nodes is in another graph, [`Error::NodeGone`] if it
    ///   was removed.
    /// - `CUDA_ERROR_INVALID_VALUE` if the edge does not exist.
    #[doc(alias = "cuGraphRemoveDependencies")]
    #[doc(alias = "cudaGraphRemoveDependencies")]
    pub fn remove_edge(&mut self, edge: Edge, to: impl Into<NodeId>) -> Result<()> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        let (from, to) = (parts.index_of(edge.from)?, parts.index_of(to.into())?);
        parts.check_without(driver, from, to, edge.kind)?;
        parts.is_reshaped = true;
        // SAFETY: graph and nodes must be alive ← the graph is locked, and has both nodes.
        unsafe { parts.disconnect(driver, from, to, edge.kind) }?;
        if let Some(info) = parts.nodes.get_mut(to as usize) {
            info.after.retain(|it| *it != (from, edge.kind));
        }
        Ok(())
    }
}

/// Empties the bodies of a node, and the bodies in them, and moves their state to `gone`.
fn take_bodies(all: &mut [Parts], at: usize, node: NodeIndex, gone: &mut Vec<Parts>) {
    let is_body = |parts: &Parts| parts.parent == Some((at, node));
    while let Some(body) = all.iter().position(is_body) {
        let parts = all[body].take();
        for inner in parts.indices() {
            take_bodies(all, body, inner, gone);
        }
        gone.push(parts);
    }
}

impl Parts {
    /// Returns the edges that preserve the order of all other nodes when `node` is removed.
    fn edges_around(&self, node: NodeIndex) -> Result<Vec<(NodeIndex, NodeIndex)>> {
        let info = self.nodes.get(node as usize).ok_or(Error::OtherGraph)?;
        if matches!(info.kind, NodeKind::Alloc | NodeKind::Free) {
            return Err(Error::Unsupported {
                what: "removing a node that allocates or frees memory; build the graph again \
                       without it",
            });
        }
        // A path through this node may be all that orders two other nodes. So all of its edges
        // count, whatever their kind.
        let before: Vec<NodeIndex> = info.after.iter().map(|(from, _)| *from).collect();
        let mut edges = Vec::new();
        for (to, next) in (0..).zip(&self.nodes) {
            if !next.after.iter().any(|(from, _)| *from == node) {
                continue;
            }
            for from in before.iter().copied() {
                match next.after.iter().find(|(known, _)| *known == from) {
                    Some((_, EdgeKind::Full)) => {}
                    Some(_) => {
                        return Err(Error::Unsupported {
                            what: "removing a node next to a programmatic or launch-order edge; \
                                   remove the edge first",
                        });
                    }
                    None => edges.push((from, to)),
                }
            }
        }
        Ok(edges)
    }

    /// Marks a node as removed and returns its former state.
    fn take_out(&mut self, node: NodeIndex) -> Option<NodeInfo> {
        let info = self.nodes.get_mut(node as usize)?;
        let gone = NodeInfo {
            raw: SendPtr(ptr::null_mut()),
            kind: info.kind,
            after: Vec::new(),
            owners: Arc::default(),
            inside: Vec::new(),
        };
        let info = std::mem::replace(info, gone);
        for other in &mut self.nodes {
            other.after.retain(|(from, _)| *from != node);
        }
        self.conflicts = self.conflicts_anew();
        Some(info)
    }

    /// Computes the last accesses to each byte from all nodes.
    pub(super) fn conflicts_anew(&self) -> Conflicts {
        let mut conflicts = Conflicts::default();
        for (index, info) in (0..).zip(&self.nodes) {
            let does_not_wait = |other: u32| {
                let is_so =
                    |(from, kind): &(u32, EdgeKind)| *from == other && *kind != EdgeKind::Full;
                info.after.iter().any(is_so)
            };
            conflicts.note(index, &info.owners.accesses(), does_not_wait);
        }
        // Nodes may have been added to the bodies at any time, so these accesses replace no others.
        for (index, info) in (0..).zip(&self.nodes) {
            conflicts.note(index, &info.inside, |_| true);
        }
        conflicts
    }

    /// Fails if nodes with conflicting accesses would not be ordered without this edge.
    fn check_without(
        &mut self,
        driver: &Driver,
        from: NodeIndex,
        to: NodeIndex,
        kind: EdgeKind,
    ) -> Result<()> {
        let Some(info) = self.nodes.get_mut(to as usize) else {
            return Err(Error::OtherGraph);
        };
        let Some(edge) = info.after.iter().position(|it| *it == (from, kind)) else {
            // The driver is not asked: it might remove an edge of another kind instead.
            let status = CUresult::CUDA_ERROR_INVALID_VALUE;
            let call = calls::cuGraphRemoveDependencies;
            return Err(DriverError::new(status, call, driver.version()).into());
        };
        info.after.remove(edge);
        let unordered_conflict = self.unordered_conflict(from, to);
        if let Some(info) = self.nodes.get_mut(to as usize) {
            info.after.insert(edge, (from, kind));
        }
        unordered_conflict.map_or(Ok(()), |other| Err(Error::GraphOrder { other }))
    }

    /// Returns a node that is `from` or precedes it, and that conflicts with `to` or one of its
    /// dependents without being ordered with it.
    fn unordered_conflict(&self, from: NodeIndex, to: NodeIndex) -> Option<NodeIndex> {
        let topology = self.topology();
        let leads = |one: NodeIndex, other: NodeIndex| {
            let other = self.nodes.get(other as usize);
            other.is_some_and(|other| topology.is_before(one, &other.after, false))
        };
        let all = self.indices();
        let later: Vec<NodeIndex> = all
            .clone()
            .filter(|node| *node == to || leads(to, *node))
            .collect();
        all.filter(|node| *node == from || leads(*node, from))
            .find(|node| {
                let accesses = self.nodes.get(*node as usize).map(NodeInfo::accesses);
                let accesses = accesses.unwrap_or_default();
                let conflicts = |other: &NodeIndex| {
                    let info = self.nodes.get(*other as usize);
                    info.is_some_and(|info| info.conflicts_with(&accesses))
                        && !topology.are_ordered(*node, *other)
                };
                later.iter().any(conflicts)
            })
    }

    /// Removes an edge in the driver.
    ///
    /// # Safety
    ///
    /// The graph is alive and locked, and has both nodes.
    unsafe fn disconnect(
        &self,
        driver: &Driver,
        from: NodeIndex,
        to: NodeIndex,
        kind: EdgeKind,
    ) -> Result<(), DriverError> {
        let (from, to) = (self.raw_of(from), self.raw_of(to));
        if kind == EdgeKind::Full {
            // SAFETY: graph and nodes must be alive and the pointers valid ← the caller guarantees
            // the former; the pointers are to locals.
            return unsafe {
                call!(
                    driver,
                    cuGraphRemoveDependencies(self.raw.0, &raw const from, &raw const to, 1)
                )
            };
        }
        let data = kind.raw();
        // SAFETY: the same requirements hold as for the call above ← `data` is a local, too.
        unsafe {
            call!(
                driver,
                cuGraphRemoveDependencies_v2(
                    self.raw.0,
                    &raw const from,
                    &raw const to,
                    &raw const data,
                    1
                )
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::{EdgeKind, NodeKind, Parts, SendPtr, take_bodies};
    use crate::graph::parts::NodeIndex;
    use crate::graph::parts::NodeInfo;

    fn add(parts: &mut Parts, after: &[(NodeIndex, EdgeKind)]) {
        let info = NodeInfo {
            raw: SendPtr(ptr::null_mut()),
            kind: NodeKind::Kernel,
            after: after.to_vec(),
            owners: std::sync::Arc::default(),
            inside: Vec::new(),
        };
        let index = parts.next_index().unwrap();
        parts.push(index, info, &[]);
    }

    #[test]
    fn removing_bodies_changes_the_shape() {
        let new = || Parts::new(SendPtr(ptr::null_mut()));
        let mut all = [new(), new(), new()];
        add(&mut all[0], &[]);
        all[1].parent = Some((0, 0));
        add(&mut all[1], &[]);
        all[2].parent = Some((1, 0));
        let mut known = vec![Parts::changes(&all)];
        add(&mut all[2], &[]);
        known.push(Parts::changes(&all));
        take_bodies(&mut all, 0, 0, &mut Vec::new());
        known.push(Parts::changes(&all));
        // The graph gets as many nodes as were removed.
        for _ in 0..2 {
            add(&mut all[0], &[]);
            known.push(Parts::changes(&all));
        }
        assert!(known.is_sorted_by(|one, next| one < next), "{known:?}");
    }

    #[test]
    fn remove_keeps_order_after_partial_edges() {
        let mut parts = Parts::new(SendPtr(ptr::null_mut()));
        add(&mut parts, &[]);
        add(&mut parts, &[(0, EdgeKind::Full)]);
        add(&mut parts, &[(1, EdgeKind::Programmatic)]);
        add(&mut parts, &[(2, EdgeKind::Full)]);
        assert!(parts.topology().are_ordered(0, 3));
        for (from, to) in parts.edges_around(2).unwrap() {
            parts.push_edge(from, to, EdgeKind::Full);
        }
        parts.take_out(2);
        assert!(parts.topology().are_ordered(0, 3));
    }
}

//! Taking nodes and edges out.

use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUresult, calls};

use super::Graph;
use super::build::Place;
use super::conflicts::Conflicts;
use super::node::{Edge, EdgeKind, NodeId, NodeKind};
use super::parts::{NodeInfo, Parts};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::stream::SendPtr;

impl Graph {
    /// `cuGraphDestroyNode(node)`—Takes a node out. What waited for it waits for what it waited
    /// for.
    ///
    /// Executables that were made before keep it and what it uses; they are not changed at this
    /// node any more. The bodies of a conditional node go with it: all that is asked of them is an
    /// error then. Its value is to be given to another node, as far as the driver does that: a
    /// graph with a value of no node may be refused by [`instantiate`](Self::instantiate).
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::NodeGone`] if it was taken out before, [`Error::Capturing`]
    /// while the graph is captured, [`Error::Unsupported`] for nodes that allocate or free memory
    /// or that [kernels change](Self::set_device_updatable), and where an edge that is not full
    /// would have to become one, or what the calls answer: the driver refuses it in a graph that
    /// allocates memory. Then it is still there.
    #[doc(alias = "cuGraphDestroyNode")]
    pub fn remove(&mut self, node: impl Into<NodeId>) -> Result<()> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        if self.root.is_capturing() {
            return Err(Error::Capturing {
                what: "taking a node out",
            });
        }
        let node = all[self.at].place(node.into())?;
        if Parts::is_device_updatable(&all, self.at, node) {
            return Err(Error::Unsupported {
                what: "taking out a node that kernels change",
            });
        }
        let edges = all[self.at].edges_around(node)?;
        let parts = &mut all[self.at];
        parts.is_reshaped = true;
        for (from, to) in edges {
            parts.add_edge(driver, from, to, EdgeKind::Full)?;
        }
        let raw = parts.raw_of(node);
        // SAFETY: the node must be alive, and not used after ← the graph is locked, and has it; it
        // is noted as gone below.
        unsafe { call!(driver, cuGraphDestroyNode(raw)) }?;
        let mut gone = Vec::new();
        take_bodies(&mut all, self.at, node, &mut gone);
        let info = all[self.at].take_out(node);
        drop(all);
        // What they keep goes when nothing is locked.
        drop((info, gone));
        Ok(())
    }

    /// `cuGraphRemoveDependencies()`—`to` does not wait for the node of `edge` any more.
    ///
    /// # Errors
    ///
    /// [`Error::GraphOrder`] if nodes that use the same memory would run beside each other,
    /// [`Error::OtherGraph`], [`Error::NodeGone`], `CUDA_ERROR_INVALID_VALUE` if there is no such
    /// edge, or what the call answers. Then nothing has changed.
    #[doc(alias = "cuGraphRemoveDependencies")]
    pub fn remove_edge(&mut self, edge: Edge, to: impl Into<NodeId>) -> Result<()> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        let (from, to) = (parts.place(edge.from)?, parts.place(to.into())?);
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

/// Takes what is known of the bodies of a node, and of those in them.
fn take_bodies(all: &mut [Parts], at: usize, node: Place, gone: &mut Vec<Parts>) {
    let is_body = |parts: &Parts| parts.parent == Some((at, node));
    while let Some(body) = all.iter().position(is_body) {
        let parts = all[body].take();
        // No truncation: each takes more than a byte.
        for inner in 0..parts.nodes.len() as u32 {
            take_bodies(all, body, inner, gone);
        }
        gone.push(parts);
    }
}

impl Parts {
    /// The edges that keep the order of all others when `node` goes.
    fn edges_around(&self, node: Place) -> Result<Vec<(Place, Place)>> {
        let info = self.nodes.get(node as usize).ok_or(Error::OtherGraph)?;
        if matches!(info.kind, NodeKind::Alloc | NodeKind::Free) {
            return Err(Error::Unsupported {
                what: "taking out a node that allocates or frees memory",
            });
        }
        // What it began behind may be that by which later nodes wait for still earlier ones: so
        // those of all edges count.
        let before: Vec<Place> = info.after.iter().map(|(from, _)| *from).collect();
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
                            what: "taking out a node beside which an edge is not full",
                        });
                    }
                    None => edges.push((from, to)),
                }
            }
        }
        Ok(edges)
    }

    /// Notes that a node is gone; answers what was known of it.
    fn take_out(&mut self, node: Place) -> Option<NodeInfo> {
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

    fn conflicts_anew(&self) -> Conflicts {
        let mut conflicts = Conflicts::default();
        for (index, info) in (0..).zip(&self.nodes) {
            let waits_not = |other: u32| {
                let is_so =
                    |(from, kind): &(u32, EdgeKind)| *from == other && *kind != EdgeKind::Full;
                info.after.iter().any(is_so)
            };
            conflicts.note(index, &info.owners.reaches(), waits_not);
        }
        // Their bodies came to use it at any time, which stands for nothing.
        for (index, info) in (0..).zip(&self.nodes) {
            conflicts.note(index, &info.inside, |_| true);
        }
        conflicts
    }

    /// An error if nodes that use the same memory would run beside each other without this edge.
    fn check_without(
        &mut self,
        driver: &Driver,
        from: Place,
        to: Place,
        kind: EdgeKind,
    ) -> Result<()> {
        let Some(info) = self.nodes.get_mut(to as usize) else {
            return Err(Error::OtherGraph);
        };
        let Some(edge) = info.after.iter().position(|it| *it == (from, kind)) else {
            // Nor is the driver asked, which may take an edge of another kind for it.
            let status = CUresult::CUDA_ERROR_INVALID_VALUE;
            let call = calls::cuGraphRemoveDependencies;
            return Err(DriverError::new(status, call, driver.version()).into());
        };
        info.after.remove(edge);
        let raced = self.raced(from, to);
        if let Some(info) = self.nodes.get_mut(to as usize) {
            info.after.insert(edge, (from, kind));
        }
        raced.map_or(Ok(()), |other| Err(Error::GraphOrder { other }))
    }

    /// Of what is up to `from`, a node that is in the way of one from `to` on, and not ordered with
    /// it.
    fn raced(&self, from: Place, to: Place) -> Option<Place> {
        let topology = self.topology();
        let leads = |one: Place, other: Place| {
            let other = self.nodes.get(other as usize);
            other.is_some_and(|other| topology.is_before(one, &other.after, false))
        };
        // No truncation: each takes more than a byte.
        let all = 0..self.nodes.len() as u32;
        let later: Vec<Place> = all
            .clone()
            .filter(|node| *node == to || leads(to, *node))
            .collect();
        all.filter(|node| *node == from || leads(*node, from))
            .find(|node| {
                let reaches = self.nodes.get(*node as usize).map(NodeInfo::reaches);
                let reaches = reaches.unwrap_or_default();
                let is_raced = |other: &Place| {
                    let info = self.nodes.get(*other as usize);
                    info.is_some_and(|info| info.is_against(&reaches))
                        && !topology.are_ordered(*node, *other)
                };
                later.iter().any(is_raced)
            })
    }

    /// # Safety
    ///
    /// The graph is alive and locked, and has both nodes.
    unsafe fn disconnect(
        &self,
        driver: &Driver,
        from: Place,
        to: Place,
        kind: EdgeKind,
    ) -> Result<(), DriverError> {
        let (from, to) = (self.raw_of(from), self.raw_of(to));
        if kind == EdgeKind::Full {
            // SAFETY: graph and nodes must be alive, the pointers valid ← the caller says so; they
            // are to locals.
            return unsafe {
                call!(
                    driver,
                    cuGraphRemoveDependencies(self.raw.0, &raw const from, &raw const to, 1)
                )
            };
        }
        let data = kind.raw();
        // SAFETY: as above.
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
    use crate::graph::build::Place;
    use crate::graph::parts::NodeInfo;

    fn add(parts: &mut Parts, after: &[(Place, EdgeKind)]) {
        let info = NodeInfo {
            raw: SendPtr(ptr::null_mut()),
            kind: NodeKind::Kernel,
            after: after.to_vec(),
            owners: std::sync::Arc::default(),
            inside: Vec::new(),
        };
        parts.push(info, &[]);
    }

    #[test]
    fn a_graph_that_loses_bodies_does_not_look_as_before() {
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
        // As many nodes as went.
        for _ in 0..2 {
            add(&mut all[0], &[]);
            known.push(Parts::changes(&all));
        }
        assert!(known.is_sorted_by(|one, next| one < next), "{known:?}");
    }

    #[test]
    fn the_order_behind_an_edge_that_is_not_full_stays() {
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

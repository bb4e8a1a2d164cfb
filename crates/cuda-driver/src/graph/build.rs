//! Adding nodes and edges.

use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUgraph, CUgraphNode};

use super::conflicts::Reach;
use super::node::{Edge, EdgeKind, Node, NodeId, NodeKind, node_kind};
use super::parts::{NodeInfo, Parts};
use super::{Graph, GraphAllocation, Owners, Root};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::memory::DeviceRepr;
use crate::order::Access;
use crate::stream::SendPtr;

/// The number of a node in its graph.
pub(super) type Place = u32;

/// What a call that adds a node takes.
pub(super) struct Adding<'a> {
    pub(super) driver: &'a Driver,
    pub(super) node: *mut CUgraphNode,
    pub(super) graph: CUgraph,
    pub(super) after: *const CUgraphNode,
    pub(super) count: usize,
}

/// What a new node lacks.
pub(super) type Finish<'a> = &'a dyn Fn(&Driver, CUgraphNode) -> Result<(), DriverError>;

impl Graph {
    /// Adds a node that `add` makes; `owners` says what it uses. Only kernels may have edges that
    /// are not full.
    ///
    /// # Safety
    ///
    /// `add` makes one call, which adds one node of this kind with these edges if it answers no
    /// error; the node keeps to what `owners` keeps.
    pub(super) unsafe fn add(
        &mut self,
        kind: NodeKind,
        after: &[Edge],
        owners: Owners,
        add: impl FnOnce(&Adding<'_>) -> Result<(), DriverError>,
    ) -> Result<NodeId> {
        // SAFETY: as the caller says.
        unsafe { self.add_with(kind, after, owners, None, add, None) }
    }

    /// The same while another graph, which must have this number of changes, is locked too. If
    /// `finish`, which gets the driver and the new node, fails, the node is taken out again.
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn add_with(
        &mut self,
        kind: NodeKind,
        after: &[Edge],
        owners: Owners,
        other: Option<(&Root, usize)>,
        add: impl FnOnce(&Adding<'_>) -> Result<(), DriverError>,
        finish: Option<Finish<'_>>,
    ) -> Result<NodeId> {
        let is_full = |edge: &Edge| edge.kind == EdgeKind::Full;
        if kind != NodeKind::Kernel && !after.iter().all(is_full) {
            return Err(Error::Unsupported {
                what: "a programmatic edge to a node that is no kernel",
            });
        }
        let context = self.root.context();
        let driver = context.driver();
        if owners.may_block() {
            driver.note_blocking();
        }
        let reaches = owners.reaches();
        // Two are locked in one order for all.
        let own = Arc::as_ptr(&self.root);
        let is_first = other.is_some_and(|(other, _)| ptr::from_ref(other) < own);
        let lock = |(other, changes): (_, usize)| Some((Root::lock(other), changes));
        let before = other.filter(|_| is_first).and_then(lock);
        let mut all = self.root.lock();
        let behind = other.filter(|_| !is_first).and_then(lock);
        if let Some((other, changes)) = before.as_ref().or(behind.as_ref())
            && Parts::changes(other) != *changes
        {
            return Err(Error::Borrowed {
                what: "a body of the child graph",
            });
        }
        let mut edges = all[self.at].edges(after, &reaches)?;
        // As they are added below: the driver goes by their order.
        edges.sort_by_key(|(_, kind)| *kind != EdgeKind::Full);
        let is_whole = finish.is_none() && edges.iter().all(|(_, kind)| *kind == EdgeKind::Full);
        if !is_whole && self.root.is_capturing() {
            // If a later call fails, the node must go, which it cannot.
            return Err(Error::Capturing {
                what: "a node with attributes or with edges that are not full",
            });
        }
        // Before the node is there: what fails later leaves the nodes around it in an order that
        // they do not need.
        propagate(&mut all, self.at, driver, &reaches)?;
        let parts = &mut all[self.at];
        let raw_of = |kind: fn(&EdgeKind) -> bool| -> Vec<CUgraphNode> {
            let wanted = edges.iter().filter(|(_, it)| kind(it));
            wanted
                .filter_map(|(from, _)| Some(parts.nodes.get(*from as usize)?.raw.0))
                .collect()
        };
        let full = raw_of(|kind| *kind == EdgeKind::Full);
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        add(&Adding {
            driver,
            node: &raw mut raw,
            graph: parts.raw.0,
            after: full.as_ptr(),
            count: full.len(),
        })?;
        let mut others = edges.iter().filter(|(_, kind)| *kind != EdgeKind::Full);
        let connected = others.try_for_each(|(from, kind)| {
            // SAFETY: graph and nodes must be alive ← the graph is locked, and has both nodes.
            unsafe { parts.connect(driver, *from, raw, *kind) }
        });
        if let Err(error) = connected.and_then(|()| finish.map_or(Ok(()), |it| it(driver, raw))) {
            // SAFETY: the node must be alive and not used after ← it was added just now, and nobody
            // knows it.
            let destroyed = unsafe { call!(driver, cuGraphDestroyNode(raw)) };
            // A node that stays without what it lacks must never run.
            let gone = destroyed.is_err().then(|| self.root.give_up(&mut all));
            drop((before, behind, all));
            drop((gone, owners));
            return Err(error.into());
        }
        let info = NodeInfo {
            raw: SendPtr(raw),
            kind,
            after: edges,
            owners: Arc::new(owners),
            inside: Vec::new(),
        };
        Ok(parts.push(info, &reaches))
    }

    /// What a node has allocated, it is the first to write.
    pub(super) fn note_allocation(&mut self, node: NodeId, address: u64, bytes: usize) {
        let mut owners = Owners::default();
        owners.add_own(Access::WRITE, address, bytes);
        // Declared before the guard, so that what the swap leaves in it is dropped after that.
        let mut owners = Arc::new(owners);
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        parts
            .conflicts
            .note(node.index, &owners.reaches(), |_| false);
        parts.unfreed += 1;
        if let Some(info) = parts.nodes.get_mut(node.index as usize) {
            std::mem::swap(&mut info.owners, &mut owners);
        }
    }

    /// The bytes that a node of this graph has allocated.
    pub(super) fn allocated<T: DeviceRepr>(&self, allocation: &GraphAllocation<T>) -> usize {
        let all = self.root.lock();
        let info = all[self.at]
            .nodes
            .get(allocation.node().id().index as usize);
        let reaches = info.map(|info| info.owners.reaches()).unwrap_or_default();
        let bytes = reaches
            .first()
            .map_or(0, |it| it.bytes.end - it.bytes.start);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// `cuGraphAddEmptyNode()`—A node that does nothing: one to wait for instead of many.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], or what the call answers.
    #[doc(alias = "cuGraphAddEmptyNode")]
    pub fn empty(&mut self, after: &[Edge]) -> Result<Node<node_kind::Empty>> {
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid ← those of `it` are.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddEmptyNode(it.node, it.graph, it.after, it.count)
                )
            }
        };
        // SAFETY: the call must add such a node with these edges ← it does; it uses nothing.
        let id = unsafe { self.add(NodeKind::Empty, after, Owners::default(), add) }?;
        Ok(Node::new(id))
    }

    /// `cuGraphAddDependencies()`—Makes `to` wait for the node of `edge` as well.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::GraphCycle`] if the other one waits for this already,
    /// [`Error::Unsupported`] if there is an edge between them that waits for less, or what the
    /// call answers.
    #[doc(alias = "cuGraphAddDependencies")]
    pub fn add_edge(&mut self, edge: Edge, to: impl Into<NodeId>) -> Result<()> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        let (from, to) = (parts.place(edge.from)?, parts.place(to.into())?);
        match parts.check_edge(from, to)? {
            Some(known) if known == EdgeKind::Full || known == edge.kind => Ok(()),
            Some(_) => Err(Error::Unsupported {
                what: "a second edge between two nodes",
            }),
            None => parts.add_edge(driver, from, to, edge.kind),
        }
    }
}

impl Parts {
    /// The driver's handle of a node.
    pub(super) fn raw_of(&self, node: Place) -> CUgraphNode {
        let info = self.nodes.get(node as usize);
        info.map_or(ptr::null_mut(), |it| it.raw.0)
    }

    pub(super) fn add_edge(
        &mut self,
        driver: &Driver,
        from: u32,
        to: u32,
        kind: EdgeKind,
    ) -> Result<()> {
        let raw = self.nodes.get(to as usize).ok_or(Error::OtherGraph)?.raw.0;
        // SAFETY: graph and nodes must be alive ← the graph is locked, and has both nodes.
        unsafe { self.connect(driver, from, raw, kind) }?;
        self.push_edge(from, to, kind);
        Ok(())
    }

    /// # Safety
    ///
    /// The graph is alive and locked, and has both nodes.
    unsafe fn connect(
        &self,
        driver: &Driver,
        from: u32,
        to: CUgraphNode,
        kind: EdgeKind,
    ) -> Result<(), DriverError> {
        let from = self.raw_of(from);
        if kind == EdgeKind::Full {
            // SAFETY: graph and nodes must be alive, the pointers valid ← the caller says so; they
            // are to locals.
            return unsafe {
                call!(
                    driver,
                    cuGraphAddDependencies(self.raw.0, &raw const from, &raw const to, 1)
                )
            };
        }
        let data = kind.raw();
        // SAFETY: as above.
        unsafe {
            call!(
                driver,
                cuGraphAddDependencies_v2(
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

/// What a body uses, its conditional node uses: tells those around a node that is about to be
/// added.
///
/// Before it is added, so that what fails midway leaves edges too many and none too few.
pub(super) fn propagate(
    all: &mut [Parts],
    at: usize,
    driver: &Driver,
    reaches: &[Reach],
) -> Result<()> {
    let mut inner = at;
    while let Some((outer, node)) = all[inner].parent {
        let parts = &mut all[outer];
        // No truncation: each takes more than a byte.
        for other in 0..parts.nodes.len() as u32 {
            // Looked for one by one: with each edge more are ordered.
            if let Some((from, to)) = parts.missing_edge(node, other, reaches) {
                parts.add_edge(driver, from, to, EdgeKind::Full)?;
            }
        }
        parts.conflicts.note(node, reaches, |_| true);
        if let Some(info) = parts.nodes.get_mut(node as usize) {
            info.inside.extend_from_slice(reaches);
        }
        inner = outer;
    }
    Ok(())
}

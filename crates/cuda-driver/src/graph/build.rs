//! Adds nodes and edges to graphs.

use std::ptr;
use std::sync::Arc;

use cuda_sys::CUgraphNode;

use super::conflicts::NodeAccess;
use super::params::{Adding, NodeParams, call_add};
use super::parts::{NodeIndex, NodeInfo, Parts};
use super::{Graph, Owners, Root};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::tracking::Access;
use crate::types::SendPtr;
use crate::types::node::node_kind::Kind;
use crate::types::node::{Edge, EdgeKind, Node, NodeId, NodeKind, node_kind};

/// Empty nodes and edges.
impl Graph {
    /// Adds a node with these parameters; `owners` lists what the node uses. Only kernel nodes may
    /// have edges other than [full](EdgeKind::Full) ones.
    ///
    /// # Safety
    ///
    /// A node with these parameters uses only what `owners` keeps alive.
    pub(super) unsafe fn add<P: NodeParams>(
        &mut self,
        after: &[Edge],
        owners: Owners,
        params: &mut P,
    ) -> Result<Node<P::Kind>> {
        // SAFETY: the contract of `add` must hold ← the caller upholds it.
        unsafe { self.add_with(after, owners, None, params) }
    }

    /// Adds a node as [`add`](Self::add) does, while a second graph `other` is locked. The second
    /// graph must still have the given change count.
    ///
    /// # Safety
    ///
    /// The contract of [`add`](Self::add) holds.
    pub(super) unsafe fn add_with<P: NodeParams>(
        &mut self,
        after: &[Edge],
        owners: Owners,
        other: Option<(&Root, usize)>,
        params: &mut P,
    ) -> Result<Node<P::Kind>> {
        let kind = P::Kind::VALUE;
        let is_full = |edge: &Edge| edge.kind == EdgeKind::Full;
        if kind != NodeKind::Kernel && !after.iter().all(is_full) {
            return Err(Error::Unsupported {
                what: "a programmatic edge to a node other than a kernel node; use `Node::edge`",
            });
        }
        let context = self.root.context();
        let driver = context.driver();
        if owners.may_wait_for_host() {
            driver.note_host_wait();
        }
        let accesses = owners.accesses();
        // Two graphs are always locked in the order of their addresses.
        let own = Arc::as_ptr(&self.root);
        let is_first = other.is_some_and(|(other, _)| ptr::from_ref(other) < own);
        let lock = |(other, changes): (_, usize)| Some((Root::lock(other), changes));
        let before = other.filter(|_| is_first).and_then(lock);
        let mut all = self.root.lock();
        let behind = other.filter(|_| !is_first).and_then(lock);
        if let Some((other, changes)) = before.as_ref().or(behind.as_ref())
            && Parts::changes(other) != *changes
        {
            return Err(Error::ChildChanged);
        }
        let mut edges = all[self.at].edges(after, &accesses)?;
        // In the order in which they are added below: an update pairs nodes by the order of their
        // edges.
        edges.sort_by_key(|(_, kind)| *kind != EdgeKind::Full);
        let is_whole =
            !params.needs_finish() && edges.iter().all(|(_, kind)| *kind == EdgeKind::Full);
        if !is_whole && self.root.is_capturing() {
            // If a later call fails the node must be removed, which is not possible during a
            // capture.
            return Err(Error::Capturing {
                what: "adding a node with attributes or with programmatic edges",
            });
        }
        // This runs before the node exists: a later failure then leaves only superfluous edges
        // between the nodes around it.
        let index = all[self.at].next_index()?;
        propagate(&mut all, self.at, driver, &accesses)?;
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
        let adding = Adding {
            driver,
            node: &raw mut raw,
            graph: parts.raw.0,
            after: full.as_ptr(),
            count: full.len(),
        };
        // SAFETY: the pointers must be valid, and graph and nodes alive and locked ← the pointers
        // are to locals; the graph is locked and has the nodes.
        unsafe { params.add(&adding) }?;
        let mut others = edges.iter().filter(|(_, kind)| *kind != EdgeKind::Full);
        let connected = others.try_for_each(|(from, kind)| {
            // SAFETY: graph and nodes must be alive ← the graph is locked and has both nodes.
            unsafe { parts.connect(driver, *from, raw, *kind) }
        });
        let finished = connected.and_then(|()| {
            // SAFETY: `add` must have added the node, and its graph must be locked ← it was added
            // just above, and the graph is still locked.
            unsafe { params.finish(driver, raw) }
        });
        if let Err(error) = finished {
            // SAFETY: the node must be alive and not used afterwards ← it was added just above, and
            // its handle has not left this function.
            let destroyed = unsafe { call!(driver, cuGraphDestroyNode(raw)) };
            // A node that is not finished and cannot be removed must never run.
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
        Ok(Node::new(parts.push(index, info, &accesses)))
    }

    /// Notes the memory that a node allocates, as a write by that node.
    pub(super) fn note_allocation(&mut self, node: NodeId, address: u64, bytes: usize) {
        let mut owners = Owners::default();
        owners.add_own(Access::WRITE, address, bytes);
        // Declared before the guard, so that the value swapped into it is dropped after the guard.
        let mut owners = Arc::new(owners);
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        parts
            .conflicts
            .note(node.index, &owners.accesses(), |_| false);
        parts.unfreed.insert(node.index);
        if let Some(info) = parts.nodes.get_mut(node.index as usize) {
            std::mem::swap(&mut info.owners, &mut owners);
        }
    }

    /// `cuGraphAddEmptyNode()`—Adds a node that does nothing. It can replace many dependencies by
    /// one.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    /// graph.
    #[doc(alias = "cuGraphAddEmptyNode")]
    #[doc(alias = "cudaGraphAddEmptyNode")]
    pub fn add_empty(&mut self, after: &[Edge]) -> Result<Node<node_kind::Empty>> {
        // SAFETY: the node must use only what the owners keep ← an empty node uses nothing.
        unsafe { self.add(after, Owners::default(), &mut EmptyNode) }
    }

    /// `cuGraphAddDependencies()`—Makes `to` also depend on the node of `edge`.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if one of the nodes is not in this graph.
    /// - [`Error::GraphCycle`] if the node of `edge` already depends on `to`.
    /// - [`Error::Unsupported`] if the nodes are already connected by an edge of another kind that
    ///   is weaker than a full one.
    #[doc(alias = "cuGraphAddDependencies")]
    #[doc(alias = "cudaGraphAddDependencies")]
    pub fn add_edge(&mut self, edge: Edge, to: impl Into<NodeId>) -> Result<()> {
        let driver = self.root.context().driver();
        let mut all = self.root.lock();
        let parts = &mut all[self.at];
        let (from, to) = (parts.index_of(edge.from)?, parts.index_of(to.into())?);
        match parts.check_edge(from, to)? {
            Some(known) if known == EdgeKind::Full || known == edge.kind => Ok(()),
            Some(_) => Err(Error::Unsupported {
                what: "a second edge of another kind between the same two nodes; remove the first \
                       one, or add an empty node between them",
            }),
            None => parts.add_edge(driver, from, to, edge.kind),
        }
    }
}

/// The parameters of an empty node: none.
struct EmptyNode;

impl NodeParams for EmptyNode {
    type Kind = node_kind::Empty;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        // SAFETY: pointers and graph must be valid ← the caller guarantees it for those of `it`.
        unsafe { call_add!(it, cuGraphAddEmptyNode) }
    }
}

impl Parts {
    /// Returns the driver's handle of a node, or null if there is none.
    pub(super) fn raw_of(&self, node: NodeIndex) -> CUgraphNode {
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
        // SAFETY: graph and nodes must be alive ← the graph is locked and has both nodes.
        unsafe { self.connect(driver, from, raw, kind) }?;
        self.push_edge(from, to, kind);
        Ok(())
    }

    /// Adds an edge in the driver.
    ///
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
            // SAFETY: graph and nodes must be alive and the pointers valid ← the caller guarantees
            // the former; the pointers are to locals.
            return unsafe {
                call!(
                    driver,
                    cuGraphAddDependencies(self.raw.0, &raw const from, &raw const to, 1)
                )
            };
        }
        let data = kind.raw();
        // SAFETY: the same requirements hold as for the call above ← `data` is a local, too.
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

/// Prepares the conditional nodes around a body for a new node of the body: adds its accesses to
/// theirs, and the edges that they then need. A conditional node uses all that its bodies use.
///
/// This runs before the node is added, so that a failure midway leaves superfluous edges but no
/// missing ones.
pub(super) fn propagate(
    all: &mut [Parts],
    at: usize,
    driver: &Driver,
    accesses: &[NodeAccess],
) -> Result<()> {
    let mut inner = at;
    while let Some((outer, node)) = all[inner].parent {
        let parts = &mut all[outer];
        for other in parts.indices() {
            // Checked one by one, because each new edge orders further nodes.
            if let Some((from, to)) = parts.missing_edge(node, other, accesses) {
                parts.add_edge(driver, from, to, EdgeKind::Full)?;
            }
        }
        parts.conflicts.note(node, accesses, |_| true);
        if let Some(info) = parts.nodes.get_mut(node as usize) {
            info.inside.extend_from_slice(accesses);
        }
        inner = outer;
    }
    Ok(())
}

//! Graphs in graphs, and copies of graphs.

use std::ptr;
use std::sync::Arc;

use cuda_sys::CUgraph_st;

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::parts::{NodeInfo, Parts};
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::stream::SendPtr;

/// A graph as others run it, what its nodes keep, and the number of its changes.
type Whole = (SendPtr<CUgraph_st>, Owners, usize);

impl Graph {
    /// `cuGraphAddChildGraphNode(child)`—A node that runs another graph, as it is now.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`], [`Error::OtherContext`], [`Error::GraphMemoryKept`],
    /// [`Error::Unsupported`] for the graph itself, for a body of a conditional node, and for a
    /// graph in which [kernels change nodes](Self::set_device_updatable), or what the call answers.
    #[doc(alias = "cuGraphAddChildGraphNode")]
    pub fn child(&mut self, after: &[Edge], child: &Self) -> Result<Node<node_kind::Child>> {
        let (raw, owners, changes) = self.of_child(child)?;
        let other = Some((&*child.root, changes));
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graphs must be valid and used by no other thread ← those of `it`
            // are; both are locked.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddChildGraphNode(it.node, it.graph, it.after, it.count, raw.0)
                )
            }
        };
        // SAFETY: the call must add such a node with these edges that keeps to `owners` ← it does.
        let id = unsafe { self.add_with(NodeKind::Child, after, owners, other, add, None) }?;
        Ok(Node::new(id))
    }

    fn of_child(&self, child: &Self) -> Result<Whole> {
        if child.context() != self.context() {
            return Err(Error::OtherContext { what: "the graph" });
        }
        if child.at != 0 || Arc::ptr_eq(&child.root, &self.root) {
            return Err(Error::Unsupported {
                what: "a graph in itself, or a body as a child",
            });
        }
        child.whole()
    }

    /// The graph as others run it: with all that its nodes keep.
    pub(super) fn whole(&self) -> Result<Whole> {
        let all = self.root.lock();
        if all.iter().any(|parts| parts.unfreed > 0) {
            return Err(Error::GraphMemoryKept);
        }
        Parts::without_device_nodes(&all, "a graph with nodes that kernels change in another")?;
        let mut owners = Owners::default();
        let known = all.iter().flat_map(|parts| &parts.nodes);
        let nodes = known.map(|node| &node.owners);
        let others = all.iter().flat_map(|parts| &parts.others);
        nodes
            .chain(others)
            .for_each(|it| owners.add_inner(Arc::clone(it)));
        Ok((all[self.at].raw, owners, Parts::changes(&all)))
    }

    /// `cuGraphClone()`—A copy of the graph, with the same nodes. Both keep what the nodes use.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for the body of a conditional node and where [kernels change
    /// nodes](Self::set_device_updatable), or what the calls answer: graphs that allocate memory
    /// cannot be cloned.
    #[doc(alias = "cuGraphClone")]
    pub fn try_clone(&self) -> Result<Self> {
        if self.at != 0 {
            return Err(Error::Unsupported {
                what: "a copy of the body of a node",
            });
        }
        let context = self.context();
        let driver = context.driver();
        // Declared before the guard, so that on an error the clone is dropped after it.
        let clone;
        let all = self.root.lock();
        Parts::without_device_nodes(&all, "a copy of a graph with nodes that kernels change")?;
        let parts = &all[0];
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, the graph alive and used by no other thread ← a
        // local; it is locked.
        unsafe { call!(driver, cuGraphClone(&raw mut raw, parts.raw.0)) }?;
        // SAFETY: nobody else must destroy it ← it was made just now.
        clone = unsafe { Self::of_raw(context, raw) };
        let mut nodes = Vec::with_capacity(parts.nodes.len());
        for node in &parts.nodes {
            if node.is_gone() {
                nodes.push(node.clone());
                continue;
            }
            let mut found = ptr::null_mut();
            // SAFETY: the pointer must be writable, node and graph alive ← a local; both graphs are
            // ours alone.
            unsafe {
                call!(
                    driver,
                    cuGraphNodeFindInClone(&raw mut found, node.raw.0, raw)
                )
            }?;
            nodes.push(NodeInfo {
                raw: SendPtr(found),
                ..node.clone()
            });
        }
        let mut copies = clone.root.lock_unshared();
        let copy = &mut copies[0];
        copy.take_over(parts, nodes);
        copy.others = Parts::others(&all);
        drop(copies);
        Ok(clone)
    }

    /// `cuGraphNodeFindInClone(node)`—The node of this graph that is the copy of `node`, of the
    /// graph that this was [cloned](Self::try_clone) from.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if it is none of that, or was added later.
    #[doc(alias = "cuGraphNodeFindInClone")]
    pub fn find_clone<K>(&self, node: Node<K>) -> Result<Node<K>> {
        let all = self.root.lock();
        all[self.at].copy_of(node.id()).map(Node::new)
    }
}

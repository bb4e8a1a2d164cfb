//! Child graphs, and clones of graphs.

use std::mem;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUgraph_st, CUgraphChildGraphNodeOwnership, CUgraphNode,
    CUgraphNodeParams, CUgraphNodeType,
};

use super::change::ChangeNode;
use super::params::{Adding, Changing, NodeParams, SetNodeParams, call_add, call_set};
use super::parts::{NodeInfo, Parts};
use super::{Graph, GraphExec, Owners};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::types::SendPtr;
use crate::types::node::{Edge, Node, node_kind};

/// A graph to be run by a node of another one: its handle, what its nodes use, and its change
/// count.
type Whole = (SendPtr<CUgraph_st>, Owners, usize);

/// Child graphs and clones.
impl Graph {
    /// `cuGraphAddChildGraphNode(child)`—Adds a node that runs a copy of `child` in its present
    /// state.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OtherContext`] if `child` is of another context.
    /// - [`Error::GraphMemoryKept`] if a node of `child` allocates memory that none of its nodes
    ///   frees.
    /// - [`Error::Unsupported`] if `child` is this graph, is the body of a conditional node, or has
    ///   [device-updatable nodes](Self::set_device_updatable).
    /// - [`Error::ChildChanged`] if another thread changes `child` during the call.
    #[doc(alias = "cuGraphAddChildGraphNode")]
    #[doc(alias = "cudaGraphAddChildGraphNode")]
    pub fn add_child(&mut self, after: &[Edge], child: &Self) -> Result<Node<node_kind::Child>> {
        let (raw, owners, changes) = self.of_child(child)?;
        let other = Some((&*child.root, changes));
        // SAFETY: the node must use only what `owners` keeps ← it holds what the nodes of `child`
        // use.
        unsafe { self.add_with(after, owners, other, &mut ChildNode(raw)) }
    }

    fn of_child(&self, child: &Self) -> Result<Whole> {
        if child.context() != self.context() {
            let (of, used_with) = (child.context(), self.context());
            return Err(Error::other_context("the graph", of, used_with));
        }
        if child.at != 0 || Arc::ptr_eq(&child.root, &self.root) {
            return Err(Error::Unsupported {
                what: "a child node for the graph itself or for the body of a conditional node; \
                       add its nodes to a graph of their own",
            });
        }
        child.whole()
    }

    /// Returns the accesses and owners that a node of another graph needs to run this one.
    pub(super) fn whole(&self) -> Result<Whole> {
        let all = self.root.lock();
        Parts::expect_all_freed(&all)?;
        Parts::without_device_nodes(
            &all,
            "a child graph with device-updatable nodes; add its nodes to the graph itself",
        )?;
        let mut owners = Owners::default();
        let known = all.iter().flat_map(|parts| &parts.nodes);
        let nodes = known.map(|node| &node.owners);
        let others = all.iter().flat_map(|parts| &parts.others);
        nodes
            .chain(others)
            .for_each(|it| owners.add_inner(Arc::clone(it)));
        Ok((all[self.at].raw, owners, Parts::changes(&all)))
    }

    /// `cuGraphClone()`—Clones the graph and its nodes. Both graphs share the ownership of what the
    /// nodes use.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`] if the graph is the body of a conditional node, or has
    ///   [device-updatable nodes](Self::set_device_updatable).
    /// - [`Error::Driver`] if the graph allocates memory: the driver cannot clone such graphs.
    #[doc(alias = "cuGraphClone")]
    #[doc(alias = "cudaGraphClone")]
    pub fn try_clone(&self) -> Result<Self> {
        if self.at != 0 {
            return Err(Error::Unsupported {
                what: "cloning the body of a conditional node; clone the whole graph",
            });
        }
        let context = self.context();
        let driver = context.driver();
        // Declared before the guard, so that on an error the clone is dropped after the guard.
        let clone;
        let all = self.root.lock();
        Parts::without_device_nodes(
            &all,
            "cloning a graph with device-updatable nodes; build a second graph",
        )?;
        let parts = &all[0];
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, and the graph alive and not in use by another
        // thread ← `raw` is a local; the graph is locked.
        unsafe { call!(driver, cuGraphClone(&raw mut raw, parts.raw.0)) }?;
        // SAFETY: the clone must have no other owner ← it was created just above.
        clone = unsafe { Self::of_raw(context, raw) };
        let mut nodes = Vec::with_capacity(parts.nodes.len());
        for node in &parts.nodes {
            if node.is_gone() {
                nodes.push(node.clone());
                continue;
            }
            let mut found = ptr::null_mut();
            // SAFETY: the pointer must be writable, and node and graphs alive and not in use by
            // another thread ← `found` is a local; the original is locked, and no other code has
            // the clone yet.
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

    /// `cuGraphNodeFindInClone(node)`—Returns the copy in this graph of `node`, a node of the graph
    /// that this one was [cloned](Self::try_clone) from.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if this graph was not cloned from the graph of `node`, or if `node`
    /// was added to it later; [`Error::NodeGone`] if the copy was removed.
    #[doc(alias = "cuGraphNodeFindInClone")]
    #[doc(alias = "cudaGraphNodeFindInClone")]
    pub fn find_clone<K>(&self, node: Node<K>) -> Result<Node<K>> {
        let all = self.root.lock();
        all[self.at].copy_of(node.id()).map(Node::new)
    }
}

/// New parameters of child graphs.
impl GraphExec {
    /// `cuGraphExecChildGraphNodeSetParams(node)`—Changes the graph that a child node runs, from
    /// the next launch on. The new graph must have the same nodes and edges as the old one.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel).
    /// - [`Error::GraphOrder`] as for [`set_copy`](Self::set_copy).
    /// - [`Error::OtherContext`] if `child` is of another context.
    /// - [`Error::GraphMemoryKept`] if a node of `child` allocates memory that none of its nodes
    ///   frees.
    /// - The errors of [`Graph::try_clone`].
    /// - `CUDA_ERROR_INVALID_VALUE` if the topology of `child` differs.
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    #[doc(alias = "cudaGraphExecChildGraphNodeSetParams")]
    pub fn set_child(&self, node: Node<node_kind::Child>, child: &Graph) -> Result<()> {
        if child.context() != self.context() {
            let (of, used_with) = (child.context(), self.context());
            return Err(Error::other_context("the graph", of, used_with));
        }
        // Works on a clone, which no other thread can change.
        let child = child.try_clone()?;
        let (raw, owners, _) = child.whole()?;
        // SAFETY: the node must use only what `owners` keeps ← they are the owners of the child's
        // nodes.
        unsafe { self.set(node, owners, &mut ChildNode(raw)) }
    }
}

/// Changes of child graphs.
impl Graph {
    /// `cuGraphNodeSetParams(node)`—Replaces the graph of a child node by a clone of `child`, which
    /// may have other nodes and edges than the old one (CUDA 12.2 and newer). See
    /// [`set_kernel`](Self::set_kernel) for the edges and for executables.
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    ///   CUDA 12.2.
    /// - [`Error::OtherContext`] if `child` is of another context.
    /// - [`Error::GraphMemoryKept`] if a node of `child` allocates memory that none of its nodes
    ///   frees.
    /// - The errors of [`try_clone`](Self::try_clone), and those of
    ///   [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphNodeSetParams")]
    #[doc(alias = "cudaGraphNodeSetParams")]
    pub fn set_child(&mut self, node: Node<node_kind::Child>, child: &Self) -> Result<()> {
        // Works on a clone, which no other thread can change.
        let child = child.try_clone()?;
        let (raw, owners, _) = self.of_child(&child)?;
        // SAFETY: the node must use only what `owners` keeps ← they are the owners of the child's
        // nodes.
        unsafe { self.change(node, owners, &mut ChildNode(raw)) }
    }
}

/// The parameters of a child node: a graph that no other thread uses.
struct ChildNode(SendPtr<CUgraph_st>);

impl NodeParams for ChildNode {
    type Kind = node_kind::Child;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let child = self.0.0;
        // SAFETY: pointers and graphs must be valid and not in use by another thread ← the caller
        // guarantees it for those of `it`; `add_child` has locked the child graph.
        unsafe { call_add!(it, cuGraphAddChildGraphNode, child) }
    }
}

impl ChangeNode for ChildNode {
    unsafe fn change(&mut self, driver: &Driver, node: CUgraphNode) -> Result<(), DriverError> {
        // The call that is specific to child nodes changes executables only.
        // SAFETY: zero must be a valid value of every field ← they are integers and null pointers.
        let mut params: CUgraphNodeParams = unsafe { mem::zeroed() };
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
        params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
            graph: self.0.0,
            ownership: CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE,
        };
        // SAFETY: node and graph must be valid ← the caller guarantees it for the node; no other
        // code has the clone that `set_child` has made.
        unsafe { call!(driver, cuGraphNodeSetParams(node, &raw mut params)) }
    }
}

impl SetNodeParams for ChildNode {
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
        let child = self.0.0;
        // SAFETY: executable, node and graph must be valid ← the caller guarantees it for those of
        // `it`; no other code has the clone that `set_child` has made.
        unsafe { call_set!(it, cuGraphExecChildGraphNodeSetParams, child) }
    }
}

#[cfg(test)]
mod tests {
    use cuda_sim::Builder;

    use super::{ChildNode, Graph};
    use crate::driver::Driver;
    use crate::error::Error;

    /// Makes the change that another thread can make between the two steps of `add_child`.
    #[test]
    fn a_child_that_changes_during_the_call_is_refused() {
        let simulator = Builder::new().build().unwrap();
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let mut child = Graph::new(&context).unwrap();
        let condition = child.conditional_handle(Some(1)).unwrap();
        let (_, mut body) = child.add_if(&[], condition).unwrap();
        let mut parent = Graph::new(&context).unwrap();

        let (raw, owners, changes) = parent.of_child(&child).unwrap();
        body.add_empty(&[]).unwrap();
        let other = Some((&*child.root, changes));
        // SAFETY: the node must use only what `owners` keeps ← the nodes of `child` use nothing.
        let added = unsafe { parent.add_with(&[], owners, other, &mut ChildNode(raw)) };
        assert_eq!(added.map(|node| node.id()), Err(Error::ChildChanged));
        assert!(parent.is_empty());
    }
}

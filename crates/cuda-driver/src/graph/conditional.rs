//! Conditional nodes: nodes that run a body graph, or run it repeatedly, depending on a value that
//! kernels set.

use std::fmt;
use std::ptr;

use cuda_sys::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUgraph, CUgraphConditionalHandle, CUgraphConditionalNodeType,
    CUgraphNodeParams, CUgraphNodeType,
};

use super::params::{Adding, NodeParams, call_add};
use super::parts::Parts;
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::types::SendPtr;
use crate::types::node::{Edge, Node, node_kind};

/// The value that controls a conditional node. Kernels of the graph set it with
/// `cudaGraphSetConditional(handle, value)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConditionalHandle {
    raw: CUgraphConditionalHandle,
    /// The number of the graph that the value belongs to.
    root: u64,
}

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`
const ASSIGN_DEFAULT: u32 = 1;

impl ConditionalHandle {
    /// Returns the handle as kernels take it: a 64-bit number.
    #[must_use]
    pub fn as_raw(self) -> CUgraphConditionalHandle {
        self.raw
    }
}

/// Conditional nodes.
impl Graph {
    /// `cuGraphConditionalHandleCreate()`—Creates the value for one conditional node, of this graph
    /// or of a body in it.
    ///
    /// The value is `default` at the beginning of each launch. Without a default it keeps the value
    /// that the previous launch left.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.3.
    #[doc(alias = "cuGraphConditionalHandleCreate")]
    #[doc(alias = "cudaGraphConditionalHandleCreate")]
    pub fn conditional_handle(&mut self, default: Option<u32>) -> Result<ConditionalHandle> {
        let context = self.context();
        let all = self.root.lock();
        let mut raw = 0;
        let flags = default.map_or(0, |_| ASSIGN_DEFAULT);
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, and graph and context alive ← `raw` is a local; the
        // graph is locked, and keeps the context.
        unsafe {
            call!(
                context.driver(),
                cuGraphConditionalHandleCreate(
                    &raw mut raw,
                    all[0].raw.0,
                    context.as_raw(),
                    default.unwrap_or(0),
                    flags
                )
            )
        }?;
        let root = all[0].id;
        Ok(ConditionalHandle { raw, root })
    }

    /// `cuGraphAddNode(CONDITIONAL, IF)`—Adds a node that runs its body unless the value is 0.
    /// Returns the node and the body, an empty graph to which nodes can be added.
    ///
    /// The accesses of the body count as accesses of the node: the node depends on earlier nodes
    /// with a conflicting access, and later ones depend on it. The driver allows only some kinds of
    /// nodes in a body.
    ///
    /// Requires CUDA 12.3, as the handle does.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] for a handle or an edge of another graph, [`Error::NodeGone`] for an
    /// edge of a removed node.
    #[doc(alias = "cuGraphAddNode")]
    #[doc(alias = "cudaGraphAddNode")]
    pub fn add_if(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
    ) -> Result<(Node<node_kind::Conditional>, Self)> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let (node, bodies) = self.conditional(after, handle, kind, 1)?;
        let [body] = exactly(bodies)?;
        Ok((node, body))
    }

    /// `cuGraphAddNode(CONDITIONAL, IF)`—Adds a node that runs the first of two bodies unless the
    /// value is 0, and the second if it is 0.
    ///
    /// Requires CUDA 12.8.
    ///
    /// # Errors
    ///
    /// The errors of [`add_if`](Self::add_if).
    pub fn add_if_else(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
    ) -> Result<(Node<node_kind::Conditional>, [Self; 2])> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let (node, bodies) = self.conditional(after, handle, kind, 2)?;
        Ok((node, exactly(bodies)?))
    }

    /// `cuGraphAddNode(CONDITIONAL, WHILE)`—Adds a node that runs its body repeatedly until the
    /// value is 0.
    ///
    /// Requires CUDA 12.3, as the handle does.
    ///
    /// # Errors
    ///
    /// The errors of [`add_if`](Self::add_if).
    pub fn add_while(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
    ) -> Result<(Node<node_kind::Conditional>, Self)> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        let (node, bodies) = self.conditional(after, handle, kind, 1)?;
        let [body] = exactly(bodies)?;
        Ok((node, body))
    }

    /// `cuGraphAddNode(CONDITIONAL, SWITCH)`—Adds a node with several bodies that runs the one
    /// whose index is the value. Indices start at 0; a value without a body runs none.
    ///
    /// Requires CUDA 12.8.
    ///
    /// # Errors
    ///
    /// The errors of [`add_if`](Self::add_if).
    pub fn add_switch(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
        bodies: u32,
    ) -> Result<(Node<node_kind::Conditional>, Vec<Self>)> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH;
        self.conditional(after, handle, kind, bodies)
    }

    fn conditional(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
        kind: CUgraphConditionalNodeType,
        count: u32,
    ) -> Result<(Node<node_kind::Conditional>, Vec<Self>)> {
        if handle.root != self.root.lock()[0].id {
            return Err(Error::OtherGraph);
        }
        // SAFETY: all-zero bytes must be a valid value of the struct ← it holds integers and a
        // union of plain structs of integers, pointers and optional function pointers.
        let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle: handle.raw,
            type_: kind,
            size: count,
            phGraph_out: ptr::null_mut(),
            ctx: self.context().as_raw(),
        };
        let mut params = ConditionalNode(params);
        // SAFETY: the node must use only what the owners keep ← its bodies are empty; what
        // they use is added with their nodes.
        let node = unsafe { self.add(after, Owners::default(), &mut params) }?;
        let id = node.id();
        // SAFETY: this field of the union must be the active one ← it was set above.
        let returned = unsafe { params.0.__bindgen_anon_1.conditional };
        let mut all = self.root.lock();
        // If this graph is itself a body, another thread may have removed its conditional node
        // meanwhile, and with it all nodes in the body.
        all[self.at].index_of(id)?;
        let mut bodies = Vec::new();
        for index in 0..count as usize {
            let raw = returned.phGraph_out.wrapping_add(index);
            // SAFETY: the array must have `count` graphs ← the driver has created it for a node of
            // this size, which still exists.
            let raw: CUgraph = unsafe { raw.read() };
            let mut parts = Parts::new(SendPtr(raw));
            parts.parent = Some((self.at, id.index));
            bodies.push(all.len());
            all.push(parts);
        }
        drop(all);
        let body = |at| Self {
            root: std::sync::Arc::clone(&self.root),
            at,
        };
        Ok((node, bodies.into_iter().map(body).collect()))
    }
}

/// The parameters of a conditional node. The driver writes the bodies into them.
struct ConditionalNode(CUgraphNodeParams);

impl NodeParams for ConditionalNode {
    type Kind = node_kind::Conditional;

    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
        let params = &raw mut self.0;
        // SAFETY: pointers and graph must be valid ← the caller guarantees it for those of `it`.
        unsafe { call_add!(it, cuGraphAddNode, params) }
    }
}

fn exactly<const N: usize>(bodies: Vec<Graph>) -> Result<[Graph; N]> {
    let array = <[Graph; N]>::try_from(bodies);
    array.map_err(|_| Error::Internal {
        what: "a conditional node has another number of bodies than was asked for",
    })
}

impl fmt::Debug for ConditionalHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConditionalHandle({:#x})", self.raw)
    }
}

//! Conditional nodes: graphs that run, or run again, as a kernel says.

use std::fmt;
use std::ptr;

use cuda_sys::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUgraph, CUgraphConditionalHandle, CUgraphConditionalNodeType,
    CUgraphNodeParams, CUgraphNodeType,
};

use super::build::Adding;
use super::node::{Edge, Node, NodeKind, node_kind};
use super::parts::Parts;
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::stream::SendPtr;

/// The value that a conditional node goes by. Kernels of the graph set it:
/// `cudaGraphSetConditional(handle, value)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConditionalHandle {
    raw: CUgraphConditionalHandle,
    /// The graph that it is of.
    root: u64,
}

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`
const ASSIGN_DEFAULT: u32 = 1;

impl ConditionalHandle {
    /// What a kernel takes: a number of 64 bits.
    #[must_use]
    pub fn as_raw(self) -> CUgraphConditionalHandle {
        self.raw
    }
}

impl Graph {
    /// `cuGraphConditionalHandleCreate()`—A value for a conditional node of this graph or of one in
    /// it, of which it must be the only one. It is `default` at the beginning of each launch;
    /// without one, what the launch before has left.
    ///
    /// CUDA 12.3 on.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuGraphConditionalHandleCreate")]
    pub fn conditional_handle(&mut self, default: Option<u32>) -> Result<ConditionalHandle> {
        let context = self.context();
        let all = self.root.lock();
        let mut raw = 0;
        let flags = default.map_or(0, |_| ASSIGN_DEFAULT);
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, graph and context alive ← a local; the graph is
        // locked.
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

    /// `cuGraphAddNode(CONDITIONAL, IF)`—A node that runs a graph unless the value is 0: to be
    /// filled with nodes.
    ///
    /// CUDA 12.3 on. What the graph inside uses, the node uses: it waits for earlier nodes that use
    /// the same memory, and later ones wait for it. The driver allows only some kinds of nodes
    /// inside.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] for a handle or a node of another graph, or what the call answers.
    #[doc(alias = "cuGraphAddNode")]
    pub fn if_node(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
    ) -> Result<(Node<node_kind::Conditional>, Self)> {
        let sort = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let (node, bodies) = self.conditional(after, handle, sort, 1)?;
        let [body] = exactly(bodies)?;
        Ok((node, body))
    }

    /// `cuGraphAddNode(CONDITIONAL, IF)`—A node that runs the first of two graphs unless the value
    /// is 0, and then the second.
    ///
    /// CUDA 12.8 on.
    ///
    /// # Errors
    ///
    /// As [`if_node`](Self::if_node).
    pub fn if_else_node(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
    ) -> Result<(Node<node_kind::Conditional>, [Self; 2])> {
        let sort = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let (node, bodies) = self.conditional(after, handle, sort, 2)?;
        Ok((node, exactly(bodies)?))
    }

    /// `cuGraphAddNode(CONDITIONAL, WHILE)`—A node that runs a graph again and again until the
    /// value is 0.
    ///
    /// # Errors
    ///
    /// As [`if_node`](Self::if_node).
    pub fn while_node(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
    ) -> Result<(Node<node_kind::Conditional>, Self)> {
        let sort = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        let (node, bodies) = self.conditional(after, handle, sort, 1)?;
        let [body] = exactly(bodies)?;
        Ok((node, body))
    }

    /// `cuGraphAddNode(CONDITIONAL, SWITCH)`—A node that runs the graph of the value's number, from
    /// 0 on, or none.
    ///
    /// CUDA 12.8 on.
    ///
    /// # Errors
    ///
    /// As [`if_node`](Self::if_node).
    pub fn switch_node(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
        bodies: u32,
    ) -> Result<(Node<node_kind::Conditional>, Vec<Self>)> {
        let sort = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH;
        self.conditional(after, handle, sort, bodies)
    }

    fn conditional(
        &mut self,
        after: &[Edge],
        handle: ConditionalHandle,
        sort: CUgraphConditionalNodeType,
        count: u32,
    ) -> Result<(Node<node_kind::Conditional>, Vec<Self>)> {
        if handle.root != self.root.lock()[0].id {
            return Err(Error::OtherGraph);
        }
        // SAFETY: all-zero bytes must be a value of the struct ← it holds integers and a union of
        // plain structs of integers, pointers and optional function pointers.
        let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle: handle.raw,
            type_: sort,
            size: count,
            phGraph_out: ptr::null_mut(),
            ctx: self.context().as_raw(),
        };
        let add = |it: &Adding<'_>| {
            // SAFETY: pointers and graph must be valid ← those of `it` are; the parameters are a
            // local.
            unsafe {
                call!(
                    it.driver,
                    cuGraphAddNode(it.node, it.graph, it.after, it.count, &raw mut params)
                )
            }
        };
        let owners = Owners::default();
        // SAFETY: the call must add such a node with these edges ← it does; what its bodies use is
        // told as they are filled.
        let id = unsafe { self.add(NodeKind::Conditional, after, owners, add) }?;
        // SAFETY: this field of the union must be the one that is set ← it was set above.
        let answer = unsafe { params.__bindgen_anon_1.conditional };
        let mut all = self.root.lock();
        // If this is a body, its node may have been taken out meanwhile, and with it all that was
        // added.
        all[self.at].place(id)?;
        let mut bodies = Vec::new();
        for index in 0..count as usize {
            let raw = answer.phGraph_out.wrapping_add(index);
            // SAFETY: there must be as many graphs ← the driver has made them for a node of this
            // size, which is still there.
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
        Ok((Node::new(id), bodies.into_iter().map(body).collect()))
    }
}

fn exactly<const N: usize>(bodies: Vec<Graph>) -> Result<[Graph; N]> {
    let array = <[Graph; N]>::try_from(bodies);
    array.map_err(|_| Error::Unsupported {
        what: "a conditional node of this size",
    })
}

impl fmt::Debug for ConditionalHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConditionalHandle({:#x})", self.raw)
    }
}

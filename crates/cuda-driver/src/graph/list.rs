//! Queries of the nodes and edges of a graph, as the driver reports them.

use std::ffi::CString;
use std::path::Path;
use std::ptr;

use cuda_sys::{CUgraphEdgeData, CUgraphNode, calls};

use super::Graph;
use super::parts::{self, Parts};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::types::node::{Edge, EdgeKind, NodeId, NodeKind};

bitflags::bitflags! {
    /// The details in the output of [`Graph::write_dot`]. Bits without a name are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct DotFlags: u32 {
        /// All details.
        const VERBOSE = 1;
        /// The parameters of kernels.
        const KERNEL_NODE_PARAMS = 4;
        /// The parameters of copies.
        const MEMCPY_NODE_PARAMS = 8;
        /// The parameters of fills.
        const MEMSET_NODE_PARAMS = 16;
        /// The parameters of host nodes.
        const HOST_NODE_PARAMS = 32;
        /// The parameters of event nodes.
        const EVENT_NODE_PARAMS = 64;
        /// The attributes of kernels.
        const KERNEL_NODE_ATTRIBUTES = 512;
        /// The driver's handles of nodes.
        const HANDLES = 1024;
        const _ = !0;
    }
}

/// The nodes and edges of the graph.
impl Graph {
    /// `cuGraphGetNodes()`—Returns the nodes and their kinds, in the order in which they were
    /// added.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] if other code has added a node through [`as_raw`](Self::as_raw).
    #[doc(alias = "cuGraphGetNodes")]
    #[doc(alias = "cudaGraphGetNodes")]
    pub fn nodes(&self) -> Result<Vec<(NodeId, NodeKind)>> {
        let driver = self.context().driver();
        let all = self.root.lock();
        let parts = &all[self.at];
        let mut count = 0;
        // SAFETY: the graph must be alive and not in use by another thread, and the pointer
        // writable ← it is locked; `count` is a local.
        unsafe {
            call!(
                driver,
                cuGraphGetNodes(parts.raw.0, ptr::null_mut(), &raw mut count)
            )
        }?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut nodes: Vec<CUgraphNode> = vec![ptr::null_mut(); count];
        // SAFETY: as for the call above, and there must be room for `count` nodes ← `nodes` is that
        // long.
        unsafe {
            call!(
                driver,
                cuGraphGetNodes(parts.raw.0, nodes.as_mut_ptr(), &raw mut count)
            )
        }?;
        nodes.truncate(count);
        let mut known = Vec::with_capacity(count);
        for raw in nodes {
            known.push(parts.known(raw).ok_or(Error::OtherGraph)?);
        }
        known.sort_unstable_by_key(|(id, _)| *id);
        Ok(known)
    }

    /// `cuGraphGetEdges()`—Returns the edges, each with the node that it leads to: those that the
    /// program added, and those that result from conflicting accesses to memory.
    ///
    /// # Errors
    ///
    /// The errors of [`nodes`](Self::nodes).
    #[doc(alias = "cuGraphGetEdges")]
    #[doc(alias = "cudaGraphGetEdges")]
    pub fn edges(&self) -> Result<Vec<(Edge, NodeId)>> {
        let driver = self.context().driver();
        let all = self.root.lock();
        let parts = &all[self.at];
        let knows_data = driver.version() >= calls::cuGraphGetEdges_v2.since();
        let mut count = 0;
        let (mut from, mut to): (Vec<CUgraphNode>, Vec<CUgraphNode>) = (Vec::new(), Vec::new());
        let none = EdgeKind::Full.raw();
        let mut data: Vec<CUgraphEdgeData> = Vec::new();
        // The first pass asks for the number of edges, the second for the edges.
        for is_asked in [false, true] {
            from.resize(count, ptr::null_mut());
            to.resize(count, ptr::null_mut());
            data.resize(count, none);
            let or_null = |pointer| if is_asked { pointer } else { ptr::null_mut() };
            let (from, to) = (or_null(from.as_mut_ptr()), or_null(to.as_mut_ptr()));
            if is_asked && count == 0 {
                break;
            }
            if knows_data {
                let data = if is_asked {
                    data.as_mut_ptr()
                } else {
                    ptr::null_mut()
                };
                // SAFETY: the graph must be alive and not in use by another thread, and the
                // pointers null or to room for `count` values ← it is locked; the vectors are that
                // long.
                unsafe {
                    call!(
                        driver,
                        cuGraphGetEdges_v2(parts.raw.0, from, to, data, &raw mut count)
                    )
                }?;
            } else {
                // SAFETY: the same requirements hold as in the other branch, for the same reasons.
                unsafe {
                    call!(
                        driver,
                        cuGraphGetEdges(parts.raw.0, from, to, &raw mut count)
                    )
                }?;
            }
        }
        let mut edges = Vec::with_capacity(count);
        for ((from, to), data) in from.iter().zip(&to).zip(&data).take(count) {
            let id = |raw: CUgraphNode| parts.known(raw).map(|(id, _)| id).ok_or(Error::OtherGraph);
            let edge = Edge {
                from: id(*from)?,
                kind: EdgeKind::of_raw(data),
            };
            edges.push((edge, id(*to)?));
        }
        edges.sort_unstable_by_key(|(edge, to)| (edge.from, *to));
        Ok(edges)
    }

    /// `cuGraphDebugDotPrint(path, flags)`—Writes a description of the graph in the DOT language of
    /// Graphviz to a file.
    ///
    /// # Errors
    ///
    /// [`Error::NulByte`] if the path contains a NUL byte, [`Error::Unsupported`] if it is not
    /// UTF-8, and [`Error::Driver`] if the driver cannot write the file.
    #[doc(alias = "cuGraphDebugDotPrint")]
    #[doc(alias = "cudaGraphDebugDotPrint")]
    pub fn write_dot(&self, path: impl AsRef<Path>, flags: DotFlags) -> Result<()> {
        let path = path.as_ref().to_str().ok_or(Error::Unsupported {
            what: "a path that is not UTF-8; use another path",
        })?;
        let path = CString::new(path).map_err(|error| Error::NulByte {
            what: "the path",
            position: error.nul_position(),
        })?;
        let all = self.root.lock();
        let raw = all[self.at].raw.0;
        // SAFETY: the graph must be alive and not in use by another thread, and the path must end
        // with NUL ← it is locked; the path is a `CString`.
        Ok(unsafe {
            call!(
                self.context().driver(),
                cuGraphDebugDotPrint(raw, path.as_ptr(), flags.bits())
            )
        }?)
    }
}

impl Parts {
    fn known(&self, raw: CUgraphNode) -> Option<(NodeId, NodeKind)> {
        let index = self.nodes.iter().position(|node| node.raw.0 == raw)?;
        let id = NodeId {
            graph: self.id,
            index: parts::index(index),
        };
        Some((id, self.nodes.get(index)?.kind))
    }
}

//! What the driver says of a capture, and nodes that others have put into it.

use std::ptr;
use std::slice;
use std::sync::Arc;

use cuda_sys::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeType, CUresult, CUstreamCaptureStatus, calls,
};

use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::graph::Owners;
use crate::graph::node::{Edge, EdgeKind, NodeId, NodeKind};
use crate::graph::parts::{NodeInfo, Parts};
use crate::stream::{SendPtr, Stream};

/// A stream that captures.
pub(super) struct Seen {
    pub(super) graph: CUgraph,
    /// What the next node of the stream follows.
    pub(super) after: Vec<(CUgraphNode, EdgeKind)>,
}

/// `cuStreamGetCaptureInfo()`; an error if the stream does not capture any more.
pub(super) fn look(stream: &Stream) -> Result<Seen, DriverError> {
    let driver = stream.driver();
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph) = (0, ptr::null_mut());
    let (mut nodes, mut data, mut count) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the stream must be alive, the pointers writable ← it is borrowed; they are to locals.
    let asked = unsafe {
        call!(
            driver,
            cuStreamGetCaptureInfo_v2(
                stream.as_raw(),
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                &raw mut nodes,
                &raw mut count
            )
        )
    };
    match asked {
        // An edge is not full, which older revisions cannot tell.
        Err(error) if error.status() == CUresult::CUDA_ERROR_LOSSY_QUERY => {
            // SAFETY: as above.
            unsafe {
                call!(
                    driver,
                    cuStreamGetCaptureInfo_v3(
                        stream.as_raw(),
                        &raw mut status,
                        &raw mut id,
                        &raw mut graph,
                        &raw mut nodes,
                        &raw mut data,
                        &raw mut count
                    )
                )
            }?;
        }
        asked => asked?,
    }
    if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
        return Err(DriverError::new(
            CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            calls::cuStreamGetCaptureInfo_v2,
            driver.version(),
        ));
    }
    // SAFETY: so many must be readable ← the driver says so, until the next call on the capture.
    let nodes: &[CUgraphNode] = unsafe { array(nodes, count) };
    // SAFETY: as above; there is as much data, or none was asked for.
    let data: &[CUgraphEdgeData] = unsafe { array(data, count) };
    let kind = |index| data.get(index).map_or(EdgeKind::Full, EdgeKind::of_raw);
    let after = nodes.iter().enumerate();
    let after = after.map(|(index, node)| (*node, kind(index))).collect();
    Ok(Seen { graph, after })
}

/// # Safety
///
/// `data` is null or there are `count` values.
unsafe fn array<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts(data, count) }
}

impl Seen {
    /// What the next node follows, as edges. The graph is locked.
    pub(super) fn edges(&self, parts: &mut Parts, driver: &Driver) -> Result<Vec<Edge>> {
        let edge = |(node, kind): &(CUgraphNode, EdgeKind)| {
            let index = parts.know(driver, *node, &mut None)?;
            Ok(parts.id_of(index).edge_of(*kind))
        };
        self.after.iter().map(edge).collect()
    }

    /// The node that a call has just added, which keeps `owners` from now on; `None` if it has
    /// added none. The graph is locked.
    pub(super) fn added(
        &self,
        parts: &mut Parts,
        driver: &Driver,
        owners: &mut Option<Owners>,
    ) -> Result<Option<u32>> {
        for (node, _) in &self.after {
            if parts.place_of(*node).is_none() {
                return parts.know(driver, *node, owners).map(Some);
            }
        }
        Ok(None)
    }
}

impl Parts {
    fn place_of(&self, raw: CUgraphNode) -> Option<u32> {
        // The last is what is mostly asked for.
        let place = self.nodes.iter().rposition(|node| node.raw.0 == raw)?;
        // No truncation: each takes more than a byte.
        Some(place as u32)
    }

    fn id_of(&self, index: u32) -> NodeId {
        NodeId {
            graph: self.id,
            index,
        }
    }

    /// The place of a node, which is noted with those before it if it is not known; a new one keeps
    /// `owners`.
    fn know(
        &mut self,
        driver: &Driver,
        raw: CUgraphNode,
        owners: &mut Option<Owners>,
    ) -> Result<u32> {
        let mut open = vec![raw];
        loop {
            let Some(next) = open.last().copied() else {
                return self.place_of(raw).ok_or(Error::OtherGraph);
            };
            if self.place_of(next).is_some() {
                open.pop();
                continue;
            }
            let before = before(driver, next)?;
            let unknown = before.iter().filter(|(it, _)| self.place_of(*it).is_none());
            let unknown: Vec<CUgraphNode> = unknown.map(|(it, _)| *it).collect();
            if !unknown.is_empty() {
                open.extend(unknown);
                continue;
            }
            // What can fail first: then nobody has taken the owners.
            let kind = kind_of(driver, next)?;
            let owners = if next == raw { owners.take() } else { None };
            let owners = owners.unwrap_or_default();
            let reaches = owners.reaches();
            let place = |(it, kind): &(CUgraphNode, EdgeKind)| Some((self.place_of(*it)?, *kind));
            let info = NodeInfo {
                raw: SendPtr(next),
                kind,
                after: before.iter().filter_map(place).collect(),
                owners: Arc::new(owners),
                inside: Vec::new(),
            };
            self.push(info, &reaches);
        }
    }
}

/// `cuGraphNodeGetType()`.
fn kind_of(driver: &Driver, node: CUgraphNode) -> Result<NodeKind> {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the node must be alive, the pointer writable ← the graph is locked, and has it; a
    // local.
    unsafe { call!(driver, cuGraphNodeGetType(node, &raw mut kind)) }?;
    NodeKind::of_raw(kind).ok_or(Error::Unsupported {
        what: "a captured node of a kind that is not known here",
    })
}

/// `cuGraphNodeGetDependencies()`.
fn before(driver: &Driver, node: CUgraphNode) -> Result<Vec<(CUgraphNode, EdgeKind)>, DriverError> {
    let mut count = 0;
    // SAFETY: the node must be alive, the pointer writable ← the graph is locked, and has it; a
    // local.
    unsafe {
        call!(
            driver,
            cuGraphNodeGetDependencies(node, ptr::null_mut(), &raw mut count)
        )
    }?;
    if count == 0 {
        // To ask for none is an error.
        return Ok(Vec::new());
    }
    let mut nodes = vec![ptr::null_mut(); count];
    // SAFETY: as above; there is room for as many as `count` says.
    let asked = unsafe {
        call!(
            driver,
            cuGraphNodeGetDependencies(node, nodes.as_mut_ptr(), &raw mut count)
        )
    };
    let mut data = vec![EdgeKind::Full.raw(); count];
    match asked {
        // An edge is not full, which the older revision cannot tell.
        Err(error) if error.status() == CUresult::CUDA_ERROR_LOSSY_QUERY => {
            // SAFETY: as above.
            unsafe {
                call!(
                    driver,
                    cuGraphNodeGetDependencies_v2(
                        node,
                        nodes.as_mut_ptr(),
                        data.as_mut_ptr(),
                        &raw mut count
                    )
                )
            }?;
        }
        asked => asked?,
    }
    let kinds = data.iter().map(EdgeKind::of_raw);
    Ok(nodes.into_iter().zip(kinds).take(count).collect())
}

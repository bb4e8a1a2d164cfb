//! The driver's state of a capture, and the tracking of nodes that other code has captured.

use std::ptr;
use std::slice;
use std::sync::Arc;

use cuda_sys::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeType, CUresult, CUstreamCaptureStatus, calls,
};

use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::graph::Owners;
use crate::graph::parts::{NodeInfo, Parts, index};
use crate::stream::Stream;
use crate::types::SendPtr;
use crate::types::node::{Edge, EdgeKind, NodeId, NodeKind};

/// The state of a stream that is capturing.
pub(super) struct Seen {
    pub(super) graph: CUgraph,
    /// The dependencies of the next node on the stream.
    pub(super) after: Vec<(CUgraphNode, EdgeKind)>,
}

/// Calls `cuStreamGetCaptureInfo()`. Fails if the stream is no longer capturing.
pub(super) fn look(stream: &Stream) -> Result<Seen, DriverError> {
    let driver = stream.driver();
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph) = (0, ptr::null_mut());
    let (mut nodes, mut data, mut count) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the stream must be alive and the pointers writable ← it is borrowed; they are to
    // locals.
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
        // There is an edge other than a full one, which this version of the call cannot report.
        Err(error) if error.status() == CUresult::CUDA_ERROR_LOSSY_QUERY => {
            // SAFETY: the same requirements hold as for the call above, for the same reasons.
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
    // SAFETY: `count` nodes must be readable ← the driver guarantees it until the next call on the
    // capture.
    let nodes: &[CUgraphNode] = unsafe { array(nodes, count) };
    // SAFETY: `count` values must be readable, or `data` null ← the newer call returns one for each
    // node; `data` is null if only the older one was made.
    let data: &[CUgraphEdgeData] = unsafe { array(data, count) };
    let kind = |index| data.get(index).map_or(EdgeKind::Full, EdgeKind::of_raw);
    let after = nodes.iter().enumerate();
    let after = after.map(|(index, node)| (*node, kind(index))).collect();
    Ok(Seen { graph, after })
}

/// Returns a slice of `count` values, or an empty one if `data` is null.
///
/// # Safety
///
/// `data` is null, or points to `count` values that stay valid for `'a`.
unsafe fn array<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the values must be readable for `'a` ← the caller guarantees it.
    unsafe { slice::from_raw_parts(data, count) }
}

impl Seen {
    /// Returns the dependencies of the next node as edges. The graph is locked.
    pub(super) fn edges(&self, parts: &mut Parts, driver: &Driver) -> Result<Vec<Edge>> {
        let edge = |(node, kind): &(CUgraphNode, EdgeKind)| {
            let index = parts.know(driver, *node, &mut None)?;
            Ok(parts.id_of(index).edge_of(*kind))
        };
        self.after.iter().map(edge).collect()
    }

    /// Returns the node that a call has just added, and gives it `owners`. Returns `None` if the
    /// call has added none. The graph is locked.
    pub(super) fn added(
        &self,
        parts: &mut Parts,
        driver: &Driver,
        owners: &mut Option<Owners>,
    ) -> Result<Option<u32>> {
        for (node, _) in &self.after {
            if parts.index_of_raw(*node).is_none() {
                return parts.know(driver, *node, owners).map(Some);
            }
        }
        Ok(None)
    }
}

impl Seen {
    /// Adds the nodes that a call has just added to the tracked state. If there is exactly one, it
    /// gets `owners`. Returns the indices of the last nodes, or nothing if there are no new nodes.
    /// The graph is locked.
    pub(super) fn learn(
        &self,
        parts: &mut Parts,
        driver: &Driver,
        owners: &mut Option<Owners>,
    ) -> Result<Vec<u32>> {
        let raw = self.after.iter().map(|(node, _)| *node);
        let unknown = |node: &CUgraphNode| parts.index_of_raw(*node).is_none();
        let new: Vec<CUgraphNode> = raw.filter(unknown).collect();
        let is_single = match *new {
            [node] => before(driver, node)?
                .iter()
                .all(|(it, _)| parts.index_of_raw(*it).is_some()),
            _ => false,
        };
        let mut none = None;
        let owners = if is_single { owners } else { &mut none };
        let known = new.into_iter();
        known.map(|it| parts.know(driver, it, owners)).collect()
    }
}

impl Parts {
    fn index_of_raw(&self, raw: CUgraphNode) -> Option<u32> {
        // Most lookups are for the last node.
        let at = self.nodes.iter().rposition(|node| node.raw.0 == raw)?;
        Some(index(at))
    }

    fn id_of(&self, index: u32) -> NodeId {
        NodeId {
            graph: self.id,
            index,
        }
    }

    /// Returns the index of a node. If the node is not tracked yet, it is added together with the
    /// untracked nodes that it depends on, and gets `owners`.
    fn know(
        &mut self,
        driver: &Driver,
        raw: CUgraphNode,
        owners: &mut Option<Owners>,
    ) -> Result<u32> {
        let mut open = vec![raw];
        loop {
            let Some(next) = open.last().copied() else {
                return self.index_of_raw(raw).ok_or(Error::OtherGraph);
            };
            if self.index_of_raw(next).is_some() {
                open.pop();
                continue;
            }
            let before = before(driver, next)?;
            let unknown = before
                .iter()
                .filter(|(it, _)| self.index_of_raw(*it).is_none());
            let unknown: Vec<CUgraphNode> = unknown.map(|(it, _)| *it).collect();
            if !unknown.is_empty() {
                open.extend(unknown);
                continue;
            }
            // The fallible calls come first, so that `owners` is still there if one fails.
            let index_of_next = self.next_index()?;
            let kind = kind_of(driver, next)?;
            let owners = if next == raw { owners.take() } else { None };
            let owners = owners.unwrap_or_default();
            let accesses = owners.accesses();
            let by_index =
                |(it, kind): &(CUgraphNode, EdgeKind)| Some((self.index_of_raw(*it)?, *kind));
            let info = NodeInfo {
                raw: SendPtr(next),
                kind,
                after: before.iter().filter_map(by_index).collect(),
                owners: Arc::new(owners),
                inside: Vec::new(),
            };
            self.push(index_of_next, info, &accesses);
        }
    }
}

/// Calls `cuGraphNodeGetType()`.
fn kind_of(driver: &Driver, node: CUgraphNode) -> Result<NodeKind> {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the node must be alive and the pointer writable ← the graph is locked and has it;
    // `kind` is a local.
    unsafe { call!(driver, cuGraphNodeGetType(node, &raw mut kind)) }?;
    NodeKind::of_raw(kind).ok_or(Error::Unsupported {
        what: "a captured node of an unknown kind",
    })
}

/// Calls `cuGraphNodeGetDependencies()`.
fn before(driver: &Driver, node: CUgraphNode) -> Result<Vec<(CUgraphNode, EdgeKind)>, DriverError> {
    let mut count = 0;
    // SAFETY: the node must be alive and the pointer writable ← the graph is locked and has it;
    // `count` is a local.
    unsafe {
        call!(
            driver,
            cuGraphNodeGetDependencies(node, ptr::null_mut(), &raw mut count)
        )
    }?;
    if count == 0 {
        // A second call with room for no nodes would be an error.
        return Ok(Vec::new());
    }
    let mut nodes = vec![ptr::null_mut(); count];
    // SAFETY: as for the call above, and there must be room for `count` nodes ← `nodes` is that
    // long.
    let asked = unsafe {
        call!(
            driver,
            cuGraphNodeGetDependencies(node, nodes.as_mut_ptr(), &raw mut count)
        )
    };
    let mut data = vec![EdgeKind::Full.raw(); count];
    match asked {
        // There is an edge other than a full one, which the older call cannot report.
        Err(error) if error.status() == CUresult::CUDA_ERROR_LOSSY_QUERY => {
            // SAFETY: as for the call above, and there must be room for `count` values ← `data` is
            // that long.
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

//! Changing executables: all at once, and what changes of single nodes have in common.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{
    CUgraphExec, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUgraphNode, CUresult,
};

use super::exec::{GraphExec, Inner, release};
use super::node::NodeId;
use super::parts::Parts;
use super::{Graph, Owners};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, GraphUpdateError, Result};
use crate::lock::MutexGuard;

/// What a call that changes a node takes.
pub(super) struct Changing<'a> {
    pub(super) driver: &'a Driver,
    pub(super) exec: CUgraphExec,
    pub(super) node: CUgraphNode,
}

impl GraphExec {
    /// `cuGraphExecUpdate(graph)`—Becomes like `graph`, which must have the same nodes and edges,
    /// from the next launch on.
    ///
    /// What the old nodes keep is let go when launches under way are done; what the nodes of
    /// `graph` keep is then kept until the next such update, whatever becomes of single nodes.
    ///
    /// # Errors
    ///
    /// [`Error::GraphUpdate`] with the reason and the node if the driver refuses it,
    /// [`Error::OtherContext`], [`Error::GraphMemoryKept`], [`Error::Unsupported`] for the body of
    /// a conditional node, and where [kernels change nodes](Graph::set_device_updatable) of either.
    /// Then nothing has changed.
    #[doc(alias = "cuGraphExecUpdate")]
    pub fn update(&self, graph: &Graph) -> Result<()> {
        if graph.context() != self.context() {
            return Err(Error::OtherContext { what: "the graph" });
        }
        if graph.at != 0 {
            return Err(Error::Unsupported {
                what: "an update by the body of a node",
            });
        }
        let (inner, context) = (self.inner(), self.context());
        let mut state = inner.lock();
        let all = graph.root.lock();
        if all.iter().any(|parts| parts.unfreed > 0) {
            return Err(Error::GraphMemoryKept);
        }
        let what = "an update by a graph with nodes that kernels change";
        Parts::without_device_nodes(&all, what)?;
        if state.has_device_nodes() {
            return Err(Error::Unsupported {
                what: "an update of an executable with nodes that kernels change",
            });
        }
        let new = state.like(&all);
        let mut info = CUgraphExecUpdateResultInfo {
            result: CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
            errorNode: std::ptr::null_mut(),
            errorFromNode: std::ptr::null_mut(),
        };
        let _current = context.enter()?;
        let entered = context.gate().enter();
        new.each(|owners| owners.attach(&inner.record));
        let result = inner.record.alone(|| {
            // SAFETY: executable and graph must be valid and used by no other thread, the pointer
            // writable ← both are locked; a local.
            unsafe {
                call!(
                    inner.handle.driver(),
                    cuGraphExecUpdate_v2(self.as_raw(), all[0].raw.0, &raw mut info)
                )
            }
        });
        let old = match &result {
            Ok(()) => Some(std::mem::replace(&mut *state, new)),
            Err(error) if error.status() == CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE => {
                Some(new)
            }
            Err(_) => {
                // Nothing says that no node was changed: it uses both.
                new.each(|owners| state.others.push(Arc::clone(owners)));
                None
            }
        };
        if let Some(old) = &old {
            old.each(|owners| owners.detach(&inner.record));
        }
        drop(entered);
        inner.note_blocking(&state);
        drop(state);
        let error = result.err().map(|source| {
            let error = GraphUpdateError {
                source,
                reason: info.result,
                node: Parts::find(&all, info.errorNode),
            };
            Error::GraphUpdate(Box::new(error))
        });
        drop(all);
        let mut left = Vec::new();
        if let Some(old) = &old {
            old.each(|owners| left.push(Arc::clone(owners)));
        }
        drop(old);
        release(context, &inner.record, &left);
        error.map_or(Ok(()), Err)
    }

    /// An error if a closure of a host node has panicked since this was asked last; the panic told
    /// nobody else but the panic hook.
    ///
    /// # Errors
    ///
    /// [`Error::HostFunctionPanicked`].
    pub fn check_host(&self) -> Result<()> {
        self.inner().lock().check_closures()
    }

    /// Changes a node by `change`. If it `is_checked`, no unordered node may use its memory.
    ///
    /// # Safety
    ///
    /// `change` makes one call, which changes the node unless it answers an error; the node then
    /// keeps to what `owners` keeps.
    pub(super) unsafe fn change(
        &self,
        node: NodeId,
        owners: Owners,
        is_checked: bool,
        change: impl FnOnce(&Changing<'_>) -> Result<(), DriverError>,
    ) -> Result<()> {
        let (inner, context) = (self.inner(), self.context());
        // Before all locks: if this fails they go last, and closures that are dropped may use the
        // executable.
        let owners = Arc::new(owners);
        let mut state = inner.lock();
        let place = state.place(node)?;
        if is_checked {
            state.check_order(place, &owners)?;
        }
        let graph = inner.graph(node)?;
        let _current = context.enter()?;
        let entered = context.gate().enter();
        // The new ones are held before the old ones go.
        owners.attach(&inner.record);
        let is_device_updatable = state.is_device_updatable(place);
        let info = state.node_mut(place).ok_or(Error::OtherGraph)?;
        let changing = Changing {
            driver: inner.handle.driver(),
            exec: self.as_raw(),
            node: info.raw.0,
        };
        let result = inner.record.alone(|| {
            if is_device_updatable {
                inner.needs_upload.store(true, Ordering::Release);
            }
            change(&changing)
        });
        let old = match &result {
            Ok(()) => std::mem::replace(&mut info.owners, owners),
            Err(_) => owners,
        };
        old.detach(&inner.record);
        drop(entered);
        inner.note_blocking(&state);
        drop(graph);
        drop(state);
        let left = [old];
        release(context, &inner.record, &left);
        Ok(result?)
    }

    pub(super) fn with_node(
        &self,
        node: NodeId,
        call: impl FnOnce(&Changing<'_>) -> Result<(), DriverError>,
    ) -> Result<()> {
        let inner = self.inner();
        let state = inner.lock();
        let place = state.place(node)?;
        let _graph = inner.graph(node)?;
        let changing = Changing {
            driver: inner.handle.driver(),
            exec: self.as_raw(),
            node: state.node(place).ok_or(Error::OtherGraph)?.raw.0,
        };
        Ok(inner.record.alone(|| call(&changing))?)
    }
}

impl Inner {
    /// The graph that the nodes are of, to the driver, which knows the executable's by them. An
    /// error if `node` is gone.
    fn graph(&self, node: NodeId) -> Result<MutexGuard<'_, Vec<Parts>>> {
        let graph = self.root.lock();
        if graph[0].raw.0.is_null() {
            return Err(Error::Unsupported {
                what: "a node of a graph that was given up",
            });
        }
        let parts = graph.iter().find(|parts| parts.id == node.graph);
        parts.ok_or(Error::NodeGone)?.place(node)?;
        Ok(graph)
    }
}

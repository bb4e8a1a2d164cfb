//! Updates of executables from a graph, and the common part of changes of single nodes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUresult};

use super::exec::{GraphExec, Inner, release};
use super::params::{Changing, SetNodeParams};
use super::parts::Parts;
use super::{Graph, Owners};
use crate::driver::call;
use crate::error::{DriverError, Error, GraphUpdateError, Result};
use crate::lock::MutexGuard;
use crate::types::node::{Node, NodeId};

/// Updates of all nodes from another graph.
impl GraphExec {
    /// `cuGraphExecUpdate(graph)`—Makes the executable equal to `graph` from the next launch on.
    /// Both must have the same nodes and edges.
    ///
    /// What the old nodes use is released when launches in flight are done. What the nodes of
    /// `graph` use is kept until the next such update, even if single nodes are changed before.
    ///
    /// # Errors
    ///
    /// - [`Error::GraphUpdate`] if the driver refuses the update, with the reason and the node.
    /// - [`Error::OtherContext`] if `graph` is of another context.
    /// - [`Error::GraphMemoryKept`] if a node of `graph` allocates memory that none of its nodes
    ///   frees.
    /// - [`Error::Unsupported`] if `graph` is the body of a conditional node, or if `graph` or the
    ///   executable has [device-updatable nodes](Graph::set_device_updatable).
    ///
    /// The executable is unchanged after these errors, with one exception: if the call fails with
    /// another status than `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE`, some nodes may have changed. The
    /// executable then keeps what both graphs use.
    #[doc(alias = "cuGraphExecUpdate")]
    #[doc(alias = "cudaGraphExecUpdate")]
    pub fn update(&self, graph: &Graph) -> Result<()> {
        if graph.context() != self.context() {
            let (of, used_with) = (graph.context(), self.context());
            return Err(Error::other_context("the graph", of, used_with));
        }
        if graph.at != 0 {
            return Err(Error::Unsupported {
                what: "updating an executable from the body of a conditional node; pass the whole \
                       graph",
            });
        }
        let (inner, context) = (self.inner(), self.context());
        let mut state = inner.lock();
        let all = graph.root.lock();
        Parts::expect_all_freed(&all)?;
        let what = "updating from a graph with device-updatable nodes; instantiate that graph";
        Parts::without_device_nodes(&all, what)?;
        if state.has_device_nodes() {
            return Err(Error::Unsupported {
                what: "updating an executable with device-updatable nodes; instantiate the new \
                       graph",
            });
        }
        let new = state.like(&all);
        let mut info = CUgraphExecUpdateResultInfo {
            result: CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
            errorNode: std::ptr::null_mut(),
            errorFromNode: std::ptr::null_mut(),
        };
        let _current = context.enter()?;
        let replay_guard = context.replay_lock().lock();
        new.each(|owners| owners.attach(&inner.record));
        let result = inner.record.alone(|| {
            // SAFETY: executable and graph must be valid and not in use by another thread, and the
            // pointer writable ← both are locked; `info` is a local.
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
                // The driver may have changed some of the nodes, so the executable keeps the owners
                // of both.
                new.each(|owners| state.others.push(Arc::clone(owners)));
                None
            }
        };
        inner.checked.set(&state);
        if let Some(old) = &old {
            old.each(|owners| owners.detach(&inner.record));
        }
        drop(replay_guard);
        inner.refresh(&state);
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

    /// Checks whether a closure of a host node has panicked since the last check. Apart from this
    /// method, only the panic hook reports it.
    ///
    /// # Errors
    ///
    /// [`Error::HostFunctionPanicked`] if a closure has panicked.
    pub fn check_host(&self) -> Result<()> {
        self.inner().lock().check_closures()
    }

    /// Gives a node other parameters; `owners` lists what the node then uses.
    ///
    /// # Safety
    ///
    /// A node with these parameters uses only what `owners` keeps alive. Unless
    /// [`CHECKS_ORDER`](SetNodeParams::CHECKS_ORDER) is set, nodes with conflicting accesses are
    /// ordered.
    pub(super) unsafe fn set<P: SetNodeParams>(
        &self,
        node: Node<P::Kind>,
        owners: Owners,
        params: &mut P,
    ) -> Result<()> {
        let node = node.id();
        let (inner, context) = (self.inner(), self.context());
        // Declared before all locks, so that on an error the owners are dropped last: the drop of a
        // closure may use the executable.
        let owners = Arc::new(owners);
        let mut state = inner.lock();
        let position = state.position_of(node)?;
        if P::CHECKS_ORDER {
            if state.is_device_updatable(position) {
                return Err(Error::Unsupported {
                    what: "a safe change of a device-updatable node; use `GraphExec::set_kernel`",
                });
            }
            state.check_order(position, &owners)?;
        }
        let graph = inner.graph(node)?;
        let _current = context.enter()?;
        let replay_guard = context.replay_lock().lock();
        // The new owners are attached before the old ones are detached.
        owners.attach(&inner.record);
        let is_device_updatable = state.is_device_updatable(position);
        let info = state.node_mut(position).ok_or(Error::OtherGraph)?;
        let changing = Changing {
            driver: inner.handle.driver(),
            exec: self.as_raw(),
            node: info.raw.0,
        };
        let result = inner.record.alone(|| {
            if is_device_updatable {
                inner.needs_upload.store(true, Ordering::Release);
            }
            // SAFETY: executable and node must be alive and locked ← `state` locks the executable,
            // and `graph` the graph that the node belongs to.
            unsafe { params.set(&changing) }
        });
        let old = match &result {
            Ok(()) => std::mem::replace(&mut info.owners, owners),
            Err(_) => owners,
        };
        inner.checked.set(&state);
        old.detach(&inner.record);
        drop(replay_guard);
        inner.refresh(&state);
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
        let position = state.position_of(node)?;
        let _graph = inner.graph(node)?;
        let changing = Changing {
            driver: inner.handle.driver(),
            exec: self.as_raw(),
            node: state.node(position).ok_or(Error::OtherGraph)?.raw.0,
        };
        Ok(inner.record.alone(|| call(&changing))?)
    }
}

impl Inner {
    /// Locks and returns the graph that the executable was made from: the driver identifies the
    /// nodes of the executable by the nodes of that graph. Fails if `node` was removed from it.
    fn graph(&self, node: NodeId) -> Result<MutexGuard<'_, Vec<Parts>>> {
        let graph = self.root.lock();
        if graph[0].raw.0.is_null() {
            return Err(Error::Unsupported {
                what: "changing an executable whose graph was destroyed after a failed call or \
                       capture; build and instantiate the graph again",
            });
        }
        let parts = graph.iter().find(|parts| parts.id == node.graph);
        parts.ok_or(Error::NodeGone)?.index_of(node)?;
        Ok(graph)
    }
}

//! Creating, cloning and destroying graphs.

use std::ffi::{c_uint, c_ulonglong};

use cuda_sys::{CUgraph, CUgraph_st, CUgraphExec_st, CUgraphNode, CUgraphNode_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::graph::model::Owner;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::{ILLEGAL_STATE, INVALID_VALUE, NOT_SUPPORTED, Status};

exports! {
    cuGraphCreate => graph_create;
    cuGraphDestroy => graph_destroy;
    cuGraphClone => graph_clone;
    cuGraphNodeFindInClone => graph_node_find_in_clone;
    cuGraphDestroyNode => graph_destroy_node;
    cuGraphChildGraphNodeGetGraph => graph_child_graph_node_get_graph;
    cuGraphNodeGetContainingGraph => graph_node_get_containing_graph;
    cuGraphGetId => graph_get_id;
    cuGraphExecGetId => graph_exec_get_id;
    cuGraphNodeGetLocalId => graph_node_get_local_id;
    cuGraphNodeGetToolsId => graph_node_get_tools_id;
}

impl Call {
    fn graph_create(&self, graph: Out<CUgraph>, flags: c_uint) -> Status {
        graph.required()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = self.graphs.lock().add_graph(Owner::User);
        graph.set(pointer(handle))
    }

    /// `cuGraphDestroy()`—Executable graphs and launches are not affected.
    fn graph_destroy(&self, graph: Out<CUgraph_st>) -> Status {
        let mut state = self.graphs.lock();
        let handle = graph.handle();
        match state.graph(handle)?.owner {
            Owner::User if state.is_captured_into(handle) => return Err(ILLEGAL_STATE),
            Owner::User => {}
            Owner::Node(_) | Owner::Capture(_) => return Err(INVALID_VALUE),
        }
        state.remove_graph(handle);
        Ok(())
    }

    fn graph_clone(&self, clone: Out<CUgraph>, original: Out<CUgraph_st>) -> Status {
        clone.required()?;
        let mut state = self.graphs.lock();
        state.graph(original.handle())?;
        state.check_copyable(original.handle())?;
        let copy = state.clone_graph(original.handle(), Owner::User)?;
        clone.set(pointer(copy))
    }

    fn graph_node_find_in_clone(
        &self,
        node: Out<CUgraphNode>,
        original: Out<CUgraphNode_st>,
        clone: Out<CUgraph_st>,
    ) -> Status {
        node.required()?;
        let state = self.graphs.lock();
        let graph = state.graph(clone.handle())?;
        let found = graph.clone_of.get(&original.handle());
        let found = found.filter(|found| graph.nodes.contains_key(found));
        node.set(pointer(*found.ok_or(INVALID_VALUE)?))
    }

    fn graph_destroy_node(&self, node: Out<CUgraphNode_st>) -> Status {
        let mut state = self.graphs.lock();
        let graph_handle = state.graph_of_node(node.handle())?;
        if state.is_captured_into(graph_handle) {
            return Err(ILLEGAL_STATE);
        }
        if state.graph(graph_handle)?.has_memory_nodes() {
            return Err(NOT_SUPPORTED);
        }
        if state.node(node.handle())?.payload.is_device_updatable() {
            return Err(NOT_SUPPORTED);
        }
        state.remove_node(node.handle())
    }

    fn graph_child_graph_node_get_graph(
        &self,
        node: Out<CUgraphNode_st>,
        graph: Out<CUgraph>,
    ) -> Status {
        graph.required()?;
        match self.graphs.lock().node(node.handle())?.payload {
            Payload::Child(child) => graph.set(pointer(child)),
            _ => Err(INVALID_VALUE),
        }
    }

    fn graph_node_get_containing_graph(
        &self,
        node: Out<CUgraphNode_st>,
        graph: Out<CUgraph>,
    ) -> Status {
        graph.set(pointer(self.graphs.lock().graph_of_node(node.handle())?))
    }

    fn graph_get_id(&self, graph: Out<CUgraph_st>, id: Out<c_uint>) -> Status {
        id.set(self.graphs.lock().graph(graph.handle())?.id)
    }

    fn graph_exec_get_id(&self, exec: Out<CUgraphExec_st>, id: Out<c_uint>) -> Status {
        let state = self.graphs.lock();
        id.set(state.execs.get(&exec.handle()).ok_or(INVALID_VALUE)?.id)
    }

    fn graph_node_get_local_id(&self, node: Out<CUgraphNode_st>, id: Out<c_uint>) -> Status {
        id.set(self.graphs.lock().node(node.handle())?.local_id)
    }

    /// `cuGraphNodeGetToolsId()`—The id is the number of the graph in the upper half and the number
    /// of the node in the lower half.
    fn graph_node_get_tools_id(&self, node: Out<CUgraphNode_st>, id: Out<c_ulonglong>) -> Status {
        let state = self.graphs.lock();
        let graph = state.graph(state.graph_of_node(node.handle())?)?.id;
        let local = state.node(node.handle())?.local_id;
        id.set(u64::from(graph) << 32 | u64::from(local))
    }
}

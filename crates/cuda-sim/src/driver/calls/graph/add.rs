//! Adding nodes to graphs.

use std::sync::Arc;

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUctx_st, CUdeviceptr, CUevent_st, CUgraph_st, CUgraphChildGraphNodeOwnership, CUgraphEdgeData,
    CUgraphNode, CUgraphNodeParams, CUgraphNodeType, calls,
};

use crate::driver::arg::{In, Out};
use crate::driver::calls::graph::edges::no_data;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::device::Device;
use crate::driver::objects::graph::add::links;
use crate::driver::objects::graph::convert::v2_of;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::graph::{GraphState, convert};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuGraphAddEmptyNode => graph_add_empty_node;
    cuGraphAddKernelNode => graph_add_kernel_node;
    cuGraphAddKernelNode_v2 => graph_add_kernel_node_v2;
    cuGraphAddMemcpyNode => graph_add_memcpy_node;
    cuGraphAddMemsetNode => graph_add_memset_node;
    cuGraphAddHostNode => graph_add_host_node;
    cuGraphAddChildGraphNode => graph_add_child_graph_node;
    cuGraphAddEventRecordNode | cuGraphAddEventWaitNode => graph_add_event_node;
    cuGraphAddMemAllocNode => graph_add_mem_alloc_node;
    cuGraphAddMemFreeNode => graph_add_mem_free_node;
    cuGraphAddBatchMemOpNode => graph_add_batch_mem_op_node;
    cuGraphAddNode => graph_add_node;
    cuGraphAddNode_v2 | cuGraphAddNode_v3 => graph_add_node_v2;
}

/// The place of a new node: where its handle is written, the graph, and the dependencies.
type Place = (Out<CUgraphNode>, u64, In<CUgraphNode>, usize);

impl Call {
    pub(super) fn add(
        &self,
        (node, graph, after, count): Place,
        data: In<CUgraphEdgeData>,
        payload: impl FnOnce(&mut GraphState) -> Status<Payload>,
    ) -> Status<u64> {
        node.required()?;
        let links = links(after, data, count)?;
        let mut state = self.graphs.lock();
        state.check_links(graph, &links)?;
        let before = fresh();
        let payload = payload(&mut state)?;
        let inner = payload.inner();
        let added = state.add_checked(graph, links, payload);
        if added.is_err() {
            // Graphs that were created for the failed node are removed; those that existed before
            // stay.
            for graph in inner.into_iter().filter(|&graph| graph > before) {
                state.remove_graph(graph);
            }
        }
        node.set(pointer(added?))?;
        added
    }

    /// Adds a node whose payload does not depend on the graph.
    fn add_payload(&self, place: Place, payload: Payload) -> Status {
        self.add(place, no_data(), |_| Ok(payload)).map(drop)
    }

    /// Creates the payload of an allocation node and stores its address in `addr`.
    fn allocation(
        &self,
        state: &mut GraphState,
        device: &Arc<Device>,
        graph: u64,
        bytes: usize,
        addr: &mut CUdeviceptr,
    ) -> Status<Payload> {
        let memory = self.graphs.reserve(device, bytes as u64, graph)?;
        state.note_memory(&memory);
        *addr = memory.addr;
        Ok(Payload::Alloc(memory))
    }

    fn graph_add_empty_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
    ) -> Status {
        self.add_payload((node, graph.handle(), after, count), Payload::Empty)
    }

    fn graph_add_kernel_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
    ) -> Status {
        let payload = self.kernel_payload(&v2_of(&params.get()?))?;
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_kernel_node_v2(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_KERNEL_NODE_PARAMS>,
    ) -> Status {
        let payload = self.kernel_payload(&params.get()?)?;
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_memcpy_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_MEMCPY3D>,
        ctx: Out<CUctx_st>,
    ) -> Status {
        let payload = self.memcpy_payload(&params.get()?, ctx.handle())?;
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_memset_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_MEMSET_NODE_PARAMS>,
        ctx: Out<CUctx_st>,
    ) -> Status {
        let payload = self.memset_payload(&convert::fill_of(&params.get()?), ctx.handle())?;
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_host_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_HOST_NODE_PARAMS>,
    ) -> Status {
        let params = params.get()?;
        let payload = convert::host(params.fn_, params.userData)?;
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_child_graph_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        child: Out<CUgraph_st>,
    ) -> Status {
        let place = (node, graph.handle(), after, count);
        let payload = |state: &mut GraphState| state.child(graph.handle(), child.handle(), false);
        self.add(place, no_data(), payload).map(drop)
    }

    fn graph_add_event_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        event: Out<CUevent_st>,
    ) -> Status {
        let event = self.event(event.required()?.handle())?;
        let payload = if self.function.base == calls::cuGraphAddEventWaitNode.base {
            Payload::Wait(event)
        } else {
            Payload::Record(event)
        };
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_mem_alloc_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
    ) -> Status {
        let mut values = params.get()?;
        let device = self.pool_device(&values.poolProps)?;
        self.check_access(values.accessDescs, values.accessDescCount)?;
        let place = (node, graph.handle(), after, count);
        self.add(place, no_data(), |state| {
            let (bytes, graph) = (values.bytesize, graph.handle());
            self.allocation(state, &device, graph, bytes, &mut values.dptr)
        })?;
        params.set(values)
    }

    fn graph_add_mem_free_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        dptr: CUdeviceptr,
    ) -> Status {
        let place = (node, graph.handle(), after, count);
        let payload =
            |state: &mut GraphState| Ok(Payload::Free(state.memory_to_free(graph.handle(), dptr)?));
        self.add(place, no_data(), payload).map(drop)
    }

    fn graph_add_batch_mem_op_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
    ) -> Status {
        let payload = self.operations_payload(&params.get()?)?;
        self.add_payload((node, graph.handle(), after, count), payload)
    }

    fn graph_add_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: Out<CUgraphNodeParams>,
    ) -> Status {
        self.graph_add_node_v2(node, graph, after, no_data(), count, params)
    }

    /// `cuGraphAddNode()`—Writes the address of an allocation and the bodies of a conditional node
    /// back to the parameters.
    fn graph_add_node_v2(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        data: In<CUgraphEdgeData>,
        count: usize,
        params: Out<CUgraphNodeParams>,
    ) -> Status {
        type T = CUgraphNodeType;
        let mut values = params.get()?;
        let place = (node, graph.handle(), after, count);
        let graph = graph.handle();
        match values.type_ {
            T::CU_GRAPH_NODE_TYPE_GRAPH => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let child = unsafe { values.__bindgen_anon_1.graph };
                let moves = match child.ownership {
                    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE => false,
                    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE => true,
                    _ => return Err(INVALID_VALUE),
                };
                let child = child.graph.addr() as u64;
                self.add(place, data, |state| state.child(graph, child, moves))
                    .map(drop)
            }
            T::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let mut alloc = unsafe { values.__bindgen_anon_1.alloc };
                let device = self.pool_device(&alloc.poolProps)?;
                self.check_access(alloc.accessDescs, alloc.accessDescCount)?;
                self.add(place, data, |state| {
                    self.allocation(state, &device, graph, alloc.bytesize, &mut alloc.dptr)
                })?;
                values.__bindgen_anon_1.alloc = alloc;
                params.set(values)
            }
            T::CU_GRAPH_NODE_TYPE_MEM_FREE => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let free = unsafe { values.__bindgen_anon_1.free };
                let payload = |state: &mut GraphState| {
                    Ok(Payload::Free(state.memory_to_free(graph, free.dptr)?))
                };
                self.add(place, data, payload).map(drop)
            }
            T::CU_GRAPH_NODE_TYPE_CONDITIONAL => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let mut conditional = unsafe { values.__bindgen_anon_1.conditional };
                let context = self.context(conditional.ctx.addr() as u64)?;
                self.add(place, data, |state| {
                    let payload = state.conditional(graph, &conditional, &context)?;
                    if let Payload::Conditional(made) = &payload {
                        conditional.phGraph_out = made.bodies.as_ptr().cast_mut().cast();
                    }
                    Ok(payload)
                })?;
                values.__bindgen_anon_1.conditional = conditional;
                params.set(values)
            }
            _ => {
                let payload = self.plain_payload(&values)?;
                self.add(place, data, |_| Ok(payload)).map(drop)
            }
        }
    }
}

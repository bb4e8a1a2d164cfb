//! Reading and changing the parameters of the nodes of a graph.

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUdeviceptr, CUevent, CUevent_st, CUgraphChildGraphNodeOwnership, CUgraphNode_st,
    CUgraphNodeParams, CUgraphNodeType,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::graph::convert;
use crate::driver::objects::graph::convert::{v1_of, v2_of};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuGraphKernelNodeGetParams => graph_kernel_node_get_params;
    cuGraphKernelNodeGetParams_v2 => graph_kernel_node_get_params_v2;
    cuGraphKernelNodeSetParams => graph_kernel_node_set_params;
    cuGraphKernelNodeSetParams_v2 => graph_kernel_node_set_params_v2;
    cuGraphMemcpyNodeGetParams => graph_memcpy_node_get_params;
    cuGraphMemcpyNodeSetParams => graph_memcpy_node_set_params;
    cuGraphMemsetNodeGetParams => graph_memset_node_get_params;
    cuGraphMemsetNodeSetParams => graph_memset_node_set_params;
    cuGraphHostNodeGetParams => graph_host_node_get_params;
    cuGraphHostNodeSetParams => graph_host_node_set_params;
    cuGraphEventRecordNodeGetEvent => graph_event_record_node_get_event;
    cuGraphEventRecordNodeSetEvent => graph_event_record_node_set_event;
    cuGraphEventWaitNodeGetEvent => graph_event_wait_node_get_event;
    cuGraphEventWaitNodeSetEvent => graph_event_wait_node_set_event;
    cuGraphMemAllocNodeGetParams => graph_mem_alloc_node_get_params;
    cuGraphMemFreeNodeGetParams => graph_mem_free_node_get_params;
    cuGraphBatchMemOpNodeGetParams => graph_batch_mem_op_node_get_params;
    cuGraphBatchMemOpNodeSetParams => graph_batch_mem_op_node_set_params;
    cuGraphNodeGetParams => graph_node_get_params;
    cuGraphNodeSetParams | cuGraphNodeSetParams_v2 => graph_node_set_params;
}

impl Call {
    /// Returns the result of `read` for the payload of a node. Fails with `INVALID_VALUE` if that
    /// is `None`.
    pub(super) fn read_node<T>(
        &self,
        node: Out<CUgraphNode_st>,
        to: Out<T>,
        read: impl FnOnce(&Payload) -> Option<T>,
    ) -> Status {
        to.required()?;
        let state = self.graphs.lock();
        to.set(read(&state.node(node.handle())?.payload).ok_or(INVALID_VALUE)?)
    }

    /// Sets the parameters of a node, whose type must stay the same.
    pub(super) fn change_node(&self, node: Out<CUgraphNode_st>, mut payload: Payload) -> Status {
        let mut state = self.graphs.lock();
        let node = state.node_mut(node.handle())?;
        if node.payload.kind() != payload.kind() {
            return Err(INVALID_VALUE);
        }
        payload.keep_attributes(&node.payload)?;
        node.payload = payload;
        Ok(())
    }

    /// Returns the context of a copy or a fill, which the older setters do not change.
    pub(in crate::driver) fn node_context(&self, node: u64) -> Status<u64> {
        match &self.graphs.lock().node(node)?.payload {
            Payload::Copy(copy) => Ok(copy.context.handle),
            Payload::Fill(memset) => Ok(memset.context.handle),
            _ => Err(INVALID_VALUE),
        }
    }

    fn graph_kernel_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_KERNEL_NODE_PARAMS_v1>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Kernel(kernel) => Some(v1_of(&kernel.raw())),
            _ => None,
        })
    }

    fn graph_kernel_node_get_params_v2(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_KERNEL_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Kernel(kernel) => Some(kernel.raw()),
            _ => None,
        })
    }

    fn graph_kernel_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
    ) -> Status {
        self.change_node(node, self.kernel_payload(&v2_of(&params.get()?))?)
    }

    fn graph_kernel_node_set_params_v2(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_KERNEL_NODE_PARAMS>,
    ) -> Status {
        self.change_node(node, self.kernel_payload(&params.get()?)?)
    }

    fn graph_memcpy_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_MEMCPY3D>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Copy(copy) => Some(copy.params.0),
            _ => None,
        })
    }

    fn graph_memcpy_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_MEMCPY3D>,
    ) -> Status {
        let ctx = self.node_context(node.handle())?;
        self.change_node(node, self.memcpy_payload(&params.get()?, ctx)?)
    }

    fn graph_memset_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_MEMSET_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Fill(memset) => Some(memset.raw()),
            _ => None,
        })
    }

    fn graph_memset_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_MEMSET_NODE_PARAMS>,
    ) -> Status {
        let ctx = self.node_context(node.handle())?;
        self.change_node(
            node,
            self.memset_payload(&convert::fill_of(&params.get()?), ctx)?,
        )
    }

    fn graph_host_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_HOST_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Host(host) => {
                let (fn_, data) = host.raw();
                Some(CUDA_HOST_NODE_PARAMS {
                    fn_,
                    userData: data,
                })
            }
            _ => None,
        })
    }

    fn graph_host_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_HOST_NODE_PARAMS>,
    ) -> Status {
        let params = params.get()?;
        self.change_node(node, convert::host(params.fn_, params.userData)?)
    }

    fn graph_event_record_node_get_event(
        &self,
        node: Out<CUgraphNode_st>,
        event: Out<CUevent>,
    ) -> Status {
        self.read_node(node, event, |payload| match payload {
            Payload::Record(event) => Some(pointer(event.handle)),
            _ => None,
        })
    }

    fn graph_event_record_node_set_event(
        &self,
        node: Out<CUgraphNode_st>,
        event: Out<CUevent_st>,
    ) -> Status {
        self.change_node(node, Payload::Record(self.event(event.handle())?))
    }

    fn graph_event_wait_node_get_event(
        &self,
        node: Out<CUgraphNode_st>,
        event: Out<CUevent>,
    ) -> Status {
        self.read_node(node, event, |payload| match payload {
            Payload::Wait(event) => Some(pointer(event.handle)),
            _ => None,
        })
    }

    fn graph_event_wait_node_set_event(
        &self,
        node: Out<CUgraphNode_st>,
        event: Out<CUevent_st>,
    ) -> Status {
        self.change_node(node, Payload::Wait(self.event(event.handle())?))
    }

    fn graph_mem_alloc_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Alloc(memory) => Some(memory.raw()),
            _ => None,
        })
    }

    fn graph_mem_free_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        dptr: Out<CUdeviceptr>,
    ) -> Status {
        self.read_node(node, dptr, |payload| match payload {
            Payload::Free(memory) => Some(memory.addr),
            _ => None,
        })
    }

    fn graph_batch_mem_op_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Operations(operations) => Some(operations.raw()),
            _ => None,
        })
    }

    fn graph_batch_mem_op_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
    ) -> Status {
        self.change_node(node, self.operations_payload(&params.get()?)?)
    }

    fn graph_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUgraphNodeParams>,
    ) -> Status {
        self.read_node(node, params, |payload| Some(payload.raw()))
    }

    fn graph_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUgraphNodeParams>,
    ) -> Status {
        let params = params.get()?;
        if params.type_ == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
            // SAFETY: the field of the union must be set ← the type says that it is.
            let child = unsafe { params.__bindgen_anon_1.graph };
            if child.ownership
                != CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE
            {
                return Err(INVALID_VALUE);
            }
            let child = child.graph.addr() as u64;
            return self.graphs.lock().exchange_child(node.handle(), child);
        }
        self.change_node(node, self.plain_payload(&params)?)
    }
}

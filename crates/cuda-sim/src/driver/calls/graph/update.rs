//! Updating executable graphs.

use std::ffi::c_uint;

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUctx_st, CUevent_st,
    CUgraph_st, CUgraphExec_st, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUgraphNode,
    CUgraphNode_st, CUgraphNodeParams, CUgraphNodeType,
};

use crate::driver::arg::{Arg, In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::graph::convert;
use crate::driver::objects::graph::convert::v2_of;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::graph::template::ExecNode;
use crate::driver::objects::graph::update::{RejectedUpdate, Rules, UpdateResult, may_become};
use crate::driver::status::{GRAPH_EXEC_UPDATE_FAILURE, INVALID_VALUE, NOT_SUPPORTED, Status};

exports! {
    cuGraphExecUpdate => graph_exec_update;
    cuGraphExecUpdate_v2 => graph_exec_update_v2;
    cuGraphExecNodeSetParams => graph_exec_node_set_params;
    cuGraphExecKernelNodeSetParams => graph_exec_kernel_node_set_params;
    cuGraphExecKernelNodeSetParams_v2 => graph_exec_kernel_node_set_params_v2;
    cuGraphExecMemcpyNodeSetParams => graph_exec_memcpy_node_set_params;
    cuGraphExecMemsetNodeSetParams => graph_exec_memset_node_set_params;
    cuGraphExecHostNodeSetParams => graph_exec_host_node_set_params;
    cuGraphExecChildGraphNodeSetParams => graph_exec_child_graph_node_set_params;
    cuGraphExecEventRecordNodeSetEvent => graph_exec_event_record_node_set_event;
    cuGraphExecEventWaitNodeSetEvent => graph_exec_event_wait_node_set_event;
    cuGraphExecBatchMemOpNodeSetParams => graph_exec_batch_mem_op_node_set_params;
    cuGraphNodeSetEnabled => graph_node_set_enabled;
    cuGraphNodeGetEnabled => graph_node_get_enabled;
}

impl Call {
    fn update(&self, exec: u64, graph: u64) -> Status<Result<(), RejectedUpdate>> {
        let mut state = self.graphs.lock();
        if state.graph(graph)?.is_child() {
            return Err(INVALID_VALUE);
        }
        state.execs.get(&exec).ok_or(INVALID_VALUE)?;
        let new = match state.template(graph) {
            Ok(new) => new,
            Err((_, node)) => return Ok(Err((UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR, node, 0))),
        };
        let spaces = self.spaces();
        let changed = state.execs.get_mut(&exec).ok_or(INVALID_VALUE)?;
        if changed.template.is_device_updatable() || new.is_device_updatable() {
            return Err(NOT_SUPPORTED);
        }
        let rules = Rules::of(changed, &spaces);
        if let Err(refused) = changed.template.check_update(&new, &rules) {
            return Ok(Err(refused));
        }
        changed.template.update(new);
        Ok(Ok(()))
    }

    fn graph_exec_update(
        &self,
        exec: Out<CUgraphExec_st>,
        graph: Out<CUgraph_st>,
        error_node: Out<CUgraphNode>,
        result: Out<CUgraphExecUpdateResult>,
    ) -> Status {
        result.required()?;
        match self.update(exec.handle(), graph.handle()) {
            Ok(Ok(())) => {
                error_node.set_if(pointer(0));
                result.set(UpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS)
            }
            Ok(Err((why, node, _))) => {
                error_node.set_if(pointer(node));
                result.set(why)?;
                Err(GRAPH_EXEC_UPDATE_FAILURE)
            }
            // The real driver also returns this status without a further reason.
            Err(NOT_SUPPORTED) => Err(NOT_SUPPORTED),
            Err(code) => {
                result.set(UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR)?;
                Err(code)
            }
        }
    }

    fn graph_exec_update_v2(
        &self,
        exec: Out<CUgraphExec_st>,
        graph: Out<CUgraph_st>,
        info: Out<CUgraphExecUpdateResultInfo>,
    ) -> Status {
        info.required()?;
        let put = |result, node, from| {
            info.set(CUgraphExecUpdateResultInfo {
                result,
                errorNode: pointer(node),
                errorFromNode: pointer(from),
            })
        };
        match self.update(exec.handle(), graph.handle()) {
            Ok(Ok(())) => put(UpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS, 0, 0),
            Ok(Err((why, node, from))) => {
                put(why, node, from)?;
                Err(GRAPH_EXEC_UPDATE_FAILURE)
            }
            Err(NOT_SUPPORTED) => Err(NOT_SUPPORTED),
            Err(code) => {
                put(UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR, 0, 0)?;
                Err(code)
            }
        }
    }

    /// Calls a function with the node of an executable graph that was made from `node`, which must
    /// still be in its graph.
    fn with_exec_node<T>(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        work: impl FnOnce(&mut ExecNode, &Rules<'_>) -> Status<T>,
    ) -> Status<T> {
        let spaces = self.spaces();
        let mut state = self.graphs.lock();
        state.node(node.handle())?;
        let exec = state.execs.get_mut(&exec.handle()).ok_or(INVALID_VALUE)?;
        let rules = Rules::of(exec, &spaces);
        work(
            exec.template.find_mut(node.handle()).ok_or(INVALID_VALUE)?,
            &rules,
        )
    }

    pub(super) fn change_exec_node(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        mut payload: Payload,
    ) -> Status {
        self.with_exec_node(exec, node, |node, rules| {
            payload.keep_attributes(&node.payload)?;
            let both_linear = match (&node.payload, &payload) {
                (Payload::Copy(old), Payload::Copy(new)) => {
                    old.transfer.is_linear() && new.transfer.is_linear()
                }
                _ => true,
            };
            if !both_linear || may_become(&node.payload, &payload, rules).is_err() {
                return Err(INVALID_VALUE);
            }
            node.payload = payload;
            Ok(())
        })
    }

    fn graph_exec_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: Out<CUgraphNodeParams>,
    ) -> Status {
        let params = params.get()?;
        if params.type_ == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
            // SAFETY: the field of the union must be set ← the type says that it is.
            let child = unsafe { params.__bindgen_anon_1.graph.graph };
            // SAFETY: nothing is read through the pointer, which is a handle.
            let child = unsafe { child.wrap() };
            return self.graph_exec_child_graph_node_set_params(exec, node, child);
        }
        self.change_exec_node(exec, node, self.plain_payload(&params)?)
    }

    fn graph_exec_kernel_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
    ) -> Status {
        self.change_exec_node(exec, node, self.kernel_payload(&v2_of(&params.get()?))?)
    }

    fn graph_exec_kernel_node_set_params_v2(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_KERNEL_NODE_PARAMS>,
    ) -> Status {
        self.change_exec_node(exec, node, self.kernel_payload(&params.get()?)?)
    }

    fn graph_exec_memcpy_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_MEMCPY3D>,
        ctx: Out<CUctx_st>,
    ) -> Status {
        let payload = self.memcpy_payload(&params.get()?, ctx.handle())?;
        self.change_exec_node(exec, node, payload)
    }

    fn graph_exec_memset_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_MEMSET_NODE_PARAMS>,
        ctx: Out<CUctx_st>,
    ) -> Status {
        let payload = self.memset_payload(&convert::fill_of(&params.get()?), ctx.handle())?;
        self.change_exec_node(exec, node, payload)
    }

    fn graph_exec_host_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_HOST_NODE_PARAMS>,
    ) -> Status {
        let params = params.get()?;
        self.change_exec_node(exec, node, convert::host(params.fn_, params.userData)?)
    }

    fn graph_exec_child_graph_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        child: Out<CUgraph_st>,
    ) -> Status {
        let spaces = self.spaces();
        let mut state = self.graphs.lock();
        state.node(node.handle())?;
        state.graph(child.handle())?;
        let new = state.template(child.handle()).map_err(|_| INVALID_VALUE)?;
        let exec = state.execs.get_mut(&exec.handle()).ok_or(INVALID_VALUE)?;
        let rules = Rules::of(exec, &spaces);
        let node = exec.template.find_mut(node.handle()).ok_or(INVALID_VALUE)?;
        let (Payload::Child(_), Some(inner)) = (&node.payload, node.inner.first_mut()) else {
            return Err(INVALID_VALUE);
        };
        if new.is_device_updatable() {
            return Err(NOT_SUPPORTED);
        }
        inner
            .check_update(&new, &rules)
            .map_err(|_| GRAPH_EXEC_UPDATE_FAILURE)?;
        inner.update(new);
        Ok(())
    }

    fn graph_exec_event_record_node_set_event(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        event: Out<CUevent_st>,
    ) -> Status {
        let payload = Payload::Record(self.event(event.handle())?);
        self.change_exec_node(exec, node, payload)
    }

    fn graph_exec_event_wait_node_set_event(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        event: Out<CUevent_st>,
    ) -> Status {
        let payload = Payload::Wait(self.event(event.handle())?);
        self.change_exec_node(exec, node, payload)
    }

    fn graph_exec_batch_mem_op_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
    ) -> Status {
        let payload = self.operations_payload(&params.get()?)?;
        self.change_exec_node(exec, node, payload)
    }

    /// `cuGraphNodeSetEnabled()`—Only kernels, copies and fills can be disabled.
    fn graph_node_set_enabled(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        enabled: c_uint,
    ) -> Status {
        self.with_exec_node(exec, node, |node, _| {
            if !can_be_disabled(&node.payload) {
                return Err(INVALID_VALUE);
            }
            node.is_enabled = enabled != 0;
            Ok(())
        })
    }

    fn graph_node_get_enabled(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        enabled: Out<c_uint>,
    ) -> Status {
        self.with_exec_node(exec, node, |node, _| {
            if !can_be_disabled(&node.payload) {
                return Err(INVALID_VALUE);
            }
            enabled.set(c_uint::from(node.is_enabled))
        })
    }
}

fn can_be_disabled(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::Kernel(_) | Payload::Copy(_) | Payload::Fill(_)
    )
}

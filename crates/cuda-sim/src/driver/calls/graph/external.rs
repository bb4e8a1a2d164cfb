//! Nodes that signal external semaphores, or wait for them.

use cuda_sys::{
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS, CUgraph_st, CUgraphExec_st,
    CUgraphNode, CUgraphNode_st,
};

use super::edges::no_data;
use crate::driver::arg::{Arg, In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::Status;

exports! {
    cuGraphAddExternalSemaphoresSignalNode => graph_add_signal_node;
    cuGraphExternalSemaphoresSignalNodeGetParams => graph_signal_node_get_params;
    cuGraphExternalSemaphoresSignalNodeSetParams => graph_signal_node_set_params;
    cuGraphExecExternalSemaphoresSignalNodeSetParams => graph_exec_signal_node_set_params;
    cuGraphAddExternalSemaphoresWaitNode => graph_add_wait_node;
    cuGraphExternalSemaphoresWaitNodeGetParams => graph_wait_node_get_params;
    cuGraphExternalSemaphoresWaitNodeSetParams => graph_wait_node_set_params;
    cuGraphExecExternalSemaphoresWaitNodeSetParams => graph_exec_wait_node_set_params;
}

impl Call {
    /// Creates the payload of a node that signals semaphores.
    pub(in crate::driver) fn signal_payload(
        &self,
        params: &CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
    ) -> Status<Payload> {
        // SAFETY: there must be `numExtSems` elements ← the contract of the node type.
        let handles = unsafe { params.extSemArray.cast_const().wrap() };
        // SAFETY: there must be `numExtSems` elements ← the contract of the node type.
        let values = unsafe { params.paramsArray.wrap() };
        let semaphores = self.semaphores(handles, values, params.numExtSems)?;
        Ok(Payload::Signal(semaphores))
    }

    fn graph_add_signal_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>,
    ) -> Status {
        let payload = self.signal_payload(&params.get()?)?;
        let place = (node, graph.handle(), after, count);
        self.add(place, no_data(), |_| Ok(payload)).map(drop)
    }

    fn graph_signal_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Signal(semaphores) => Some(semaphores.raw()),
            _ => None,
        })
    }

    fn graph_signal_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>,
    ) -> Status {
        self.change_node(node, self.signal_payload(&params.get()?)?)
    }

    fn graph_exec_signal_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>,
    ) -> Status {
        let payload = self.signal_payload(&params.get()?)?;
        self.change_exec_node(exec, node, payload)
    }

    /// Creates the payload of a node that waits for semaphores.
    pub(in crate::driver) fn wait_payload(
        &self,
        params: &CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    ) -> Status<Payload> {
        // SAFETY: there must be `numExtSems` elements ← the contract of the node type.
        let handles = unsafe { params.extSemArray.cast_const().wrap() };
        // SAFETY: there must be `numExtSems` elements ← the contract of the node type.
        let values = unsafe { params.paramsArray.wrap() };
        let semaphores = self.semaphores(handles, values, params.numExtSems)?;
        Ok(Payload::Await(semaphores))
    }

    fn graph_add_wait_node(
        &self,
        node: Out<CUgraphNode>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        count: usize,
        params: In<CUDA_EXT_SEM_WAIT_NODE_PARAMS>,
    ) -> Status {
        let payload = self.wait_payload(&params.get()?)?;
        let place = (node, graph.handle(), after, count);
        self.add(place, no_data(), |_| Ok(payload)).map(drop)
    }

    fn graph_wait_node_get_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: Out<CUDA_EXT_SEM_WAIT_NODE_PARAMS>,
    ) -> Status {
        self.read_node(node, params, |payload| match payload {
            Payload::Await(semaphores) => Some(semaphores.raw()),
            _ => None,
        })
    }

    fn graph_wait_node_set_params(
        &self,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_EXT_SEM_WAIT_NODE_PARAMS>,
    ) -> Status {
        self.change_node(node, self.wait_payload(&params.get()?)?)
    }

    fn graph_exec_wait_node_set_params(
        &self,
        exec: Out<CUgraphExec_st>,
        node: Out<CUgraphNode_st>,
        params: In<CUDA_EXT_SEM_WAIT_NODE_PARAMS>,
    ) -> Status {
        let payload = self.wait_payload(&params.get()?)?;
        self.change_exec_node(exec, node, payload)
    }
}

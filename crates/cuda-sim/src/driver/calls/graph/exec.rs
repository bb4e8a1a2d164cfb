//! Executable graphs: instantiating, launching, and destroying.

use std::ffi::{c_char, c_ulonglong};

use cuda_sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph_st, CUgraphExec, CUgraphExec_st,
    CUgraphInstantiateResult, CUgraphNode, CUgraphNode_st, CUstream_st, cuuint64_t,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::graph::model::Owner;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::graph::template::{AUTO_FREE, Exec, NODE_PRIORITY};
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::engine::{OpId, Work};

exports! {
    cuGraphInstantiate | cuGraphInstantiate_v2 => graph_instantiate;
    cuGraphInstantiateWithFlags => graph_instantiate_with_flags;
    cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz
        => graph_instantiate_with_params;
    cuGraphLaunch | cuGraphLaunch_ptsz => graph_launch;
    cuGraphUpload | cuGraphUpload_ptsz => graph_upload;
    cuGraphExecDestroy => graph_exec_destroy;
    cuGraphExecGetFlags => graph_exec_get_flags;
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`
const UPLOAD: u64 = 2;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`
const DEVICE_LAUNCH: u64 = 4;

type Outcome = CUgraphInstantiateResult;

/// A failed instantiation: the status, the reason, and the node.
type FailedInstantiation = (cuda_sys::CUresult, Outcome, u64);

/// The reason of a failed instantiation as text.
fn reason_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE => {
            "the structure of the graph is invalid"
        }
        Outcome::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED => {
            "a conditional handle is not used by any node"
        }
        _ => "the graph, its flags or one of its nodes cannot be instantiated",
    }
}

impl Call {
    fn instantiate(&self, graph: u64, flags: u64) -> Result<u64, FailedInstantiation> {
        let plain = |code| (code, Outcome::CUDA_GRAPH_INSTANTIATE_ERROR, 0);
        if flags & !(AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY) != 0
            || flags & (AUTO_FREE | DEVICE_LAUNCH) == AUTO_FREE | DEVICE_LAUNCH
        {
            return Err(plain(INVALID_VALUE));
        }
        if flags & DEVICE_LAUNCH != 0 {
            return Err(plain(NOT_SUPPORTED));
        }
        let mut state = self.graphs.lock();
        let source = state.graph(graph).map_err(plain)?;
        match source.owner {
            Owner::User => {}
            Owner::Node(_) => return Err(plain(NOT_SUPPORTED)),
            Owner::Capture(_) => return Err(plain(INVALID_VALUE)),
        }
        let unique = |payload: &Payload| payload.is_memory() || payload.is_device_updatable();
        let is_unique = state.any_node(graph, &unique);
        if is_unique && state.execs.values().any(|exec| exec.graph == graph) {
            return Err(plain(NOT_SUPPORTED));
        }
        let template = state.template(graph);
        let template = template.map_err(|(outcome, node)| (INVALID_VALUE, outcome, node))?;
        for (handle, _) in &state.graph(graph).map_err(plain)?.conditionals {
            let uses = |payload: &Payload| matches!(payload, Payload::Conditional(conditional) if conditional.handle == *handle);
            if !state.any_node(graph, &uses) {
                let unused = Outcome::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
                return Err((INVALID_VALUE, unused, 0));
            }
        }
        let handle = fresh();
        let exec = Exec {
            graph,
            id: state.next_id(),
            flags,
            template,
            last: None,
        };
        state.execs.insert(handle, exec);
        Ok(handle)
    }

    /// `cuGraphInstantiate()` with a log buffer, which receives the reason of a failure.
    fn graph_instantiate(
        &self,
        exec: Out<CUgraphExec>,
        graph: Out<CUgraph_st>,
        error_node: Out<CUgraphNode>,
        log: Out<c_char>,
        size: usize,
    ) -> Status {
        exec.required()?;
        let put = |text: &str| {
            if log.is_null() || size == 0 {
                return Ok(());
            }
            let len = i32::try_from(size).unwrap_or(i32::MAX);
            crate::driver::objects::device::put_text(log, len, text)
        };
        match self.instantiate(graph.handle(), 0) {
            Ok(handle) => {
                error_node.set_if(pointer(0));
                put("")?;
                exec.set(pointer(handle))
            }
            Err((code, outcome, node)) => {
                error_node.set_if(pointer(node));
                put(&format!("the instantiation failed: {}", reason_of(outcome)))?;
                Err(code)
            }
        }
    }

    fn graph_instantiate_with_flags(
        &self,
        exec: Out<CUgraphExec>,
        graph: Out<CUgraph_st>,
        flags: c_ulonglong,
    ) -> Status {
        exec.required()?;
        if flags & UPLOAD != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = self
            .instantiate(graph.handle(), flags)
            .map_err(|(code, ..)| code)?;
        exec.set(pointer(handle))
    }

    fn graph_instantiate_with_params(
        &self,
        exec: Out<CUgraphExec>,
        graph: Out<CUgraph_st>,
        params: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
    ) -> Status {
        exec.required()?;
        let mut result = params.get()?;
        if result.flags & UPLOAD != 0 {
            self.stream(result.hUploadStream.addr() as u64)?;
        }
        match self.instantiate(graph.handle(), result.flags) {
            Ok(handle) => {
                result.result_out = Outcome::CUDA_GRAPH_INSTANTIATE_SUCCESS;
                result.hErrNode_out = pointer::<CUgraphNode_st>(0);
                params.set(result)?;
                exec.set(pointer(handle))
            }
            Err((code, outcome, node)) => {
                result.result_out = outcome;
                result.hErrNode_out = pointer(node);
                params.set(result)?;
                Err(code)
            }
        }
    }

    fn graph_launch(&self, exec: Out<CUgraphExec_st>, stream: Out<CUstream_st>) -> Status {
        let stream = self.stream(stream.handle())?;
        self.no_capture_on(&stream)?;
        let mut state = self.graphs.lock();
        self.launch_graph(&mut state, exec.handle(), &stream)
    }

    /// `cuGraphUpload()`—Everything that an upload would transfer is on the device already. Only
    /// its position in the stream and among the launches matters. In the legacy stream it does not
    /// block the streams that synchronize with that stream.
    fn graph_upload(&self, exec: Out<CUgraphExec_st>, stream: Out<CUstream_st>) -> Status {
        let stream = self.stream(stream.handle())?;
        self.uncapturable(&stream)?;
        let mut state = self.graphs.lock();
        let exec = state.execs.get_mut(&exec.handle()).ok_or(INVALID_VALUE)?;
        let after: Vec<OpId> = exec.last.into_iter().collect();
        let nothing = Work::Device(Box::new(|| {}));
        exec.last = Some(self.engine.submit_aside(stream.queue, &after, nothing));
        Ok(())
    }

    /// `cuGraphExecDestroy()`—Launches in progress continue.
    fn graph_exec_destroy(&self, exec: Out<CUgraphExec_st>) -> Status {
        let mut state = self.graphs.lock();
        let removed = state.execs.remove(&exec.handle());
        removed.map(drop).ok_or(INVALID_VALUE)
    }

    fn graph_exec_get_flags(&self, exec: Out<CUgraphExec_st>, flags: Out<cuuint64_t>) -> Status {
        flags.required()?;
        let state = self.graphs.lock();
        flags.set(state.execs.get(&exec.handle()).ok_or(INVALID_VALUE)?.flags)
    }
}

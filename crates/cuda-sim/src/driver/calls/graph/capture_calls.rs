//! The calls that begin, end and query captures.

use std::ffi::c_uint;
use std::sync::Arc;
use std::thread;

use cuda_sys::{
    CUgraph, CUgraph_st, CUgraphEdgeData, CUgraphNode, CUstream_st, CUstreamCaptureMode,
    CUstreamCaptureStatus, cuuint64_t,
};

use crate::driver::arg::{Arg, In, Out};
use crate::driver::calls::graph::edges::no_data;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::instance::graph::capture_mode::{GLOBAL, RELAXED};
use crate::driver::objects::graph::add::links;
use crate::driver::objects::graph::capture::{Branch, Capture};
use crate::driver::objects::graph::model::{Link, Owner};
use crate::driver::objects::stream::Stream;
use crate::driver::status::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNMATCHED,
    CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD, ILLEGAL_STATE, INVALID_VALUE, LOSSY_QUERY, Status,
};

exports! {
    cuStreamBeginCapture | cuStreamBeginCapture_ptsz => stream_begin_capture_v1;
    cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz => stream_begin_capture;
    cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz
        => stream_begin_capture_to_graph;
    cuStreamEndCapture | cuStreamEndCapture_ptsz => stream_end_capture;
    cuStreamIsCapturing | cuStreamIsCapturing_ptsz => stream_is_capturing;
    cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz => stream_get_capture_info_v1;
    cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz => stream_get_capture_info_v2;
    cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz => stream_get_capture_info;
    cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz
        => stream_update_capture_dependencies_v1;
    cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz
        => stream_update_capture_dependencies;
    cuThreadExchangeStreamCaptureMode => thread_exchange_capture_mode;
}

type State = CUstreamCaptureStatus;

/// The outputs of a capture query; any of them except the status may be null.
struct CaptureOutputs {
    status: Out<CUstreamCaptureStatus>,
    id: Out<cuuint64_t>,
    graph: Out<CUgraph>,
    nodes: Out<*const CUgraphNode>,
    data: Out<*const CUgraphEdgeData>,
    count: Out<usize>,
}

/// Returns a null output, for a result that is not requested.
fn no_output<T>() -> Out<T> {
    // SAFETY: a null pointer is never dereferenced.
    unsafe { std::ptr::null_mut::<T>().wrap() }
}

impl Call {
    fn begin_capture(
        &self,
        stream: &Stream,
        mode: CUstreamCaptureMode,
        into: Option<(u64, Vec<Link>)>,
    ) -> Status {
        let mode = mode.0;
        if mode > RELAXED {
            return Err(INVALID_VALUE);
        }
        if stream.is_legacy() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let mut state = self.graphs.lock();
        if state.branches.contains_key(&stream.queue) {
            return Err(ILLEGAL_STATE);
        }
        let id = fresh();
        let (graph, after) = match into {
            Some((graph, after)) => {
                state.check_links(graph, &after)?;
                if state.is_captured_into(graph) {
                    return Err(ILLEGAL_STATE);
                }
                (graph, after)
            }
            None => (state.add_graph(Owner::Capture(id)), Vec::new()),
        };
        let capture = Capture {
            graph,
            mode,
            thread: thread::current().id(),
            origin: stream.queue,
            is_over: Arc::default(),
        };
        state.captures.insert(id, capture);
        state
            .branches
            .insert(stream.queue, Branch::new(id, after, stream));
        Ok(())
    }

    fn stream_begin_capture_v1(&self, stream: Out<CUstream_st>) -> Status {
        self.stream_begin_capture(stream, CUstreamCaptureMode(GLOBAL as _))
    }

    fn stream_begin_capture(&self, stream: Out<CUstream_st>, mode: CUstreamCaptureMode) -> Status {
        let stream = self.stream(stream.handle())?;
        self.begin_capture(&stream, mode, None)
    }

    fn stream_begin_capture_to_graph(
        &self,
        stream: Out<CUstream_st>,
        graph: Out<CUgraph_st>,
        after: In<CUgraphNode>,
        data: In<CUgraphEdgeData>,
        count: usize,
        mode: CUstreamCaptureMode,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let links = links(after, data, count)?;
        self.begin_capture(&stream, mode, Some((graph.handle(), links)))
    }

    /// `cuStreamEndCapture()`—Ends a failed capture too, without a graph.
    fn stream_end_capture(&self, stream: Out<CUstream_st>, graph: Out<CUgraph>) -> Status {
        let stream = self.stream(stream.handle())?;
        let mut state = self.graphs.lock();
        let branch = state.branches.get(&stream.queue).ok_or(ILLEGAL_STATE)?;
        graph.required()?;
        let (id, ends) = (branch.capture, branch.after.clone());
        let capture = state.captures.get(&id).ok_or(ILLEGAL_STATE)?;
        if capture.origin != stream.queue {
            state.invalidate(id);
            return Err(CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread::current().id() {
            return Err(CAPTURE_WRONG_THREAD);
        }
        let made = capture.graph;
        let mut failed = (!capture.is_valid()).then_some(CAPTURE_INVALIDATED);
        let mut branches = state
            .branches
            .values()
            .filter(|branch| branch.capture == id);
        if failed.is_none() && !branches.all(|branch| state.all_reach(&branch.after, &ends)) {
            failed = Some(CAPTURE_UNJOINED);
        }
        if let Some(code) = failed {
            state.discard_capture(id);
            graph.set(pointer(0))?;
            return Err(code);
        }
        if let Some(capture) = state.captures.remove(&id) {
            // Its events share this flag and report that the capture is over.
            capture.invalidate();
        }
        state.branches.retain(|_, branch| branch.capture != id);
        // The graph may have been removed together with the graph that contains it.
        graph.set(pointer(0))?;
        let made_graph = state.graph_mut(made)?;
        if made_graph.owner == Owner::Capture(id) {
            made_graph.owner = Owner::User;
        }
        graph.set(pointer(made))
    }

    /// Writes the capture state of the stream. A query of the legacy stream while a stream that it
    /// waits for is being captured fails, but invalidates no capture.
    fn capture_info(&self, stream: &Stream, outputs: &CaptureOutputs) -> Status {
        outputs.status.required()?;
        let mut state = self.graphs.lock();
        if !state.implied(stream).is_empty() {
            return Err(CAPTURE_IMPLICIT);
        }
        let state = &mut *state;
        let Some(branch) = state.branches.get_mut(&stream.queue) else {
            return outputs.status.set(State::CU_STREAM_CAPTURE_STATUS_NONE);
        };
        let capture = state.captures.get(&branch.capture).ok_or(INVALID_VALUE)?;
        if !capture.is_valid() {
            return outputs
                .status
                .set(State::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        }
        let has_data = branch.after.iter().any(|(_, edge)| !edge.is_default());
        if !outputs.data.is_null() && outputs.nodes.is_null() {
            return Err(INVALID_VALUE);
        }
        if !outputs.nodes.is_null() && outputs.data.is_null() && has_data {
            return Err(LOSSY_QUERY);
        }
        outputs.status.set(State::CU_STREAM_CAPTURE_STATUS_ACTIVE)?;
        outputs.id.set_if(branch.capture);
        outputs.graph.set_if(pointer(capture.graph));
        branch.shown = branch
            .after
            .iter()
            .map(|(node, edge)| (*node as usize, edge.raw()))
            .unzip();
        outputs.nodes.set_if(branch.shown.0.as_ptr().cast());
        outputs.data.set_if(branch.shown.1.as_ptr());
        outputs.count.set_if(branch.after.len());
        Ok(())
    }

    fn stream_is_capturing(
        &self,
        stream: Out<CUstream_st>,
        status: Out<CUstreamCaptureStatus>,
    ) -> Status {
        self.stream_get_capture_info_v1(stream, status, no_output())
    }

    fn stream_get_capture_info_v1(
        &self,
        stream: Out<CUstream_st>,
        status: Out<CUstreamCaptureStatus>,
        id: Out<cuuint64_t>,
    ) -> Status {
        self.stream_get_capture_info_v2(stream, status, id, no_output(), no_output(), no_output())
    }

    fn stream_get_capture_info_v2(
        &self,
        stream: Out<CUstream_st>,
        status: Out<CUstreamCaptureStatus>,
        id: Out<cuuint64_t>,
        graph: Out<CUgraph>,
        nodes: Out<*const CUgraphNode>,
        count: Out<usize>,
    ) -> Status {
        self.stream_get_capture_info(stream, status, id, graph, nodes, no_output(), count)
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn stream_get_capture_info(
        &self,
        stream: Out<CUstream_st>,
        status: Out<CUstreamCaptureStatus>,
        id: Out<cuuint64_t>,
        graph: Out<CUgraph>,
        nodes: Out<*const CUgraphNode>,
        data: Out<*const CUgraphEdgeData>,
        count: Out<usize>,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let outputs = CaptureOutputs {
            status,
            id,
            graph,
            nodes,
            data,
            count,
        };
        self.capture_info(&stream, &outputs)
    }

    fn stream_update_capture_dependencies_v1(
        &self,
        stream: Out<CUstream_st>,
        nodes: Out<CUgraphNode>,
        count: usize,
        flags: c_uint,
    ) -> Status {
        self.stream_update_capture_dependencies(stream, nodes, no_data(), count, flags)
    }

    fn stream_update_capture_dependencies(
        &self,
        stream: Out<CUstream_st>,
        nodes: Out<CUgraphNode>,
        data: In<CUgraphEdgeData>,
        count: usize,
        flags: c_uint,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the nodes must be readable ← the contract requires them to be writable as well.
        let nodes = unsafe { nodes.raw().cast_const().wrap() };
        let links = links(nodes, data, count)?;
        let mut state = self.graphs.lock();
        let branch = state.branches.get(&stream.queue).ok_or(ILLEGAL_STATE)?;
        let capture = state.captures.get(&branch.capture).ok_or(ILLEGAL_STATE)?;
        if !capture.is_valid() {
            return Err(CAPTURE_INVALIDATED);
        }
        state.check_links(capture.graph, &links)?;
        if let Some(branch) = state.branches.get_mut(&stream.queue) {
            if flags == 1 {
                branch.after.clear();
            }
            branch.follow(&links);
        }
        Ok(())
    }

    /// `cuThreadExchangeStreamCaptureMode()`—Accepts any number. A number that `cuda.h` does not
    /// define is neither global nor relaxed.
    fn thread_exchange_capture_mode(&self, mode: Out<CUstreamCaptureMode>) -> Status {
        let new = mode.get()?.0;
        mode.set(CUstreamCaptureMode(self.exchange_capture_mode(new) as _))
    }
}

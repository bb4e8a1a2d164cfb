//! Capture: the calls that become nodes.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_MEMCPY3D, CUgraphNode, CUgraphNodeType, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUmemorytype, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

use crate::graph_support::{WORDS, words};
use crate::support::{Bench, bench, late, ok};

type R = CUresult;
type Mode = CUstreamCaptureMode;

/// The capture status of a stream.
pub(crate) fn status(bench: &Bench, stream: CUstream) -> Result<u32, R> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    match unsafe { bench.cuStreamIsCapturing(stream, &raw mut status) } {
        R::CUDA_SUCCESS => Ok(status.0),
        error => Err(error),
    }
}

unsafe extern "C" fn increment(counter: *mut c_void) {
    // SAFETY: the test passes an atomic that outlives the graph.
    unsafe { AtomicU32::from_ptr(counter.cast()) }.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn every_queued_operation_becomes_a_node() {
    for bench in [bench(Builder::new()), bench(late(7))] {
        let affine = bench.function(bench.load(WORDS), "affine");
        let data = bench.upload(&[2_u32; 4]);
        let host = bench.pinned(8).cast::<u32>();
        let counter = AtomicU32::new(0);
        let stream = bench.stream(0);
        let outside = bench.event(2);
        let mut temporary = 0;
        bench.begin(stream);
        assert_eq!(status(&bench, stream), Ok(1));
        unsafe {
            ok(bench.launch(affine, [1, 1], stream, &mut [data, 3, 1]));
            ok(bench.cuMemcpyDtoDAsync_v2(data + 4, data, 4, stream));
            ok(bench.cuMemsetD32Async(data + 8, 9, 1, stream));
            ok(bench.cuLaunchHostFunc(stream, Some(increment), counter.as_ptr().cast()));
            ok(bench.cuMemAllocAsync(&raw mut temporary, 64, stream));
            ok(bench.cuMemcpyDtoDAsync_v2(temporary, data, 8, stream));
            ok(bench.cuMemcpyDtoHAsync_v2(host.cast(), temporary, 8, stream));
            ok(bench.cuMemFreeAsync(temporary, stream));
            ok(bench.cuStreamWriteValue32_v2(stream, data, 5, 0));
            ok(bench.cuStreamWaitValue32_v2(stream, data, 5, 1));
            ok(bench.cuEventRecordWithFlags(outside, stream, 1));
            ok(bench.cuStreamWaitEvent(stream, outside, 1));
        }
        let graph = bench.end(stream).unwrap();
        type T = CUgraphNodeType;
        let expected = [
            T::CU_GRAPH_NODE_TYPE_KERNEL,
            T::CU_GRAPH_NODE_TYPE_MEMCPY,
            T::CU_GRAPH_NODE_TYPE_MEMSET,
            T::CU_GRAPH_NODE_TYPE_HOST,
            T::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
            T::CU_GRAPH_NODE_TYPE_MEMCPY,
            T::CU_GRAPH_NODE_TYPE_MEMCPY,
            T::CU_GRAPH_NODE_TYPE_MEM_FREE,
            T::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
            T::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
            T::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            T::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        ];
        assert_eq!(bench.sorts(graph), expected);
        let chain: Vec<_> = (0..11).map(|node| (node, node + 1)).collect();
        assert_eq!(bench.edges(graph), chain);
        assert_eq!(bench.download::<u32>(data, 4), [2; 4], "nothing ran");
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        unsafe { ok(bench.cuGraphMemcpyNodeGetParams(bench.nodes(graph)[6], &raw mut copy)) };
        assert_eq!(copy.srcMemoryType, CUmemorytype::CU_MEMORYTYPE_DEVICE);
        assert_eq!(copy.dstMemoryType, CUmemorytype::CU_MEMORYTYPE_HOST);
        assert_eq!(copy.WidthInBytes, 8);
        for round in 1..4 {
            unsafe { ok(bench.cuMemsetD32_v2(data, 2, 4)) };
            ok(bench.sync());
            bench.run_graph(graph);
            assert_eq!(bench.download::<u32>(data, 4), [5, 7, 9, 2]);
            assert_eq!(
                unsafe { [host.read(), host.wrapping_add(1).read()] },
                [7, 7]
            );
            assert_eq!(counter.load(Ordering::SeqCst), round);
        }
        unsafe { ok(bench.cuGraphDestroy(graph)) };
    }
}

#[test]
fn events_fork_and_join() {
    for seed in 0..16 {
        let bench = bench(late(seed));
        let data = bench.upload(&[1_u32; 4]);
        let (one, two) = (bench.stream(1), bench.stream(1));
        let (fork, join) = (bench.event(2), bench.event(2));
        bench.begin(one);
        unsafe {
            ok(bench.cuMemsetD32Async(data, 4, 1, one));
            ok(bench.cuEventRecord(fork, one));
            ok(bench.cuStreamWaitEvent(two, fork, 0));
            assert_eq!(status(&bench, two), Ok(1));
            ok(bench.cuMemcpyDtoDAsync_v2(data + 4, data, 4, one));
            ok(bench.cuMemcpyDtoDAsync_v2(data + 8, data, 4, two));
            ok(bench.cuEventRecord(join, two));
            ok(bench.cuStreamWaitEvent(one, join, 0));
            ok(bench.cuMemcpyDtoDAsync_v2(data + 12, data + 8, 4, one));
        }
        let graph = bench.end(one).unwrap();
        assert_eq!((status(&bench, one), status(&bench, two)), (Ok(0), Ok(0)));
        assert_eq!(bench.edges(graph), [(0, 1), (0, 2), (1, 3), (2, 3)]);
        bench.run_graph(graph);
        assert_eq!(bench.download::<u32>(data, 4), [4; 4], "seed {seed}");
        // The last recording of the event was in a capture.
        unsafe {
            assert_eq!(bench.cuEventQuery(join), R::CUDA_ERROR_INVALID_VALUE);
            ok(bench.cuEventRecord(join, two));
            ok(bench.cuEventSynchronize(join));
        }
    }
}

#[test]
fn capture_info_and_dependencies() {
    let bench = bench(Builder::new());
    let data = bench.upload(&[0_u32; 4]);
    let stream = bench.stream(1);
    let fill = |value| unsafe { ok(bench.cuMemsetD32Async(data, value, 1, stream)) };
    let (mut id, mut graph, mut nodes, mut count) = (0, ptr::null_mut(), ptr::null(), 0);
    let mut info = || {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        unsafe {
            ok(bench.cuStreamGetCaptureInfo_v2(
                stream,
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                &raw mut nodes,
                &raw mut count,
            ));
            (
                status.0,
                graph,
                (0..count)
                    .map(|at| nodes.wrapping_add(at).read())
                    .collect::<Vec<CUgraphNode>>(),
            )
        }
    };
    assert_eq!(info().0, 0);
    bench.begin(stream);
    fill(1);
    fill(2);
    let (active, graph, after) = info();
    assert_eq!((active, after.len()), (1, 1));
    let all = bench.nodes(graph);
    assert_eq!(after[0], all[1]);
    // A node that the program adds in between; the next one depends on it and on the first.
    let own = bench.empty(graph, &after);
    let mut set = [own, all[0]];
    unsafe { ok(bench.cuStreamUpdateCaptureDependencies(stream, set.as_mut_ptr(), 2, 1)) };
    assert_eq!(info().2, set);
    fill(3);
    assert_eq!(
        unsafe { bench.cuGraphDestroyNode(own) },
        R::CUDA_ERROR_ILLEGAL_STATE
    );
    let ended = bench.end(stream).unwrap();
    assert_eq!(ended, graph);
    assert_eq!(bench.edges(graph), [(0, 1), (0, 3), (1, 2), (2, 3)]);
    let update = unsafe { bench.cuStreamUpdateCaptureDependencies(stream, set.as_mut_ptr(), 2, 1) };
    assert_eq!(update, R::CUDA_ERROR_ILLEGAL_STATE);
}

#[test]
fn capture_goes_on_in_a_graph() {
    let bench = bench(Builder::new());
    let data = bench.upload(&[0_u32; 2]);
    let graph = bench.graph();
    let first = bench.fill(graph, &[], words(data, 3, 1));
    let stream = bench.stream(1);
    let mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
    unsafe {
        ok(bench.cuStreamBeginCaptureToGraph(
            stream,
            graph,
            &raw const first,
            ptr::null(),
            1,
            mode,
        ));
        ok(bench.cuMemcpyDtoDAsync_v2(data + 4, data, 4, stream));
        assert_eq!(
            bench.cuGraphDestroy(graph),
            R::CUDA_ERROR_ILLEGAL_STATE,
            "in use"
        );
    }
    assert_eq!(bench.end(stream), Ok(graph));
    assert_eq!(bench.edges(graph), [(0, 1)]);
    bench.run_graph(graph);
    assert_eq!(bench.download::<u32>(data, 2), [3, 3]);
}

#[test]
fn a_captured_launch_is_what_it_was_on_its_stream() {
    type A = CUlaunchAttributeID;
    let bench = bench(Builder::new());
    let data = bench.upload(&[1_u32]);
    let affine = bench.function(bench.load(WORDS), "affine");
    let mut stream = ptr::null_mut();
    let mut words = [data, 3, 4];
    let mut params = words.each_mut().map(|word| ptr::from_mut(word).cast());
    unsafe {
        ok(bench.cuStreamCreateWithPriority(&raw mut stream, 1, -3));
        bench.begin(stream);
        let params = params.as_mut_ptr();
        ok(bench.cuLaunchCooperativeKernel(affine, 1, 1, 1, 1, 1, 1, 0, stream, params));
    }
    let graph = bench.end(stream).unwrap();
    let node = bench.nodes(graph)[0];
    let number = |id| unsafe {
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        ok(bench.cuGraphKernelNodeGetAttribute(node, id, &raw mut value));
        value.cooperative
    };
    let both = || {
        [
            number(A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE),
            number(A::CU_LAUNCH_ATTRIBUTE_PRIORITY),
        ]
    };
    assert_eq!(both(), [1, -3]);
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.priority = -1;
    let id = A::CU_LAUNCH_ATTRIBUTE_PRIORITY;
    unsafe { ok(bench.cuGraphKernelNodeSetAttribute(node, id, &raw const value)) };
    assert_eq!(both(), [1, -1]);
}

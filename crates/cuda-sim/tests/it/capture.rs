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
use crate::support::{TestDevice, late, ok, test_device};

type R = CUresult;
type Mode = CUstreamCaptureMode;

/// The capture status of a stream.
pub(crate) fn status(sim: &TestDevice, stream: CUstream) -> Result<u32, R> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    match unsafe { sim.cuStreamIsCapturing(stream, &raw mut status) } {
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
    for sim in [test_device(Builder::new()), test_device(late(7))] {
        let affine = sim.function(sim.load(WORDS), "affine");
        let data = sim.upload(&[2_u32; 4]);
        let host = sim.pinned(8).cast::<u32>();
        let counter = AtomicU32::new(0);
        let stream = sim.stream(0);
        let outside = sim.event(2);
        let mut temporary = 0;
        sim.begin(stream);
        assert_eq!(status(&sim, stream), Ok(1));
        unsafe {
            ok(sim.launch(affine, [1, 1], stream, &mut [data, 3, 1]));
            ok(sim.cuMemcpyDtoDAsync_v2(data + 4, data, 4, stream));
            ok(sim.cuMemsetD32Async(data + 8, 9, 1, stream));
            ok(sim.cuLaunchHostFunc(stream, Some(increment), counter.as_ptr().cast()));
            ok(sim.cuMemAllocAsync(&raw mut temporary, 64, stream));
            ok(sim.cuMemcpyDtoDAsync_v2(temporary, data, 8, stream));
            ok(sim.cuMemcpyDtoHAsync_v2(host.cast(), temporary, 8, stream));
            ok(sim.cuMemFreeAsync(temporary, stream));
            ok(sim.cuStreamWriteValue32_v2(stream, data, 5, 0));
            ok(sim.cuStreamWaitValue32_v2(stream, data, 5, 1));
            ok(sim.cuEventRecordWithFlags(outside, stream, 1));
            ok(sim.cuStreamWaitEvent(stream, outside, 1));
        }
        let graph = sim.end(stream).unwrap();
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
        assert_eq!(sim.sorts(graph), expected);
        let chain: Vec<_> = (0..11).map(|node| (node, node + 1)).collect();
        assert_eq!(sim.edges(graph), chain);
        assert_eq!(sim.download::<u32>(data, 4), [2; 4], "nothing ran");
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        unsafe { ok(sim.cuGraphMemcpyNodeGetParams(sim.nodes(graph)[6], &raw mut copy)) };
        assert_eq!(copy.srcMemoryType, CUmemorytype::CU_MEMORYTYPE_DEVICE);
        assert_eq!(copy.dstMemoryType, CUmemorytype::CU_MEMORYTYPE_HOST);
        assert_eq!(copy.WidthInBytes, 8);
        for round in 1..4 {
            unsafe { ok(sim.cuMemsetD32_v2(data, 2, 4)) };
            ok(sim.sync());
            sim.run_graph(graph);
            assert_eq!(sim.download::<u32>(data, 4), [5, 7, 9, 2]);
            assert_eq!(
                unsafe { [host.read(), host.wrapping_add(1).read()] },
                [7, 7]
            );
            assert_eq!(counter.load(Ordering::SeqCst), round);
        }
        unsafe { ok(sim.cuGraphDestroy(graph)) };
    }
}

#[test]
fn events_fork_and_join() {
    for seed in 0..16 {
        let sim = test_device(late(seed));
        let data = sim.upload(&[1_u32; 4]);
        let (one, two) = (sim.stream(1), sim.stream(1));
        let (fork, join) = (sim.event(2), sim.event(2));
        sim.begin(one);
        unsafe {
            ok(sim.cuMemsetD32Async(data, 4, 1, one));
            ok(sim.cuEventRecord(fork, one));
            ok(sim.cuStreamWaitEvent(two, fork, 0));
            assert_eq!(status(&sim, two), Ok(1));
            ok(sim.cuMemcpyDtoDAsync_v2(data + 4, data, 4, one));
            ok(sim.cuMemcpyDtoDAsync_v2(data + 8, data, 4, two));
            ok(sim.cuEventRecord(join, two));
            ok(sim.cuStreamWaitEvent(one, join, 0));
            ok(sim.cuMemcpyDtoDAsync_v2(data + 12, data + 8, 4, one));
        }
        let graph = sim.end(one).unwrap();
        assert_eq!((status(&sim, one), status(&sim, two)), (Ok(0), Ok(0)));
        assert_eq!(sim.edges(graph), [(0, 1), (0, 2), (1, 3), (2, 3)]);
        sim.run_graph(graph);
        assert_eq!(sim.download::<u32>(data, 4), [4; 4], "seed {seed}");
        // The last recording of the event was in a capture.
        unsafe {
            assert_eq!(sim.cuEventQuery(join), R::CUDA_ERROR_INVALID_VALUE);
            ok(sim.cuEventRecord(join, two));
            ok(sim.cuEventSynchronize(join));
        }
    }
}

#[test]
fn capture_info_and_dependencies() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[0_u32; 4]);
    let stream = sim.stream(1);
    let fill = |value| unsafe { ok(sim.cuMemsetD32Async(data, value, 1, stream)) };
    let (mut id, mut graph, mut nodes, mut count) = (0, ptr::null_mut(), ptr::null(), 0);
    let mut info = || {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        unsafe {
            ok(sim.cuStreamGetCaptureInfo_v2(
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
    sim.begin(stream);
    fill(1);
    fill(2);
    let (active, graph, after) = info();
    assert_eq!((active, after.len()), (1, 1));
    let all = sim.nodes(graph);
    assert_eq!(after[0], all[1]);
    // A node that the program adds in between; the next one depends on it and on the first.
    let own = sim.empty(graph, &after);
    let mut set = [own, all[0]];
    unsafe { ok(sim.cuStreamUpdateCaptureDependencies(stream, set.as_mut_ptr(), 2, 1)) };
    assert_eq!(info().2, set);
    fill(3);
    assert_eq!(
        unsafe { sim.cuGraphDestroyNode(own) },
        R::CUDA_ERROR_ILLEGAL_STATE
    );
    let ended = sim.end(stream).unwrap();
    assert_eq!(ended, graph);
    assert_eq!(sim.edges(graph), [(0, 1), (0, 3), (1, 2), (2, 3)]);
    let update = unsafe { sim.cuStreamUpdateCaptureDependencies(stream, set.as_mut_ptr(), 2, 1) };
    assert_eq!(update, R::CUDA_ERROR_ILLEGAL_STATE);
}

#[test]
fn capture_continues_in_a_graph() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[0_u32; 2]);
    let graph = sim.graph();
    let first = sim.fill(graph, &[], words(data, 3, 1));
    let stream = sim.stream(1);
    let mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
    unsafe {
        ok(sim.cuStreamBeginCaptureToGraph(stream, graph, &raw const first, ptr::null(), 1, mode));
        ok(sim.cuMemcpyDtoDAsync_v2(data + 4, data, 4, stream));
        assert_eq!(
            sim.cuGraphDestroy(graph),
            R::CUDA_ERROR_ILLEGAL_STATE,
            "in use"
        );
    }
    assert_eq!(sim.end(stream), Ok(graph));
    assert_eq!(sim.edges(graph), [(0, 1)]);
    sim.run_graph(graph);
    assert_eq!(sim.download::<u32>(data, 2), [3, 3]);
}

#[test]
fn captured_launch_computes_as_on_a_stream() {
    type A = CUlaunchAttributeID;
    let sim = test_device(Builder::new());
    let data = sim.upload(&[1_u32]);
    let affine = sim.function(sim.load(WORDS), "affine");
    let mut stream = ptr::null_mut();
    let mut words = [data, 3, 4];
    let mut params = words.each_mut().map(|word| ptr::from_mut(word).cast());
    unsafe {
        ok(sim.cuStreamCreateWithPriority(&raw mut stream, 1, -3));
        sim.begin(stream);
        let params = params.as_mut_ptr();
        ok(sim.cuLaunchCooperativeKernel(affine, 1, 1, 1, 1, 1, 1, 0, stream, params));
    }
    let graph = sim.end(stream).unwrap();
    let node = sim.nodes(graph)[0];
    let number = |id| unsafe {
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        ok(sim.cuGraphKernelNodeGetAttribute(node, id, &raw mut value));
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
    unsafe { ok(sim.cuGraphKernelNodeSetAttribute(node, id, &raw const value)) };
    assert_eq!(both(), [1, -1]);
}

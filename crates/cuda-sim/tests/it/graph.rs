//! Graphs: nodes of each kind, edges, and rejected calls.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_HOST_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUgraph, CUgraphEdgeData,
    CUgraphInstantiateResult, CUgraphNode, CUgraphNodeParams, CUgraphNodeType, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUstreamBatchMemOpParams, CUstreamBatchMemOpType,
};

use crate::graph_support::{WORDS, bytes, words};
use crate::support::{late, ok, test_device};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

unsafe extern "C" fn increment(counter: *mut c_void) {
    // SAFETY: the tests pass an atomic that outlives the graph.
    unsafe { AtomicU32::from_ptr(counter.cast()) }.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_chain_of_each_simple_kind() {
    for sim in [test_device(Builder::new()), test_device(late(3))] {
        let affine = sim.function(sim.load(WORDS), "affine");
        let data = sim.upload(&[0_u32; 4]);
        let graph = sim.graph();
        let counter = AtomicU32::new(0);
        let fill = sim.fill(graph, &[], words(data, 5, 2));
        let mut params = [data, 3, 4];
        let kernel = sim.kernel(graph, &[fill], affine, &mut params);
        // The arguments were copied when the node was added.
        params.fill(0);
        let copy = sim.copy(graph, &[kernel], bytes(data + 8, data, 8));
        let host = sim.host(graph, &[copy], Some(increment), counter.as_ptr().cast());
        let empty = sim.empty(graph, &[host]);
        sim.fill(graph, &[empty], words(data, 1, 1));
        type T = CUgraphNodeType;
        let expected = [
            T::CU_GRAPH_NODE_TYPE_MEMSET,
            T::CU_GRAPH_NODE_TYPE_KERNEL,
            T::CU_GRAPH_NODE_TYPE_MEMCPY,
            T::CU_GRAPH_NODE_TYPE_HOST,
            T::CU_GRAPH_NODE_TYPE_EMPTY,
            T::CU_GRAPH_NODE_TYPE_MEMSET,
        ];
        assert_eq!(sim.sorts(graph), expected);
        assert_eq!(sim.edges(graph), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
        for round in 1..4 {
            sim.run_graph(graph);
            assert_eq!(sim.download::<u32>(data, 4), [1, 5, 19, 5]);
            assert_eq!(counter.load(Ordering::SeqCst), round);
        }
        unsafe { ok(sim.cuGraphDestroy(graph)) };
        assert_eq!(
            (
                sim.simulator.live().graphs,
                sim.simulator.live().graph_execs
            ),
            (0, 0)
        );
    }
}

#[test]
fn parameters_come_back_and_can_be_set() {
    let sim = test_device(Builder::new());
    let affine = sim.function(sim.load(WORDS), "affine");
    let data = sim.upload(&[1_u32; 4]);
    let graph = sim.graph();
    let fill = sim.fill(graph, &[], words(data, 5, 2));
    let kernel = sim.kernel(graph, &[fill], affine, &mut [data, 3, 4]);
    let copy = sim.copy(graph, &[kernel], bytes(data + 8, data, 8));
    let counter = AtomicU32::new(0);
    let host = sim.host(graph, &[copy], Some(increment), counter.as_ptr().cast());
    unsafe {
        let mut got: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        ok(sim.cuGraphKernelNodeGetParams_v2(kernel, &raw mut got));
        assert_eq!((got.func, got.gridDimX, got.blockDimX), (affine, 1, 1));
        let values = [0, 1, 2].map(|index| *got.kernelParams.wrapping_add(index));
        assert_eq!(values[0].cast::<u64>().read_unaligned(), data);
        assert_eq!(values[1].cast::<u32>().read_unaligned(), 3);
        assert_eq!(values[2].cast::<u32>().read_unaligned(), 4);
        // The parameters that the driver returns can be set again.
        got.gridDimX = 2;
        ok(sim.cuGraphKernelNodeSetParams_v2(kernel, &raw const got));
        let mut again: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        ok(sim.cuGraphKernelNodeGetParams_v2(kernel, &raw mut again));
        assert_eq!(again.gridDimX, 2);
        again.gridDimX = 0;
        assert_eq!(
            sim.cuGraphKernelNodeSetParams_v2(kernel, &raw const again),
            INVALID
        );

        let mut got: CUDA_MEMSET_NODE_PARAMS = std::mem::zeroed();
        ok(sim.cuGraphMemsetNodeGetParams(fill, &raw mut got));
        assert_eq!(
            (got.dst, got.value, got.elementSize, got.width, got.height),
            (data, 5, 4, 2, 1)
        );
        got.value = 6;
        ok(sim.cuGraphMemsetNodeSetParams(fill, &raw const got));

        let mut got: CUDA_MEMCPY3D = std::mem::zeroed();
        ok(sim.cuGraphMemcpyNodeGetParams(copy, &raw mut got));
        assert_eq!(
            (got.srcDevice, got.dstDevice, got.WidthInBytes),
            (data, data + 8, 8)
        );
        got.WidthInBytes = 4;
        ok(sim.cuGraphMemcpyNodeSetParams(copy, &raw const got));

        let mut got: CUDA_HOST_NODE_PARAMS = std::mem::zeroed();
        ok(sim.cuGraphHostNodeGetParams(host, &raw mut got));
        assert_eq!(got.userData.addr(), counter.as_ptr().addr());

        let mut all: CUgraphNodeParams = std::mem::zeroed();
        ok(sim.cuGraphNodeGetParams(fill, &raw mut all));
        assert_eq!(all.type_, CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET);
        assert_eq!(all.__bindgen_anon_1.memset.value, 6);
        let wrong = words(data, 0, 1);
        assert_eq!(
            sim.cuGraphMemsetNodeSetParams(copy, &raw const wrong),
            INVALID
        );
    }
    sim.run_graph(graph);
    assert_eq!(sim.download::<u32>(data, 4), [22 * 3 + 4, 6, 22 * 3 + 4, 1]);
}

#[test]
fn child_graphs_are_copies() {
    for sim in [test_device(Builder::new()), test_device(late(8))] {
        let data = sim.upload(&[0_u32; 3]);
        let (graph, child) = (sim.graph(), sim.graph());
        let first = sim.fill(child, &[], words(data, 7, 1));
        sim.copy(child, &[first], bytes(data + 4, data, 4));
        let before = sim.fill(graph, &[], words(data, 1, 3));
        let mut node = ptr::null_mut();
        unsafe {
            ok(sim.cuGraphAddChildGraphNode(&raw mut node, graph, &raw const before, 1, child));
        }
        sim.copy(graph, &[node], bytes(data + 8, data + 4, 4));
        // Nodes that are added later are in the original only.
        sim.fill(child, &[], words(data, 9, 2));
        let mut inner = ptr::null_mut();
        unsafe { ok(sim.cuGraphChildGraphNodeGetGraph(node, &raw mut inner)) };
        assert_eq!(sim.sorts(inner).len(), 2);
        assert_ne!(inner, child);
        unsafe {
            assert_eq!(
                sim.cuGraphDestroy(inner),
                INVALID,
                "the child graph belongs to the node"
            );
            ok(sim.cuGraphDestroy(child));
        }
        let mut clone = ptr::null_mut();
        unsafe { ok(sim.cuGraphClone(&raw mut clone, graph)) };
        let mut found = ptr::null_mut();
        unsafe {
            ok(sim.cuGraphNodeFindInClone(&raw mut found, node, clone));
            let mut home = ptr::null_mut();
            ok(sim.cuGraphNodeGetContainingGraph(found, &raw mut home));
            assert_eq!(home, clone);
            assert_eq!(
                sim.cuGraphNodeFindInClone(&raw mut found, found, graph),
                INVALID
            );
            ok(sim.cuGraphDestroy(graph));
        }
        assert_eq!(sim.edges(clone), [(0, 1), (1, 2)]);
        sim.run_graph(clone);
        assert_eq!(sim.download::<u32>(data, 3), [7, 7, 7]);
        unsafe { ok(sim.cuGraphDestroy(clone)) };
        assert_eq!(sim.simulator.live().graphs, 0);
    }
}

#[test]
fn edges_are_added_listed_and_removed() {
    let sim = test_device(Builder::new());
    let graph = sim.graph();
    let nodes: Vec<CUgraphNode> = (0..4).map(|_| sim.empty(graph, &[])).collect();
    let (from, to) = (
        [nodes[0], nodes[0], nodes[1]],
        [nodes[1], nodes[2], nodes[3]],
    );
    let add = |from: &[CUgraphNode], to: &[CUgraphNode]| unsafe {
        sim.cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), from.len())
    };
    ok(add(&from, &to));
    assert_eq!(sim.edges(graph), [(0, 1), (0, 2), (1, 3)]);
    assert_eq!(add(&from[..1], &to[..1]), INVALID, "it exists");
    assert_eq!(add(&nodes[..1], &nodes[..1]), INVALID, "to itself");
    let stranger = sim.empty(sim.graph(), &[]);
    assert_eq!(add(&nodes[..1], &[stranger]), INVALID, "of another graph");
    assert_eq!(
        sim.edges(graph),
        [(0, 1), (0, 2), (1, 3)],
        "nothing was added"
    );
    let (mut count, mut found) = (4, [ptr::null_mut(); 4]);
    unsafe {
        ok(sim.cuGraphNodeGetDependentNodes(nodes[0], found.as_mut_ptr(), &raw mut count));
        assert_eq!(
            (count, found),
            (2, [nodes[1], nodes[2], ptr::null_mut(), ptr::null_mut()])
        );
        ok(sim.cuGraphNodeGetDependencies(nodes[3], ptr::null_mut(), &raw mut count));
        assert_eq!(count, 1);
        count = 4;
        ok(sim.cuGraphGetRootNodes(graph, found.as_mut_ptr(), &raw mut count));
        assert_eq!((count, found[0]), (1, nodes[0]));
        ok(sim.cuGraphRemoveDependencies(graph, &raw const from[1], &raw const to[1], 1));
        let again = sim.cuGraphRemoveDependencies(graph, &raw const from[1], &raw const to[1], 1);
        assert_eq!(again, INVALID);
        ok(sim.cuGraphDestroyNode(nodes[1]));
    }
    assert!(sim.edges(graph).is_empty());
    let mut sort = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    unsafe {
        assert_eq!(
            sim.cuGraphNodeGetType(nodes[1], &raw mut sort),
            INVALID,
            "it is gone"
        );
        ok(sim.cuGraphDestroy(graph));
        assert_eq!(sim.cuGraphDestroy(graph), INVALID);
    }
}

#[test]
fn data_of_edges_is_not_lost_silently() {
    let sim = test_device(Builder::new());
    let affine = sim.function(sim.load(WORDS), "affine");
    let data = sim.upload(&[1_u32]);
    let graph = sim.graph();
    let first = sim.kernel(graph, &[], affine, &mut [data, 2, 0]);
    let second = sim.kernel(graph, &[], affine, &mut [data, 1, 5]);
    let empty = sim.empty(graph, &[]);
    let mut edge: CUgraphEdgeData = unsafe { std::mem::zeroed() };
    (edge.from_port, edge.type_) = (1, 1);
    let add = |to: &CUgraphNode, edge: CUgraphEdgeData| unsafe {
        let (from, to) = (&raw const first, ptr::from_ref(to));
        sim.cuGraphAddDependencies_v2(graph, from, to, &raw const edge, 1)
    };
    assert_eq!(
        add(&empty, edge),
        INVALID,
        "only a kernel can trigger an early start"
    );
    ok(add(&second, edge));
    let (mut count, mut node, mut found) = (1, ptr::null_mut(), edge);
    unsafe {
        let status = sim.cuGraphNodeGetDependencies(second, &raw mut node, &raw mut count);
        assert_eq!(status, CUresult::CUDA_ERROR_LOSSY_QUERY);
        found.from_port = 9;
        ok(sim.cuGraphNodeGetDependencies_v2(
            second,
            &raw mut node,
            &raw mut found,
            &raw mut count,
        ));
    }
    assert_eq!((node, found.from_port, found.type_), (first, 1, 1));
    sim.run_graph(graph);
    assert_eq!(sim.download::<u32>(data, 1), [7]);
}

#[test]
fn a_cycle_is_found_when_instantiated() {
    let sim = test_device(Builder::new());
    let graph = sim.graph();
    let first = sim.empty(graph, &[]);
    let second = sim.empty(graph, &[first]);
    let exec = sim.instantiate(graph);
    unsafe {
        ok(sim.cuGraphAddDependencies(graph, &raw const second, &raw const first, 1));
        let mut params: CUDA_GRAPH_INSTANTIATE_PARAMS = std::mem::zeroed();
        let mut failed = ptr::null_mut();
        let status = sim.cuGraphInstantiateWithParams(&raw mut failed, graph, &raw mut params);
        assert_eq!(status, INVALID);
        let invalid = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
        assert_eq!(params.result_out, invalid);
        assert!([first, second].contains(&params.hErrNode_out));
        assert!(failed.is_null());
        // An executable that exists already is not affected.
        ok(sim.cuGraphLaunch(exec, ptr::null_mut()));
        ok(sim.cuGraphRemoveDependencies(graph, &raw const second, &raw const first, 1));
    }
    sim.run_graph(graph);
}

#[test]
fn wrong_arguments_are_refused() {
    let sim = test_device(Builder::new());
    let (graph, other) = (sim.graph(), sim.graph());
    let stranger = sim.empty(other, &[]);
    let (mut node, mut none): (CUgraphNode, CUgraph) = (ptr::null_mut(), ptr::null_mut());
    unsafe {
        let add = |graph, after: *const CUgraphNode, count| {
            let mut node = ptr::null_mut();
            sim.cuGraphAddEmptyNode(&raw mut node, graph, after, count)
        };
        assert_eq!(add(none, ptr::null(), 0), INVALID);
        assert_eq!(add(graph, ptr::null(), 1), INVALID);
        assert_eq!(add(graph, &raw const stranger, 1), INVALID);
        let own = sim.empty(graph, &[]);
        assert_eq!(
            add(graph, [own, own].as_ptr(), 2),
            INVALID,
            "twice the same"
        );
        // A graph is not a node, and a node is not a graph.
        assert_eq!(add(own.cast(), ptr::null(), 0), INVALID);
        assert_eq!(add(graph, (&raw const other).cast(), 1), INVALID);
        assert_eq!(sim.cuGraphCreate(&raw mut none, 1), INVALID);
        assert_eq!(sim.cuGraphDestroyNode(graph.cast()), INVALID);
        let child = sim.cuGraphAddChildGraphNode(&raw mut node, graph, ptr::null(), 0, graph);
        assert_eq!(child, INVALID, "inside itself");
        let fill = words(4, 0, 1);
        let bad = sim.cuGraphAddMemsetNode(
            &raw mut node,
            graph,
            ptr::null(),
            0,
            &raw const fill,
            sim.context,
        );
        assert_eq!(bad, INVALID, "no device address");
        let semaphore = sim.cuGraphAddExternalSemaphoresWaitNode(
            &raw mut node,
            graph,
            ptr::null(),
            0,
            ptr::null(),
        );
        assert_eq!(semaphore, INVALID, "no parameters");
        let mut exec = ptr::null_mut();
        assert_eq!(
            sim.cuGraphInstantiateWithFlags(&raw mut exec, graph, 16),
            INVALID
        );
        let device = sim.cuGraphInstantiateWithFlags(&raw mut exec, graph, 4);
        assert_eq!(device, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(sim.cuGraphLaunch(graph.cast(), ptr::null_mut()), INVALID);
    }
    assert_eq!(sim.nodes(graph).len(), 1);
}

#[test]
fn batches_write_and_wait() {
    for sim in [test_device(Builder::new()), test_device(late(4))] {
        let flags = sim.upload(&[0_u32; 4]);
        let graph = sim.graph();
        type T = CUstreamBatchMemOpType;
        let op = |sort: T, addr: u64, value: u32| unsafe {
            let mut op: CUstreamBatchMemOpParams = std::mem::zeroed();
            op.writeValue.operation = sort;
            op.writeValue.address = addr;
            op.writeValue.__bindgen_anon_1.value = value;
            if sort == T::CU_STREAM_MEM_OP_WAIT_VALUE_32 {
                op.waitValue.flags = 1;
            }
            op
        };
        let mut ops = [
            op(T::CU_STREAM_MEM_OP_WRITE_VALUE_32, flags, 3),
            op(T::CU_STREAM_MEM_OP_WAIT_VALUE_32, flags, 3),
            op(T::CU_STREAM_MEM_OP_WRITE_VALUE_32, flags + 4, 4),
        ];
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: sim.context,
            count: 3,
            paramArray: ops.as_mut_ptr(),
            flags: 0,
        };
        let mut node = ptr::null_mut();
        unsafe {
            ok(sim.cuGraphAddBatchMemOpNode(
                &raw mut node,
                graph,
                ptr::null(),
                0,
                &raw const params,
            ));
            let mut got: CUDA_BATCH_MEM_OP_NODE_PARAMS = std::mem::zeroed();
            ok(sim.cuGraphBatchMemOpNodeGetParams(node, &raw mut got));
            assert_eq!((got.count, got.ctx), (3, sim.context));
        }
        sim.copy(graph, &[node], bytes(flags + 8, flags, 8));
        sim.run_graph(graph);
        assert_eq!(sim.download::<u32>(flags, 4), [3, 4, 3, 4]);
        // The same operations in a stream.
        let stream = sim.stream(1);
        ops[2] = op(T::CU_STREAM_MEM_OP_WRITE_VALUE_32, flags + 12, 9);
        unsafe {
            ok(sim.cuStreamBatchMemOp_v2(stream, 3, ops.as_mut_ptr(), 0));
            ok(sim.cuStreamSynchronize(stream));
        }
        assert_eq!(sim.download::<u32>(flags, 4), [3, 4, 3, 9]);
    }
}

#[test]
fn events_join_graphs_and_streams() {
    for seed in 0..12 {
        let sim = test_device(late(seed));
        let data = sim.upload(&[0_u32; 3]);
        let (before, after) = (sim.event(2), sim.event(2));
        let graph = sim.graph();
        let (mut wait, mut record) = (ptr::null_mut(), ptr::null_mut());
        unsafe {
            ok(sim.cuGraphAddEventWaitNode(&raw mut wait, graph, ptr::null(), 0, before));
        }
        let copy = sim.copy(graph, &[wait], bytes(data + 4, data, 4));
        let (one, two) = (sim.stream(1), sim.stream(1));
        unsafe {
            ok(sim.cuGraphAddEventRecordNode(&raw mut record, graph, &raw const copy, 1, after));
            let mut found = ptr::null_mut();
            ok(sim.cuGraphEventRecordNodeGetEvent(record, &raw mut found));
            assert_eq!(found, after);
            let exec = sim.instantiate(graph);
            ok(sim.cuMemsetD32Async(data, 6, 1, one));
            ok(sim.cuEventRecord(before, one));
            ok(sim.cuGraphLaunch(exec, two));
            ok(sim.cuStreamWaitEvent(one, after, 0));
            ok(sim.cuMemcpyDtoDAsync_v2(data + 8, data + 4, 4, one));
            ok(sim.cuStreamSynchronize(one));
        }
        assert_eq!(sim.download::<u32>(data, 3), [6, 6, 6], "seed {seed}");
    }
}

#[test]
fn attributes_of_kernels_are_kept() {
    let sim = test_device(Builder::new());
    let affine = sim.function(sim.load(WORDS), "affine");
    let data = sim.upload(&[1_u32]);
    let graph = sim.graph();
    let first = sim.kernel(graph, &[], affine, &mut [data, 2, 0]);
    let second = sim.kernel(graph, &[first], affine, &mut [data, 2, 0]);
    let empty = sim.empty(graph, &[]);
    let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
    unsafe {
        let mut value: CUlaunchAttributeValue = std::mem::zeroed();
        value.priority = -3;
        ok(sim.cuGraphKernelNodeSetAttribute(first, id, &raw const value));
        assert_eq!(
            sim.cuGraphKernelNodeSetAttribute(empty, id, &raw const value),
            INVALID
        );
        ok(sim.cuGraphKernelNodeCopyAttributes(second, first));
        value.priority = 0;
        ok(sim.cuGraphKernelNodeGetAttribute(second, id, &raw mut value));
        assert_eq!(value.priority, -3);
    }
}

#[test]
fn a_graph_prints_itself() {
    let sim = test_device(Builder::new());
    let affine = sim.function(sim.load(WORDS), "affine");
    let data = sim.upload(&[1_u32]);
    let graph = sim.graph();
    let fill = sim.fill(graph, &[], words(data, 1, 1));
    sim.kernel(graph, &[fill], affine, &mut [data, 2, 0]);
    let path = std::env::temp_dir().join(format!("cuda-sim-{}.dot", std::process::id()));
    let name = CString::new(path.to_str().unwrap()).unwrap();
    unsafe { ok(sim.cuGraphDebugDotPrint(graph, name.as_ptr(), 1)) };
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.starts_with("digraph") && text.contains("affine") && text.contains("MEMSET"));
    assert_eq!(text.matches(" -> ").count(), 1);
}

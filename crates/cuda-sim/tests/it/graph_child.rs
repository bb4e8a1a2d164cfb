//! Graphs that are added to others as child graphs.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUgraphChildGraphNodeOwnership, CUgraphEdgeData,
    CUgraphNodeParams, CUgraphNodeType,
};

use crate::graph_support::{WORDS, comes_to, words};
use crate::support::{ok, test_device};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

static DESTROYED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn destroyed(_: *mut c_void) {
    DESTROYED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_child_with_other_parameters_brings_its_user_objects() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[1_u32]);
    let (graph, old, new) = (sim.graph(), sim.graph(), sim.graph());
    sim.fill(old, &[], words(data, 5, 1));
    sim.fill(new, &[], words(data, 6, 1));
    let (mut node, mut object) = (ptr::null_mut(), ptr::null_mut());
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuGraphAddChildGraphNode(&raw mut node, graph, ptr::null(), 0, old));
        let nowhere = ptr::null_mut();
        ok(sim.cuUserObjectCreate(&raw mut object, nowhere, Some(destroyed), 1, 1));
        ok(sim.cuGraphRetainUserObject(new, object, 1, 1));
        let exec = sim.instantiate(graph);
        ok(sim.cuGraphExecChildGraphNodeSetParams(exec, node, new));
        ok(sim.cuGraphDestroy(new));
        let objects = sim.simulator.live().user_objects;
        assert_eq!(objects, 1, "the executable owns the object");
        ok(sim.cuGraphLaunch(exec, stream));
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(sim.download::<u32>(data, 1), [6]);
        ok(sim.cuGraphExecChildGraphNodeSetParams(exec, node, old));
        comes_to(&DESTROYED, 1);
        ok(sim.cuGraphExecDestroy(exec));
    }
}

#[test]
fn a_child_is_replaced_by_a_graph_of_another_shape() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[1_u32, 1]);
    let (graph, old, new) = (sim.graph(), sim.graph(), sim.graph());
    let fill = sim.fill(old, &[], words(data, 5, 1));
    let first = sim.fill(new, &[], words(data, 6, 2));
    sim.fill(new, &[first], words(data, 7, 1));
    let mut node = ptr::null_mut();
    let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
    let mut child = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: new,
        ownership: CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE,
    };
    params.__bindgen_anon_1.graph = child;
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuGraphAddChildGraphNode(&raw mut node, graph, ptr::null(), 0, old));
        ok(sim.cuGraphNodeSetParams(node, &raw mut params));
        ok(sim.cuGraphDestroy(new));
        let exec = sim.instantiate(graph);
        ok(sim.cuGraphLaunch(exec, stream));
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(sim.download::<u32>(data, 2), [7, 6]);
        ok(sim.cuGraphExecDestroy(exec));
        // A node of another type, and a graph that contains the node.
        child.graph = graph;
        params.__bindgen_anon_1.graph = child;
        assert_eq!(sim.cuGraphNodeSetParams(node, &raw mut params), INVALID);
        child.graph = old;
        params.__bindgen_anon_1.graph = child;
        assert_eq!(sim.cuGraphNodeSetParams(fill, &raw mut params), INVALID);
        ok(sim.cuGraphDestroy(graph));
        ok(sim.cuGraphDestroy(old));
    }
    let live = sim.simulator.live();
    assert_eq!((live.graphs, live.graph_execs), (0, 0));
}

#[test]
fn graphs_are_nested_so_deep_and_no_deeper() {
    let sim = test_device(Builder::new());
    let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
    let (mut inner, mut depth) = (sim.graph(), 0);
    let refused = loop {
        let (outer, mut node) = (sim.graph(), ptr::null_mut());
        params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
            graph: inner,
            ownership: CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
        };
        let status = unsafe {
            sim.cuGraphAddNode_v2(
                &raw mut node,
                outer,
                ptr::null(),
                ptr::null(),
                0,
                &raw mut params,
            )
        };
        if !status.is_success() {
            break status;
        }
        (inner, depth) = (outer, depth + 1);
    };
    assert_eq!(refused, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert_eq!(depth, 256);
    sim.run_graph(inner);
}

#[test]
fn child_graph_not_moved_still_belongs_to_the_program() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[1_u32; 2]);
    let affine = sim.function(sim.load(WORDS), "affine");
    let (graph, child) = (sim.graph(), sim.graph());
    let kernel = sim.kernel(graph, &[], affine, &mut [data, 3, 4]);
    sim.fill(child, &[], words(data + 4, 7, 1));

    let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: child,
        ownership: CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
    };
    // Only kernels can follow others by this kind of edge.
    let edge = CUgraphEdgeData {
        from_port: 1,
        to_port: 0,
        type_: 1,
        reserved: [0; 5],
    };
    let (mut node, first) = (ptr::null_mut(), &raw const kernel);
    let mut add = |edge| unsafe {
        sim.cuGraphAddNode_v2(&raw mut node, graph, first, edge, 1, &raw mut params)
    };
    assert_eq!(add(&raw const edge), INVALID);
    assert_eq!(sim.simulator.live().graphs, 2);
    sim.fill(child, &[], words(data, 5, 1));

    ok(add(ptr::null()));
    assert_eq!(sim.simulator.live().graphs, 1);
    assert_eq!(unsafe { sim.cuGraphDestroy(child) }, INVALID);
    sim.run_graph(graph);
    assert_eq!(sim.download::<u32>(data, 2), [5, 7]);
}

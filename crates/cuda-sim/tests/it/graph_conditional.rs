//! Conditional nodes.

use std::ffi::c_void;
use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph,
    CUgraphConditionalNodeType, CUgraphInstantiateResult, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType,
};

use crate::graph_support::{WORDS, bytes, words};
use crate::support::{Bench, bench, late, ok};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Adds a conditional node and returns it with its bodies.
fn conditional(
    bench: &Bench,
    graph: CUgraph,
    after: &[CUgraphNode],
    (handle, sort, size): (u64, CUgraphConditionalNodeType, u32),
) -> Result<(CUgraphNode, Vec<CUgraph>), CUresult> {
    let mut node = ptr::null_mut();
    unsafe {
        let mut params: CUgraphNodeParams = std::mem::zeroed();
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle,
            type_: sort,
            size,
            phGraph_out: ptr::null_mut(),
            ctx: bench.context,
        };
        let (first, count) = (after.as_ptr(), after.len());
        let status = bench.cuGraphAddNode(&raw mut node, graph, first, count, &raw mut params);
        if !status.is_success() {
            return Err(status);
        }
        let bodies = params.__bindgen_anon_1.conditional.phGraph_out;
        let read = |index| bodies.wrapping_add(index as usize).read();
        Ok((node, (0..size).map(read).collect()))
    }
}

fn condition(bench: &Bench, graph: CUgraph, default: u32, flags: u32) -> u64 {
    let mut handle = 0;
    unsafe {
        ok(bench.cuGraphConditionalHandleCreate(
            &raw mut handle,
            graph,
            bench.context,
            default,
            flags,
        ));
    }
    handle
}

#[test]
fn a_while_loop_runs_until_the_device_says_stop() {
    for bench in [bench(Builder::new()), bench(late(6))] {
        let module = bench.load(WORDS);
        let (count, affine) = (
            bench.function(module, "count"),
            bench.function(module, "affine"),
        );
        let data = bench.upload(&[0_u32, 1, 0]);
        let graph = bench.graph();
        let handle = condition(&bench, graph, 1, 1);
        let sort = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        let (node, bodies) = conditional(&bench, graph, &[], (handle, sort, 1)).unwrap();
        let double = bench.kernel(bodies[0], &[], affine, &mut [data + 4, 2, 0]);
        bench.kernel(bodies[0], &[double], count, &mut [handle, data, 10]);
        bench.copy(graph, &[node], bytes(data + 8, data + 4, 4));
        assert_eq!(
            conditional(&bench, graph, &[], (handle, sort, 1)),
            Err(INVALID),
            "used"
        );
        bench.run_graph(graph);
        assert_eq!(bench.download::<u32>(data, 3), [10, 1024, 1024]);
        // A second launch: the value is reset to 1 at the start of each launch.
        bench.run_graph(graph);
        assert_eq!(bench.download::<u32>(data, 3), [11, 2048, 2048]);
    }
}

#[test]
fn a_switch_and_an_else_choose_their_body() {
    type C = CUgraphConditionalNodeType;
    for value in 0..5 {
        let bench = bench(late(u64::from(value)));
        let choose = bench.function(bench.load(WORDS), "choose");
        let data = bench.upload(&[value, 0, 0]);
        let graph = bench.graph();
        for (place, sort, size) in [
            (4, C::CU_GRAPH_COND_TYPE_SWITCH, 3),
            (8, C::CU_GRAPH_COND_TYPE_IF, 2),
        ] {
            let handle = condition(&bench, graph, 0, 0);
            let kernel = bench.kernel(graph, &[], choose, &mut [handle, data]);
            let (_, bodies) = conditional(&bench, graph, &[kernel], (handle, sort, size)).unwrap();
            for (index, body) in (10..).zip(bodies) {
                bench.fill(body, &[], words(data + place, index, 1));
            }
        }
        bench.run_graph(graph);
        let switched = if value < 3 { 10 + value } else { 0 };
        let chosen = if value != 0 { 10 } else { 11 };
        assert_eq!(bench.download::<u32>(data, 3), [value, switched, chosen]);
    }
}

#[test]
fn conditional_handles_must_be_used() {
    let bench = bench(Builder::new());
    let graph = bench.graph();
    let handle = condition(&bench, graph, 0, 0);
    let if_ = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
    unsafe {
        let mut params: CUDA_GRAPH_INSTANTIATE_PARAMS = std::mem::zeroed();
        let mut exec = ptr::null_mut();
        let status = bench.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params);
        assert_eq!(status, INVALID);
        let unused = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        assert_eq!(params.result_out, unused);
    }
    assert_eq!(
        conditional(&bench, graph, &[], (handle, if_, 3)),
        Err(INVALID)
    );
    assert_eq!(
        conditional(&bench, graph, &[], (handle + 16, if_, 1)),
        Err(INVALID)
    );
    let (_, bodies) = conditional(&bench, graph, &[], (handle, if_, 1)).unwrap();
    let mut clone = ptr::null_mut();
    assert_eq!(
        unsafe { bench.cuGraphClone(&raw mut clone, graph) },
        INVALID
    );
    bench.empty(bodies[0], &[]);
    bench.run_graph(graph);
}

/// Follows an H200, on which the node can be added.
#[test]
fn nested_body_with_host_node_is_not_instantiated() {
    for is_in_a_child in [false, true] {
        let bench = bench(Builder::new());
        let graph = bench.graph();
        let if_ = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let handle = condition(&bench, graph, 1, 1);
        let (_, bodies) = conditional(&bench, graph, &[], (handle, if_, 1)).unwrap();
        let mut exec = ptr::null_mut();
        let mut child = bodies[0];
        if is_in_a_child {
            let (mut node, empty) = (ptr::null_mut(), bench.graph());
            unsafe {
                ok(bench.cuGraphAddChildGraphNode(&raw mut node, child, ptr::null(), 0, empty));
                ok(bench.cuGraphChildGraphNodeGetGraph(node, &raw mut child));
            }
        }
        let node = bench.host(child, &[], Some(nothing), ptr::null_mut());
        let mut instantiate =
            || unsafe { bench.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        assert_eq!(instantiate(), INVALID);
        unsafe { ok(bench.cuGraphDestroyNode(node)) };
        ok(instantiate());
    }
}

#[test]
fn more_bodies_than_there_is_room_for_are_an_error() {
    let bench = bench(Builder::new());
    let graph = bench.graph();
    let switch = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH;
    let handle = condition(&bench, graph, 0, 0);
    assert_eq!(
        conditional(&bench, graph, &[], (handle, switch, u32::MAX)),
        Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    );
    let (_, bodies) = conditional(&bench, graph, &[], (handle, switch, 1000)).unwrap();
    assert_eq!(bodies.len(), 1000);
}

#[test]
fn a_copy_leaves_the_children_of_its_original_where_they_are() {
    let bench = bench(Builder::new());
    let (graph, empty) = (bench.graph(), bench.graph());
    let (mut node, mut child, mut clone) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    unsafe {
        ok(bench.cuGraphAddChildGraphNode(&raw mut node, graph, ptr::null(), 0, empty));
        ok(bench.cuGraphChildGraphNodeGetGraph(node, &raw mut child));
        ok(bench.cuGraphClone(&raw mut clone, graph));
        ok(bench.cuGraphDestroy(clone));
    }
    // The handle of a graph can be used by the graphs inside it, too.
    let handle = condition(&bench, graph, 0, 0);
    let if_ = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
    conditional(&bench, child, &[], (handle, if_, 1)).unwrap();
    bench.run_graph(graph);
}

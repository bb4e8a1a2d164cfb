//! Conditional nodes.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph,
    CUgraphConditionalNodeType, CUgraphInstantiateResult, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType,
};

use crate::graph_support::{WORDS, bytes, words};
use crate::support::{TestDevice, late, ok, test_device};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Adds a conditional node and returns it with its bodies.
fn conditional(
    sim: &TestDevice,
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
            ctx: sim.context,
        };
        let (first, count) = (after.as_ptr(), after.len());
        let status = sim.cuGraphAddNode(&raw mut node, graph, first, count, &raw mut params);
        if !status.is_success() {
            return Err(status);
        }
        let bodies = params.__bindgen_anon_1.conditional.phGraph_out;
        let read = |index| bodies.wrapping_add(index as usize).read();
        Ok((node, (0..size).map(read).collect()))
    }
}

fn condition(sim: &TestDevice, graph: CUgraph, default: u32, flags: u32) -> u64 {
    let mut handle = 0;
    unsafe {
        ok(sim.cuGraphConditionalHandleCreate(&raw mut handle, graph, sim.context, default, flags));
    }
    handle
}

#[test]
fn a_while_loop_runs_until_the_device_stops_it() {
    for sim in [test_device(Builder::new()), test_device(late(6))] {
        let module = sim.load(WORDS);
        let (count, affine) = (
            sim.function(module, "count"),
            sim.function(module, "affine"),
        );
        let data = sim.upload(&[0_u32, 1, 0]);
        let graph = sim.graph();
        let handle = condition(&sim, graph, 1, 1);
        let sort = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        let (node, bodies) = conditional(&sim, graph, &[], (handle, sort, 1)).unwrap();
        let double = sim.kernel(bodies[0], &[], affine, &mut [data + 4, 2, 0]);
        sim.kernel(bodies[0], &[double], count, &mut [handle, data, 10]);
        sim.copy(graph, &[node], bytes(data + 8, data + 4, 4));
        assert_eq!(
            conditional(&sim, graph, &[], (handle, sort, 1)),
            Err(INVALID),
            "used"
        );
        sim.run_graph(graph);
        assert_eq!(sim.download::<u32>(data, 3), [10, 1024, 1024]);
        // A second launch: the value is reset to 1 at the start of each launch.
        sim.run_graph(graph);
        assert_eq!(sim.download::<u32>(data, 3), [11, 2048, 2048]);
    }
}

#[test]
fn a_switch_and_an_else_choose_their_body() {
    type C = CUgraphConditionalNodeType;
    for value in 0..5 {
        let sim = test_device(late(u64::from(value)));
        let choose = sim.function(sim.load(WORDS), "choose");
        let data = sim.upload(&[value, 0, 0]);
        let graph = sim.graph();
        for (place, sort, size) in [
            (4, C::CU_GRAPH_COND_TYPE_SWITCH, 3),
            (8, C::CU_GRAPH_COND_TYPE_IF, 2),
        ] {
            let handle = condition(&sim, graph, 0, 0);
            let kernel = sim.kernel(graph, &[], choose, &mut [handle, data]);
            let (_, bodies) = conditional(&sim, graph, &[kernel], (handle, sort, size)).unwrap();
            for (index, body) in (10..).zip(bodies) {
                sim.fill(body, &[], words(data + place, index, 1));
            }
        }
        sim.run_graph(graph);
        let switched = if value < 3 { 10 + value } else { 0 };
        let chosen = if value != 0 { 10 } else { 11 };
        assert_eq!(sim.download::<u32>(data, 3), [value, switched, chosen]);
    }
}

#[test]
fn conditional_handles_must_be_used() {
    let sim = test_device(Builder::new());
    let graph = sim.graph();
    let handle = condition(&sim, graph, 0, 0);
    let if_ = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
    unsafe {
        let mut params: CUDA_GRAPH_INSTANTIATE_PARAMS = std::mem::zeroed();
        let mut exec = ptr::null_mut();
        let status = sim.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params);
        assert_eq!(status, INVALID);
        let unused = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        assert_eq!(params.result_out, unused);
        let (mut node, mut log) = (ptr::null_mut(), [1 as c_char; 100]);
        let status =
            sim.cuGraphInstantiate(&raw mut exec, graph, &raw mut node, log.as_mut_ptr(), 100);
        assert_eq!(status, INVALID);
        let log = CStr::from_ptr(log.as_ptr()).to_str().unwrap();
        assert!(
            log.ends_with("a conditional handle is not used by any node"),
            "{log}"
        );
    }
    assert_eq!(
        conditional(&sim, graph, &[], (handle, if_, 3)),
        Err(INVALID)
    );
    assert_eq!(
        conditional(&sim, graph, &[], (handle + 16, if_, 1)),
        Err(INVALID)
    );
    let (_, bodies) = conditional(&sim, graph, &[], (handle, if_, 1)).unwrap();
    let mut clone = ptr::null_mut();
    assert_eq!(unsafe { sim.cuGraphClone(&raw mut clone, graph) }, INVALID);
    sim.empty(bodies[0], &[]);
    sim.run_graph(graph);
}

/// Follows an H200, on which the node can be added.
#[test]
fn nested_body_with_host_node_is_not_instantiated() {
    for is_in_a_child in [false, true] {
        let sim = test_device(Builder::new());
        let graph = sim.graph();
        let if_ = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let handle = condition(&sim, graph, 1, 1);
        let (_, bodies) = conditional(&sim, graph, &[], (handle, if_, 1)).unwrap();
        let mut exec = ptr::null_mut();
        let mut child = bodies[0];
        if is_in_a_child {
            let (mut node, empty) = (ptr::null_mut(), sim.graph());
            unsafe {
                ok(sim.cuGraphAddChildGraphNode(&raw mut node, child, ptr::null(), 0, empty));
                ok(sim.cuGraphChildGraphNodeGetGraph(node, &raw mut child));
            }
        }
        let node = sim.host(child, &[], Some(nothing), ptr::null_mut());
        let mut instantiate =
            || unsafe { sim.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        assert_eq!(instantiate(), INVALID);
        unsafe { ok(sim.cuGraphDestroyNode(node)) };
        ok(instantiate());
    }
}

#[test]
fn too_many_bodies_are_an_error() {
    let sim = test_device(Builder::new());
    let graph = sim.graph();
    let switch = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH;
    let handle = condition(&sim, graph, 0, 0);
    assert_eq!(
        conditional(&sim, graph, &[], (handle, switch, u32::MAX)),
        Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    );
    let (_, bodies) = conditional(&sim, graph, &[], (handle, switch, 1000)).unwrap();
    assert_eq!(bodies.len(), 1000);
}

#[test]
fn a_copy_leaves_the_children_of_its_original_where_they_are() {
    let sim = test_device(Builder::new());
    let (graph, empty) = (sim.graph(), sim.graph());
    let (mut node, mut child, mut clone) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    unsafe {
        ok(sim.cuGraphAddChildGraphNode(&raw mut node, graph, ptr::null(), 0, empty));
        ok(sim.cuGraphChildGraphNodeGetGraph(node, &raw mut child));
        ok(sim.cuGraphClone(&raw mut clone, graph));
        ok(sim.cuGraphDestroy(clone));
    }
    // The handle of a graph can be used by the graphs inside it, too.
    let handle = condition(&sim, graph, 0, 0);
    let if_ = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
    conditional(&sim, child, &[], (handle, if_, 1)).unwrap();
    sim.run_graph(graph);
}

//! Graphs that become part of others.

use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUgraphChildGraphNodeOwnership, CUgraphEdgeData,
    CUgraphNodeParams, CUgraphNodeType,
};

use crate::graph_support::{WORDS, words};
use crate::support::{bench, ok};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn a_graph_that_was_not_taken_over_is_still_the_programs() {
    let bench = bench(Builder::new());
    let data = bench.upload(&[1_u32; 2]);
    let affine = bench.function(bench.load(WORDS), "affine");
    let (graph, child) = (bench.graph(), bench.graph());
    let kernel = bench.kernel(graph, &[], affine, &mut [data, 3, 4]);
    bench.fill(child, &[], words(data + 4, 7, 1));

    let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: child,
        ownership: CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
    };
    // Only kernels follow others in that way.
    let edge = CUgraphEdgeData {
        from_port: 1,
        to_port: 0,
        type_: 1,
        reserved: [0; 5],
    };
    let (mut node, first) = (ptr::null_mut(), &raw const kernel);
    let mut add = |edge| unsafe {
        bench.cuGraphAddNode_v2(&raw mut node, graph, first, edge, 1, &raw mut params)
    };
    assert_eq!(add(&raw const edge), INVALID);
    assert_eq!(bench.simulator.live().graphs, 2);
    bench.fill(child, &[], words(data, 5, 1));

    ok(add(ptr::null()));
    assert_eq!(bench.simulator.live().graphs, 1);
    assert_eq!(unsafe { bench.cuGraphDestroy(child) }, INVALID);
    bench.run_graph(graph);
    assert_eq!(bench.download::<u32>(data, 2), [5, 7]);
}

//! Graphs.

use std::ptr::{null, null_mut};

use cuda_sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUgraph, CUgraphExec, CUresult,
};

use crate::fixture::{Fixture, SIZE, cases, made};

/// Makes a call on a new graph.
fn fresh(g: &Fixture<'_>, call: impl FnOnce(CUgraph) -> CUresult) -> CUresult {
    let mut graph = null_mut();
    unsafe {
        let status = g.d.cuGraphCreate(&raw mut graph, 0);
        assert!(status.is_success(), "{status}");
        let status = call(graph);
        let _ = g.d.cuGraphDestroy(graph);
        status
    }
}

/// Adds a fill, changed by `set`, to a new graph.
fn fill(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_MEMSET_NODE_PARAMS)) -> CUresult {
    let fill = made(|fill: &mut CUDA_MEMSET_NODE_PARAMS| {
        (
            fill.dst,
            fill.value,
            fill.elementSize,
            fill.width,
            fill.height,
        ) = (g.memory, 1, 4, 4, 1);
        set(fill);
    });
    fresh(g, |graph| unsafe {
        g.d.cuGraphAddMemsetNode(g.out(), graph, null(), 0, &raw const fill, g.context)
    })
}

/// Adds a kernel, changed by `set`, to a new graph.
fn kernel(g: &Fixture<'_>, set: impl FnOnce(&mut CUDA_KERNEL_NODE_PARAMS)) -> CUresult {
    let mut parameters = [g.host, g.host];
    let kernel = made(|kernel: &mut CUDA_KERNEL_NODE_PARAMS| {
        kernel.func = g.plain;
        (kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ) = (1, 1, 1);
        (kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ) = (1, 1, 1);
        kernel.kernelParams = parameters.as_mut_ptr();
        set(kernel);
    });
    fresh(g, |graph| unsafe {
        g.d.cuGraphAddKernelNode_v2(g.out(), graph, null(), 0, &raw const kernel)
    })
}

/// Instantiates a graph with flags, and destroys the executable if there is one.
fn instantiate(g: &Fixture<'_>, graph: CUgraph, flags: u64) -> CUresult {
    unsafe {
        let status = g.d.cuGraphInstantiateWithFlags(g.out(), graph, flags);
        if status.is_success() {
            let _ = g.d.cuGraphExecDestroy(g.out::<CUgraphExec>().read());
        }
        status
    }
}

cases! { g:
    "graph_with_flags" => g.d.cuGraphCreate(g.out(), 1);
    "graph_to_nowhere" => g.d.cuGraphCreate(null_mut(), 0);
    "no_graph_destroyed" => g.d.cuGraphDestroy(null_mut());
    "node_in_no_graph" => g.d.cuGraphAddEmptyNode(g.out(), null_mut(), null(), 0);
    "node_to_nowhere" => g.d.cuGraphAddEmptyNode(null_mut(), g.graph, null(), 0);
    "node_after_nodes_from_nowhere" => fresh(g, |graph| g.d.cuGraphAddEmptyNode(g.out(), graph, null(), 1));
    "node_after_a_node_of_another_graph" => fresh(g, |graph| g.d.cuGraphAddEmptyNode(g.out(), graph, &raw const g.other_node, 1));
    "node_after_the_same_twice" => {
        let twice = [g.nodes[0], g.nodes[0]];
        let status = g.d.cuGraphAddEmptyNode(g.out(), g.graph, twice.as_ptr(), 2);
        if status.is_success() { let _ = g.d.cuGraphDestroyNode(g.out::<cuda_sys::CUgraphNode>().read()); }
        status
    };
    "edge_that_is_there" => g.d.cuGraphAddDependencies(g.graph, &raw const g.nodes[0], &raw const g.nodes[1], 1);
    "edge_to_itself" => g.d.cuGraphAddDependencies(g.graph, &raw const g.nodes[0], &raw const g.nodes[0], 1);
    "edge_between_graphs" => g.d.cuGraphAddDependencies(g.graph, &raw const g.nodes[0], &raw const g.other_node, 1);
    "edges_from_nowhere" => g.d.cuGraphAddDependencies(g.graph, null(), null(), 1);
    "edges_of_no_graph" => g.d.cuGraphAddDependencies(null_mut(), &raw const g.nodes[0], &raw const g.nodes[1], 1);
    "edge_that_is_not_there_removed" => g.d.cuGraphRemoveDependencies(g.graph, &raw const g.nodes[1], &raw const g.nodes[0], 1);
    "cycle" => fresh(g, |graph| {
        let (mut a, mut b) = (null_mut(), null_mut());
        let _ = g.d.cuGraphAddEmptyNode(&raw mut a, graph, null(), 0);
        let _ = g.d.cuGraphAddEmptyNode(&raw mut b, graph, &raw const a, 1);
        g.d.cuGraphAddDependencies(graph, &raw const b, &raw const a, 1)
    });
    "cycle_instantiated" => fresh(g, |graph| {
        let (mut a, mut b) = (null_mut(), null_mut());
        let _ = g.d.cuGraphAddEmptyNode(&raw mut a, graph, null(), 0);
        let _ = g.d.cuGraphAddEmptyNode(&raw mut b, graph, &raw const a, 1);
        let _ = g.d.cuGraphAddDependencies(graph, &raw const b, &raw const a, 1);
        instantiate(g, graph, 0)
    });
    "no_graph_instantiated" => instantiate(g, null_mut(), 0);
    "instantiated_with_unknown_flags" => instantiate(g, g.graph, 1 << 40);
    "instantiated_to_nowhere" => g.d.cuGraphInstantiateWithFlags(null_mut(), g.graph, 0);
    "instantiated_an_empty_graph" => fresh(g, |graph| instantiate(g, graph, 0));
    "no_executable_destroyed" => g.d.cuGraphExecDestroy(null_mut());
    "no_executable_launched" => g.d.cuGraphLaunch(null_mut(), g.stream);
    "no_executable_uploaded" => g.d.cuGraphUpload(null_mut(), g.stream);
    "flags_of_no_executable" => g.d.cuGraphExecGetFlags(null_mut(), g.out());
    "flags_of_an_executable_to_nowhere" => g.d.cuGraphExecGetFlags(g.exec, null_mut());
    "updated_by_another_shape" => g.d.cuGraphExecUpdate_v2(g.exec, g.other, g.out());
    "updated_by_no_graph" => g.d.cuGraphExecUpdate_v2(g.exec, null_mut(), g.out());
    "updated_no_executable" => g.d.cuGraphExecUpdate_v2(null_mut(), g.graph, g.out());
    "node_of_another_graph_enabled" => g.d.cuGraphNodeSetEnabled(g.exec, g.other_node, 1);
    "an_empty_node_disabled" => g.d.cuGraphNodeSetEnabled(g.exec, g.nodes[0], 0);
    "an_empty_node_asked_whether_enabled" => g.d.cuGraphNodeGetEnabled(g.exec, g.nodes[0], g.out());
    "kernel_parameters_of_an_empty_node" => g.d.cuGraphKernelNodeGetParams_v2(g.nodes[0], g.out());
    "fill_parameters_of_an_empty_node" => g.d.cuGraphMemsetNodeGetParams(g.nodes[0], g.out());
    "fill_of_an_empty_node_set" => {
        let fill = made(|fill: &mut CUDA_MEMSET_NODE_PARAMS| {
            (fill.dst, fill.elementSize, fill.width, fill.height) = (g.memory, 4, 4, 1);
        });
        g.d.cuGraphExecMemsetNodeSetParams(g.exec, g.nodes[0], &raw const fill, g.context)
    };
    "kind_of_no_node" => g.d.cuGraphNodeGetType(null_mut(), g.out());
    "kind_of_a_node_to_nowhere" => g.d.cuGraphNodeGetType(g.nodes[0], null_mut());
    "nodes_of_no_graph" => g.d.cuGraphGetNodes(null_mut(), null_mut(), g.out());
    "nodes_to_nowhere" => g.d.cuGraphGetNodes(g.graph, null_mut(), null_mut());
    "roots_of_no_graph" => g.d.cuGraphGetRootNodes(null_mut(), null_mut(), g.out());
    "edges_to_nowhere" => g.d.cuGraphGetEdges(g.graph, null_mut(), null_mut(), null_mut());
    "dependencies_of_no_node" => g.d.cuGraphNodeGetDependencies(null_mut(), null_mut(), g.out());
    "no_node_destroyed" => g.d.cuGraphDestroyNode(null_mut());
    "no_graph_cloned" => g.d.cuGraphClone(g.out(), null_mut());
    "cloned_to_nowhere" => g.d.cuGraphClone(null_mut(), g.graph);
    "found_in_a_graph_that_is_no_clone" => g.d.cuGraphNodeFindInClone(g.out(), g.nodes[0], g.other);
    "child_is_itself" => fresh(g, |graph| g.d.cuGraphAddChildGraphNode(g.out(), graph, null(), 0, graph));
    "no_child" => fresh(g, |graph| g.d.cuGraphAddChildGraphNode(g.out(), graph, null(), 0, null_mut()));
    "no_event_in_a_graph" => fresh(g, |graph| g.d.cuGraphAddEventRecordNode(g.out(), graph, null(), 0, null_mut()));
    "no_event_awaited_in_a_graph" => fresh(g, |graph| g.d.cuGraphAddEventWaitNode(g.out(), graph, null(), 0, null_mut()));
    "host_node_of_no_parameters" => fresh(g, |graph| g.d.cuGraphAddHostNode(g.out(), graph, null(), 0, null()));
    "host_node_of_no_function" => fresh(g, |graph| {
        let host = made(|_: &mut CUDA_HOST_NODE_PARAMS| ());
        g.d.cuGraphAddHostNode(g.out(), graph, null(), 0, &raw const host)
    });
    "copy_node_of_no_parameters" => fresh(g, |graph| g.d.cuGraphAddMemcpyNode(g.out(), graph, null(), 0, null(), g.context));
    "copy_node_of_nothing" => fresh(g, |graph| {
        let copy = made(|_: &mut CUDA_MEMCPY3D| ());
        g.d.cuGraphAddMemcpyNode(g.out(), graph, null(), 0, &raw const copy, g.context)
    });
    "fill_node_of_no_parameters" => fresh(g, |graph| g.d.cuGraphAddMemsetNode(g.out(), graph, null(), 0, null(), g.context));
    "fill_node_of_elements_of_3" => fill(g, |fill| fill.elementSize = 3);
    "fill_node_of_no_width" => fill(g, |fill| fill.width = 0);
    "fill_node_of_no_height" => fill(g, |fill| fill.height = 0);
    "fill_node_of_null" => fill(g, |fill| fill.dst = 0);
    "fill_node_at_an_odd_address" => fill(g, |fill| fill.dst += 1);
    "fill_node_of_a_short_pitch" => fill(g, |fill| (fill.height, fill.pitch) = (2, 8));
    "kernel_node_of_no_parameters" => fresh(g, |graph| g.d.cuGraphAddKernelNode_v2(g.out(), graph, null(), 0, null()));
    "kernel_node_of_no_kernel" => kernel(g, |kernel| kernel.func = null_mut());
    "kernel_node_of_no_blocks" => kernel(g, |kernel| kernel.gridDimX = 0);
    "kernel_node_of_too_many_threads" => kernel(g, |kernel| kernel.blockDimX = 2000);
    "kernel_node_of_too_much_shared_memory" => kernel(g, |kernel| kernel.sharedMemBytes = 1 << 20);
    "kernel_node_of_no_arguments" => kernel(g, |kernel| kernel.kernelParams = null_mut());
    "allocation_node_of_0_bytes" => fresh(g, |graph| {
        let mut allocation = made(|allocation: &mut CUDA_MEM_ALLOC_NODE_PARAMS| {
            allocation.poolProps.allocType.0 = 1;
            allocation.poolProps.location.type_.0 = 1;
        });
        g.d.cuGraphAddMemAllocNode(g.out(), graph, null(), 0, &raw mut allocation)
    });
    "allocation_node_of_no_type" => fresh(g, |graph| {
        let mut allocation = made(|allocation: &mut CUDA_MEM_ALLOC_NODE_PARAMS| allocation.bytesize = SIZE);
        g.d.cuGraphAddMemAllocNode(g.out(), graph, null(), 0, &raw mut allocation)
    });
    "free_node_of_null" => fresh(g, |graph| g.d.cuGraphAddMemFreeNode(g.out(), graph, null(), 0, 0));
    "free_node_of_plain_memory" => fresh(g, |graph| g.d.cuGraphAddMemFreeNode(g.out(), graph, null(), 0, g.memory));
    "conditional_of_no_graph" => g.d.cuGraphConditionalHandleCreate(g.out(), null_mut(), g.context, 0, 0);
    "conditional_with_unknown_flags" => fresh(g, |graph| g.d.cuGraphConditionalHandleCreate(g.out(), graph, g.context, 0, 0x10));
    "node_of_no_parameters" => fresh(g, |graph| g.d.cuGraphAddNode(g.out(), graph, null(), 0, null_mut()));
    "user_object_of_no_destructor" => g.d.cuUserObjectCreate(g.out(), null_mut(), None, 1, 1);
    "user_object_of_no_references" => g.d.cuUserObjectCreate(g.out(), null_mut(), Some(nothing), 0, 1);
    "user_object_without_flags" => g.d.cuUserObjectCreate(g.out(), null_mut(), Some(nothing), 1, 0);
    "no_user_object_retained" => g.d.cuUserObjectRetain(null_mut(), 1);
    "no_user_object_released" => g.d.cuUserObjectRelease(null_mut(), 1);
    "no_user_object_for_a_graph" => g.d.cuGraphRetainUserObject(g.graph, null_mut(), 1, 0);
    "drawn_to_nowhere" => g.d.cuGraphDebugDotPrint(g.graph, null(), 0);
    "drawn_no_graph" => g.d.cuGraphDebugDotPrint(null_mut(), c"graph.dot".as_ptr(), 0);
}

extern "C" fn nothing(_: *mut std::ffi::c_void) {}

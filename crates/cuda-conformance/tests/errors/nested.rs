//! Graphs inside graphs, and how executables and captures treat them.

use std::ptr::{null, null_mut};

use cuda_sys::{
    CUDA_KERNEL_NODE_PARAMS, CUdeviceptr, CUgraphNode, CUgraphNodeParams, CUresult,
    CUstreamBatchMemOpType,
};

use crate::fixture::{SIZE, cases, made, with_number};
use crate::nodes::*;

cases! { g:
    "host_node_in_a_body" => fresh(g, |graph| g.host(g.conditional(graph).1));
    "allocation_in_a_body" => fresh(g, |graph| g.allocation(g.conditional(graph).1, |_| ()));
    "child_with_a_host_node_in_a_body" => fresh(g, |graph| {
        let inner = g.new_graph();
        ok(g.host(inner));
        status(g.child(g.conditional(graph).1, inner, CLONE))
    });
    "child_with_a_host_node_in_a_body_moved" => fresh(g, |graph| {
        let inner = g.new_graph();
        ok(g.host(inner));
        status(g.child(g.conditional(graph).1, inner, MOVE))
    });
    "host_node_in_a_child_in_a_body" => fresh(g, |graph| {
        let (inner, body) = (g.new_graph(), g.conditional(graph).1);
        ok(g.empty(inner));
        g.child(body, inner, CLONE).map_or_else(|status| status, |(_, inner)| g.host(inner))
    });
    "host_node_in_a_child_in_a_body_instantiated" => fresh(g, |graph| {
        let (inner, body) = (g.new_graph(), g.conditional(graph).1);
        ok(g.empty(inner));
        match g.child(body, inner, CLONE) {
            Ok((_, inner)) => {
                let _ = g.host(inner);
                g.executed(graph, 0, |_| CUresult::CUDA_SUCCESS)
            }
            Err(status) => status,
        }
    });
    "conditional_in_a_child_with_the_handle_of_its_parent" => nested(g, CLONE, |outer, _, inner| {
        status(g.conditional_of(inner, g.handle(outer)))
    });
    "conditional_in_a_moved_child_with_the_handle_of_its_parent" => nested(g, MOVE, |outer, _, inner| {
        status(g.conditional_of(inner, g.handle(outer)))
    });
    "conditional_with_the_handle_of_another_graph" => fresh(g, |graph| {
        status(g.conditional_of(graph, g.handle(g.new_graph())))
    });
    "conditional_with_a_handle_twice" => fresh(g, |graph| {
        let handle = g.handle(graph);
        let _ = g.conditional_of(graph, handle);
        status(g.conditional_of(graph, handle))
    });
    "moved_child_instantiated" => nested(g, MOVE, |_, _, inner| g.executed(inner, 0, |_| CUresult::CUDA_SUCCESS));
    "child_instantiated" => nested(g, CLONE, |_, _, inner| g.executed(inner, 0, |_| CUresult::CUDA_SUCCESS));
    "body_instantiated" => fresh(g, |graph| {
        let (_, body) = g.conditional(graph);
        ok(g.empty(body));
        g.executed(body, 0, |_| CUresult::CUDA_SUCCESS)
    });
    "moved_child_cloned" => nested(g, MOVE, |_, _, inner| g.d.cuGraphClone(g.out(), inner));
    "child_cloned" => nested(g, CLONE, |_, _, inner| g.d.cuGraphClone(g.out(), inner));
    "moved_child_in_another_graph" => nested(g, MOVE, |_, _, inner| status(g.child(g.new_graph(), inner, CLONE)));
    "child_in_another_graph" => nested(g, CLONE, |_, _, inner| status(g.child(g.new_graph(), inner, CLONE)));
    "moved_child_moved_again" => nested(g, MOVE, |_, _, inner| status(g.child(g.new_graph(), inner, MOVE)));
    "moved_child_destroyed" => nested(g, MOVE, |_, _, inner| g.d.cuGraphDestroy(inner));
    "child_destroyed" => nested(g, CLONE, |_, _, inner| g.d.cuGraphDestroy(inner));
    "executable_like_a_moved_child" => nested(g, MOVE, |_, _, inner| g.executed(g.other, 0, |exec| g.update(exec, inner)));
    "executable_like_a_child" => nested(g, CLONE, |_, _, inner| g.executed(g.other, 0, |exec| g.update(exec, inner)));
    "allocation_in_a_moved_child" => nested(g, MOVE, |_, _, inner| g.allocation(inner, |_| ()));
    "allocation_in_a_child" => nested(g, CLONE, |_, _, inner| g.allocation(inner, |_| ()));
    "moved_child_with_an_allocation" => fresh(g, |graph| {
        let inner = g.new_graph();
        ok(g.allocation(inner, |_| ()));
        status(g.child(graph, inner, MOVE))
    });
    "graph_with_a_moved_allocation_instantiated_twice" => fresh(g, |graph| {
        let inner = g.new_graph();
        ok(g.allocation(inner, |_| ()));
        let address = g.also::<CUdeviceptr>().read();
        ok(status(g.node(inner, Some((g.out::<CUgraphNode>().read(), made(|_| ()))), &mut free_params(address))));
        match g.child(graph, inner, MOVE) {
            Ok((_, inner)) => g.executed(graph, 0, |_| g.executed(inner, 0, |_| CUresult::CUDA_SUCCESS)),
            Err(status) => status,
        }
    });
    "child_like_itself_by_the_generic_call" => nested(g, CLONE, |outer, node, inner| g.executed(outer, 0, |exec| {
        g.d.cuGraphExecNodeSetParams(exec, node, &mut child_params(inner, CLONE))
    }));
    "child_like_a_graph_of_its_shape_by_the_generic_call" => nested(g, CLONE, |outer, node, _| g.executed(outer, 0, |exec| {
        g.d.cuGraphExecNodeSetParams(exec, node, &mut child_params(g.other, CLONE))
    }));
    "child_like_a_graph_of_its_shape" => nested(g, CLONE, |outer, node, _| g.executed(outer, 0, |exec| {
        g.d.cuGraphExecChildGraphNodeSetParams(exec, node, g.other)
    }));
    "child_like_a_graph_of_another_shape" => nested(g, CLONE, |outer, node, _| g.executed(outer, 0, |exec| {
        g.d.cuGraphExecChildGraphNodeSetParams(exec, node, g.graph)
    }));
    "child_of_a_graph_set" => nested(g, CLONE, |_, node, _| {
        g.d.cuGraphNodeSetParams(node, &mut child_params(g.other, CLONE))
    });
    "clusters_that_do_not_fill_the_grid_of_a_node" => reshaped(g, (CLUSTER, &[2, 1, 1]), 3, false);
    "clusters_that_do_not_fill_the_grid_of_an_executable" => reshaped(g, (CLUSTER, &[2, 1, 1]), 3, true);
    "cooperative_node_of_too_many_blocks" => reshaped(g, (COOPERATIVE, &[1]), 1 << 20, false);
    "cooperative_node_of_too_many_blocks_in_an_executable" => reshaped(g, (COOPERATIVE, &[1]), 1 << 20, true);
    "executable_with_priorities_like_a_graph_with_another" => fresh(g, |graph| {
        let node = g.kernel(graph);
        g.attribute(node, PRIORITY, &[0]);
        g.executed(graph, NODE_PRIORITY, |exec| {
            g.attribute(node, PRIORITY, &[-3_i32 as u32]);
            g.update(exec, graph)
        })
    });
    "executable_like_a_graph_with_another_priority" => fresh(g, |graph| {
        let node = g.kernel(graph);
        g.attribute(node, PRIORITY, &[0]);
        g.executed(graph, 0, |exec| {
            g.attribute(node, PRIORITY, &[-3_i32 as u32]);
            g.update(exec, graph)
        })
    });
    "executable_like_a_graph_with_other_clusters" => fresh(g, |graph| {
        let node = g.kernel(graph);
        g.executed(graph, 0, |exec| {
            g.attribute(node, CLUSTER, &[1, 1, 1]);
            g.update(exec, graph)
        })
    });
    "write_of_4_bytes_becomes_one_of_8" => batch_changed(g,
        CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32,
        CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_64);
    "write_becomes_a_wait" => batch_changed(g,
        CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32,
        CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32);
    "word_of_managed_memory_in_a_graph" => fresh(g, |graph| g.word(graph, g.managed));
    "word_of_a_pool_in_a_graph" => fresh(g, |graph| {
        let mut memory = 0;
        ok(g.d.cuMemAllocAsync(&raw mut memory, SIZE, g.stream));
        let status = g.word(graph, memory);
        ok(g.d.cuMemFreeAsync(memory, g.stream));
        ok(g.d.cuStreamSynchronize(g.stream));
        status
    });
    "word_at_an_odd_address_in_a_graph" => fresh(g, |graph| g.word(graph, g.memory + 2));
    "free_node_behind_an_early_edge" => fresh(g, |graph| {
        ok(g.allocation(graph, |_| ()));
        let (address, kernel) = (g.also::<CUdeviceptr>().read(), g.kernel(graph));
        status(g.node(graph, Some((kernel, early())), &mut free_params(address)))
    });
    "free_node_after_a_refused_one" => fresh(g, |graph| {
        ok(g.allocation(graph, |_| ()));
        let (address, kernel) = (g.also::<CUdeviceptr>().read(), g.kernel(graph));
        let _ = g.node(graph, Some((kernel, early())), &mut free_params(address));
        status(g.node(graph, Some((kernel, made(|_| ()))), &mut free_params(address)))
    });
    "free_node_twice_in_a_graph" => fresh(g, |graph| {
        ok(g.allocation(graph, |_| ()));
        let address = g.also::<CUdeviceptr>().read();
        ok(g.d.cuGraphAddMemFreeNode(g.out(), graph, null(), 0, address));
        g.d.cuGraphAddMemFreeNode(g.out(), graph, null(), 0, address)
    });
    "free_node_in_two_graphs" => fresh(g, |graph| {
        ok(g.allocation(graph, |_| ()));
        let address = g.also::<CUdeviceptr>().read();
        ok(g.d.cuGraphAddMemFreeNode(g.out(), graph, null(), 0, address));
        g.d.cuGraphAddMemFreeNode(g.out(), g.new_graph(), null(), 0, address)
    });
    "free_node_after_that_of_a_graph_that_is_gone" => fresh(g, |graph| {
        ok(g.allocation(graph, |_| ()));
        let (address, other) = (g.also::<CUdeviceptr>().read(), g.new_graph());
        ok(g.d.cuGraphAddMemFreeNode(g.out(), other, null(), 0, address));
        ok(g.d.cuGraphDestroy(other));
        g.d.cuGraphAddMemFreeNode(g.out(), graph, null(), 0, address)
    });
    "allocation_for_an_unknown_device" => fresh(g, |graph| {
        let access = access(99);
        g.allocation(graph, |allocation| (allocation.accessDescs, allocation.accessDescCount) = (&raw const access, 1))
    });
    "allocation_for_descriptions_from_nowhere" => fresh(g, |graph| {
        g.allocation(graph, |allocation| allocation.accessDescCount = 1)
    });
    "edge_listed_twice_and_removed" => fresh(g, |graph| {
        let (mut a, mut b) = (null_mut(), null_mut());
        ok(g.d.cuGraphAddEmptyNode(&raw mut a, graph, null(), 0));
        ok(g.d.cuGraphAddEmptyNode(&raw mut b, graph, &raw const a, 1));
        g.d.cuGraphRemoveDependencies(graph, [a, a].as_ptr(), [b, b].as_ptr(), 2)
    });
    "edge_listed_twice_and_added" => fresh(g, |graph| {
        let (mut a, mut b) = (null_mut(), null_mut());
        ok(g.d.cuGraphAddEmptyNode(&raw mut a, graph, null(), 0));
        ok(g.d.cuGraphAddEmptyNode(&raw mut b, graph, null(), 0));
        g.d.cuGraphAddDependencies(graph, [a, a].as_ptr(), [b, b].as_ptr(), 2)
    });
    "edge_that_is_there_added_as_an_early_one" => fresh(g, |graph| {
        let (a, b) = (g.kernel(graph), g.kernel(graph));
        ok(g.d.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
        let early = early();
        g.d.cuGraphAddDependencies_v2(graph, &raw const a, &raw const b, &raw const early, 1)
    });
    "captured_into_and_instantiated" => fresh(g, |graph| g.into(graph, || g.executed(graph, 0, |_| CUresult::CUDA_SUCCESS)));
    "captured_into_and_destroyed" => fresh(g, |graph| g.into(graph, || g.d.cuGraphDestroy(graph)));
    "captured_into_and_cloned" => fresh(g, |graph| g.into(graph, || g.d.cuGraphClone(g.out(), graph)));
    "captured_into_twice" => fresh(g, |graph| g.into(graph, || {
        g.captured(RELAXED, |_| {
            let mut stream = null_mut();
            ok(g.d.cuStreamCreate(&raw mut stream, 1));
            let status = g.d.cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, RELAXED);
            if status.is_success() { let _ = g.d.cuStreamEndCapture(stream, g.out()); }
            ok(g.d.cuStreamDestroy_v2(stream));
            status
        })
    }));
    "body_captured_into_and_its_graph_instantiated" => fresh(g, |graph| {
        let (_, body) = g.conditional(graph);
        g.into(body, || g.executed(graph, 0, |_| CUresult::CUDA_SUCCESS))
    });
    "host_node_in_a_body_instantiated" => fresh(g, |graph| {
        let _ = g.host(g.conditional(graph).1);
        g.executed(graph, 0, |_| CUresult::CUDA_SUCCESS)
    });
    "allocation_in_a_body_instantiated" => fresh(g, |graph| {
        let _ = g.allocation(g.conditional(graph).1, |_| ());
        g.executed(graph, 0, |_| CUresult::CUDA_SUCCESS)
    });
    "graph_of_a_body_captured_into_destroyed" => fresh(g, |graph| {
        let (_, body) = g.conditional(graph);
        g.into(body, || g.d.cuGraphDestroy(graph))
    });
    "node_of_a_body_captured_into_destroyed" => fresh(g, |graph| {
        let (node, body) = g.conditional(graph);
        g.into(body, || g.d.cuGraphDestroyNode(node))
    });
    "node_of_a_graph_captured_into_destroyed" => fresh(g, |graph| {
        let node = g.kernel(graph);
        g.into(graph, || g.d.cuGraphDestroyNode(node))
    });
    "free_in_a_child" => nested(g, CLONE, |outer, _, inner| {
        ok(g.allocation(outer, |_| ()));
        g.d.cuGraphAddMemFreeNode(g.out(), inner, null(), 0, g.also::<CUdeviceptr>().read())
    });
    "ownership_of_a_child_asked_for" => nested(g, CLONE, |_, node, _| {
        let mut params = made(|_: &mut CUgraphNodeParams| ());
        let status = g.d.cuGraphNodeGetParams(node, &raw mut params);
        with_number(status, params.__bindgen_anon_1.graph.ownership.0)
    });
    "priority_of_a_captured_launch" => captured_attribute(g, PRIORITY);
    "captured_cooperative_launch" => captured_attribute(g, COOPERATIVE);
    "attributes_of_a_node_of_another_context" => fresh(g, |graph| {
        let (one, mut other, mut module, mut function) = (g.kernel(graph), null_mut(), null_mut(), null_mut());
        ok(g.d.cuCtxCreate_v2(&raw mut other, 0, 0));
        ok(g.d.cuModuleLoadData(&raw mut module, crate::fixture::PTX.as_ptr().cast()));
        ok(g.d.cuModuleGetFunction(&raw mut function, module, c"plain".as_ptr()));
        let (second, mut node, mut parameters) = (g.new_graph(), null_mut(), [g.host, g.host]);
        let kernel = made(|kernel: &mut CUDA_KERNEL_NODE_PARAMS| {
            kernel.func = function;
            (kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ) = (1, 1, 1);
            (kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ) = (1, 1, 1);
            kernel.kernelParams = parameters.as_mut_ptr();
        });
        ok(g.d.cuGraphAddKernelNode_v2(&raw mut node, second, null(), 0, &raw const kernel));
        let status = g.d.cuGraphKernelNodeCopyAttributes(one, node);
        ok(g.d.cuGraphDestroy(second));
        ok(g.d.cuCtxDestroy_v2(other));
        ok(g.d.cuCtxSetCurrent(g.context));
        status
    });
    "conditional_in_another_context_than_its_handle" => fresh(g, |graph| {
        let (handle, mut other) = (g.handle(graph), null_mut());
        ok(g.d.cuCtxCreate_v2(&raw mut other, 0, 0));
        let mut params = conditional_params(handle, other);
        let result = status(g.node(graph, None, &mut params));
        ok(g.d.cuGraphDestroy(graph));
        ok(g.d.cuCtxDestroy_v2(other));
        ok(g.d.cuCtxSetCurrent(g.context));
        result
    });
}

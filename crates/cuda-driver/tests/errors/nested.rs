//! Graphs inside graphs, and what executables and captures make of them.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS,
    CUDA_MEM_FREE_NODE_PARAMS, CUdeviceptr, CUgraph, CUgraphChildGraphNodeOwnership,
    CUgraphConditionalHandle, CUgraphConditionalNodeType, CUgraphEdgeData,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams, CUgraphNodeType,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUmemAccess_flags, CUmemAccessDesc, CUresult,
    CUstreamBatchMemOpParams, CUstreamBatchMemOpType, CUstreamCaptureMode,
};

use crate::ground::{Ground, SIZE, cases, made, told};

const MOVE: CUgraphChildGraphNodeOwnership =
    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
const CLONE: CUgraphChildGraphNodeOwnership =
    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

#[track_caller]
fn ok(status: CUresult) {
    assert!(status.is_success(), "{status}");
}

impl Ground<'_> {
    fn new_graph(&self) -> CUgraph {
        let mut graph = null_mut();
        ok(unsafe { self.d.cuGraphCreate(&raw mut graph, 0) });
        graph
    }

    fn empty(&self, graph: CUgraph) -> CUresult {
        unsafe { self.d.cuGraphAddEmptyNode(self.out(), graph, null(), 0) }
    }

    fn host(&self, graph: CUgraph) -> CUresult {
        let host = made(|host: &mut CUDA_HOST_NODE_PARAMS| host.fn_ = Some(nothing));
        unsafe {
            self.d
                .cuGraphAddHostNode(self.out(), graph, null(), 0, &raw const host)
        }
    }

    /// Adds an allocation; its address goes to `self.also()`.
    fn allocation(
        &self,
        graph: CUgraph,
        set: impl FnOnce(&mut CUDA_MEM_ALLOC_NODE_PARAMS),
    ) -> CUresult {
        let mut allocation = made(|allocation: &mut CUDA_MEM_ALLOC_NODE_PARAMS| {
            allocation.poolProps.allocType.0 = 1;
            allocation.poolProps.location.type_.0 = 1;
            allocation.bytesize = SIZE;
            set(allocation);
        });
        unsafe {
            let to = &raw mut allocation;
            let status = self
                .d
                .cuGraphAddMemAllocNode(self.out(), graph, null(), 0, to);
            self.also::<CUdeviceptr>().write(allocation.dptr);
            status
        }
    }

    /// Adds a node by the generic call.
    fn node(
        &self,
        graph: CUgraph,
        after: Option<(CUgraphNode, CUgraphEdgeData)>,
        params: &mut CUgraphNodeParams,
    ) -> Result<CUgraphNode, CUresult> {
        let mut node = null_mut();
        let (nodes, edges): (Vec<_>, Vec<_>) = after.into_iter().unzip();
        let status = unsafe {
            self.d.cuGraphAddNode_v2(
                &raw mut node,
                graph,
                nodes.as_ptr(),
                if edges.is_empty() {
                    null()
                } else {
                    edges.as_ptr()
                },
                nodes.len(),
                params,
            )
        };
        if status.is_success() {
            Ok(node)
        } else {
            Err(status)
        }
    }

    /// Adds a child graph; answers the graph inside.
    fn child(
        &self,
        graph: CUgraph,
        child: CUgraph,
        ownership: CUgraphChildGraphNodeOwnership,
    ) -> Result<(CUgraphNode, CUgraph), CUresult> {
        let mut inner = null_mut();
        let node = self.node(graph, None, &mut child_params(child, ownership))?;
        ok(unsafe { self.d.cuGraphChildGraphNodeGetGraph(node, &raw mut inner) });
        Ok((node, inner))
    }

    fn handle(&self, graph: CUgraph) -> CUgraphConditionalHandle {
        let mut handle = 0;
        ok(unsafe {
            self.d
                .cuGraphConditionalHandleCreate(&raw mut handle, graph, self.context, 0, 0)
        });
        handle
    }

    /// Adds a conditional node with a handle; answers the graph of its first body.
    fn conditional_of(
        &self,
        graph: CUgraph,
        handle: CUgraphConditionalHandle,
    ) -> Result<(CUgraphNode, CUgraph), CUresult> {
        let mut params = made(|params: &mut CUgraphNodeParams| {
            params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
            params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                handle,
                type_: CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF,
                size: 1,
                phGraph_out: null_mut(),
                ctx: self.context,
            };
        });
        let node = self.node(graph, None, &mut params)?;
        let body = unsafe { params.__bindgen_anon_1.conditional.phGraph_out.read() };
        Ok((node, body))
    }

    fn conditional(&self, graph: CUgraph) -> (CUgraphNode, CUgraph) {
        self.conditional_of(graph, self.handle(graph))
            .expect("a conditional node")
    }

    /// Adds a kernel.
    fn kernel(&self, graph: CUgraph) -> CUgraphNode {
        let mut node = null_mut();
        self.with_kernel(1, |params| {
            ok(unsafe {
                self.d
                    .cuGraphAddKernelNode_v2(&raw mut node, graph, null(), 0, params)
            });
            CUresult::CUDA_SUCCESS
        });
        node
    }

    /// The parameters of a kernel of so many blocks.
    fn with_kernel(
        &self,
        blocks: u32,
        call: impl FnOnce(*const CUDA_KERNEL_NODE_PARAMS) -> CUresult,
    ) -> CUresult {
        let mut parameters = [self.host, self.host];
        let kernel = made(|kernel: &mut CUDA_KERNEL_NODE_PARAMS| {
            kernel.func = self.plain;
            (kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ) = (blocks, 1, 1);
            (kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ) = (1, 1, 1);
            kernel.kernelParams = parameters.as_mut_ptr();
        });
        call(&raw const kernel)
    }

    /// Sets an attribute of a kernel node that begins with these integers.
    fn attribute(&self, node: CUgraphNode, id: CUlaunchAttributeID, value: &[u32]) {
        let mut all = CUlaunchAttributeValue { pad: [0; 64] };
        unsafe {
            (&raw mut all)
                .cast::<u32>()
                .copy_from(value.as_ptr(), value.len());
            ok(self
                .d
                .cuGraphKernelNodeSetAttribute(node, id, &raw const all));
        }
    }

    /// Adds a write of a word.
    fn word(&self, graph: CUgraph, address: CUdeviceptr) -> CUresult {
        let mut op = op(
            address,
            CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32,
        );
        let batch = self.batch(&mut op);
        unsafe {
            self.d
                .cuGraphAddBatchMemOpNode(self.out(), graph, null(), 0, &raw const batch)
        }
    }

    fn batch(&self, op: &mut CUstreamBatchMemOpParams) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        made(|batch: &mut CUDA_BATCH_MEM_OP_NODE_PARAMS| {
            (batch.ctx, batch.count, batch.paramArray) = (self.context, 1, op);
        })
    }

    /// Makes an executable, and what it is called with.
    fn executed(
        &self,
        graph: CUgraph,
        flags: u64,
        call: impl FnOnce(cuda_sys::CUgraphExec) -> CUresult,
    ) -> CUresult {
        let mut exec = null_mut();
        let made = unsafe {
            self.d
                .cuGraphInstantiateWithFlags(&raw mut exec, graph, flags)
        };
        if !made.is_success() {
            return made;
        }
        let status = call(exec);
        ok(unsafe { self.d.cuGraphExecDestroy(exec) });
        status
    }

    fn update(&self, exec: cuda_sys::CUgraphExec, graph: CUgraph) -> CUresult {
        let mut info = made(|_: &mut CUgraphExecUpdateResultInfo| ());
        unsafe { self.d.cuGraphExecUpdate_v2(exec, graph, &raw mut info) }
    }

    /// A call while a stream is captured into `graph`.
    fn into(&self, graph: CUgraph, call: impl FnOnce() -> CUresult) -> CUresult {
        let (mut stream, mut ended) = (null_mut(), null_mut());
        unsafe {
            ok(self.d.cuStreamCreate(&raw mut stream, 1));
            let begun =
                self.d
                    .cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, RELAXED);
            ok(begun);
            let status = call();
            let _ = self.d.cuStreamEndCapture(stream, &raw mut ended);
            ok(self.d.cuStreamDestroy_v2(stream));
            status
        }
    }
}

fn child_params(graph: CUgraph, ownership: CUgraphChildGraphNodeOwnership) -> CUgraphNodeParams {
    made(|params: &mut CUgraphNodeParams| {
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
        params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership };
    })
}

fn op(address: CUdeviceptr, operation: CUstreamBatchMemOpType) -> CUstreamBatchMemOpParams {
    let mut op = CUstreamBatchMemOpParams { pad: [0; 6] };
    unsafe {
        op.operation = operation;
        op.writeValue.address = address;
        // Flags, where waits are for a value that is not smaller, and for a write without a barrier.
        op.writeValue.flags = 0;
    }
    op
}

fn free_params(address: CUdeviceptr) -> CUgraphNodeParams {
    made(|params: &mut CUgraphNodeParams| {
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE;
        params.__bindgen_anon_1.free = CUDA_MEM_FREE_NODE_PARAMS { dptr: address };
    })
}

/// From the moment a kernel lets others begin.
fn early() -> CUgraphEdgeData {
    CUgraphEdgeData {
        from_port: 1,
        to_port: 0,
        type_: 1,
        reserved: [0; 5],
    }
}

fn status<T>(result: Result<T, CUresult>) -> CUresult {
    result.map_or_else(|status| status, |_| CUresult::CUDA_SUCCESS)
}

/// A call on a graph, which is not destroyed: the call may have left it to another.
fn fresh(g: &Ground<'_>, call: impl FnOnce(CUgraph) -> CUresult) -> CUresult {
    call(g.new_graph())
}

/// A call on a graph with another one in it: the outer one, its node, the inner one.
fn nested(
    g: &Ground<'_>,
    ownership: CUgraphChildGraphNodeOwnership,
    call: impl FnOnce(CUgraph, CUgraphNode, CUgraph) -> CUresult,
) -> CUresult {
    let (outer, inner) = (g.new_graph(), g.new_graph());
    ok(g.empty(inner));
    match g.child(outer, inner, ownership) {
        Ok((node, inner)) => call(outer, node, inner),
        Err(status) => status,
    }
}

/// Sets an attribute of a kernel node, then other parameters, of the node or of an executable.
fn reshaped(
    g: &Ground<'_>,
    (id, value): (CUlaunchAttributeID, &[u32]),
    blocks: u32,
    of_exec: bool,
) -> CUresult {
    fresh(g, |graph| {
        let node = g.kernel(graph);
        g.with_kernel(2, |params| unsafe {
            ok(g.d.cuGraphKernelNodeSetParams_v2(node, params));
            CUresult::CUDA_SUCCESS
        });
        g.attribute(node, id, value);
        g.with_kernel(blocks, |params| unsafe {
            if of_exec {
                g.executed(graph, 0, |exec| {
                    g.d.cuGraphExecKernelNodeSetParams_v2(exec, node, params)
                })
            } else {
                g.d.cuGraphKernelNodeSetParams_v2(node, params)
            }
        })
    })
}

const CLUSTER: CUlaunchAttributeID = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
const COOPERATIVE: CUlaunchAttributeID = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
const PRIORITY: CUlaunchAttributeID = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`
const NODE_PRIORITY: u64 = 8;

/// Gives the node of an executable another operation on a word.
fn batch_changed(
    g: &Ground<'_>,
    from: CUstreamBatchMemOpType,
    to: CUstreamBatchMemOpType,
) -> CUresult {
    fresh(g, |graph| unsafe {
        let (mut node, mut old, mut new) = (null_mut(), op(g.memory, from), op(g.memory, to));
        let batch = g.batch(&mut old);
        ok(g.d.cuGraphAddBatchMemOpNode(&raw mut node, graph, null(), 0, &raw const batch));
        let batch = g.batch(&mut new);
        g.executed(graph, 0, |exec| {
            g.d.cuGraphExecBatchMemOpNodeSetParams(exec, node, &raw const batch)
        })
    })
}

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
        told(status, params.__bindgen_anon_1.graph.ownership.0 as i32)
    });
    "priority_of_a_captured_launch" => captured_attribute(g, PRIORITY);
    "captured_cooperative_launch" => captured_attribute(g, COOPERATIVE);
    "attributes_of_a_node_of_another_context" => fresh(g, |graph| {
        let (one, mut other, mut module, mut function) = (g.kernel(graph), null_mut(), null_mut(), null_mut());
        ok(g.d.cuCtxCreate_v2(&raw mut other, 0, 0));
        ok(g.d.cuModuleLoadData(&raw mut module, crate::ground::PTX.as_ptr().cast()));
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
        let mut params = made(|params: &mut CUgraphNodeParams| {
            params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
            params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                handle,
                type_: CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF,
                size: 1,
                phGraph_out: null_mut(),
                ctx: other,
            };
        });
        let result = status(g.node(graph, None, &mut params));
        ok(g.d.cuGraphDestroy(graph));
        ok(g.d.cuCtxDestroy_v2(other));
        ok(g.d.cuCtxSetCurrent(g.context));
        result
    });
}

/// An attribute of the node that a cooperative launch on a stream of priority -3 becomes.
fn captured_attribute(g: &Ground<'_>, id: CUlaunchAttributeID) -> CUresult {
    let (mut stream, mut graph, mut node) = (null_mut(), null_mut(), null_mut());
    let (mut parameters, mut count) = ([g.host, g.host], 1);
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    unsafe {
        ok(g.d.cuStreamCreateWithPriority(&raw mut stream, 1, -3));
        ok(g.d.cuStreamBeginCapture_v2(stream, RELAXED));
        let parameters = parameters.as_mut_ptr();
        ok(g.d.cuLaunchCooperativeKernel(g.plain, 1, 1, 1, 1, 1, 1, 0, stream, parameters));
        ok(g.d.cuStreamEndCapture(stream, &raw mut graph));
        ok(g.d.cuGraphGetNodes(graph, &raw mut node, &raw mut count));
        let status = g.d.cuGraphKernelNodeGetAttribute(node, id, &raw mut value);
        let number = value.cooperative;
        ok(g.d.cuGraphDestroy(graph));
        ok(g.d.cuStreamDestroy_v2(stream));
        told(status, number)
    }
}

fn access(device: i32) -> CUmemAccessDesc {
    let mut access = made(|access: &mut CUmemAccessDesc| {
        access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        access.location.type_.0 = 1;
    });
    // SAFETY: the second `int` of the location is its number, in every header.
    unsafe {
        (&raw mut access.location)
            .cast::<i32>()
            .wrapping_add(1)
            .write(device);
    }
    access
}

extern "C" fn nothing(_: *mut c_void) {}

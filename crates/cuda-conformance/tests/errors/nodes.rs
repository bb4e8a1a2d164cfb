//! Helpers that build graphs and nodes for invalid calls.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS,
    CUDA_MEM_FREE_NODE_PARAMS, CUcontext, CUdeviceptr, CUgraph, CUgraphChildGraphNodeOwnership,
    CUgraphConditionalHandle, CUgraphConditionalNodeType, CUgraphEdgeData,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams, CUgraphNodeType,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUmemAccess_flags, CUmemAccessDesc, CUresult,
    CUstreamBatchMemOpParams, CUstreamBatchMemOpType, CUstreamCaptureMode,
};

use crate::fixture::{Fixture, SIZE, made, with_number};

pub(crate) const MOVE: CUgraphChildGraphNodeOwnership =
    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
pub(crate) const CLONE: CUgraphChildGraphNodeOwnership =
    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
pub(crate) const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

#[track_caller]
pub(crate) fn ok(status: CUresult) {
    assert!(status.is_success(), "{status}");
}

/// Returns the parameters of a conditional node with one body.
pub(crate) fn conditional_params(
    handle: CUgraphConditionalHandle,
    context: CUcontext,
) -> CUgraphNodeParams {
    made(|params: &mut CUgraphNodeParams| {
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle,
            type_: CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF,
            size: 1,
            phGraph_out: null_mut(),
            ctx: context,
        };
    })
}

impl Fixture<'_> {
    pub(crate) fn new_graph(&self) -> CUgraph {
        let mut graph = null_mut();
        ok(unsafe { self.d.cuGraphCreate(&raw mut graph, 0) });
        graph
    }

    pub(crate) fn empty(&self, graph: CUgraph) -> CUresult {
        unsafe { self.d.cuGraphAddEmptyNode(self.out(), graph, null(), 0) }
    }

    pub(crate) fn host(&self, graph: CUgraph) -> CUresult {
        let host = made(|host: &mut CUDA_HOST_NODE_PARAMS| host.fn_ = Some(nothing));
        unsafe {
            self.d
                .cuGraphAddHostNode(self.out(), graph, null(), 0, &raw const host)
        }
    }

    /// Adds an allocation and writes its address to `self.also()`.
    pub(crate) fn allocation(
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

    /// Adds a node by the generic call, `cuGraphAddNode`.
    pub(crate) fn node(
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

    /// Adds a child graph and returns the graph inside the node.
    pub(crate) fn child(
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

    pub(crate) fn handle(&self, graph: CUgraph) -> CUgraphConditionalHandle {
        let mut handle = 0;
        ok(unsafe {
            self.d
                .cuGraphConditionalHandleCreate(&raw mut handle, graph, self.context, 0, 0)
        });
        handle
    }

    /// Adds a conditional node with a handle and returns the graph of its first body.
    pub(crate) fn conditional_of(
        &self,
        graph: CUgraph,
        handle: CUgraphConditionalHandle,
    ) -> Result<(CUgraphNode, CUgraph), CUresult> {
        let mut params = conditional_params(handle, self.context);
        let node = self.node(graph, None, &mut params)?;
        let body = unsafe { params.__bindgen_anon_1.conditional.phGraph_out.read() };
        Ok((node, body))
    }

    pub(crate) fn conditional(&self, graph: CUgraph) -> (CUgraphNode, CUgraph) {
        self.conditional_of(graph, self.handle(graph))
            .expect("a conditional node")
    }

    /// Adds a kernel node.
    pub(crate) fn kernel(&self, graph: CUgraph) -> CUgraphNode {
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

    /// Calls `call` with the parameters of a kernel of `blocks` blocks.
    pub(crate) fn with_kernel(
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

    /// Sets a launch attribute of a kernel node. The value begins with the integers in `value`.
    pub(crate) fn attribute(&self, node: CUgraphNode, id: CUlaunchAttributeID, value: &[u32]) {
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

    /// Adds a node that writes a word.
    pub(crate) fn word(&self, graph: CUgraph, address: CUdeviceptr) -> CUresult {
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

    pub(crate) fn batch(&self, op: &mut CUstreamBatchMemOpParams) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        made(|batch: &mut CUDA_BATCH_MEM_OP_NODE_PARAMS| {
            (batch.ctx, batch.count, batch.paramArray) = (self.context, 1, op);
        })
    }

    /// Instantiates a graph, and calls `call` with the executable.
    pub(crate) fn executed(
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

    pub(crate) fn update(&self, exec: cuda_sys::CUgraphExec, graph: CUgraph) -> CUresult {
        let mut info = made(|_: &mut CUgraphExecUpdateResultInfo| ());
        unsafe { self.d.cuGraphExecUpdate_v2(exec, graph, &raw mut info) }
    }

    /// Makes a call while a stream is captured into `graph`.
    pub(crate) fn into(&self, graph: CUgraph, call: impl FnOnce() -> CUresult) -> CUresult {
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

pub(crate) fn child_params(
    graph: CUgraph,
    ownership: CUgraphChildGraphNodeOwnership,
) -> CUgraphNodeParams {
    made(|params: &mut CUgraphNodeParams| {
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
        params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership };
    })
}

pub(crate) fn op(
    address: CUdeviceptr,
    operation: CUstreamBatchMemOpType,
) -> CUstreamBatchMemOpParams {
    let mut op = CUstreamBatchMemOpParams { pad: [0; 6] };
    unsafe {
        op.operation = operation;
        op.writeValue.address = address;
        // The flags: a wait until the value is greater or equal, and a write without a memory
        // barrier.
        op.writeValue.flags = 0;
    }
    op
}

pub(crate) fn free_params(address: CUdeviceptr) -> CUgraphNodeParams {
    made(|params: &mut CUgraphNodeParams| {
        params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE;
        params.__bindgen_anon_1.free = CUDA_MEM_FREE_NODE_PARAMS { dptr: address };
    })
}

/// An edge that starts when the kernel upstream triggers programmatic completion.
pub(crate) fn early() -> CUgraphEdgeData {
    CUgraphEdgeData {
        from_port: 1,
        to_port: 0,
        type_: 1,
        reserved: [0; 5],
    }
}

pub(crate) fn status<T>(result: Result<T, CUresult>) -> CUresult {
    result.map_or_else(|status| status, |_| CUresult::CUDA_SUCCESS)
}

/// Makes a call on a new graph, which is not destroyed, as the call may have moved it elsewhere.
pub(crate) fn fresh(g: &Fixture<'_>, call: impl FnOnce(CUgraph) -> CUresult) -> CUresult {
    call(g.new_graph())
}

/// Makes a call on a graph that contains another one. It gets the outer graph, its node and the
/// inner graph.
pub(crate) fn nested(
    g: &Fixture<'_>,
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

/// Sets an attribute of a kernel node, then other parameters of the node or of an executable.
pub(crate) fn reshaped(
    g: &Fixture<'_>,
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

pub(crate) const CLUSTER: CUlaunchAttributeID =
    CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
pub(crate) const COOPERATIVE: CUlaunchAttributeID =
    CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
pub(crate) const PRIORITY: CUlaunchAttributeID = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`
pub(crate) const NODE_PRIORITY: u64 = 8;

/// Replaces the memory operation of the node in an executable by another one.
pub(crate) fn batch_changed(
    g: &Fixture<'_>,
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

/// Reads an attribute of the node that results from capturing a cooperative launch on a stream of
/// priority -3.
pub(crate) fn captured_attribute(g: &Fixture<'_>, id: CUlaunchAttributeID) -> CUresult {
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
        with_number(status, number)
    }
}

pub(crate) fn access(device: i32) -> CUmemAccessDesc {
    let mut access = made(|access: &mut CUmemAccessDesc| {
        access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        access.location.type_.0 = 1;
    });
    // SAFETY: the second `int` of the location is its id, in every version of the header.
    unsafe {
        (&raw mut access.location)
            .cast::<i32>()
            .wrapping_add(1)
            .write(device);
    }
    access
}

extern "C" fn nothing(_: *mut c_void) {}

//! Helpers for graphs through the C API; the calls must succeed.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUdeviceptr, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeType, CUhostFn,
    CUmemorytype, CUresult, CUstream,
};

use crate::support::{TestDevice, ok};

/// Kernels on single words, and kernels that set conditions.
pub(crate) const WORDS: &str = include_str!("kernels/graph.ptx");

/// The parameters of a fill of words.
pub(crate) fn words(dst: CUdeviceptr, value: u32, count: usize) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS {
        dst,
        pitch: 0,
        value,
        elementSize: 4,
        width: count,
        height: 1,
    }
}

/// The parameters of a copy of bytes between device addresses.
pub(crate) fn bytes(dst: CUdeviceptr, src: CUdeviceptr, len: usize) -> CUDA_MEMCPY3D {
    let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    (copy.srcDevice, copy.dstDevice) = (src, dst);
    (copy.WidthInBytes, copy.Height, copy.Depth) = (len, 1, 1);
    copy
}

/// The parameters of a launch of one thread. `params` is read when they are passed to the driver.
pub(crate) fn launch(function: CUfunction, params: &mut [*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: params.as_mut_ptr(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    }
}

/// Waits until a counter of another thread has the expected value.
pub(crate) fn comes_to(count: &AtomicU32, expected: u32) {
    let start = Instant::now();
    while count.load(Ordering::SeqCst) != expected {
        assert!(start.elapsed() < Duration::from_secs(5), "{count:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

impl TestDevice {
    pub(crate) fn graph(&self) -> CUgraph {
        let mut graph = ptr::null_mut();
        unsafe { ok(self.cuGraphCreate(&raw mut graph, 0)) };
        graph
    }

    pub(crate) fn empty(&self, graph: CUgraph, after: &[CUgraphNode]) -> CUgraphNode {
        let mut node = ptr::null_mut();
        unsafe { ok(self.cuGraphAddEmptyNode(&raw mut node, graph, after.as_ptr(), after.len())) };
        node
    }

    pub(crate) fn fill(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        params: CUDA_MEMSET_NODE_PARAMS,
    ) -> CUgraphNode {
        let mut node = ptr::null_mut();
        let (first, count) = (after.as_ptr(), after.len());
        unsafe {
            ok(self.cuGraphAddMemsetNode(
                &raw mut node,
                graph,
                first,
                count,
                &raw const params,
                self.context,
            ));
        }
        node
    }

    pub(crate) fn copy(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        params: CUDA_MEMCPY3D,
    ) -> CUgraphNode {
        let mut node = ptr::null_mut();
        let (first, count) = (after.as_ptr(), after.len());
        unsafe {
            ok(self.cuGraphAddMemcpyNode(
                &raw mut node,
                graph,
                first,
                count,
                &raw const params,
                self.context,
            ));
        }
        node
    }

    /// Adds a kernel node whose parameters have 8 bytes each.
    pub(crate) fn kernel(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        function: CUfunction,
        params: &mut [u64],
    ) -> CUgraphNode {
        let mut pointers: Vec<*mut c_void> = params
            .iter_mut()
            .map(|param| ptr::from_mut(param).cast())
            .collect();
        let params = launch(function, &mut pointers);
        let mut node = ptr::null_mut();
        let (first, count) = (after.as_ptr(), after.len());
        unsafe {
            ok(self.cuGraphAddKernelNode_v2(&raw mut node, graph, first, count, &raw const params));
        }
        node
    }

    pub(crate) fn host(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        function: CUhostFn,
        data: *mut c_void,
    ) -> CUgraphNode {
        let params = CUDA_HOST_NODE_PARAMS {
            fn_: function,
            userData: data,
        };
        let mut node = ptr::null_mut();
        let (first, count) = (after.as_ptr(), after.len());
        unsafe {
            ok(self.cuGraphAddHostNode(&raw mut node, graph, first, count, &raw const params));
        }
        node
    }

    pub(crate) fn instantiate(&self, graph: CUgraph) -> CUgraphExec {
        let mut exec = ptr::null_mut();
        unsafe { ok(self.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)) };
        exec
    }

    /// Instantiates a graph, launches it once and waits.
    pub(crate) fn run_graph(&self, graph: CUgraph) {
        let exec = self.instantiate(graph);
        let stream = self.stream(1);
        unsafe {
            ok(self.cuGraphLaunch(exec, stream));
            ok(self.cuStreamSynchronize(stream));
            ok(self.cuGraphExecDestroy(exec));
            ok(self.cuStreamDestroy_v2(stream));
        }
    }

    pub(crate) fn nodes(&self, graph: CUgraph) -> Vec<CUgraphNode> {
        let mut count = 0;
        unsafe { ok(self.cuGraphGetNodes(graph, ptr::null_mut(), &raw mut count)) };
        let mut nodes = vec![ptr::null_mut(); count];
        unsafe { ok(self.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count)) };
        nodes
    }

    /// The edges as pairs of node indexes.
    pub(crate) fn edges(&self, graph: CUgraph) -> Vec<(usize, usize)> {
        let nodes = self.nodes(graph);
        let mut count = 0;
        let none: *mut CUgraphNode = ptr::null_mut();
        unsafe { ok(self.cuGraphGetEdges(graph, none, none, &raw mut count)) };
        let mut from: Vec<CUgraphNode> = vec![ptr::null_mut(); count];
        let mut to = from.clone();
        unsafe {
            ok(self.cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &raw mut count));
        }
        let number = |node| nodes.iter().position(|&other| other == node).unwrap();
        let pairs = from.iter().zip(&to);
        let mut edges: Vec<_> = pairs.map(|(&a, &b)| (number(a), number(b))).collect();
        edges.sort_unstable();
        edges
    }

    pub(crate) fn sorts(&self, graph: CUgraph) -> Vec<CUgraphNodeType> {
        let sort = |node| {
            let mut sort = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            unsafe { ok(self.cuGraphNodeGetType(node, &raw mut sort)) };
            sort
        };
        self.nodes(graph).into_iter().map(sort).collect()
    }

    pub(crate) fn begin(&self, stream: CUstream) {
        let mode = cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        unsafe { ok(self.cuStreamBeginCapture_v2(stream, mode)) };
    }

    pub(crate) fn end(&self, stream: CUstream) -> Result<CUgraph, CUresult> {
        let mut graph = ptr::null_mut();
        let status = unsafe { self.cuStreamEndCapture(stream, &raw mut graph) };
        if status.is_success() {
            assert!(!graph.is_null());
            Ok(graph)
        } else {
            assert!(graph.is_null(), "a failed capture must not return a graph");
            Err(status)
        }
    }
}

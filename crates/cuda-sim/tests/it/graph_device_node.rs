//! Kernel nodes that kernels can update: the attribute, the handle, and the restrictions of the
//! manual.

use std::ffi::c_void;
use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUgraph, CUgraphExec, CUgraphExecUpdateResult as Why, CUgraphExecUpdateResultInfo, CUgraphNode,
    CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream,
};

use crate::support::{FAULT_KERNELS, TestDevice, ok, test_device};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_NOT_SUPPORTED;
const UPDATABLE: CUlaunchAttributeID =
    CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;

/// The value of the attribute: `deviceUpdatable`, and the handle.
fn value(words: [u64; 2]) -> CUlaunchAttributeValue {
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    unsafe { (&raw mut value).cast::<[u64; 2]>().write(words) };
    value
}

fn words(value: &CUlaunchAttributeValue) -> [u64; 2] {
    unsafe { ptr::from_ref(value).cast::<[u64; 2]>().read() }
}

struct Fixture {
    sim: TestDevice,
    data: u64,
    graph: CUgraph,
    node: CUgraphNode,
}

impl Fixture {
    /// Makes a graph with a node that adds 1 to a word.
    fn new() -> Self {
        let sim = test_device(Builder::new());
        let data = sim.upload(&[0_u32]);
        let graph = sim.graph();
        let node = Self::add(&sim, graph, data);
        Self {
            sim,
            data,
            graph,
            node,
        }
    }

    fn add(sim: &TestDevice, graph: CUgraph, data: u64) -> CUgraphNode {
        let increment = sim.function(sim.load(FAULT_KERNELS), "increment");
        sim.kernel(graph, &[], increment, &mut [data])
    }

    fn set(&self, node: CUgraphNode, wanted: u64) -> (CUresult, u64) {
        let mut value = value([wanted, 0]);
        let place = (&raw mut value).cast_const();
        let status = unsafe {
            self.sim
                .cuGraphKernelNodeSetAttribute(node, UPDATABLE, place)
        };
        (status, words(&value)[1])
    }

    fn get(&self, node: CUgraphNode) -> [u64; 2] {
        let mut value = value([7, 7]);
        let place = &raw mut value;
        unsafe {
            ok(self
                .sim
                .cuGraphKernelNodeGetAttribute(node, UPDATABLE, place));
        };
        words(&value)
    }

    fn instantiate(&self) -> (CUresult, CUgraphExec) {
        let mut exec = ptr::null_mut();
        let place = &raw mut exec;
        let status = unsafe { self.sim.cuGraphInstantiateWithFlags(place, self.graph, 0) };
        (status, exec)
    }

    /// Launches a kernel with the attribute.
    fn launch(&self, stream: CUstream, attribute: &mut CUlaunchAttribute) -> CUresult {
        let increment = self.sim.function(self.sim.load(FAULT_KERNELS), "increment");
        let mut data = self.data;
        let mut params: [*mut c_void; 1] = [(&raw mut data).cast()];
        let config = CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream,
            attrs: attribute,
            numAttrs: 1,
        };
        let params = params.as_mut_ptr();
        unsafe {
            self.sim
                .cuLaunchKernelEx(&raw const config, increment, params, ptr::null_mut())
        }
    }
}

#[test]
fn device_updatable_cannot_be_unset() {
    let fixture = Fixture::new();
    let node = fixture.node;
    assert_eq!(fixture.get(node), [0, 0]);
    for wrong in [2, u64::from(u32::MAX)] {
        assert_eq!(fixture.set(node, wrong), (INVALID, 0));
    }
    assert_eq!(fixture.set(node, 0), (CUresult::CUDA_SUCCESS, 0));
    assert_eq!(fixture.get(node), [0, 0]);
    let (status, handle) = fixture.set(node, 1);
    ok(status);
    assert_ne!(handle, 0);
    assert_eq!(fixture.get(node), [1, handle]);
    assert_eq!(fixture.set(node, 1), (CUresult::CUDA_SUCCESS, handle));
    assert_eq!(fixture.set(node, 0).0, UNSUPPORTED);
    assert_eq!(fixture.get(node), [1, handle]);
    let other = Fixture::add(&fixture.sim, fixture.graph, fixture.data);
    let (status, second) = fixture.set(other, 1);
    ok(status);
    assert_ne!(second, handle);
    let empty = fixture.sim.empty(fixture.graph, &[]);
    assert_eq!(fixture.set(empty, 1).0, INVALID);
}

#[test]
fn updatable_nodes_cannot_be_removed_or_copied() {
    let fixture = Fixture::new();
    let (sim, node) = (&fixture.sim, fixture.node);
    let other = Fixture::add(sim, fixture.graph, fixture.data);
    unsafe { ok(sim.cuGraphKernelNodeCopyAttributes(other, node)) };
    ok(fixture.set(node, 1).0);
    for (to, from) in [(other, node), (node, other)] {
        assert_eq!(
            unsafe { sim.cuGraphKernelNodeCopyAttributes(to, from) },
            UNSUPPORTED
        );
    }
    assert_eq!(fixture.get(other), [0, 0]);
    unsafe {
        assert!(sim.cuGraphDestroyNode(node) != CUresult::CUDA_SUCCESS);
        ok(sim.cuGraphDestroyNode(other));
    }
    assert_eq!(sim.nodes(fixture.graph), [node]);
    sim.run_graph(fixture.graph);
    assert_eq!(sim.download::<u32>(fixture.data, 1), [1]);
}

#[test]
fn device_updatable_graph_has_one_executable_and_no_clone() {
    let fixture = Fixture::new();
    let sim = &fixture.sim;
    ok(fixture.set(fixture.node, 1).0);
    let (status, exec) = fixture.instantiate();
    ok(status);
    assert!(fixture.instantiate().0 != CUresult::CUDA_SUCCESS);
    let mut made = ptr::null_mut();
    let mut child = ptr::null_mut();
    let outer = sim.graph();
    unsafe {
        assert!(sim.cuGraphClone(&raw mut made, fixture.graph) != CUresult::CUDA_SUCCESS);
        let child = &raw mut child;
        let status = sim.cuGraphAddChildGraphNode(child, outer, ptr::null(), 0, fixture.graph);
        assert!(status != CUresult::CUDA_SUCCESS);
        let stream = sim.stream(1);
        ok(sim.cuGraphUpload(exec, stream));
        ok(sim.cuGraphLaunch(exec, stream));
        ok(sim.cuStreamSynchronize(stream));
        ok(sim.cuGraphExecDestroy(exec));
    }
    assert_eq!(sim.nodes(outer), []);
    assert_eq!(sim.download::<u32>(fixture.data, 1), [1]);
    ok(fixture.instantiate().0);
}

#[test]
fn update_rejects_graphs_with_updatable_nodes() {
    let fixture = Fixture::new();
    let sim = &fixture.sim;
    let plain = sim.graph();
    Fixture::add(sim, plain, fixture.data);
    let exec = sim.instantiate(plain);
    ok(fixture.set(fixture.node, 1).0);
    let changed = sim.instantiate(fixture.graph);
    for (exec, graph) in [(exec, fixture.graph), (changed, plain)] {
        let mut info = CUgraphExecUpdateResultInfo {
            result: Why::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
            errorNode: ptr::null_mut(),
            errorFromNode: ptr::null_mut(),
        };
        let status = unsafe { sim.cuGraphExecUpdate_v2(exec, graph, &raw mut info) };
        assert_eq!(status, UNSUPPORTED);
        let unchanged = Why::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        assert_eq!(
            info.result, unchanged,
            "a rejected update must leave the result unchanged"
        );
    }
}

#[test]
fn only_captured_launch_returns_a_node_handle() {
    let fixture = Fixture::new();
    let sim = &fixture.sim;
    let stream = sim.stream(1);
    let attribute = |wanted| CUlaunchAttribute {
        id: UPDATABLE,
        pad: [0; 4],
        value: value([wanted, 0]),
    };
    assert_eq!(fixture.launch(stream, &mut attribute(1)), UNSUPPORTED);
    assert_eq!(fixture.launch(stream, &mut attribute(0)), UNSUPPORTED);
    sim.begin(stream);
    let mut given = attribute(1);
    ok(fixture.launch(stream, &mut given));
    assert_eq!(fixture.launch(stream, &mut attribute(2)), INVALID);
    let graph = sim.end(stream).unwrap();
    let [is_updatable, handle] = words(&given.value);
    assert_eq!(is_updatable, 1);
    let nodes = sim.nodes(graph);
    assert_eq!(nodes.len(), 1);
    assert_eq!(fixture.get(nodes[0]), [1, handle]);
    sim.run_graph(graph);
    assert_eq!(sim.download::<u32>(fixture.data, 1), [1]);
}

#[test]
fn kernel_that_updates_nodes_is_refused_by_name() {
    // Declared as in the library `cudadevrt`, which is machine code.
    let ptx = ".version 8.4
        .target sm_90
        .address_size 64
        .extern .func (.param .b32 status) cudaGraphKernelNodeSetParam (
            .param .b64 node, .param .b64 offset, .param .b64 value, .param .b64 size);
        .visible .entry change(.param .u64 node) {
            .reg .b64 %n; .reg .b32 %r;
            ld.param.u64 %n, [node];
            { .param .b32 status; .param .b64 a; .param .b64 b; .param .b64 c; .param .b64 d;
              st.param.b64 [a], %n; st.param.b64 [b], 0; st.param.b64 [c], %n; st.param.b64 [d], 8;
              call.uni (status), cudaGraphKernelNodeSetParam, (a, b, c, d);
              ld.param.b32 %r, [status]; }
            ret;
        }";
    let sim = test_device(Builder::new());
    let change = sim.function(sim.load(ptx), "change");
    ok(sim.launch(change, [1, 1], sim.stream(1), &mut [1]));
    assert!(sim.sync() != CUresult::CUDA_SUCCESS);
    let fault = sim.simulator.fault(0).unwrap();
    assert!(fault.contains("cudaGraphKernelNodeSetParam"), "{fault}");
}

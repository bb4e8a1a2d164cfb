//! Memory that graphs allocate.

use std::ffi::c_void;
use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraph, CUgraphMem_attribute, CUgraphNode,
    CUmemAllocationType, CUmemLocationType,
};

use crate::graph_support::{bytes, words};
use crate::support::{TestDevice, late, ok, test_device};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const NOT_SUPPORTED: CUresult = CUresult::CUDA_ERROR_NOT_SUPPORTED;

fn alloc(sim: &TestDevice, graph: CUgraph, size: usize) -> (CUgraphNode, CUdeviceptr) {
    let mut node = ptr::null_mut();
    unsafe {
        let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = std::mem::zeroed();
        params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        params.bytesize = size;
        let none = ptr::null();
        ok(sim.cuGraphAddMemAllocNode(&raw mut node, graph, none, 0, &raw mut params));
        let mut again: CUDA_MEM_ALLOC_NODE_PARAMS = std::mem::zeroed();
        ok(sim.cuGraphMemAllocNodeGetParams(node, &raw mut again));
        assert_eq!((again.dptr, again.bytesize), (params.dptr, size));
        (node, params.dptr)
    }
}

fn free(sim: &TestDevice, graph: CUgraph, after: &[CUgraphNode], addr: CUdeviceptr) -> CUresult {
    let mut node = ptr::null_mut();
    let (first, count) = (after.as_ptr(), after.len());
    unsafe { sim.cuGraphAddMemFreeNode(&raw mut node, graph, first, count, addr) }
}

const CHUNK: u64 = 32 << 20;

/// Returns the attributes of the memory of graphs: used, its maximum, reserved, and its maximum.
fn graph_memory(sim: &TestDevice) -> [u64; 4] {
    [0, 1, 2, 3].map(|attribute| {
        let mut bytes = 0_u64;
        let value = (&raw mut bytes).cast::<c_void>();
        let attribute = CUgraphMem_attribute(attribute);
        unsafe { ok(sim.cuDeviceGetGraphMemAttribute(0, attribute, value)) };
        bytes
    })
}

/// Returns a graph that allocates and frees memory of each size, all of it at the same time.
fn temporary(sim: &TestDevice, sizes: &[usize]) -> CUgraph {
    let graph = sim.graph();
    let nodes = sizes.iter().map(|&size| alloc(sim, graph, size));
    let (nodes, addresses): (Vec<_>, Vec<_>) = nodes.unzip();
    for addr in addresses {
        ok(free(sim, graph, &nodes, addr));
    }
    graph
}

#[test]
fn graph_memory_lives_between_its_nodes() {
    for sim in [test_device(Builder::new()), test_device(late(2))] {
        let out = sim.upload(&[0_u32; 4]);
        let graph = sim.graph();
        let (node, addr) = alloc(&sim, graph, 16);
        let fill = sim.fill(graph, &[node], words(addr, 3, 4));
        let copy = sim.copy(graph, &[fill], bytes(out, addr, 16));
        ok(free(&sim, graph, &[copy], addr));
        assert_eq!(free(&sim, graph, &[copy], addr), INVALID, "twice");
        assert_eq!(
            free(&sim, sim.graph(), &[], addr),
            INVALID,
            "the graph that allocates the memory frees it"
        );
        let ordinary = sim.alloc(16);
        assert_eq!(free(&sim, graph, &[], ordinary), INVALID);
        let (mut clone, mut exec) = (ptr::null_mut(), ptr::null_mut());
        let (mut second, none) = (ptr::null_mut(), ptr::null());
        unsafe {
            let cloned = sim.cuGraphClone(&raw mut clone, graph);
            assert_eq!(cloned, NOT_SUPPORTED);
            assert_eq!(sim.cuGraphDestroyNode(fill), NOT_SUPPORTED);
            let child = sim.cuGraphAddChildGraphNode(&raw mut second, sim.graph(), none, 0, graph);
            assert_eq!(child, NOT_SUPPORTED);
            ok(sim.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
            let mut more = ptr::null_mut();
            let twice = sim.cuGraphInstantiateWithFlags(&raw mut more, graph, 0);
            assert_eq!(
                twice, NOT_SUPPORTED,
                "only one executable may exist at a time"
            );
            for _ in 0..3 {
                ok(sim.cuMemsetD32_v2(out, 0, 4));
                ok(sim.cuGraphLaunch(exec, ptr::null_mut()));
                assert_eq!(sim.download::<u32>(out, 4), [3; 4]);
            }
            assert_eq!(sim.simulator.live().bytes, 32, "both ordinary allocations");
            ok(sim.cuGraphExecDestroy(exec));
            ok(sim.cuMemFree_v2(ordinary));
            ok(sim.cuMemFree_v2(out));
            ok(sim.cuGraphDestroy(graph));
        }
        assert_eq!(sim.simulator.live().bytes, 0);
    }
}

#[test]
fn memory_left_by_a_graph_is_freed_outside() {
    for sim in [test_device(Builder::new()), test_device(late(5))] {
        let graph = sim.graph();
        let (node, addr) = alloc(&sim, graph, 64);
        sim.fill(graph, &[node], words(addr, 8, 16));
        let exec = sim.instantiate(graph);
        let stream = sim.stream(1);
        let launch = || unsafe { sim.cuGraphLaunch(exec, stream) };
        ok(launch());
        assert_eq!(
            launch(),
            INVALID,
            "the allocation of the first launch is not freed yet"
        );
        let mut values = [0_u32; 16];
        unsafe {
            ok(sim.cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), addr, 64, stream));
            ok(sim.cuStreamSynchronize(stream));
            assert_eq!((values, graph_memory(&sim)), ([8; 16], [CHUNK; 4]));
            ok(sim.cuDeviceGraphMemTrim(0));
            assert_eq!(
                graph_memory(&sim),
                [CHUNK; 4],
                "the memory is still allocated"
            );
            assert_eq!(sim.simulator.live().bytes, 64);
            ok(sim.cuMemFreeAsync(addr, stream));
            assert_eq!(sim.cuMemFreeAsync(addr, stream), INVALID);
            // Another graph frees the allocation.
            ok(launch());
            let freeing = sim.graph();
            ok(free(&sim, freeing, &[], addr));
            assert_eq!(
                free(&sim, graph, &[], addr),
                INVALID,
                "another graph frees the memory"
            );
            let other = sim.instantiate(freeing);
            ok(sim.cuGraphLaunch(other, stream));
            assert_eq!(sim.cuGraphLaunch(other, stream), INVALID, "nothing to free");
            ok(launch());
            ok(sim.cuStreamSynchronize(stream));
            // The allocation outlives the graph.
            ok(sim.cuGraphExecDestroy(exec));
            ok(sim.cuGraphDestroy(graph));
            ok(sim.cuMemFree_v2(addr));
        }
        assert_eq!(graph_memory(&sim), [CHUNK; 4]);
        assert_eq!(sim.simulator.live().allocations, 0);
        unsafe { ok(sim.cuDeviceGraphMemTrim(0)) };
        assert_eq!(graph_memory(&sim), [0, CHUNK, 0, CHUNK]);
    }
}

#[test]
fn a_launch_may_free_memory_of_the_last_launch() {
    let sim = test_device(late(3));
    let graph = sim.graph();
    let (node, addr) = alloc(&sim, graph, 64);
    sim.fill(graph, &[node], words(addr, 8, 1));
    let mut exec = ptr::null_mut();
    let mut flags = 0;
    unsafe {
        ok(sim.cuGraphInstantiateWithFlags(&raw mut exec, graph, 1));
        ok(sim.cuGraphExecGetFlags(exec, &raw mut flags));
        assert_eq!(flags, 1);
        for _ in 0..3 {
            ok(sim.cuGraphLaunch(exec, ptr::null_mut()));
        }
        // One word was written; the next one still has the fill pattern.
        assert_eq!(sim.download::<u32>(addr, 2), [8, 0xCDCD_CDCD]);
        assert_eq!(graph_memory(&sim), [CHUNK; 4]);
        ok(sim.cuMemFree_v2(addr));
    }
}

#[test]
fn graph_memory_is_held_from_launch_to_trim() {
    for sim in [test_device(Builder::new()), test_device(late(4))] {
        let graph = temporary(&sim, &[4 << 20]);
        assert_eq!(graph_memory(&sim), [0; 4]);
        let exec = sim.instantiate(graph);
        assert_eq!(graph_memory(&sim), [0; 4], "before the first launch");
        let stream = sim.stream(1);
        for _ in 0..2 {
            unsafe { ok(sim.cuGraphLaunch(exec, stream)) };
            assert_eq!(graph_memory(&sim), [CHUNK; 4], "before the launch has run");
        }
        unsafe {
            ok(sim.cuStreamSynchronize(stream));
            ok(sim.cuDeviceGraphMemTrim(0));
            assert_eq!(graph_memory(&sim), [0, CHUNK, 0, CHUNK]);
            ok(sim.cuGraphLaunch(exec, stream));
            ok(sim.cuStreamSynchronize(stream));
            ok(sim.cuGraphExecDestroy(exec));
            ok(sim.cuGraphDestroy(graph));
        }
        assert_eq!(graph_memory(&sim), [CHUNK; 4], "without any graph");
        assert_eq!(sim.simulator.live().bytes, 0);
    }
}

#[test]
fn graph_memory_is_held_in_whole_chunks() {
    let sizes: [(&[usize], u64); 4] = [
        (&[100], 1),
        (&[4 << 20], 1),
        (&[4 << 20, 8 << 20], 1),
        (&[40 << 20], 2),
    ];
    for (sizes, chunks) in sizes {
        for sim in [test_device(Builder::new()), test_device(late(6))] {
            let exec = sim.instantiate(temporary(&sim, sizes));
            unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
            assert_eq!(graph_memory(&sim), [chunks * CHUNK; 4], "{sizes:?}");
        }
    }
}

#[test]
fn launches_in_turns_share_graph_memory() {
    for sim in [test_device(Builder::new()), test_device(late(7))] {
        let execs = [4, 8, 24].map(|size| sim.instantiate(temporary(&sim, &[size << 20])));
        for exec in execs.into_iter().chain(execs) {
            unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
        }
        assert_eq!(graph_memory(&sim), [CHUNK; 4]);
    }
}

#[test]
fn memory_that_another_graph_frees_is_held() {
    for sim in [test_device(Builder::new()), test_device(late(8))] {
        let graph = sim.graph();
        let (_, addr) = alloc(&sim, graph, 4 << 20);
        let freeing = sim.graph();
        ok(free(&sim, freeing, &[], addr));
        let execs = [graph, freeing].map(|graph| sim.instantiate(graph));
        for exec in execs.into_iter().chain(execs) {
            unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
        }
        assert_eq!(graph_memory(&sim), [CHUNK; 4]);
        unsafe {
            ok(sim.cuStreamSynchronize(ptr::null_mut()));
            ok(sim.cuDeviceGraphMemTrim(0));
        }
        assert_eq!(graph_memory(&sim), [0, CHUNK, 0, CHUNK]);
        assert_eq!(sim.simulator.live().allocations, 0);
    }
}

#[test]
fn a_reset_of_a_maximum_sets_the_current_amount() {
    let sim = test_device(Builder::new());
    let exec = sim.instantiate(temporary(&sim, &[40 << 20]));
    let reset = |attribute| unsafe {
        let mut zero = 0_u64;
        let value = (&raw mut zero).cast();
        ok(sim.cuDeviceSetGraphMemAttribute(0, CUgraphMem_attribute(attribute), value));
        graph_memory(&sim)
    };
    unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
    assert_eq!(reset(1), [2 * CHUNK; 4]);
    unsafe {
        ok(sim.cuStreamSynchronize(ptr::null_mut()));
        ok(sim.cuDeviceGraphMemTrim(0));
    }
    assert_eq!(graph_memory(&sim), [0, 2 * CHUNK, 0, 2 * CHUNK]);
    assert_eq!(reset(1), [0, 0, 0, 2 * CHUNK]);
    assert_eq!(reset(3), [0; 4]);
}

#[test]
fn memory_that_graphs_leave_adds_up() {
    for sim in [test_device(Builder::new()), test_device(late(9))] {
        let graphs = [20, 20].map(|size: usize| {
            let graph = sim.graph();
            let (_, addr) = alloc(&sim, graph, size << 20);
            (sim.instantiate(graph), addr)
        });
        for (exec, _) in graphs {
            unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
        }
        assert_eq!(graph_memory(&sim), [2 * CHUNK; 4]);
        unsafe {
            ok(sim.cuMemFree_v2(graphs[0].1));
            ok(sim.cuDeviceGraphMemTrim(0));
        }
        assert_eq!(graph_memory(&sim), [CHUNK, 2 * CHUNK, CHUNK, 2 * CHUNK]);
        unsafe { ok(sim.cuMemFree_v2(graphs[1].1)) };
    }
}

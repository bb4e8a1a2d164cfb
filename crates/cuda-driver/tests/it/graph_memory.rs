//! The memory that a device holds for graphs, as driver 580 reports it on an H200. Each test runs
//! in its own process, because the numbers include the graphs of other tests.

use std::ptr;

use cuda_driver::device::Device;
use cuda_driver::graph::{GraphAllocation, GraphExec};
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraph, CUgraphExec, CUmemAllocationType,
    CUmemLocationType, CUresult, DriverLibrary,
};

use crate::process::{child_of, in_processes};

/// The driver obtains memory for graphs in chunks of this size.
const CHUNK: u64 = 32 << 20;
const MIB: usize = 1 << 20;

/// Returns the used memory, its maximum, the reserved memory, and its maximum.
fn numbers(device: &Device) -> [u64; 4] {
    let now = device.graph_memory().unwrap();
    [now.used, now.most_used, now.reserved, now.most_reserved]
}

/// Returns an executable that allocates memory of each size and then frees all of it.
fn temporary(context: &Context, sizes: &[usize]) -> GraphExec {
    let mut graph = Graph::new(context).unwrap();
    let allocations: Vec<GraphAllocation<u8>> = sizes
        .iter()
        .map(|&size| graph.add_alloc_zeroed(&[], size).unwrap())
        .collect();
    for allocation in allocations {
        graph.add_free(&[], allocation).unwrap();
    }
    graph.instantiate().unwrap()
}

#[test]
fn graph_memory_is_held_until_it_is_trimmed() {
    in_processes("graph_memory::child_that_trims");
}

#[test]
#[ignore = "runs in its own process, started by `graph_memory_is_held_until_it_is_trimmed`"]
fn child_that_trims() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let (stream, device) = (fixture.stream(), fixture.context.device());
    let exec = temporary(&fixture.context, &[4 * MIB]);
    assert_eq!(numbers(device), [0; 4], "before the first launch");
    for _ in 0..3 {
        exec.launch(&stream).unwrap();
        assert_eq!(numbers(device), [CHUNK; 4], "after a launch");
    }
    stream.synchronize().unwrap();
    assert_eq!(numbers(device), [CHUNK; 4], "after the launches have run");
    device.trim_graph_memory().unwrap();
    assert_eq!(numbers(device), [0, CHUNK, 0, CHUNK], "after a trim");
    device.reset_graph_memory_peaks().unwrap();
    assert_eq!(numbers(device), [0; 4], "after a reset");
    exec.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    drop(exec);
    assert_eq!(numbers(device), [CHUNK; 4], "without any graph");
}

#[test]
fn graph_memory_is_held_in_whole_chunks() {
    in_processes("graph_memory::child_with_sizes");
}

#[test]
#[ignore = "runs in its own process, started by `graph_memory_is_held_in_whole_chunks`"]
fn child_with_sizes() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let (stream, device) = (fixture.stream(), fixture.context.device());
    let sizes: [(&[usize], u64); 4] = [
        (&[100], 1),
        (&[4 * MIB], 1),
        (&[4 * MIB, 8 * MIB], 1),
        (&[40 * MIB], 2),
    ];
    for (sizes, chunks) in sizes {
        let exec = temporary(&fixture.context, sizes);
        exec.launch(&stream).unwrap();
        assert_eq!(numbers(device), [chunks * CHUNK; 4], "{sizes:?}");
        stream.synchronize().unwrap();
        device.trim_graph_memory().unwrap();
        device.reset_graph_memory_peaks().unwrap();
    }
    let execs = [4, 8].map(|size| temporary(&fixture.context, &[size * MIB]));
    for exec in execs.iter().chain(&execs) {
        exec.launch(&stream).unwrap();
    }
    assert_eq!(numbers(device), [CHUNK; 4], "two executables in turns");
}

/// A graph that allocates 4 MiB and does not free it, which the safe layer refuses.
struct Keeper {
    graph: CUgraph,
    exec: CUgraphExec,
    address: CUdeviceptr,
}

fn ok(status: CUresult) {
    assert!(status.is_success(), "{status}");
}

fn instantiate(library: &DriverLibrary, graph: CUgraph) -> CUgraphExec {
    let mut exec = ptr::null_mut();
    // SAFETY: the pointer must be to a handle ← it is to a local.
    ok(unsafe { library.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) });
    exec
}

impl Keeper {
    fn new(library: &DriverLibrary) -> Self {
        let mut graph = ptr::null_mut();
        // SAFETY: the pointer must be to a handle ← it is to a local.
        ok(unsafe { library.cuGraphCreate(&raw mut graph, 0) });
        // SAFETY: zero must be a value of each field ← they are numbers and pointers.
        let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { std::mem::zeroed() };
        params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        params.bytesize = 4 * MIB;
        let mut node = ptr::null_mut();
        let none = ptr::null();
        // SAFETY: the pointers must be to a handle and to parameters ← they are to locals.
        ok(unsafe {
            library.cuGraphAddMemAllocNode(&raw mut node, graph, none, 0, &raw mut params)
        });
        Self {
            graph,
            exec: instantiate(library, graph),
            address: params.dptr,
        }
    }
}

#[test]
fn memory_that_is_freed_elsewhere_is_held_until_a_trim() {
    in_processes("graph_memory::child_that_frees_elsewhere");
}

#[test]
#[ignore = "runs in its own process, started by `memory_that_is_freed_elsewhere_is_held_until_a_trim`"]
fn child_that_frees_elsewhere() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let (stream, device) = (fixture.stream(), fixture.context.device());
    let library = fixture.context.driver().library();
    // SAFETY: the context must exist ← the fixture owns it.
    ok(unsafe { library.cuCtxPushCurrent_v2(fixture.context.as_raw()) });
    let keeper = Keeper::new(library);
    // SAFETY: the handles must be valid ← both objects exist, as in all of the following calls.
    let launch = |exec| ok(unsafe { library.cuGraphLaunch(exec, stream.as_raw()) });
    launch(keeper.exec);
    assert_eq!(numbers(device), [CHUNK; 4]);
    // SAFETY: the memory must be allocated ← the launch before it allocates it.
    ok(unsafe { library.cuMemFreeAsync(keeper.address, stream.as_raw()) });
    stream.synchronize().unwrap();
    assert_eq!(numbers(device), [CHUNK; 4], "freed by a call");
    device.trim_graph_memory().unwrap();
    assert_eq!(numbers(device), [0, CHUNK, 0, CHUNK]);

    let (mut freeing, mut node) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the pointer must be to a handle ← it is to a local.
    ok(unsafe { library.cuGraphCreate(&raw mut freeing, 0) });
    let none = ptr::null();
    // SAFETY: the pointer must be to a handle ← it is to a local.
    ok(unsafe { library.cuGraphAddMemFreeNode(&raw mut node, freeing, none, 0, keeper.address) });
    let other = instantiate(library, freeing);
    launch(keeper.exec);
    launch(other);
    stream.synchronize().unwrap();
    assert_eq!(numbers(device), [CHUNK; 4], "freed by another graph");
    device.trim_graph_memory().unwrap();
    assert_eq!(numbers(device), [0, CHUNK, 0, CHUNK]);
    for exec in [keeper.exec, other] {
        // SAFETY: the handle must be valid and is not used again ← it is that of an executable.
        ok(unsafe { library.cuGraphExecDestroy(exec) });
    }
    for graph in [keeper.graph, freeing] {
        // SAFETY: the handle must be valid and is not used again ← it is that of a graph.
        ok(unsafe { library.cuGraphDestroy(graph) });
    }
    // SAFETY: the pointer may be null ← it is.
    ok(unsafe { library.cuCtxPopCurrent_v2(ptr::null_mut()) });
}

//! Executable graphs: order, updates, and the objects that they keep alive.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo,
};

use crate::graph_support::{WORDS, bytes, comes_to, words};
use crate::support::{FAULT_KERNELS, TestDevice, late, ok, test_device};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn launches_of_one_executable_do_not_overlap() {
    for seed in 0..16 {
        let sim = test_device(late(seed));
        let increment = sim.function(sim.load(FAULT_KERNELS), "increment");
        let data = sim.upload(&[0_u32; 2]);
        let graph = sim.graph();
        // Two steps that give the right number only if nothing runs between them.
        let copy = sim.copy(graph, &[], bytes(data + 4, data, 4));
        let kernel = sim.kernel(graph, &[copy], increment, &mut [data + 4]);
        sim.copy(graph, &[kernel], bytes(data, data + 4, 4));
        let exec = sim.instantiate(graph);
        for _ in 0..4 {
            unsafe { ok(sim.cuGraphLaunch(exec, sim.stream(1))) };
        }
        // The graph and the executable may be destroyed while they run.
        unsafe {
            ok(sim.cuGraphDestroy(graph));
            ok(sim.cuGraphExecDestroy(exec));
        }
        ok(sim.sync());
        assert_eq!(sim.download::<u32>(data, 2), [4, 4], "seed {seed}");
    }
}

#[test]
fn a_launch_is_ordered_in_its_stream() {
    for seed in 0..16 {
        let sim = test_device(late(seed));
        let data = sim.upload(&[0_u32; 4]);
        let graph = sim.graph();
        sim.copy(graph, &[], bytes(data + 4, data, 4));
        sim.copy(graph, &[], bytes(data + 8, data, 4));
        let exec = sim.instantiate(graph);
        let stream = sim.stream(1);
        unsafe {
            ok(sim.cuMemsetD32Async(data, 5, 1, stream));
            ok(sim.cuGraphLaunch(exec, stream));
            ok(sim.cuMemcpyDtoDAsync_v2(data + 12, data + 8, 4, stream));
            ok(sim.cuStreamSynchronize(stream));
        }
        assert_eq!(sim.download::<u32>(data, 4), [5; 4], "seed {seed}");
    }
}

#[test]
fn unordered_nodes_run_in_any_order() {
    let last = |seed| {
        let sim = test_device(late(seed));
        let data = sim.upload(&[0_u32]);
        let graph = sim.graph();
        for value in 1..4 {
            sim.fill(graph, &[], words(data, value, 1));
        }
        sim.run_graph(graph);
        sim.download::<u32>(data, 1)[0]
    };
    let seen: std::collections::BTreeSet<u32> = (0..48).map(last).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_fault_in_a_graph_loses_the_device() {
    let sim = test_device(Builder::new());
    let trapped = sim.function(sim.load(FAULT_KERNELS), "trapped");
    let graph = sim.graph();
    let node = sim.kernel(graph, &[], trapped, &mut []);
    sim.empty(graph, &[node]);
    let exec = sim.instantiate(graph);
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuGraphLaunch(exec, stream));
        let failed = CUresult::CUDA_ERROR_LAUNCH_FAILED;
        assert_eq!(sim.cuStreamSynchronize(stream), failed);
        assert_eq!(sim.cuGraphLaunch(exec, stream), failed);
        ok(sim.cuGraphExecDestroy(exec));
        ok(sim.cuGraphDestroy(graph));
    }
}

#[test]
fn nodes_of_an_executable_can_change_or_be_disabled() {
    let sim = test_device(Builder::new());
    let affine = sim.function(sim.load(WORDS), "affine");
    let data = sim.upload(&[1_u32; 4]);
    let graph = sim.graph();
    let fill = sim.fill(graph, &[], words(data, 5, 1));
    let kernel = sim.kernel(graph, &[fill], affine, &mut [data, 3, 4]);
    let copy = sim.copy(graph, &[kernel], bytes(data + 4, data, 4));
    let exec = sim.instantiate(graph);
    let run = || unsafe {
        ok(sim.cuGraphLaunch(exec, ptr::null_mut()));
        ok(sim.sync());
        sim.download::<u32>(data, 4)
    };
    assert_eq!(run(), [19, 19, 1, 1]);
    unsafe {
        let new = words(data, 6, 1);
        let fail = words(data, 6, 0);
        let set = |params| sim.cuGraphExecMemsetNodeSetParams(exec, fill, params, sim.context);
        ok(set(&raw const new));
        assert_eq!(set(&raw const fail), INVALID);
        let elsewhere = bytes(data + 8, data, 4);
        ok(sim.cuGraphExecMemcpyNodeSetParams(exec, copy, &raw const elsewhere, sim.context));
        let mut params: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        ok(sim.cuGraphKernelNodeGetParams_v2(kernel, &raw mut params));
        let (mut addr, mut factor, mut term) = (data, 10_u32, 1_u32);
        let mut values: [*mut c_void; 3] = [
            (&raw mut addr).cast(),
            (&raw mut factor).cast(),
            (&raw mut term).cast(),
        ];
        params.kernelParams = values.as_mut_ptr();
        ok(sim.cuGraphExecKernelNodeSetParams_v2(exec, kernel, &raw const params));
        let wrong = sim.cuGraphExecKernelNodeSetParams_v2(exec, fill, &raw const params);
        assert_eq!(wrong, INVALID);
    }
    assert_eq!(run(), [61, 19, 61, 1]);
    let mut enabled = 9;
    unsafe {
        ok(sim.cuGraphNodeSetEnabled(exec, kernel, 0));
        ok(sim.cuGraphNodeGetEnabled(exec, kernel, &raw mut enabled));
        assert_eq!(enabled, 0);
    }
    assert_eq!(run(), [6, 19, 6, 1]);
    unsafe {
        ok(sim.cuGraphNodeSetEnabled(exec, kernel, 1));
        let stranger = sim.fill(sim.graph(), &[], words(data, 1, 1));
        assert_eq!(sim.cuGraphNodeSetEnabled(exec, stranger, 1), INVALID);
        let empty = sim.empty(graph, &[]);
        assert_eq!(sim.cuGraphNodeSetEnabled(exec, empty, 1), INVALID);
    }
    assert_eq!(run(), [61, 19, 61, 1]);
    // The graph itself was not changed.
    sim.run_graph(graph);
    assert_eq!(sim.download::<u32>(data, 4), [19, 19, 61, 1]);
}

#[test]
fn a_node_of_an_executable_stays_with_its_device() {
    let sim = test_device(Builder::new().devices(2));
    let here = sim.upload(&[1_u32; 4]);
    let there = unsafe {
        let (mut second, mut there) = (ptr::null_mut(), 0);
        ok(sim.cuDevicePrimaryCtxRetain(&raw mut second, 1));
        ok(sim.cuCtxPushCurrent_v2(second));
        ok(sim.cuMemAlloc_v2(&raw mut there, 16));
        ok(sim.cuCtxPopCurrent_v2(&raw mut second));
        there
    };
    let graph = sim.graph();
    let fill = sim.fill(graph, &[], words(here, 5, 1));
    let copy = sim.copy(graph, &[fill], bytes(here + 4, here, 4));
    let exec = sim.instantiate(graph);
    for (to, is_taken) in [(here + 8, true), (there, false)] {
        let (filled, copied) = (words(to, 6, 1), bytes(to + 4, here, 4));
        let statuses = unsafe {
            [
                sim.cuGraphExecMemsetNodeSetParams(exec, fill, &raw const filled, sim.context),
                sim.cuGraphExecMemcpyNodeSetParams(exec, copy, &raw const copied, sim.context),
            ]
        };
        let expected = if is_taken {
            CUresult::CUDA_SUCCESS
        } else {
            INVALID
        };
        assert_eq!(statuses, [expected; 2]);
    }
}

fn update(
    sim: &TestDevice,
    exec: CUgraphExec,
    graph: CUgraph,
) -> (CUresult, CUgraphExecUpdateResultInfo) {
    let mut info: CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    let status = unsafe { sim.cuGraphExecUpdate_v2(exec, graph, &raw mut info) };
    (status, info)
}

#[test]
fn a_graph_update_reports_its_obstacle() {
    type R = CUgraphExecUpdateResult;
    const FAILURE: CUresult = CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    let sim = test_device(Builder::new());
    let data = sim.upload(&[1_u32; 4]);
    let make = |value, to| {
        let graph = sim.graph();
        let fill = sim.fill(graph, &[], words(data, value, 2));
        let copy = sim.copy(graph, &[fill], bytes(data + to, data, 4));
        (graph, fill, copy)
    };
    let exec = sim.instantiate(make(5, 8).0);
    let (good, ..) = make(6, 12);
    let (status, info) = update(&sim, exec, good);
    assert_eq!(
        (status, info.result),
        (CUresult::CUDA_SUCCESS, R::CU_GRAPH_EXEC_UPDATE_SUCCESS)
    );
    unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
    assert_eq!(sim.download::<u32>(data, 4), [6, 6, 1, 6]);

    let (more, _, copy) = make(7, 8);
    sim.empty(more, &[copy]);
    let (status, info) = update(&sim, exec, more);
    let topology = R::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, topology, ptr::null_mut())
    );

    let (loose, fill, copy) = make(7, 8);
    unsafe { ok(sim.cuGraphRemoveDependencies(loose, &raw const fill, &raw const copy, 1)) };
    let (status, info) = update(&sim, exec, loose);
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, topology, copy)
    );

    let kind = sim.graph();
    let first = sim.fill(kind, &[], words(data, 1, 1));
    let second = sim.fill(kind, &[first], words(data, 1, 1));
    let (status, info) = update(&sim, exec, kind);
    let changed = R::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, changed, second)
    );

    let params = sim.graph();
    let mut two = words(data, 1, 1);
    (two.height, two.pitch) = (2, 8);
    let first = sim.fill(params, &[], two);
    sim.copy(params, &[first], bytes(data + 8, data, 4));
    let (status, info) = update(&sim, exec, params);
    let changed = R::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, changed, first)
    );

    // None of these calls changed anything.
    unsafe { ok(sim.cuMemsetD32_v2(data, 0, 4)) };
    unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
    assert_eq!(sim.download::<u32>(data, 4), [6, 6, 0, 6]);
}

#[test]
fn an_upload_comes_after_the_launches_before() {
    for seed in 0..8 {
        let sim = test_device(late(seed));
        let host = sim.pinned(4).cast::<u32>();
        let data = sim.upload(&[7_u32]);
        let graph = sim.graph();
        let mut copy = bytes(0, data, 4);
        copy.dstMemoryType = cuda_sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = host.cast();
        sim.copy(graph, &[], copy);
        let exec = sim.instantiate(graph);
        let (one, two) = (sim.stream(1), sim.stream(1));
        unsafe {
            host.write(0);
            ok(sim.cuGraphLaunch(exec, one));
            ok(sim.cuGraphUpload(exec, two));
            ok(sim.cuStreamSynchronize(two));
            assert_eq!(host.read(), 7, "seed {seed}");
        }
    }
}

static DESTROYED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn destroyed(data: *mut c_void) {
    DESTROYED.fetch_add(data.addr() as u32, Ordering::SeqCst);
}

#[test]
fn user_objects_live_as_long_as_anything_uses_them() {
    let sim = test_device(late(1));
    let data = sim.upload(&[0_u32]);
    let graph = sim.graph();
    sim.fill(graph, &[], words(data, 1, 1));
    let (mut object, mut clone) = (ptr::null_mut(), ptr::null_mut());
    let mark = ptr::without_provenance_mut(7);
    let (exec, other);
    unsafe {
        let bad = sim.cuUserObjectCreate(&raw mut object, mark, Some(destroyed), 1, 0);
        assert_eq!(bad, INVALID, "the flag is required");
        ok(sim.cuUserObjectCreate(&raw mut object, mark, Some(destroyed), 2, 1));
        ok(sim.cuUserObjectRelease(object, 1));
        // The graph takes over the program's reference.
        ok(sim.cuGraphRetainUserObject(graph, object, 1, 1));
        assert_eq!(
            sim.cuUserObjectRelease(object, 1),
            INVALID,
            "the reference belongs to the graph"
        );
        ok(sim.cuGraphClone(&raw mut clone, graph));
        exec = sim.instantiate(graph);
        other = sim.instantiate(clone);
        ok(sim.cuGraphReleaseUserObject(graph, object, 1));
        ok(sim.cuGraphDestroy(graph));
        ok(sim.cuGraphDestroy(clone));
        ok(sim.cuGraphExecDestroy(other));
    }
    assert_eq!(sim.simulator.live().user_objects, 1);
    let stream = sim.stream(1);
    unsafe {
        ok(sim.cuGraphLaunch(exec, stream));
        ok(sim.cuGraphExecDestroy(exec));
    }
    let objects = || sim.simulator.live().user_objects;
    assert_eq!(objects(), 1, "the launch keeps the object alive");
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    comes_to(&DESTROYED, 7);
    assert_eq!(sim.simulator.live().user_objects, 0);
}

static HELD: Mutex<()> = Mutex::new(());
static RELEASED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn released(_: *mut c_void) {
    let _held = HELD.lock().unwrap();
    RELEASED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn destructor_may_lock_what_its_thread_has_locked() {
    let sim = test_device(Builder::new());
    let (graph, mut object) = (sim.graph(), ptr::null_mut());
    let nowhere = ptr::null_mut();
    unsafe {
        ok(sim.cuUserObjectCreate(&raw mut object, nowhere, Some(released), 1, 1));
        ok(sim.cuGraphRetainUserObject(graph, object, 1, 1));
        let held = HELD.lock().unwrap();
        ok(sim.cuGraphDestroy(graph));
        assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
        drop(held);
    }
    comes_to(&RELEASED, 1);
}

#[test]
fn graph_copy_of_freed_host_memory_is_a_fault() {
    type Allocate = fn(&TestDevice) -> u64;
    type Free = fn(&TestDevice, u64) -> CUresult;
    let pinned = |sim: &TestDevice| sim.pinned(64).expose_provenance() as u64;
    let managed = |sim: &TestDevice| {
        let mut address = 0;
        unsafe { ok(sim.cuMemAllocManaged(&raw mut address, 64, 1)) };
        address
    };
    let free_pinned: Free =
        |sim, at| unsafe { sim.cuMemFreeHost(ptr::with_exposed_provenance_mut(at as usize)) };
    let free_managed: Free = |sim, at| unsafe { sim.cuMemFree_v2(at) };
    let kinds: [(Allocate, Free); 2] = [(pinned, free_pinned), (managed, free_managed)];
    for (allocate, free) in kinds {
        for to_host in [false, true] {
            let sim = test_device(Builder::new());
            let (data, host) = (sim.upload(&[1_u32; 16]), allocate(&sim));
            let graph = sim.graph();
            let (to, from) = if to_host { (host, data) } else { (data, host) };
            sim.copy(graph, &[], bytes(to, from, 64));
            let exec = sim.instantiate(graph);
            ok(free(&sim, host));
            unsafe { ok(sim.cuGraphLaunch(exec, sim.stream(1))) };
            assert_eq!(sim.sync(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        }
    }
}

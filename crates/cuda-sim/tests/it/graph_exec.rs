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
use crate::support::{Bench, TROUBLE, bench, late, ok};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn launches_of_one_executable_do_not_overlap() {
    for seed in 0..16 {
        let bench = bench(late(seed));
        let increment = bench.function(bench.load(TROUBLE), "increment");
        let data = bench.upload(&[0_u32; 2]);
        let graph = bench.graph();
        // Two steps that give the right number only if nothing runs between them.
        let copy = bench.copy(graph, &[], bytes(data + 4, data, 4));
        let kernel = bench.kernel(graph, &[copy], increment, &mut [data + 4]);
        bench.copy(graph, &[kernel], bytes(data, data + 4, 4));
        let exec = bench.instantiate(graph);
        for _ in 0..4 {
            unsafe { ok(bench.cuGraphLaunch(exec, bench.stream(1))) };
        }
        // The graph and the executable may be destroyed while they run.
        unsafe {
            ok(bench.cuGraphDestroy(graph));
            ok(bench.cuGraphExecDestroy(exec));
        }
        ok(bench.sync());
        assert_eq!(bench.download::<u32>(data, 2), [4, 4], "seed {seed}");
    }
}

#[test]
fn a_launch_is_ordered_in_its_stream() {
    for seed in 0..16 {
        let bench = bench(late(seed));
        let data = bench.upload(&[0_u32; 4]);
        let graph = bench.graph();
        bench.copy(graph, &[], bytes(data + 4, data, 4));
        bench.copy(graph, &[], bytes(data + 8, data, 4));
        let exec = bench.instantiate(graph);
        let stream = bench.stream(1);
        unsafe {
            ok(bench.cuMemsetD32Async(data, 5, 1, stream));
            ok(bench.cuGraphLaunch(exec, stream));
            ok(bench.cuMemcpyDtoDAsync_v2(data + 12, data + 8, 4, stream));
            ok(bench.cuStreamSynchronize(stream));
        }
        assert_eq!(bench.download::<u32>(data, 4), [5; 4], "seed {seed}");
    }
}

#[test]
fn unordered_nodes_run_in_any_order() {
    let last = |seed| {
        let bench = bench(late(seed));
        let data = bench.upload(&[0_u32]);
        let graph = bench.graph();
        for value in 1..4 {
            bench.fill(graph, &[], words(data, value, 1));
        }
        bench.run_graph(graph);
        bench.download::<u32>(data, 1)[0]
    };
    let seen: std::collections::BTreeSet<u32> = (0..48).map(last).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_fault_in_a_graph_loses_the_device() {
    let bench = bench(Builder::new());
    let trapped = bench.function(bench.load(TROUBLE), "trapped");
    let graph = bench.graph();
    let node = bench.kernel(graph, &[], trapped, &mut []);
    bench.empty(graph, &[node]);
    let exec = bench.instantiate(graph);
    let stream = bench.stream(1);
    unsafe {
        ok(bench.cuGraphLaunch(exec, stream));
        let failed = CUresult::CUDA_ERROR_LAUNCH_FAILED;
        assert_eq!(bench.cuStreamSynchronize(stream), failed);
        assert_eq!(bench.cuGraphLaunch(exec, stream), failed);
        ok(bench.cuGraphExecDestroy(exec));
        ok(bench.cuGraphDestroy(graph));
    }
}

#[test]
fn nodes_of_an_executable_change_and_rest() {
    let bench = bench(Builder::new());
    let affine = bench.function(bench.load(WORDS), "affine");
    let data = bench.upload(&[1_u32; 4]);
    let graph = bench.graph();
    let fill = bench.fill(graph, &[], words(data, 5, 1));
    let kernel = bench.kernel(graph, &[fill], affine, &mut [data, 3, 4]);
    let copy = bench.copy(graph, &[kernel], bytes(data + 4, data, 4));
    let exec = bench.instantiate(graph);
    let run = || unsafe {
        ok(bench.cuGraphLaunch(exec, ptr::null_mut()));
        ok(bench.sync());
        bench.download::<u32>(data, 4)
    };
    assert_eq!(run(), [19, 19, 1, 1]);
    unsafe {
        let new = words(data, 6, 1);
        let fail = words(data, 6, 0);
        let set = |params| bench.cuGraphExecMemsetNodeSetParams(exec, fill, params, bench.context);
        ok(set(&raw const new));
        assert_eq!(set(&raw const fail), INVALID);
        let elsewhere = bytes(data + 8, data, 4);
        ok(bench.cuGraphExecMemcpyNodeSetParams(exec, copy, &raw const elsewhere, bench.context));
        let mut params: CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        ok(bench.cuGraphKernelNodeGetParams_v2(kernel, &raw mut params));
        let (mut addr, mut factor, mut term) = (data, 10_u32, 1_u32);
        let mut values: [*mut c_void; 3] = [
            (&raw mut addr).cast(),
            (&raw mut factor).cast(),
            (&raw mut term).cast(),
        ];
        params.kernelParams = values.as_mut_ptr();
        ok(bench.cuGraphExecKernelNodeSetParams_v2(exec, kernel, &raw const params));
        let wrong = bench.cuGraphExecKernelNodeSetParams_v2(exec, fill, &raw const params);
        assert_eq!(wrong, INVALID);
    }
    assert_eq!(run(), [61, 19, 61, 1]);
    let mut enabled = 9;
    unsafe {
        ok(bench.cuGraphNodeSetEnabled(exec, kernel, 0));
        ok(bench.cuGraphNodeGetEnabled(exec, kernel, &raw mut enabled));
        assert_eq!(enabled, 0);
    }
    assert_eq!(run(), [6, 19, 6, 1]);
    unsafe {
        ok(bench.cuGraphNodeSetEnabled(exec, kernel, 1));
        let stranger = bench.fill(bench.graph(), &[], words(data, 1, 1));
        assert_eq!(bench.cuGraphNodeSetEnabled(exec, stranger, 1), INVALID);
        let empty = bench.empty(graph, &[]);
        assert_eq!(bench.cuGraphNodeSetEnabled(exec, empty, 1), INVALID);
    }
    assert_eq!(run(), [61, 19, 61, 1]);
    // The graph itself was not changed.
    bench.run_graph(graph);
    assert_eq!(bench.download::<u32>(data, 4), [19, 19, 61, 1]);
}

#[test]
fn a_node_of_an_executable_stays_with_its_device() {
    let bench = bench(Builder::new().devices(2));
    let here = bench.upload(&[1_u32; 4]);
    let there = unsafe {
        let (mut second, mut there) = (ptr::null_mut(), 0);
        ok(bench.cuDevicePrimaryCtxRetain(&raw mut second, 1));
        ok(bench.cuCtxPushCurrent_v2(second));
        ok(bench.cuMemAlloc_v2(&raw mut there, 16));
        ok(bench.cuCtxPopCurrent_v2(&raw mut second));
        there
    };
    let graph = bench.graph();
    let fill = bench.fill(graph, &[], words(here, 5, 1));
    let copy = bench.copy(graph, &[fill], bytes(here + 4, here, 4));
    let exec = bench.instantiate(graph);
    for (to, is_taken) in [(here + 8, true), (there, false)] {
        let (filled, copied) = (words(to, 6, 1), bytes(to + 4, here, 4));
        let answers = unsafe {
            [
                bench.cuGraphExecMemsetNodeSetParams(exec, fill, &raw const filled, bench.context),
                bench.cuGraphExecMemcpyNodeSetParams(exec, copy, &raw const copied, bench.context),
            ]
        };
        let expected = if is_taken {
            CUresult::CUDA_SUCCESS
        } else {
            INVALID
        };
        assert_eq!(answers, [expected; 2]);
    }
}

fn update(
    bench: &Bench,
    exec: CUgraphExec,
    graph: CUgraph,
) -> (CUresult, CUgraphExecUpdateResultInfo) {
    let mut info: CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    let status = unsafe { bench.cuGraphExecUpdate_v2(exec, graph, &raw mut info) };
    (status, info)
}

#[test]
fn a_whole_graph_updates_or_says_why_not() {
    type R = CUgraphExecUpdateResult;
    const FAILURE: CUresult = CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    let bench = bench(Builder::new());
    let data = bench.upload(&[1_u32; 4]);
    let make = |value, to| {
        let graph = bench.graph();
        let fill = bench.fill(graph, &[], words(data, value, 2));
        let copy = bench.copy(graph, &[fill], bytes(data + to, data, 4));
        (graph, fill, copy)
    };
    let exec = bench.instantiate(make(5, 8).0);
    let (good, ..) = make(6, 12);
    let (status, info) = update(&bench, exec, good);
    assert_eq!(
        (status, info.result),
        (CUresult::CUDA_SUCCESS, R::CU_GRAPH_EXEC_UPDATE_SUCCESS)
    );
    unsafe { ok(bench.cuGraphLaunch(exec, ptr::null_mut())) };
    assert_eq!(bench.download::<u32>(data, 4), [6, 6, 1, 6]);

    let (more, _, copy) = make(7, 8);
    bench.empty(more, &[copy]);
    let (status, info) = update(&bench, exec, more);
    let topology = R::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, topology, ptr::null_mut())
    );

    let (loose, fill, copy) = make(7, 8);
    unsafe { ok(bench.cuGraphRemoveDependencies(loose, &raw const fill, &raw const copy, 1)) };
    let (status, info) = update(&bench, exec, loose);
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, topology, copy)
    );

    let kind = bench.graph();
    let first = bench.fill(kind, &[], words(data, 1, 1));
    let second = bench.fill(kind, &[first], words(data, 1, 1));
    let (status, info) = update(&bench, exec, kind);
    let changed = R::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, changed, second)
    );

    let params = bench.graph();
    let mut two = words(data, 1, 1);
    (two.height, two.pitch) = (2, 8);
    let first = bench.fill(params, &[], two);
    bench.copy(params, &[first], bytes(data + 8, data, 4));
    let (status, info) = update(&bench, exec, params);
    let changed = R::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    assert_eq!(
        (status, info.result, info.errorNode),
        (FAILURE, changed, first)
    );

    // None of these calls changed anything.
    unsafe { ok(bench.cuMemsetD32_v2(data, 0, 4)) };
    unsafe { ok(bench.cuGraphLaunch(exec, ptr::null_mut())) };
    assert_eq!(bench.download::<u32>(data, 4), [6, 6, 0, 6]);
}

#[test]
fn an_upload_comes_after_the_launches_before() {
    for seed in 0..8 {
        let bench = bench(late(seed));
        let host = bench.pinned(4).cast::<u32>();
        let data = bench.upload(&[7_u32]);
        let graph = bench.graph();
        let mut copy = bytes(0, data, 4);
        copy.dstMemoryType = cuda_sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = host.cast();
        bench.copy(graph, &[], copy);
        let exec = bench.instantiate(graph);
        let (one, two) = (bench.stream(1), bench.stream(1));
        unsafe {
            host.write(0);
            ok(bench.cuGraphLaunch(exec, one));
            ok(bench.cuGraphUpload(exec, two));
            ok(bench.cuStreamSynchronize(two));
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
    let bench = bench(late(1));
    let data = bench.upload(&[0_u32]);
    let graph = bench.graph();
    bench.fill(graph, &[], words(data, 1, 1));
    let (mut object, mut clone) = (ptr::null_mut(), ptr::null_mut());
    let mark = ptr::without_provenance_mut(7);
    let (exec, other);
    unsafe {
        let bad = bench.cuUserObjectCreate(&raw mut object, mark, Some(destroyed), 1, 0);
        assert_eq!(bad, INVALID, "the flag is required");
        ok(bench.cuUserObjectCreate(&raw mut object, mark, Some(destroyed), 2, 1));
        ok(bench.cuUserObjectRelease(object, 1));
        // The graph takes over the program's reference.
        ok(bench.cuGraphRetainUserObject(graph, object, 1, 1));
        assert_eq!(
            bench.cuUserObjectRelease(object, 1),
            INVALID,
            "the reference belongs to the graph"
        );
        ok(bench.cuGraphClone(&raw mut clone, graph));
        exec = bench.instantiate(graph);
        other = bench.instantiate(clone);
        ok(bench.cuGraphReleaseUserObject(graph, object, 1));
        ok(bench.cuGraphDestroy(graph));
        ok(bench.cuGraphDestroy(clone));
        ok(bench.cuGraphExecDestroy(other));
    }
    assert_eq!(bench.simulator.live().user_objects, 1);
    let stream = bench.stream(1);
    unsafe {
        ok(bench.cuGraphLaunch(exec, stream));
        ok(bench.cuGraphExecDestroy(exec));
    }
    let objects = || bench.simulator.live().user_objects;
    assert_eq!(objects(), 1, "the launch keeps the object alive");
    unsafe { ok(bench.cuStreamSynchronize(stream)) };
    comes_to(&DESTROYED, 7);
    assert_eq!(bench.simulator.live().user_objects, 0);
}

static HELD: Mutex<()> = Mutex::new(());
static RELEASED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn released(_: *mut c_void) {
    let _held = HELD.lock().unwrap();
    RELEASED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_destructor_may_wait_for_what_its_thread_holds() {
    let bench = bench(Builder::new());
    let (graph, mut object) = (bench.graph(), ptr::null_mut());
    let nowhere = ptr::null_mut();
    unsafe {
        ok(bench.cuUserObjectCreate(&raw mut object, nowhere, Some(released), 1, 1));
        ok(bench.cuGraphRetainUserObject(graph, object, 1, 1));
        let held = HELD.lock().unwrap();
        ok(bench.cuGraphDestroy(graph));
        assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
        drop(held);
    }
    comes_to(&RELEASED, 1);
}

#[test]
fn graph_copy_of_freed_host_memory_is_a_fault() {
    type Allocate = fn(&Bench) -> u64;
    type Free = fn(&Bench, u64) -> CUresult;
    let pinned = |bench: &Bench| bench.pinned(64).expose_provenance() as u64;
    let managed = |bench: &Bench| {
        let mut address = 0;
        unsafe { ok(bench.cuMemAllocManaged(&raw mut address, 64, 1)) };
        address
    };
    let free_pinned: Free =
        |bench, at| unsafe { bench.cuMemFreeHost(ptr::with_exposed_provenance_mut(at as usize)) };
    let free_managed: Free = |bench, at| unsafe { bench.cuMemFree_v2(at) };
    let kinds: [(Allocate, Free); 2] = [(pinned, free_pinned), (managed, free_managed)];
    for (allocate, free) in kinds {
        for to_host in [false, true] {
            let bench = bench(Builder::new());
            let (data, host) = (bench.upload(&[1_u32; 16]), allocate(&bench));
            let graph = bench.graph();
            let (to, from) = if to_host { (host, data) } else { (data, host) };
            bench.copy(graph, &[], bytes(to, from, 64));
            let exec = bench.instantiate(graph);
            ok(free(&bench, host));
            unsafe { ok(bench.cuGraphLaunch(exec, bench.stream(1))) };
            assert_eq!(bench.sync(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        }
    }
}

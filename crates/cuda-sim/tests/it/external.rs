//! Memory and semaphores of another API, which is a thread that reads and writes files here.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, process, ptr};

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUdeviceptr, CUexternalMemory, CUexternalMemoryHandleType,
    CUexternalSemaphore, CUexternalSemaphoreHandleType, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType, CUmemRangeHandleType,
};

use crate::graph_support::words as fill_words;
use crate::support::{TestDevice, late, ok, test_device};

pub(crate) const BAD: R = R::CUDA_ERROR_INVALID_VALUE;
pub(crate) const N: usize = 1000;
pub(crate) const PAGE: u64 = 4096;

type MemoryType = CUexternalMemoryHandleType;
type SemaphoreType = CUexternalSemaphoreHandleType;
const BINARY: SemaphoreType = SemaphoreType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
const TIMELINE: SemaphoreType =
    SemaphoreType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;

/// A new file of the other API.
pub(crate) fn file(bytes: u64) -> File {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("cuda-sim-external-{}-{number}", process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.unwrap();
    fs::remove_file(path).unwrap();
    file.set_len(bytes).unwrap();
    file
}

fn memory_desc(file: &File, size: u64) -> CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
    let mut desc: CUDA_EXTERNAL_MEMORY_HANDLE_DESC = unsafe { std::mem::zeroed() };
    desc.type_ = MemoryType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    desc.handle.fd = file.try_clone().unwrap().into_raw_fd();
    desc.size = size;
    desc
}

pub(crate) fn memory(sim: &TestDevice, file: &File, size: u64) -> CUexternalMemory {
    let mut memory = ptr::null_mut();
    unsafe { ok(sim.cuImportExternalMemory(&raw mut memory, &memory_desc(file, size))) };
    memory
}

fn map(
    sim: &TestDevice,
    memory: CUexternalMemory,
    offset: u64,
    size: u64,
) -> Result<CUdeviceptr, R> {
    let mut desc: CUDA_EXTERNAL_MEMORY_BUFFER_DESC = unsafe { std::mem::zeroed() };
    (desc.offset, desc.size) = (offset, size);
    let mut addr = 0;
    let status = unsafe { sim.cuExternalMemoryGetMappedBuffer(&raw mut addr, memory, &desc) };
    if status == R::CUDA_SUCCESS {
        Ok(addr)
    } else {
        Err(status)
    }
}

/// Imports a semaphore, and returns it with its file.
fn semaphore(sim: &TestDevice, kind: SemaphoreType) -> (CUexternalSemaphore, File) {
    let file = file(PAGE);
    let mut desc: CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC = unsafe { std::mem::zeroed() };
    desc.type_ = kind;
    desc.handle.fd = file.try_clone().unwrap().into_raw_fd();
    let mut semaphore = ptr::null_mut();
    unsafe { ok(sim.cuImportExternalSemaphore(&raw mut semaphore, &desc)) };
    (semaphore, file)
}

fn signal_params(value: u64) -> CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
    let mut params: CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = unsafe { std::mem::zeroed() };
    params.params.fence.value = value;
    params
}

fn wait_params(value: u64) -> CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
    let mut params: CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = unsafe { std::mem::zeroed() };
    params.params.fence.value = value;
    params
}

/// Returns the value of a semaphore in the other API.
fn value(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_le_bytes(bytes)
}

fn set_value(file: &File, value: u64) {
    file.write_all_at(&value.to_le_bytes(), 0).unwrap();
}

/// Waits in the other API until a semaphore has a value.
fn reaches(file: &File, wanted: u64) {
    let start = Instant::now();
    while value(file) != wanted {
        assert!(start.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn words(file: &File, offset: u64) -> Vec<u32> {
    let mut bytes = vec![0; 4 * N];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

fn write_words(file: &File, offset: u64, value: u32) {
    let bytes: Vec<u8> = (0..N).flat_map(|_| value.to_le_bytes()).collect();
    file.write_all_at(&bytes, offset).unwrap();
}

#[test]
fn external_memory_is_mapped_as_a_buffer() {
    let sim = test_device(Builder::new());
    let file = file(4 * PAGE);
    write_words(&file, PAGE + 8, 7);
    let memory = memory(&sim, &file, 3 * PAGE);
    let bytes = 4 * N as u64;
    let addr = map(&sim, memory, PAGE + 8, bytes).unwrap();
    assert_eq!(sim.download::<u32>(addr, N), [7; N]);
    unsafe { ok(sim.cuMemsetD32_v2(addr, 9, N)) };
    ok(sim.sync());
    assert_eq!(words(&file, PAGE + 8), [9; N]);
    unsafe { assert_eq!(sim.cuMemsetD32_v2(addr, 9, N + 1), BAD, "past its end") };
    for (offset, size) in [(0, 0), (0, 3 * PAGE + 1), (3 * PAGE, 1), (u64::MAX, 2)] {
        assert_eq!(map(&sim, memory, offset, size), Err(BAD));
    }
    // The buffer outlives the object.
    unsafe {
        ok(sim.cuDestroyExternalMemory(memory));
        let again = sim.cuDestroyExternalMemory(memory);
        assert_eq!(again, R::CUDA_ERROR_INVALID_HANDLE);
    }
    assert_eq!(map(&sim, memory, 0, 8), Err(R::CUDA_ERROR_INVALID_HANDLE));
    assert_eq!(sim.download::<u32>(addr, N), [9; N]);
    unsafe {
        ok(sim.cuMemFree_v2(addr));
        assert_eq!(sim.cuMemsetD32_v2(addr, 9, N), BAD);
    }
    let live = sim.simulator.live();
    assert_eq!((live.external_memory, live.allocations), (0, 0), "{live}");
}

#[test]
fn other_handles_are_refused() {
    let sim = test_device(Builder::new());
    let file = file(PAGE);
    let mut memory = ptr::null_mut();
    let mut import = |desc: &CUDA_EXTERNAL_MEMORY_HANDLE_DESC| unsafe {
        sim.cuImportExternalMemory(&raw mut memory, desc)
    };
    let mut desc = memory_desc(&file, PAGE);
    for kind in 2..=8 {
        desc.type_ = CUexternalMemoryHandleType(kind);
        assert_eq!(import(&desc), R::CUDA_ERROR_NOT_SUPPORTED);
    }
    desc.type_ = CUexternalMemoryHandleType(99);
    assert_eq!(import(&desc), BAD);
    desc.type_ = MemoryType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    desc.flags = 2;
    assert_eq!(import(&desc), BAD, "flags");
    (desc.flags, desc.size) = (1, PAGE + 1);
    assert_eq!(import(&desc), BAD, "the file is smaller");
    desc.size = PAGE;
    ok(import(&desc));
    let mut desc: CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC = unsafe { std::mem::zeroed() };
    let mut semaphore = ptr::null_mut();
    for kind in [2, 3, 4, 5, 6, 7, 8, 10] {
        desc.type_ = CUexternalSemaphoreHandleType(kind);
        let status = unsafe { sim.cuImportExternalSemaphore(&raw mut semaphore, &desc) };
        assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
    }
    desc.type_ = CUexternalSemaphoreHandleType(99);
    let status = unsafe { sim.cuImportExternalSemaphore(&raw mut semaphore, &desc) };
    assert_eq!(status, BAD);
    let mut array = ptr::null_mut();
    let status =
        unsafe { sim.cuExternalMemoryGetMappedMipmappedArray(&raw mut array, memory, ptr::null()) };
    assert_eq!(status, BAD, "no description");
}

#[test]
fn dma_buf_covers_a_range_of_device_memory() {
    let sim = test_device(Builder::new());
    let (mut start, mut pinned) = (0, ptr::null_mut());
    unsafe {
        ok(sim.cuMemAlloc_v2(&raw mut start, 5 * PAGE as usize));
        ok(sim.cuMemHostAlloc(&raw mut pinned, 2 * PAGE as usize, 0));
        ok(sim.cuMemsetD32_v2(start, 1, 5 * 1024));
    }
    let whole = start.next_multiple_of(PAGE);
    let first = whole + PAGE;
    let export = |addr: u64, size: u64, kind: u32, flags: u64| {
        let mut fd = -1_i32;
        let place = (&raw mut fd).cast();
        let kind = CUmemRangeHandleType(kind);
        let status =
            unsafe { sim.cuMemGetHandleForAddressRange(place, addr, size as usize, kind, flags) };
        if status == R::CUDA_SUCCESS {
            Ok(fd)
        } else {
            Err(status)
        }
    };
    const DMA_BUF: u32 = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD.0;
    for (addr, size, kind, flags) in [
        (first, PAGE, 99, 0),
        (first + 4, PAGE, DMA_BUF, 0),
        (first, PAGE + 4, DMA_BUF, 0),
        (first, 0, DMA_BUF, 0),
        (first, PAGE, DMA_BUF, 2),
        (whole, 6 * PAGE, DMA_BUF, 0),
        (u64::MAX - PAGE + 1, PAGE, DMA_BUF, 0),
        ((pinned as u64).next_multiple_of(PAGE), PAGE, DMA_BUF, 0),
    ] {
        assert_eq!(
            export(addr, size, kind, flags),
            Err(BAD),
            "{addr:#x} {size} {kind} {flags}"
        );
    }
    let over_pcie = export(first, PAGE, DMA_BUF, 1);
    assert_eq!(over_pcie, Err(R::CUDA_ERROR_NOT_SUPPORTED));

    let mut desc: CUDA_EXTERNAL_MEMORY_HANDLE_DESC = unsafe { std::mem::zeroed() };
    desc.type_ = MemoryType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD;
    desc.handle.fd = export(first, 2 * PAGE, DMA_BUF, 0).unwrap();
    desc.size = 2 * PAGE;
    let mut memory = ptr::null_mut();
    unsafe { ok(sim.cuImportExternalMemory(&raw mut memory, &desc)) };
    let addr = map(&sim, memory, PAGE, PAGE).unwrap();
    unsafe { ok(sim.cuMemsetD32_v2(addr, 9, 1024)) };
    let got = sim.download::<u32>(first, 2048);
    assert_eq!(got, [[1; 1024], [9; 1024]].concat());
    let status = unsafe { sim.cuMemFree_v2(addr) };
    ok(status);
}

/// The stream writes the memory, the other API reads and overwrites it, and the stream reads it.
#[test]
fn semaphores_order_two_apis() {
    for (builder, kind) in [
        (Builder::new(), TIMELINE),
        (Builder::new(), BINARY),
        (late(3), TIMELINE),
        (late(4), BINARY),
    ] {
        let sim = test_device(builder);
        let file = file(2 * PAGE);
        let memory = memory(&sim, &file, 2 * PAGE);
        let addr = map(&sim, memory, 0, 4 * N as u64).unwrap();
        let [(written, written_file), (answered, answered_file)] =
            [(); 2].map(|()| semaphore(&sim, kind));
        let is_timeline = kind == TIMELINE;
        let stream = sim.stream(1);
        let (signal, wait) = (signal_params(5), wait_params(6));
        unsafe {
            ok(sim.cuMemsetD32Async(addr, 21, N, stream));
            ok(sim.cuSignalExternalSemaphoresAsync(&written, &signal, 1, stream));
            ok(sim.cuWaitExternalSemaphoresAsync(&answered, &wait, 1, stream));
        }
        let other = thread::spawn(move || {
            reaches(&written_file, if is_timeline { 5 } else { 1 });
            assert_eq!(words(&file, 0), [21; N]);
            write_words(&file, 0, 34);
            set_value(&answered_file, if is_timeline { 7 } else { 1 });
            answered_file
        });
        let mut got = vec![0_u32; N];
        unsafe {
            let to = got.as_mut_ptr().cast();
            ok(sim.cuMemcpyDtoHAsync_v2(to, addr, 4 * N, stream));
            ok(sim.cuStreamSynchronize(stream));
        }
        assert_eq!(got, [34; N]);
        let answered_file = other.join().unwrap();
        let left = value(&answered_file);
        assert_eq!(left, if is_timeline { 7 } else { 0 }, "a wait resets it");
        unsafe {
            ok(sim.cuDestroyExternalSemaphore(written));
            ok(sim.cuDestroyExternalSemaphore(answered));
            let gone = sim.cuSignalExternalSemaphoresAsync(&written, &signal, 1, stream);
            assert_eq!(gone, R::CUDA_ERROR_INVALID_HANDLE);
        }
        assert_eq!(sim.simulator.live().external_semaphores, 0);
    }
}

#[test]
fn wait_ends_when_the_other_api_signals() {
    let sim = test_device(Builder::new());
    let (semaphore, file) = semaphore(&sim, TIMELINE);
    let stream = sim.stream(1);
    let wait = wait_params(3);
    unsafe {
        ok(sim.cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream));
        let pending = R::CUDA_ERROR_NOT_READY;
        assert_eq!(sim.cuStreamQuery(stream), pending);
        set_value(&file, 2);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(sim.cuStreamQuery(stream), pending);
        set_value(&file, 3);
        ok(sim.cuStreamSynchronize(stream));
        let mut wrong = wait;
        wrong.flags = 1;
        let status = sim.cuWaitExternalSemaphoresAsync(&semaphore, &wrong, 1, stream);
        assert_eq!(status, BAD, "flags");
        let status = sim.cuWaitExternalSemaphoresAsync(&semaphore, &wait, 0, stream);
        assert_eq!(status, BAD, "none");
    }
}

#[test]
fn graph_nodes_signal_and_wait() {
    for builder in [Builder::new(), late(8)] {
        let sim = test_device(builder);
        let (mut question, question_file) = semaphore(&sim, TIMELINE);
        let (mut answer, answer_file) = semaphore(&sim, TIMELINE);
        let (signal, wait) = (signal_params(1), wait_params(1));
        let signal_node = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
            extSemArray: &raw mut question,
            paramsArray: &raw const signal,
            numExtSems: 1,
        };
        let wait_node = CUDA_EXT_SEM_WAIT_NODE_PARAMS {
            extSemArray: &raw mut answer,
            paramsArray: &raw const wait,
            numExtSems: 1,
        };
        let graph = sim.graph();
        let word = sim.upload(&[0_u32]);
        let [mut asks, mut waits] = [ptr::null_mut(); 2];
        unsafe {
            let no_nodes = ptr::null();
            ok(sim.cuGraphAddExternalSemaphoresSignalNode(
                &raw mut asks,
                graph,
                no_nodes,
                0,
                &signal_node,
            ));
            ok(sim.cuGraphAddExternalSemaphoresWaitNode(
                &raw mut waits,
                graph,
                &asks,
                1,
                &wait_node,
            ));
        }
        sim.fill(graph, &[waits], fill_words(word, 1, 1));
        type T = CUgraphNodeType;
        let kinds = [
            T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
            T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
            T::CU_GRAPH_NODE_TYPE_MEMSET,
        ];
        assert_eq!(sim.sorts(graph), kinds);
        let exec = sim.instantiate(graph);
        let run = |number: u64| {
            unsafe { ok(sim.cuGraphLaunch(exec, ptr::null_mut())) };
            reaches(&question_file, number);
            set_value(&answer_file, number);
            ok(sim.sync());
            assert_eq!(sim.download::<u32>(word, 1), [1]);
        };
        run(1);
        let (signal, wait) = (signal_params(2), wait_params(2));
        let next_signal = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
            paramsArray: &raw const signal,
            ..signal_node
        };
        let next_wait = CUDA_EXT_SEM_WAIT_NODE_PARAMS {
            paramsArray: &raw const wait,
            ..wait_node
        };
        unsafe {
            ok(sim.cuGraphExecExternalSemaphoresSignalNodeSetParams(exec, asks, &next_signal));
            ok(sim.cuGraphExecExternalSemaphoresWaitNodeSetParams(exec, waits, &next_wait));
        }
        run(2);
        unsafe {
            ok(sim.cuGraphExternalSemaphoresSignalNodeSetParams(asks, &next_signal));
            ok(sim.cuGraphExternalSemaphoresWaitNodeSetParams(waits, &next_wait));
            let status = sim.cuGraphExternalSemaphoresSignalNodeSetParams(waits, &next_signal);
            assert_eq!(status, BAD, "another kind");
            let mut got: CUDA_EXT_SEM_SIGNAL_NODE_PARAMS = std::mem::zeroed();
            ok(sim.cuGraphExternalSemaphoresSignalNodeGetParams(asks, &raw mut got));
            assert_eq!((*got.extSemArray, got.numExtSems), (question, 1));
            assert_eq!((*got.paramsArray).params.fence.value, 2);
            let mut got: CUDA_EXT_SEM_WAIT_NODE_PARAMS = std::mem::zeroed();
            ok(sim.cuGraphExternalSemaphoresWaitNodeGetParams(waits, &raw mut got));
            assert_eq!((*got.extSemArray, got.numExtSems), (answer, 1));
            assert_eq!((*got.paramsArray).params.fence.value, 2);
        }
        copy_nodes(&sim, &[asks, waits]);
    }
}

/// The parameters that a node has make the same node of another graph.
fn copy_nodes(sim: &TestDevice, nodes: &[CUgraphNode]) {
    let graph = sim.graph();
    for &node in nodes {
        let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
        let mut copy = ptr::null_mut();
        unsafe {
            ok(sim.cuGraphNodeGetParams(node, &raw mut params));
            let status = sim.cuGraphAddNode_v2(
                &raw mut copy,
                graph,
                ptr::null(),
                ptr::null(),
                0,
                &raw mut params,
            );
            ok(status);
        }
    }
    assert_eq!(sim.nodes(graph).len(), nodes.len());
}

#[test]
fn captured_signals_and_waits_are_nodes() {
    let sim = test_device(Builder::new());
    let (semaphore, _file) = semaphore(&sim, TIMELINE);
    let stream = sim.stream(1);
    let (signal, wait) = (signal_params(1), wait_params(1));
    sim.begin(stream);
    unsafe {
        ok(sim.cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream));
        ok(sim.cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, stream));
    }
    let graph = sim.end(stream).unwrap();
    type T = CUgraphNodeType;
    let kinds = [
        T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
        T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
    ];
    assert_eq!(sim.sorts(graph), kinds);
}

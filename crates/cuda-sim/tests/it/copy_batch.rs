//! Batches of copies, by raw calls.

use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_MEMCPY3D_BATCH_OP, CUarray_format, CUdeviceptr, CUextent3D,
    CUmemcpy3DOperand, CUmemcpy3DOperandType, CUmemcpyAttributes, CUmemcpySrcAccessOrder, CUstream,
    CUstreamCaptureMode,
};

use crate::support::{OK, TestDevice, late, ok, test_device};

type Order = CUmemcpySrcAccessOrder;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Queues a batch through both revisions, and returns the statuses and the index that failed.
fn batch(
    sim: &TestDevice,
    copies: &[(CUdeviceptr, CUdeviceptr, usize)],
    runs: &[(usize, Order)],
    stream: CUstream,
) -> (CUresult, usize, CUresult) {
    let mut to: Vec<_> = copies.iter().map(|it| it.0).collect();
    let mut from: Vec<_> = copies.iter().map(|it| it.1).collect();
    let mut sizes: Vec<_> = copies.iter().map(|it| it.2).collect();
    let mut starts: Vec<_> = runs.iter().map(|it| it.0).collect();
    let attributes = runs.iter().map(|it| {
        // SAFETY: all fields are numbers.
        let mut attributes: CUmemcpyAttributes = unsafe { std::mem::zeroed() };
        attributes.srcAccessOrder = it.1;
        attributes
    });
    let mut attributes: Vec<_> = attributes.collect();
    let mut failed = 77;
    let first = unsafe {
        sim.cuMemcpyBatchAsync(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            sizes.as_mut_ptr(),
            copies.len(),
            attributes.as_mut_ptr(),
            starts.as_mut_ptr(),
            runs.len(),
            &raw mut failed,
            stream,
        )
    };
    let second = unsafe {
        sim.cuMemcpyBatchAsync_v2(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            sizes.as_mut_ptr(),
            copies.len(),
            attributes.as_mut_ptr(),
            starts.as_mut_ptr(),
            runs.len(),
            stream,
        )
    };
    (first, failed, second)
}

const STREAM: &[(usize, Order)] = &[(0, Order::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)];

#[test]
fn a_batch_copies_between_host_and_device() {
    for sim in [test_device(Builder::new()), test_device(late(1))] {
        let stream = sim.stream(1);
        let one = sim.upload(&[1_u32, 2, 3, 4]);
        let two = sim.upload(&[0_u32; 4]);
        let pinned = sim.pinned(16);
        let host = pinned.addr() as u64;
        let copies = [(two, one + 8, 8), (two + 8, one, 8), (host, one, 16)];
        assert_eq!(batch(&sim, &copies, STREAM, stream), (OK, usize::MAX, OK));
        unsafe { ok(sim.cuStreamSynchronize(stream)) };
        assert_eq!(sim.download::<u32>(two, 4), [3, 4, 1, 2]);
        let words: [u32; 4] = unsafe { pinned.cast::<[u32; 4]>().read_unaligned() };
        assert_eq!(words, [1, 2, 3, 4]);
    }
}

#[test]
fn the_copies_of_a_batch_have_no_order() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..16 {
        let sim = test_device(late(seed));
        let stream = sim.stream(1);
        let words = sim.upload(&[1_u32, 2, 3, 0]);
        // All of them write the last word.
        let copies = [0, 4, 8].map(|at| (words + 12, words + at, 4));
        assert_eq!(batch(&sim, &copies, STREAM, stream).0, OK);
        unsafe { ok(sim.cuStreamSynchronize(stream)) };
        seen.insert(sim.download::<u32>(words + 12, 1)[0]);
    }
    assert_eq!(seen, [1, 2, 3].into());
}

#[test]
fn a_source_that_is_accessed_during_the_call_may_change_later() {
    let sim = test_device(late(2));
    let stream = sim.stream(1);
    let target = sim.upload(&[0_u32; 2]);
    let mut source = [5_u32, 6];
    let from = source.as_mut_ptr().expose_provenance() as u64;
    let runs = [
        (0, Order::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL),
        (1, Order::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
    ];
    let copies = [(target, from, 4), (target + 4, from + 4, 4)];
    assert_eq!(batch(&sim, &copies, &runs, stream).0, OK);
    unsafe { source.as_mut_ptr().write(50) };
    unsafe { source.as_mut_ptr().wrapping_add(1).write(60) };
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    let words = sim.download::<u32>(target, 2);
    assert!(words[0] == 5 || words[0] == 50, "{words:?}");
    assert_eq!(words[1], 60);
}

#[test]
fn device_memory_is_read_during_the_call_if_requested() {
    let sim = test_device(late(2));
    let stream = sim.stream(1);
    let (source, target) = (sim.upload(&[5_u32]), sim.upload(&[0_u32]));
    let runs = [(0, Order::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)];
    assert_eq!(batch(&sim, &[(target, source, 4)], &runs, stream).0, OK);
    unsafe { ok(sim.cuMemsetD32_v2(source, 50, 1)) };
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    assert_eq!(sim.download::<u32>(target, 1), [5]);
}

#[test]
fn wrong_batches_are_refused() {
    let sim = test_device(Builder::new());
    let (stream, words) = (sim.stream(1), sim.upload(&[1_u32, 2, 3, 4]));
    let good = (words, words + 8, 4);
    let refused = |copies: &[_], runs: &[_], stream, index| {
        let want = (INVALID, index, INVALID);
        assert_eq!(batch(&sim, copies, runs, stream), want);
    };
    let none = usize::MAX;
    refused(&[good], STREAM, ptr::null_mut(), none);
    refused(&[], STREAM, stream, none);
    refused(&[good], &[], stream, none);
    refused(&[good, (words, words + 8, 0)], STREAM, stream, 1);
    refused(&[good, (words, words + 12, 8)], STREAM, stream, 1);
    refused(&[(0, words, 4), good], STREAM, stream, 0);
    let any = Order::CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    refused(&[good], &[(1, any)], stream, none);
    refused(&[good, good], &[(0, any), (0, any)], stream, none);
    refused(&[good], &[(0, CUmemcpySrcAccessOrder(9))], stream, none);
    unsafe {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        ok(sim.cuStreamBeginCapture_v2(stream, mode));
        let unsupported = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        assert_eq!(batch(&sim, &[good], STREAM, stream).0, unsupported);
        let mut graph = ptr::null_mut();
        let _ = sim.cuStreamEndCapture(stream, &raw mut graph);
    }
}

fn pointer(address: CUdeviceptr, row: usize, plane: usize) -> CUmemcpy3DOperand {
    // SAFETY: all fields are numbers.
    let mut operand: CUmemcpy3DOperand = unsafe { std::mem::zeroed() };
    operand.type_ = CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr.ptr = address;
    operand.op.ptr.rowLength = row;
    operand.op.ptr.layerHeight = plane;
    operand
}

fn box_copy(dst: CUmemcpy3DOperand, src: CUmemcpy3DOperand) -> CUDA_MEMCPY3D_BATCH_OP {
    CUDA_MEMCPY3D_BATCH_OP {
        src,
        dst,
        extent: CUextent3D {
            width: 2,
            height: 2,
            depth: 2,
        },
        srcAccessOrder: Order::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        flags: 0,
    }
}

#[test]
fn a_batch_copies_boxes_of_memory_and_arrays() {
    let sim = test_device(late(1));
    let stream = sim.stream(1);
    let bytes: Vec<u8> = (0..64).collect();
    let (from, to) = (sim.upload(&bytes), sim.upload(&[0_u8; 8]));
    let desc = CUDA_ARRAY_DESCRIPTOR {
        Width: 4,
        Height: 4,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16,
        NumChannels: 1,
    };
    let mut array = ptr::null_mut();
    unsafe { ok(sim.cuArrayCreate_v2(&raw mut array, &raw const desc)) };
    // SAFETY: all fields are numbers or pointers.
    let mut of_array: CUmemcpy3DOperand = unsafe { std::mem::zeroed() };
    of_array.type_ = CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_ARRAY;
    of_array.op.array.array = array;
    of_array.op.array.offset.x = 1;
    // A box of 2 x 2 x 2 in memory of 4 x 4 x 4, and one of 2 x 2 elements of 16 bits.
    let mut boxes = [
        box_copy(pointer(to, 0, 0), pointer(from + 5, 4, 4)),
        box_copy(of_array, pointer(from, 4, 0)),
    ];
    boxes[1].extent.depth = 1;
    let mut failed = 0;
    unsafe {
        ok(sim.cuMemcpy3DBatchAsync_v2(2, boxes.as_mut_ptr(), 0, stream));
        ok(sim.cuMemcpy3DBatchAsync(2, boxes.as_mut_ptr(), &raw mut failed, 0, stream));
    }
    assert_eq!(failed, usize::MAX);
    // Back from the array, on the same stream.
    let back = sim.upload(&[0_u8; 8]);
    let mut down = [box_copy(pointer(back, 0, 0), of_array)];
    down[0].extent.depth = 1;
    unsafe {
        ok(sim.cuMemcpy3DBatchAsync_v2(1, down.as_mut_ptr(), 0, stream));
        ok(sim.cuStreamSynchronize(stream));
    }
    assert_eq!(sim.download::<u8>(to, 8), [5, 6, 9, 10, 21, 22, 25, 26]);
    assert_eq!(sim.download::<u8>(back, 8), [0, 1, 2, 3, 8, 9, 10, 11]);
    unsafe {
        // A row of 1 byte is shorter than the box, and the legacy stream takes no batches.
        boxes[0].src.op.ptr.rowLength = 1;
        let status = sim.cuMemcpy3DBatchAsync(1, boxes.as_mut_ptr(), &raw mut failed, 0, stream);
        assert_eq!((status, failed), (INVALID, 0));
        let legacy = ptr::null_mut();
        let status = sim.cuMemcpy3DBatchAsync_v2(1, down.as_mut_ptr(), 0, legacy);
        assert_eq!(status, INVALID);
        ok(sim.cuArrayDestroy(array));
    }
}

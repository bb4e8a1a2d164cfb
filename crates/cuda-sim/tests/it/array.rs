//! Arrays: created, described, and copied to and from, compared with the same operations on slices.

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray,
    CUarray_format, CUgraphNode, CUmemorytype,
};

use crate::support::{TestDevice, late, ok, test_device};

const BAD: R = R::CUDA_ERROR_INVALID_VALUE;
const HOST: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_HOST;
const DEVICE: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_DEVICE;
const ARRAY: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_ARRAY;

fn desc([width, height, depth]: [usize; 3], channels: u32, flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16,
        NumChannels: channels,
        Flags: flags,
    }
}

impl TestDevice {
    fn array(&self, extent: [usize; 3], channels: u32) -> CUarray {
        let mut array = ptr::null_mut();
        let status = unsafe { self.cuArray3DCreate_v2(&raw mut array, &desc(extent, channels, 0)) };
        ok(status);
        array
    }
}

fn space() -> CUDA_MEMCPY3D {
    unsafe { std::mem::zeroed() }
}

#[test]
fn windows_of_a_space() {
    // 8 × 6 × 4 elements of 2 × 16 bits.
    let [width, height, depth] = [8, 6, 4];
    let row = width * 4;
    let values: Vec<u8> = (0..row * height * depth).map(|i| (i * 7) as u8).collect();
    for sim in [test_device(Builder::new()), test_device(late(5))] {
        let (one, two) = (
            sim.array([width, height, depth], 2),
            sim.array([width, height, depth], 2),
        );
        let mut copy = space();
        (copy.WidthInBytes, copy.Height, copy.Depth) = (row, height, depth);
        (copy.srcMemoryType, copy.dstMemoryType) = (HOST, ARRAY);
        (copy.srcHost, copy.dstArray) = (values.as_ptr().cast(), one);
        unsafe { ok(sim.cuMemcpy3D_v2(&copy)) };
        // The second array is all 0xCD, except for a window of 3 × 2 × 2 elements of the first.
        let mut window = space();
        (window.WidthInBytes, window.Height, window.Depth) = (12, 2, 2);
        (window.srcMemoryType, window.dstMemoryType) = (ARRAY, ARRAY);
        (window.srcArray, window.dstArray) = (one, two);
        (window.srcXInBytes, window.srcY, window.srcZ) = (8, 1, 2);
        (window.dstXInBytes, window.dstY, window.dstZ) = (20, 4, 0);
        unsafe { ok(sim.cuMemcpy3DAsync_v2(&window, ptr::null_mut())) };
        let flat = sim.alloc(values.len());
        let mut copy = space();
        (copy.WidthInBytes, copy.Height, copy.Depth) = (row, height, depth);
        (copy.srcMemoryType, copy.dstMemoryType) = (ARRAY, DEVICE);
        (copy.srcArray, copy.dstDevice) = (two, flat);
        unsafe { ok(sim.cuMemcpy3D_v2(&copy)) };

        let mut expected = vec![0xCD_u8; values.len()];
        let at = |x, y, z| x + row * (y + height * z);
        for z in 0..2 {
            for y in 0..2 {
                let from = at(8, 1 + y, 2 + z);
                let to = at(20, 4 + y, z);
                expected[to..to + 12].copy_from_slice(&values[from..from + 12]);
            }
        }
        assert_eq!(sim.download::<u8>(flat, values.len()), expected);

        // A part of plane 0, read as a plane.
        let mut part = [0_u8; 16];
        let mut plane: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
        (plane.srcMemoryType, plane.dstMemoryType) = (ARRAY, HOST);
        (plane.srcArray, plane.srcXInBytes, plane.srcY) = (one, 24, 3);
        (plane.dstHost, plane.WidthInBytes, plane.Height) = (part.as_mut_ptr().cast(), 8, 2);
        unsafe { ok(sim.cuMemcpy2D_v2(&plane)) };
        let rows = [at(24, 3, 0), at(24, 4, 0)].map(|from| &values[from..from + 8]);
        assert_eq!(part.to_vec(), rows.concat());

        // Copies beyond an edge, and copies that do not start at an element.
        for (x, y, z, wide) in [
            (24, 1, 2, 12),
            (8, 5, 2, 12),
            (8, 1, 3, 12),
            (2, 1, 2, 12),
            (8, 1, 2, 10),
        ] {
            let mut wrong = window;
            (wrong.srcXInBytes, wrong.srcY, wrong.srcZ) = (x, y, z);
            wrong.WidthInBytes = wide;
            assert_eq!(
                unsafe { sim.cuMemcpy3D_v2(&wrong) },
                BAD,
                "{x} {y} {z} {wide}"
            );
        }
    }
}

#[test]
fn rows_of_bytes() {
    let sim = test_device(Builder::new());
    let (one, two) = (sim.array([16, 0, 0], 1), sim.array([16, 0, 0], 1));
    let stream = sim.stream(0);
    let values: Vec<u16> = (100..116).collect();
    let from = values.as_ptr().cast();
    let mut back = [0_u16; 16];
    let to = back.as_mut_ptr().cast();
    unsafe {
        ok(sim.cuMemcpyHtoA_v2(one, 0, from, 32));
        ok(sim.cuMemcpyAtoH_v2(to, one, 8, 16));
        assert_eq!(back[..8], values[4..12]);
        ok(sim.cuMemcpyHtoAAsync_v2(two, 4, from, 8, stream));
        ok(sim.cuMemcpyAtoHAsync_v2(to, two, 0, 32, stream));
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(back[..2], [0xCDCD; 2]);
        assert_eq!(back[2..6], values[..4]);
        let device = sim.upload(&[7_u16, 8, 9, 10]);
        ok(sim.cuMemcpyDtoA_v2(two, 24, device, 8));
        ok(sim.cuMemcpyAtoA_v2(one, 0, two, 26, 4));
        ok(sim.cuMemcpyAtoD_v2(device, one, 0, 8));
        assert_eq!(sim.download::<u16>(device, 4), [8, 9, 102, 103]);
        assert_eq!(sim.cuMemcpyHtoA_v2(one, 8, from, 26), BAD);
        assert_eq!(sim.cuMemcpyHtoA_v2(one, 1, from, 4), BAD);
        let flat = sim.array([4, 4, 0], 1);
        assert_eq!(sim.cuMemcpyHtoA_v2(flat, 0, from, 8), BAD, "it has rows");
    }
}

#[test]
fn a_captured_copy_names_its_array() {
    let sim = test_device(Builder::new());
    let array = sim.array([4, 2, 0], 1);
    let source = sim.upload(&(1..=8).collect::<Vec<u16>>());
    let stream = sim.stream(0);
    let mut copy = space();
    (copy.WidthInBytes, copy.Height, copy.Depth) = (4, 2, 1);
    (copy.srcMemoryType, copy.dstMemoryType) = (DEVICE, ARRAY);
    (copy.srcDevice, copy.srcPitch) = (source, 8);
    (copy.dstArray, copy.dstXInBytes) = (array, 4);
    sim.begin(stream);
    unsafe { ok(sim.cuMemcpy3DAsync_v2(&copy, stream)) };
    let graph = sim.end(stream).unwrap();
    let (mut node, mut count): (CUgraphNode, usize) = (ptr::null_mut(), 1);
    let mut shown = space();
    unsafe {
        ok(sim.cuGraphGetNodes(graph, &raw mut node, &raw mut count));
        ok(sim.cuGraphMemcpyNodeGetParams(node, &raw mut shown));
    }
    assert_eq!(
        (
            shown.dstMemoryType,
            shown.dstArray,
            shown.dstXInBytes,
            shown.dstY
        ),
        (ARRAY, array, 4, 0)
    );
    assert_eq!((shown.srcMemoryType, shown.srcDevice), (DEVICE, source));
    let exec = sim.instantiate(graph);
    let mut rows = [0_u16; 8];
    let mut plane: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
    (plane.srcMemoryType, plane.dstMemoryType) = (ARRAY, HOST);
    (plane.srcArray, plane.dstHost) = (array, rows.as_mut_ptr().cast());
    (plane.WidthInBytes, plane.Height) = (8, 2);
    unsafe {
        ok(sim.cuGraphLaunch(exec, stream));
        ok(sim.cuStreamSynchronize(stream));
        ok(sim.cuMemcpy2D_v2(&plane));
    }
    assert_eq!(rows, [0xCDCD, 0xCDCD, 1, 2, 0xCDCD, 0xCDCD, 5, 6]);
}

#[test]
fn descriptors_match_the_created_arrays() {
    let sim = test_device(Builder::new());
    let mut array = ptr::null_mut();
    let flat = CUDA_ARRAY_DESCRIPTOR {
        Width: 5,
        Height: 3,
        Format: CUarray_format::CU_AD_FORMAT_FLOAT,
        NumChannels: 4,
    };
    let mut shown = desc([0; 3], 0, 9);
    unsafe {
        ok(sim.cuArrayCreate_v2(&raw mut array, &flat));
        ok(sim.cuArray3DGetDescriptor_v2(&raw mut shown, array));
    }
    assert_eq!((shown.Width, shown.Height, shown.Depth), (5, 3, 0));
    assert_eq!((shown.NumChannels, shown.Flags), (4, 0));
    assert_eq!(shown.Format, CUarray_format::CU_AD_FORMAT_FLOAT);
    let cubes = desc([16, 16, 12], 1, 5);
    let mut plane = flat;
    unsafe {
        ok(sim.cuArray3DCreate_v2(&raw mut array, &cubes));
        ok(sim.cuArrayGetDescriptor_v2(&raw mut plane, array));
    }
    assert_eq!((plane.Width, plane.Height, plane.NumChannels), (16, 16, 1));

    let unsupported = R::CUDA_ERROR_NOT_SUPPORTED;
    for (extent, channels, flags, code) in [
        ([0, 0, 0], 1, 0, BAD),
        ([4, 0, 4], 1, 0, BAD),
        ([4, 4, 4], 3, 0, BAD),
        ([131_073, 0, 0], 1, 0, BAD),
        ([4, 4, 0], 1, 1, BAD),
        ([4, 8, 6], 1, 4, BAD),
        ([4, 4, 5], 1, 4, BAD),
        ([4, 4, 4], 1, 0x40, unsupported),
        ([4, 4, 4], 1, 0x1000, BAD),
        ([16384, 16384, 16384], 4, 0, R::CUDA_ERROR_OUT_OF_MEMORY),
    ] {
        let status =
            unsafe { sim.cuArray3DCreate_v2(&raw mut array, &desc(extent, channels, flags)) };
        assert_eq!(status, code, "{extent:?} {channels} {flags}");
    }
    for (format, code) in [(0, BAD), (0xB0, unsupported)] {
        let mut odd = desc([4, 4, 0], 1, 0);
        odd.Format = CUarray_format(format);
        let status = unsafe { sim.cuArray3DCreate_v2(&raw mut array, &odd) };
        assert_eq!(status, code, "{format}");
    }
}

#[test]
fn an_array_ends_with_its_context() {
    let sim = test_device(Builder::new());
    let free = || {
        let (mut free, mut total) = (0, 0);
        unsafe { ok(sim.cuMemGetInfo_v2(&raw mut free, &raw mut total)) };
        free
    };
    let before = free();
    let array = sim.array([1000, 1000, 0], 4);
    assert!(before - free() >= 8_000_000);
    let bytes = [0_u8; 8];
    let mut copy = space();
    (copy.WidthInBytes, copy.Height, copy.Depth) = (8, 1, 1);
    (copy.srcMemoryType, copy.dstMemoryType) = (HOST, ARRAY);
    (copy.srcHost, copy.dstArray) = (bytes.as_ptr().cast(), array);
    let gone = R::CUDA_ERROR_INVALID_HANDLE;
    unsafe {
        ok(sim.cuMemcpy3D_v2(&copy));
        ok(sim.cuArrayDestroy(array));
        assert_eq!(sim.cuMemcpy3D_v2(&copy), BAD);
        assert_eq!(sim.cuArrayDestroy(array), gone);
        assert_eq!(sim.cuArrayGetDescriptor_v2(ptr::null_mut(), array), gone);
    }
    assert_eq!(free(), before);

    let mut own = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut own, 0, 0)) };
    sim.array([8, 8, 8], 1);
    assert_eq!(sim.simulator.live().arrays, 1);
    unsafe { ok(sim.cuCtxDestroy_v2(own)) };
    assert_eq!(sim.simulator.live().arrays, 0);
    assert_eq!(free(), before);
}

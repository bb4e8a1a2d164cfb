//! Tensor maps: rejected calls, and a tile and an im2col column that are copied through a map.

use std::ffi::c_void;
use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use crate::support::{TestDevice, ok, test_device};

/// A kernel that copies one tile of 4 × 4 words at (2, 1) through a map in its parameters.
const TILE: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 out) {
    .shared .align 128 .b8 space[64]; .shared .align 8 .b8 barrier[8];
    .reg .b64 %map, %out; .reg .b32 %s, %b; .reg .pred %p;
    mov.b64 %map, map; cvta.param.u64 %map, %map; ld.param.u64 %out, [out];
    mov.u32 %s, space; mov.u32 %b, barrier;
    mbarrier.init.shared::cta.b64 [%b], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%map, {4, 1}], [%b];
    wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra wait;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 64;
    ret;
}";

/// The arguments of `cuTensorMapEncodeTiled`.
#[derive(Clone, Copy)]
struct Tiled {
    data_type: CUtensorMapDataType,
    rank: u32,
    address: u64,
    dims: [u64; 5],
    strides: [u64; 4],
    extent: [u32; 5],
    steps: [u32; 5],
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    fill: CUtensorMapFloatOOBfill,
}

fn tiled(address: u64) -> Tiled {
    Tiled {
        data_type: CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        rank: 2,
        address,
        dims: [8; 5],
        strides: [32, 256, 2048, 16384],
        extent: [4; 5],
        steps: [1; 5],
        interleave: CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle: CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        fill: CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    }
}

impl Tiled {
    fn encode(&self, sim: &TestDevice, map: &mut CUtensorMap) -> R {
        unsafe {
            sim.cuTensorMapEncodeTiled(
                map,
                self.data_type,
                self.rank,
                ptr::without_provenance_mut(self.address as usize),
                self.dims.as_ptr(),
                self.strides.as_ptr(),
                self.extent.as_ptr(),
                self.steps.as_ptr(),
                self.interleave,
                self.swizzle,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                self.fill,
            )
        }
    }
}

fn run(sim: &TestDevice, ptx: &str, map: &mut CUtensorMap) -> Vec<u32> {
    let tile = sim.function(sim.load(ptx), "tile");
    let mut out = sim.alloc(64);
    let mut params: [*mut c_void; 2] = [ptr::from_mut(map).cast(), (&raw mut out).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    let none_either = ptr::null_mut();
    unsafe { ok(sim.cuLaunchKernel(tile, 1, 1, 1, 1, 1, 1, 0, none, params, none_either)) };
    sim.download(out, 16)
}

#[test]
fn a_tile_is_copied_through_a_map_and_from_another_address() {
    let sim = test_device(Builder::new());
    let words: Vec<u32> = (0..64).collect();
    let source = sim.upload(&words);
    let mut map = CUtensorMap { opaque: [0; 16] };
    ok(tiled(source).encode(&sim, &mut map));
    let expected: Vec<u32> = (0..16).map(|i| (i / 4 + 1) * 8 + i % 4 + 4).collect();
    assert_eq!(run(&sim, TILE, &mut map), expected);
    let tripled: Vec<u32> = words.iter().map(|word| word * 3).collect();
    let other = ptr::without_provenance_mut(sim.upload(&tripled) as usize);
    unsafe { ok(sim.cuTensorMapReplaceAddress(&raw mut map, other)) };
    let expected: Vec<u32> = expected.iter().map(|word| word * 3).collect();
    assert_eq!(run(&sim, TILE, &mut map), expected);
}

#[test]
fn parameters_that_the_manual_forbids_are_refused() {
    let sim = test_device(Builder::new());
    let source = sim.upload(&[0_u32; 64]);
    let mut map = CUtensorMap { opaque: [0; 16] };
    let mut status = |change: fn(&mut Tiled)| {
        let mut tiled = tiled(source);
        change(&mut tiled);
        tiled.encode(&sim, &mut map)
    };
    assert_eq!(status(|_| {}), R::CUDA_SUCCESS);
    let invalid: [fn(&mut Tiled); 14] = [
        |t| t.rank = 0,
        |t| t.rank = 6,
        |t| t.address += 8,
        |t| t.dims[1] = 0,
        |t| t.dims[0] = (1 << 32) + 1,
        |t| t.strides[0] = 24,
        |t| t.strides[0] = 1 << 40,
        |t| t.extent[0] = 0,
        |t| t.extent[1] = 257,
        |t| t.extent[0] = 3,
        |t| t.steps[1] = 9,
        |t| t.steps[1] = 0,
        |t| (t.extent[0], t.swizzle) = (16, CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B),
        |t| t.fill.0 = 1,
    ];
    for (number, change) in invalid.into_iter().enumerate() {
        assert_eq!(status(change), R::CUDA_ERROR_INVALID_VALUE, "case {number}");
    }
    let missing: [fn(&mut Tiled); 3] = [
        |t| (t.rank, t.interleave.0) = (3, 1),
        |t| t.data_type = CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        |t| {
            t.data_type = CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
            t.fill.0 = 1;
        },
    ];
    for (number, change) in missing.into_iter().enumerate() {
        assert_eq!(status(change), R::CUDA_ERROR_NOT_SUPPORTED, "case {number}");
    }
    // Bytes that are not a map, and an address that is not a multiple of 16.
    let replace = |map: &mut CUtensorMap, address: usize| unsafe {
        sim.cuTensorMapReplaceAddress(map, ptr::without_provenance_mut(address))
    };
    let mut none = CUtensorMap { opaque: [7; 16] };
    assert_eq!(replace(&mut none, 256), R::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(replace(&mut map, 24), R::CUDA_ERROR_INVALID_VALUE);

    let old = crate::support::test_device(Builder::new().compute_capability(8, 0));
    let status = tiled(old.alloc(256)).encode(&old, &mut map);
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
    let status = images(old.alloc(256)).encode(&old, &mut map);
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
}

/// The arguments of `cuTensorMapEncodeIm2col`.
#[derive(Clone, Copy)]
struct Images {
    tensor: Tiled,
    lower: [i32; 3],
    upper: [i32; 3],
    channels: u32,
    pixels: u32,
}

/// One image of 4 channels, 4 wide and 3 high. The filters are 2 × 3 and start at -1 to 3 in one
/// dimension and at 0 in the other.
fn images(address: u64) -> Images {
    let mut tensor = tiled(address);
    (tensor.rank, tensor.dims) = (4, [4, 4, 3, 1, 1]);
    tensor.strides = [16, 64, 192, 192];
    Images {
        tensor,
        lower: [-1, 0, 0],
        upper: [0, -2, 0],
        channels: 4,
        pixels: 4,
    }
}

impl Images {
    fn encode(&self, sim: &TestDevice, map: &mut CUtensorMap) -> R {
        let tensor = &self.tensor;
        unsafe {
            sim.cuTensorMapEncodeIm2col(
                map,
                tensor.data_type,
                tensor.rank,
                ptr::without_provenance_mut(tensor.address as usize),
                tensor.dims.as_ptr(),
                tensor.strides.as_ptr(),
                self.lower.as_ptr(),
                self.upper.as_ptr(),
                self.channels,
                self.pixels,
                tensor.steps.as_ptr(),
                tensor.interleave,
                tensor.swizzle,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                tensor.fill,
            )
        }
    }
}

#[test]
fn a_column_is_copied_through_a_map() {
    let sim = test_device(Builder::new());
    let words: Vec<u32> = (100..148).collect();
    let source = sim.upload(&words);
    let mut map = CUtensorMap { opaque: [0; 16] };
    ok(images(source).encode(&sim, &mut map));
    // The second row under the filters, from the left edge on.
    let ptx = TILE
        .replace(".2d.", ".4d.")
        .replace("global.tile", "global.im2col")
        .replace("{4, 1}], [%b]", "{0, -1, 0, 0}], [%b], {0, 1}");
    let mut expected = vec![0; 4];
    expected.extend(116..128);
    assert_eq!(run(&sim, &ptx, &mut map), expected);
}

#[test]
fn im2col_parameters_that_the_manual_forbids_are_refused() {
    let sim = test_device(Builder::new());
    let source = sim.upload(&[0_u32; 64]);
    let mut map = CUtensorMap { opaque: [0; 16] };
    let mut status = |change: fn(&mut Images)| {
        let mut images = images(source);
        change(&mut images);
        images.encode(&sim, &mut map)
    };
    assert_eq!(status(|_| {}), R::CUDA_SUCCESS);
    // The first element stride is ignored.
    assert_eq!(status(|i| i.tensor.steps[0] = 3), R::CUDA_SUCCESS);
    assert_eq!(
        status(|i| (i.lower[0], i.upper[0]) = (-128, 127)),
        R::CUDA_SUCCESS
    );
    let invalid: [fn(&mut Images); 12] = [
        |i| i.tensor.rank = 2,
        |i| i.tensor.rank = 6,
        |i| i.tensor.address += 8,
        |i| i.tensor.strides[1] = 72,
        |i| i.tensor.steps[1] = 9,
        |i| i.channels = 257,
        |i| i.pixels = 1025,
        |i| i.lower[0] = -129,
        |i| i.upper[1] = 128,
        |i| (i.tensor.rank, i.lower[2]) = (5, -17),
        // The box between the corners is empty.
        |i| i.upper[1] = -3,
        |i| (i.channels, i.tensor.swizzle) = (16, CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B),
    ];
    for (number, change) in invalid.into_iter().enumerate() {
        assert_eq!(status(change), R::CUDA_ERROR_INVALID_VALUE, "case {number}");
    }
    // Strides of images, rows that are not a multiple of 16 bytes or are shorter than the swizzle,
    // and interleaved channels.
    let missing: [fn(&mut Images); 4] = [
        |i| i.tensor.steps[3] = 2,
        |i| i.channels = 3,
        |i| i.tensor.swizzle = CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        |i| i.tensor.interleave.0 = 1,
    ];
    for (number, change) in missing.into_iter().enumerate() {
        assert_eq!(status(change), R::CUDA_ERROR_NOT_SUPPORTED, "case {number}");
    }
}

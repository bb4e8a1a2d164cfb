//! Tensor maps: what is refused, and a tile that is copied through one.

use std::ffi::c_void;
use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use crate::support::{Bench, bench, ok};

/// One tile of 4 × 4 words at (2, 1), through a map in the parameters.
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

/// What is passed to `cuTensorMapEncodeTiled`.
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
    fn encode(&self, bench: &Bench, map: &mut CUtensorMap) -> R {
        unsafe {
            bench.cuTensorMapEncodeTiled(
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

fn run(bench: &Bench, map: &mut CUtensorMap) -> Vec<u32> {
    let tile = bench.function(bench.load(TILE), "tile");
    let mut out = bench.alloc(64);
    let mut params: [*mut c_void; 2] = [ptr::from_mut(map).cast(), (&raw mut out).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    let none_either = ptr::null_mut();
    unsafe { ok(bench.cuLaunchKernel(tile, 1, 1, 1, 1, 1, 1, 0, none, params, none_either)) };
    bench.download(out, 16)
}

#[test]
fn a_tile_is_copied_through_a_map_and_from_another_address() {
    let bench = bench(Builder::new());
    let words: Vec<u32> = (0..64).collect();
    let source = bench.upload(&words);
    let mut map = CUtensorMap { opaque: [0; 16] };
    ok(tiled(source).encode(&bench, &mut map));
    let expected: Vec<u32> = (0..16).map(|i| (i / 4 + 1) * 8 + i % 4 + 4).collect();
    assert_eq!(run(&bench, &mut map), expected);
    let tripled: Vec<u32> = words.iter().map(|word| word * 3).collect();
    let other = ptr::without_provenance_mut(bench.upload(&tripled) as usize);
    unsafe { ok(bench.cuTensorMapReplaceAddress(&raw mut map, other)) };
    let expected: Vec<u32> = expected.iter().map(|word| word * 3).collect();
    assert_eq!(run(&bench, &mut map), expected);
}

#[test]
fn what_the_manual_forbids_is_refused() {
    let bench = bench(Builder::new());
    let source = bench.upload(&[0_u32; 64]);
    let mut map = CUtensorMap { opaque: [0; 16] };
    let mut status = |change: fn(&mut Tiled)| {
        let mut tiled = tiled(source);
        change(&mut tiled);
        tiled.encode(&bench, &mut map)
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
    let missing: [fn(&mut Tiled); 4] = [
        |t| (t.rank, t.interleave.0) = (3, 1),
        |t| t.data_type = CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        |t| t.swizzle = CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        |t| {
            t.data_type = CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
            t.fill.0 = 1;
        },
    ];
    for (number, change) in missing.into_iter().enumerate() {
        assert_eq!(status(change), R::CUDA_ERROR_NOT_SUPPORTED, "case {number}");
    }
    // Not a map, and an address in the middle of 16 bytes.
    let replace = |map: &mut CUtensorMap, address: usize| unsafe {
        bench.cuTensorMapReplaceAddress(map, ptr::without_provenance_mut(address))
    };
    let mut none = CUtensorMap { opaque: [7; 16] };
    assert_eq!(replace(&mut none, 256), R::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(replace(&mut map, 24), R::CUDA_ERROR_INVALID_VALUE);

    let old = crate::support::bench(Builder::new().compute_capability(8, 0));
    let status = tiled(old.alloc(256)).encode(&old, &mut map);
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
}

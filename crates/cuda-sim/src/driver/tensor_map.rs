//! Tensor maps of tiles. Those of images (`im2col`) are not there.

use std::ffi::{c_uint, c_void};

use cuda_sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::arg::{In, Out};
use super::export::{Call, exports};
use super::status::{INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::vm::tensor_map::{BYTES, Element, MAX_RANK, Swizzle, TensorMap};

exports! {
    cuTensorMapEncodeTiled => tensor_map_encode_tiled(
        map: *mut CUtensorMap, data_type: CUtensorMapDataType, rank: u32, address: *mut c_void,
        dims: *const u64, strides: *const u64, extent: *const u32, steps: *const u32,
        interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion, fill: CUtensorMapFloatOOBfill);
    cuTensorMapReplaceAddress => tensor_map_replace_address(
        map: *mut CUtensorMap, address: *mut c_void);
}

/// What the manual asks of the address of a map.
const MAP_ALIGN: u64 = 64;
/// What it asks of addresses and strides.
const ALIGN: u64 = 16;

fn invalid_unless(is_right: bool) -> Status {
    if is_right { Ok(()) } else { Err(INVALID_VALUE) }
}

/// The bytes as `CUtensorMap` has them.
fn opaque(map: &TensorMap) -> CUtensorMap {
    let bytes = map.encode();
    let mut words = [0; BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        *word = u64::from_le_bytes(eight);
    }
    CUtensorMap { opaque: words }
}

fn decoded(map: &CUtensorMap) -> Option<TensorMap> {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_mut(8).zip(map.opaque) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    TensorMap::decode(&bytes)
}

impl Call {
    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn tensor_map_encode_tiled(
        &self,
        map: Out<CUtensorMap>,
        data_type: CUtensorMapDataType,
        rank: u32,
        address: Out<c_void>,
        dims: In<u64>,
        strides: In<u64>,
        extent: In<u32>,
        steps: In<u32>,
        interleave: CUtensorMapInterleave,
        swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion,
        fill: CUtensorMapFloatOOBfill,
    ) -> Status {
        if self.current()?.device.capability.0 < 9 {
            return Err(NOT_SUPPORTED);
        }
        // By their numbers, which every header has: `CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B` is the last type.
        let (data_type, swizzle) = (data_type.0 as c_uint, swizzle.0 as c_uint);
        let (interleave, fill) = (interleave.0 as c_uint, fill.0 as c_uint);
        map.required()?;
        invalid_unless(map.handle().is_multiple_of(MAP_ALIGN))?;
        invalid_unless(data_type <= 15 && swizzle <= 6 && interleave <= 2 && fill <= 1)?;
        invalid_unless(promotion.0 as c_uint <= 3)?;
        let (rank, address) = (rank as usize, address.handle());
        invalid_unless((1..=MAX_RANK).contains(&rank))?;
        invalid_unless(interleave == 0 || rank >= 3)?;
        invalid_unless(address.is_multiple_of(ALIGN))?;
        let mut tensor = TensorMap {
            address,
            rank,
            ..TensorMap::default()
        };
        for d in 0..rank {
            let (dim, extent, step) = (dims.get_at(d)?, extent.get_at(d)?, steps.get_at(d)?);
            invalid_unless((1..=1 << 32).contains(&dim) && (1..=256).contains(&extent))?;
            invalid_unless((1..=8).contains(&step))?;
            (tensor.dims[d], tensor.extent[d]) = (dim, extent as u16);
            tensor.steps[d] = step as u8;
        }
        for d in 0..rank - 1 {
            let stride = strides.get_at(d)?;
            invalid_unless(stride.is_multiple_of(ALIGN) && stride < 1 << 40)?;
            tensor.strides[d] = stride;
        }
        // Floats may be filled with what is not a number, others not.
        invalid_unless(fill == 0 || (6..=12).contains(&data_type))?;
        let (Some(element), Some(swizzle)) =
            (Element::of_number(data_type), Swizzle::of_number(swizzle))
        else {
            return Err(NOT_SUPPORTED);
        };
        if interleave != 0 || fill != 0 {
            return Err(NOT_SUPPORTED);
        }
        let row = u64::from(tensor.extent[0]) * element.bytes();
        invalid_unless(row.is_multiple_of(ALIGN))?;
        if let Some(span) = swizzle.span() {
            invalid_unless(row <= span)?;
            // How rows that are shorter than the pattern lie is not documented.
            if row != span {
                return Err(NOT_SUPPORTED);
            }
        }
        (tensor.element, tensor.swizzle) = (element, swizzle);
        map.set(opaque(&tensor))
    }

    fn tensor_map_replace_address(&self, map: Out<CUtensorMap>, address: Out<c_void>) -> Status {
        if self.current()?.device.capability.0 < 9 {
            return Err(NOT_SUPPORTED);
        }
        let address = address.handle();
        invalid_unless(map.handle().is_multiple_of(MAP_ALIGN) && address.is_multiple_of(ALIGN))?;
        let mut tensor = decoded(&map.get()?).ok_or(INVALID_VALUE)?;
        tensor.address = address;
        map.set(opaque(&tensor))
    }
}

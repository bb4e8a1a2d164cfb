//! Tensor maps of tiles and of images (`im2col`). `im2col` maps of wide mode are not implemented.

use std::ffi::{c_uint, c_void};

use cuda_sys::{
    CUresult, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::vm::tensor_map::{BYTES, Columns, Element, MAX_RANK, Swizzle, TensorMap};

/// The alignment in bytes that the manual requires for the address of a map.
pub(in crate::driver) const MAP_ALIGN: u64 = 64;

/// The alignment in bytes that the manual requires for addresses and strides.
pub(in crate::driver) const ALIGN: u64 = 16;

/// The smallest number of dimensions of an image: channels, width and images.
pub(in crate::driver) const IMAGE_RANK: usize = 3;

pub(in crate::driver) fn invalid_unless(is_right: bool) -> Status {
    if is_right { Ok(()) } else { Err(INVALID_VALUE) }
}

/// Returns the encoded map as a `CUtensorMap`.
pub(in crate::driver) fn opaque(map: &TensorMap) -> CUtensorMap {
    let bytes = map.encode();
    let mut words = [0; BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        *word = u64::from_le_bytes(eight);
    }
    CUtensorMap { opaque: words }
}

exports! {
    cuTensorMapEncodeTiled => tensor_map_encode_tiled;
    cuTensorMapEncodeIm2col => tensor_map_encode_im2col;
    cuTensorMapReplaceAddress => tensor_map_replace_address;
}

fn decoded(map: &CUtensorMap) -> Option<TensorMap> {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_mut(8).zip(map.opaque) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    TensorMap::decode(&bytes)
}

/// The arguments that all kinds of maps share.
struct MapParams {
    map: Out<CUtensorMap>,
    data_type: CUtensorMapDataType,
    rank: u32,
    address: Out<c_void>,
    dims: In<u64>,
    strides: In<u64>,
    steps: In<u32>,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
}

impl MapParams {
    /// Returns the map with the shape of the tensor; the caller adds the box that a copy transfers.
    fn tensor(&self, least_rank: usize) -> Result<TensorMap, CUresult> {
        let (data_type, swizzle, interleave, fill) = self.numbers();
        self.map.required()?;
        invalid_unless(self.map.handle().is_multiple_of(MAP_ALIGN))?;
        invalid_unless(data_type <= 15 && swizzle <= 6 && interleave <= 2 && fill <= 1)?;
        invalid_unless(self.promotion.0 as c_uint <= 3)?;
        let (rank, address) = (self.rank as usize, self.address.handle());
        invalid_unless((least_rank..=MAX_RANK).contains(&rank))?;
        invalid_unless(interleave == 0 || rank >= IMAGE_RANK)?;
        invalid_unless(address.is_multiple_of(ALIGN))?;
        let mut tensor = TensorMap {
            address,
            rank,
            ..TensorMap::default()
        };
        for d in 0..rank {
            let (dim, step) = (self.dims.get_at(d)?, self.steps.get_at(d)?);
            invalid_unless((1..=1 << 32).contains(&dim) && (1..=8).contains(&step))?;
            (tensor.dims[d], tensor.steps[d]) = (dim, step as u8);
        }
        for d in 0..rank - 1 {
            let stride = self.strides.get_at(d)?;
            invalid_unless(stride.is_multiple_of(ALIGN) && stride < 1 << 40)?;
            tensor.strides[d] = stride;
        }
        // Out-of-bounds elements can be filled with NaN only if the type is floating-point.
        invalid_unless(fill == 0 || (6..=12).contains(&data_type))?;
        Ok(tensor)
    }

    /// Returns the enums as numbers, which are the same in every header. The last type is
    /// `CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B`.
    fn numbers(&self) -> (c_uint, c_uint, c_uint, c_uint) {
        (
            self.data_type.0 as c_uint,
            self.swizzle.0 as c_uint,
            self.interleave.0 as c_uint,
            self.fill.0 as c_uint,
        )
    }

    /// Writes the map. Fails if the combination of its parameters is not supported.
    fn finish(&self, mut tensor: TensorMap) -> Status {
        let (data_type, swizzle, interleave, fill) = self.numbers();
        let (Some(element), Some(swizzle)) =
            (Element::of_number(data_type), Swizzle::of_number(swizzle))
        else {
            return Err(NOT_SUPPORTED);
        };
        if interleave != 0 || fill != 0 {
            return Err(NOT_SUPPORTED);
        }
        (tensor.element, tensor.swizzle) = (element, swizzle);
        if !tensor.row().is_multiple_of(ALIGN) {
            // For images the manual does not describe this case.
            return Err(match tensor.columns {
                Some(_) => NOT_SUPPORTED,
                None => INVALID_VALUE,
            });
        }
        if let Some(span) = swizzle.span() {
            invalid_unless(tensor.row() <= span)?;
            // Short rows were compared with a GPU only for tiles.
            if tensor.row() != span && tensor.columns.is_some() {
                return Err(NOT_SUPPORTED);
            }
        }
        self.map.set(opaque(&tensor))
    }
}

impl Call {
    fn tensor_maps(&self) -> Status {
        if self.current()?.device.capability.0 < 9 {
            return Err(NOT_SUPPORTED);
        }
        Ok(())
    }

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
        self.tensor_maps()?;
        let params = MapParams {
            map,
            data_type,
            rank,
            address,
            dims,
            strides,
            steps,
            interleave,
            swizzle,
            promotion,
            fill,
        };
        let mut tensor = params.tensor(1)?;
        for d in 0..tensor.rank {
            let extent = extent.get_at(d)?;
            invalid_unless((1..=256).contains(&extent))?;
            tensor.extent[d] = extent as u16;
        }
        params.finish(tensor)
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn tensor_map_encode_im2col(
        &self,
        map: Out<CUtensorMap>,
        data_type: CUtensorMapDataType,
        rank: u32,
        address: Out<c_void>,
        dims: In<u64>,
        strides: In<u64>,
        lower: In<i32>,
        upper: In<i32>,
        channels: u32,
        pixels: u32,
        steps: In<u32>,
        interleave: CUtensorMapInterleave,
        swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion,
        fill: CUtensorMapFloatOOBfill,
    ) -> Status {
        self.tensor_maps()?;
        let params = MapParams {
            map,
            data_type,
            rank,
            address,
            dims,
            strides,
            steps,
            interleave,
            swizzle,
            promotion,
            fill,
        };
        let mut tensor = params.tensor(IMAGE_RANK)?;
        invalid_unless((1..=256).contains(&channels) && (1..=1024).contains(&pixels))?;
        tensor.extent[0] = channels as u16;
        let mut columns = Columns {
            pixels: pixels as u16,
            ..Columns::default()
        };
        let limits = match tensor.rank {
            3 => -32768..=32767,
            4 => -128..=127,
            _ => -16..=15,
        };
        for d in 1..tensor.rank - 1 {
            let (lower, upper) = (lower.get_at(d - 1)?, upper.get_at(d - 1)?);
            invalid_unless(limits.contains(&lower) && limits.contains(&upper))?;
            (columns.lower[d - 1], columns.upper[d - 1]) = (lower as i16, upper as i16);
            let (first, last) = tensor.corners(&columns, d);
            invalid_unless(first <= last)?;
        }
        tensor.columns = Some(columns);
        // The manual describes strides along width, height and depth only.
        if tensor.steps[tensor.rank - 1] != 1 {
            return Err(NOT_SUPPORTED);
        }
        params.finish(tensor)
    }

    fn tensor_map_replace_address(&self, map: Out<CUtensorMap>, address: Out<c_void>) -> Status {
        self.tensor_maps()?;
        let address = address.handle();
        invalid_unless(map.handle().is_multiple_of(MAP_ALIGN) && address.is_multiple_of(ALIGN))?;
        let mut tensor = decoded(&map.get()?).ok_or(INVALID_VALUE)?;
        tensor.address = address;
        map.set(opaque(&tensor))
    }
}

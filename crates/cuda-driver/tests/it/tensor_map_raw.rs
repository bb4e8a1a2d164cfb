//! Tensor maps of addresses.

use cuda_driver::error::Error;
use cuda_driver::launch::KernelArg;
use cuda_driver::prelude::*;
use cuda_driver::tensor_map::{
    Im2col, Im2colWide, TensorDataType, TensorLayout, TensorMap, TensorSwizzle, WidePixels,
};

use crate::tensor_map::{made, with_memory};

#[test]
fn raw_tensor_maps_equal_those_of_views() {
    for (fixture, stream, mut memory) in with_memory() {
        let context = &fixture.context;
        let layout = TensorLayout::new(TensorDataType::F32, &[64, 8, 4]);
        let (address, bytes) = (memory.as_raw(), memory.len());
        let raw = TensorMap::tiled_raw(context, address, bytes, &layout, &[8, 8, 4]);
        let Some(raw) = made(&fixture, raw) else {
            continue;
        };
        let map = TensorMap::tiled(&memory.as_slice(), &layout, &[8, 8, 4]).unwrap();
        assert_eq!(raw.as_raw().opaque, map.as_raw().opaque);
        assert_eq!(raw.untracked().value(), map.as_raw().opaque);
        raw.writes(memory.as_mut_slice()).unwrap();
        let other = DeviceBuffer::<u8>::zeroed(&stream, bytes).unwrap();
        assert!(raw.reads(other.as_slice()).is_err());
        let error = TensorMap::tiled_raw(context, address, bytes - 1, &layout, &[8, 8, 4]);
        assert!(matches!(error, Err(Error::TensorMap(_))), "{error:?}");
        let unchecked = TensorMap::tiled_raw(context, address, None, &layout, &[8, 8, 4]).unwrap();
        assert_eq!(unchecked.as_raw().opaque, raw.as_raw().opaque);
        // No memory is known to be large enough.
        assert!(unchecked.reads(memory.as_slice()).is_err());
        let columns = Im2col {
            lower_corner: &[0],
            upper_corner: &[0],
            channels_per_pixel: 8,
            pixels_per_column: 8,
        };
        let raw = TensorMap::im2col_raw(context, address, bytes, &layout, &columns).unwrap();
        let map = TensorMap::im2col(&memory.as_slice(), &layout, &columns).unwrap();
        assert_eq!(raw.as_raw().opaque, map.as_raw().opaque);
        let wide = Im2colWide {
            lower_corner: 0,
            upper_corner: 0,
            channels_per_pixel: 8,
            pixels: WidePixels::Count(8),
        };
        let layout = layout.swizzle(TensorSwizzle::Bytes128);
        let raw = TensorMap::im2col_wide_raw(context, address, bytes, &layout, &wide);
        let map = TensorMap::im2col_wide(&memory.as_slice(), &layout, &wide);
        assert_eq!(
            raw.map(|it| it.as_raw().opaque),
            map.map(|it| it.as_raw().opaque)
        );
    }
}

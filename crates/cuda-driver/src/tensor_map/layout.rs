//! The layout of a tensor in device memory, and how tiles are placed in shared memory.

use cuda_sys::{
    CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapIm2ColWideMode, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use crate::types::raw;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorDataType {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `i32`.
    I32,
    /// `u64`.
    U64,
    /// `i64`.
    I64,
    /// `half::f16`.
    F16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `half::bf16`.
    Bf16,
    /// `f32`. Denormal values become zero.
    F32Ftz,
    /// `f32`, rounded to the mantissa of TF32.
    Tf32,
    /// `f32`, rounded to the mantissa of TF32. Denormal values become zero.
    Tf32Ftz,
    /// 4-bit numbers, sixteen in 8 bytes without gaps (CUDA 12.8 and later).
    U4x16Align8,
    /// 4-bit numbers; in shared memory, sixteen are padded to 16 bytes (CUDA 12.8 and later).
    U4x16Align16,
    /// 6-bit numbers; in shared memory, sixteen are padded to 16 bytes (CUDA 12.8 and later).
    U6x16Align16,
}

/// Whether the channels are interleaved in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorInterleave {
    /// The channels are not interleaved.
    #[default]
    None,
    /// Groups of 16 bytes: `NC/8HWC8` for two bytes per channel.
    Bytes16,
    /// Groups of 32 bytes: `NC/16HWC16` for two bytes per channel.
    Bytes32,
}

/// How pieces of a row are permuted in shared memory, so that columns can be read without bank
/// conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorSwizzle {
    /// No permutation.
    #[default]
    None,
    /// Permutes pieces of 16 bytes within 32 bytes.
    Bytes32,
    /// Permutes pieces of 16 bytes within 64 bytes.
    Bytes64,
    /// Permutes pieces of 16 bytes within 128 bytes.
    Bytes128,
    /// Permutes pieces of 32 bytes within 128 bytes (CUDA 12.8 and later).
    Bytes128Atom32,
    /// Permutes pieces of 32 bytes within 128 bytes, and swaps the halves of each 16 bytes in every
    /// other row (CUDA 12.8 and later).
    Bytes128Atom32Flip8,
    /// Permutes pieces of 64 bytes within 128 bytes (CUDA 12.8 and later).
    Bytes128Atom64,
}

/// The amount of data that the L2 cache fetches at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorL2Promotion {
    /// Only the requested data.
    #[default]
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

/// The value of elements outside of the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorFill {
    /// Zero.
    #[default]
    Zeros,
    /// A special NaN that a fused multiply-add treats as zero on request. For floating-point types
    /// only.
    NanAsZeroFma,
}

/// The number of pixels in a wide column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WidePixels {
    /// The given number of pixels: up to 1024.
    Count(u32),
    /// 128 pixels (`CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128`).
    W128,
}

/// The columns that `im2col` makes of an image. The dimensions of the tensor are channels, width,
/// height, depth, and images.
///
/// A filter starts at every pixel of the box between the corners, or at every n-th pixel if
/// [`element_strides`](TensorLayout::element_strides) is set. For a convolution with padding `p`
/// before the first pixel and `q` after the last, and filters of `n` taps at a distance of `d`, the
/// corners are `-p` and `q - (n - 1) * d`. A kernel chooses the filter position at which a column
/// starts, and the offset of the tap from there. The column continues with the following filter
/// positions, into the next row, plane and image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2col<'a> {
    /// The position of the first filter, as offsets from the first pixel of the image. There is one
    /// number for each dimension except channels and images, width first.
    pub lower_corner: &'a [i32],
    /// The position of the last filter, as offsets from the last pixel of the image.
    pub upper_corner: &'a [i32],
    /// The number of channels that are copied for each pixel.
    pub channels_per_pixel: u32,
    /// The number of pixels that are copied at once.
    pub pixels_per_column: u32,
}

/// The columns that `im2col` makes along the width only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2colWide {
    /// The position of the first filter, as an offset from the first pixel of a row.
    pub lower_corner: i32,
    /// The position of the last filter, as an offset from the last pixel of a row.
    pub upper_corner: i32,
    /// The number of channels that are copied for each pixel.
    pub channels_per_pixel: u32,
    /// The number of pixels that are copied at once.
    pub pixels: WidePixels,
}

/// The layout of a tensor in memory. The elements of the first dimension are contiguous.
///
/// The layout is checked when a [`TensorMap`](crate::tensor_map::TensorMap) is made from it, not
/// before.
///
/// ```
/// use cuda_driver::tensor_map::{TensorDataType, TensorLayout, TensorSwizzle};
///
/// // 1000 rows of 512 floats, each of which starts 4 KiB after the previous one.
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLayout {
    pub(super) data_type: TensorDataType,
    pub(super) dims: Vec<u64>,
    pub(super) strides: Vec<u64>,
    pub(super) steps: Vec<u32>,
    pub(super) interleave: TensorInterleave,
    pub(super) swizzle: TensorSwizzle,
    pub(super) l2_promotion: TensorL2Promotion,
    pub(super) fill: TensorFill,
}

impl TensorLayout {
    /// Creates the layout of a tensor with `dims` elements along each dimension, without gaps.
    #[must_use]
    pub fn new(data_type: TensorDataType, dims: &[u64]) -> Self {
        let mut strides = Vec::new();
        let mut bytes = None;
        for &dim in dims.iter().take(dims.len().saturating_sub(1)) {
            let next = match bytes {
                None => data_type.bytes_of(dim),
                Some(bytes) => u64::saturating_mul(bytes, dim),
            };
            strides.push(next);
            bytes = Some(next);
        }
        Self {
            data_type,
            dims: dims.to_vec(),
            strides,
            steps: vec![1; dims.len()],
            interleave: TensorInterleave::None,
            swizzle: TensorSwizzle::None,
            l2_promotion: TensorL2Promotion::None,
            fill: TensorFill::Zeros,
        }
    }

    /// Sets the distance in bytes between consecutive elements, for each dimension except the
    /// first.
    #[must_use]
    pub fn strides(mut self, bytes: &[u64]) -> Self {
        self.strides = bytes.to_vec();
        self
    }

    /// Copies only every n-th element along each dimension, with n from 1 to 8.
    #[must_use]
    pub fn element_strides(mut self, steps: &[u32]) -> Self {
        self.steps = steps.to_vec();
        self
    }

    /// Sets whether the channels are interleaved in groups.
    #[must_use]
    pub fn interleave(self, interleave: TensorInterleave) -> Self {
        Self { interleave, ..self }
    }

    /// Sets how pieces of a row are permuted in shared memory.
    #[must_use]
    pub fn swizzle(self, swizzle: TensorSwizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// Sets the amount of data that the L2 cache fetches at once.
    #[must_use]
    pub fn l2_promotion(self, l2_promotion: TensorL2Promotion) -> Self {
        Self {
            l2_promotion,
            ..self
        }
    }

    /// Sets the value of elements outside of the tensor.
    #[must_use]
    pub fn fill(self, fill: TensorFill) -> Self {
        Self { fill, ..self }
    }
}

impl TensorDataType {
    /// Returns the size of an element in device memory, in bits.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::U4x16Align8 | Self::U4x16Align16 => 4,
            Self::U6x16Align16 => 6,
            Self::U8 => 8,
            Self::U16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::I32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 32,
            Self::U64 | Self::I64 | Self::F64 => 64,
        }
    }

    /// Returns the size of `elements` elements in bytes, rounded up.
    pub(super) fn bytes_of(self, elements: u64) -> u64 {
        elements.saturating_mul(self.bits()).div_ceil(8)
    }

    /// Returns whether sixteen elements are padded to 16 bytes in shared memory.
    pub(super) fn is_padded(self) -> bool {
        matches!(self, Self::U4x16Align16 | Self::U6x16Align16)
    }

    pub(super) fn is_float(self) -> bool {
        use TensorDataType as T;
        matches!(
            self,
            T::F16 | T::F32 | T::F64 | T::Bf16 | T::F32Ftz | T::Tf32 | T::Tf32Ftz
        )
    }
}

impl TensorSwizzle {
    /// Returns the number of bytes within which pieces are permuted.
    pub(super) fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            _ => Some(128),
        }
    }
}

impl WidePixels {
    pub(super) fn raw(self) -> (u32, CUtensorMapIm2ColWideMode) {
        match self {
            Self::Count(count) => (
                count,
                CUtensorMapIm2ColWideMode::CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
            ),
            Self::W128 => (
                128,
                CUtensorMapIm2ColWideMode::CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128,
            ),
        }
    }
}

raw!(TensorDataType is CUtensorMapDataType:
    U8 = CU_TENSOR_MAP_DATA_TYPE_UINT8,
    U16 = CU_TENSOR_MAP_DATA_TYPE_UINT16,
    U32 = CU_TENSOR_MAP_DATA_TYPE_UINT32,
    I32 = CU_TENSOR_MAP_DATA_TYPE_INT32,
    U64 = CU_TENSOR_MAP_DATA_TYPE_UINT64,
    I64 = CU_TENSOR_MAP_DATA_TYPE_INT64,
    F16 = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    F32 = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    F64 = CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    Bf16 = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    F32Ftz = CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    Tf32 = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    Tf32Ftz = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    U4x16Align8 = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
    U4x16Align16 = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
    U6x16Align16 = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B);
raw!(TensorInterleave is CUtensorMapInterleave:
    None = CU_TENSOR_MAP_INTERLEAVE_NONE,
    Bytes16 = CU_TENSOR_MAP_INTERLEAVE_16B,
    Bytes32 = CU_TENSOR_MAP_INTERLEAVE_32B);
raw!(TensorSwizzle is CUtensorMapSwizzle:
    None = CU_TENSOR_MAP_SWIZZLE_NONE,
    Bytes32 = CU_TENSOR_MAP_SWIZZLE_32B,
    Bytes64 = CU_TENSOR_MAP_SWIZZLE_64B,
    Bytes128 = CU_TENSOR_MAP_SWIZZLE_128B,
    Bytes128Atom32 = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
    Bytes128Atom32Flip8 = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
    Bytes128Atom64 = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B);
raw!(TensorL2Promotion is CUtensorMapL2promotion:
    None = CU_TENSOR_MAP_L2_PROMOTION_NONE,
    Bytes64 = CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    Bytes128 = CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    Bytes256 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
raw!(TensorFill is CUtensorMapFloatOOBfill:
    Zeros = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    NanAsZeroFma = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);

//! How a tensor lies in memory, and how it is to come into shared memory.

use cuda_sys::{
    CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapIm2ColWideMode, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use crate::launch::raw;

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorDataType {
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `i32`
    I32,
    /// `u64`
    U64,
    /// `i64`
    I64,
    /// `half::f16`
    F16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `half::bf16`
    Bf16,
    /// `f32`, whose denormal values become zero
    F32Ftz,
    /// `f32`, rounded to the mantissa of TF32
    Tf32,
    /// The same, and denormal values become zero
    Tf32Ftz,
    /// Sixteen numbers of 4 bits in 8 bytes, without gaps (CUDA 12.8 on)
    U4x16Align8,
    /// Sixteen numbers of 4 bits, in shared memory in 16 bytes (CUDA 12.8 on)
    U4x16Align16,
    /// Sixteen numbers of 6 bits, in shared memory in 16 bytes (CUDA 12.8 on)
    U6x16Align16,
}

/// Whether channels lie together in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorInterleave {
    /// They do not.
    #[default]
    None,
    /// In groups of 16 bytes: `NC/8HWC8` of two bytes a channel.
    Bytes16,
    /// In groups of 32 bytes: `NC/16HWC16` of two bytes a channel.
    Bytes32,
}

/// How pieces of a row change places in shared memory, so that columns can be read without
/// conflicts of banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorSwizzle {
    /// They do not.
    #[default]
    None,
    /// Pieces of 16 bytes within 32.
    Bytes32,
    /// Pieces of 16 bytes within 64.
    Bytes64,
    /// Pieces of 16 bytes within 128.
    Bytes128,
    /// Pieces of 32 bytes within 128 (CUDA 12.8 on).
    Bytes128Atom32,
    /// The same, and in every other row the halves of each 16 bytes are exchanged (CUDA 12.8 on).
    Bytes128Atom32Flip8,
    /// Pieces of 64 bytes within 128 (CUDA 12.8 on).
    Bytes128Atom64,
}

/// How much the second-level cache fetches at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorL2Promotion {
    /// What is asked for.
    #[default]
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

/// What elements beyond the tensor read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorFill {
    /// Zero.
    #[default]
    Zeros,
    /// A NaN which a fused multiply-add takes for zero if it is asked to. For floating-point types.
    NanAsZeroFma,
}

/// How many pixels a wide column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WidePixels {
    /// So many: up to 1024.
    Count(u32),
    /// 128 (`CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128`).
    W128,
}

/// The columns that `im2col` makes of an image, whose dimensions are channels, width, height,
/// depth, and images.
///
/// A filter begins at each pixel of the box between the corners, or, by
/// [`element_strides`](TensorLayout::element_strides), at every so manieth. For a convolution with
/// padding `p`, `q` behind the last pixel, and filters of `n` taps that are `d` apart they are `-p`
/// and `q - (n - 1) * d`. A kernel says at which filter a column begins, and how far the tap is
/// from there; the column goes on with the filters that follow, of the next row, plane and image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2col<'a> {
    /// The corner of the first pixel at which a filter begins, as offsets from the first of the
    /// image: a number for each dimension but channels and images, width first.
    pub lower_corner: &'a [i32],
    /// The corner of the last of them, as offsets from the last pixel.
    pub upper_corner: &'a [i32],
    /// The channels that are copied of a pixel.
    pub channels_per_pixel: u32,
    /// The pixels that are copied at once.
    pub pixels_per_column: u32,
}

/// The columns that `im2col` makes along the width alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2colWide {
    /// Where filters begin, as an offset from the first pixel of a row.
    pub lower_corner: i32,
    /// Where they end, as an offset from the last.
    pub upper_corner: i32,
    /// The channels that are copied of a pixel.
    pub channels_per_pixel: u32,
    /// The pixels that are copied at once.
    pub pixels: WidePixels,
}

/// How a tensor lies in memory. The first dimension is the one whose elements lie side by side.
///
/// Nothing is checked before a [`TensorMap`](crate::TensorMap) is made of it.
///
/// ```
/// use cuda_driver::{TensorDataType, TensorLayout, TensorSwizzle};
///
/// // 1000 rows of 512 floats, of which each begins 4 KiB behind the one before.
/// let rows = TensorLayout::new(TensorDataType::F32, &[512, 1000])
///     .strides(&[4096])
///     .swizzle(TensorSwizzle::Bytes128);
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
    /// A tensor of so many elements along each dimension, with no gaps between them.
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

    /// The bytes from one element to the next along each dimension but the first.
    #[must_use]
    pub fn strides(mut self, bytes: &[u64]) -> Self {
        self.strides = bytes.to_vec();
        self
    }

    /// Along each dimension, only every so manieth element is copied: 1 to 8.
    #[must_use]
    pub fn element_strides(mut self, steps: &[u32]) -> Self {
        self.steps = steps.to_vec();
        self
    }

    /// Whether channels lie together in groups.
    #[must_use]
    pub fn interleave(self, interleave: TensorInterleave) -> Self {
        Self { interleave, ..self }
    }

    /// How pieces of a row change places in shared memory.
    #[must_use]
    pub fn swizzle(self, swizzle: TensorSwizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// How much the second-level cache fetches at once.
    #[must_use]
    pub fn l2_promotion(self, l2_promotion: TensorL2Promotion) -> Self {
        Self {
            l2_promotion,
            ..self
        }
    }

    /// What elements beyond the tensor read as.
    #[must_use]
    pub fn fill(self, fill: TensorFill) -> Self {
        Self { fill, ..self }
    }
}

impl TensorDataType {
    /// The bits of an element in device memory.
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

    /// The bytes of so many elements, rounded up.
    pub(super) fn bytes_of(self, elements: u64) -> u64 {
        elements.saturating_mul(self.bits()).div_ceil(8)
    }

    /// Whether it is of those that lie in 16 bytes of shared memory.
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
    /// The bytes within which pieces change places.
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

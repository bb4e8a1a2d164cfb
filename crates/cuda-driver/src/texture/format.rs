//! The formats of arrays, as types.

use cuda_sys::CUarray_format;

use crate::memory::DeviceRepr;
use crate::vector;

/// The type of a channel of an array, as the driver names it.
pub use cuda_sys::CUarray_format as ChannelFormat;

/// An element of an array: one, two or four channels of one type.
///
/// The trait is implemented for `u8`, `u16`, `u32`, `i8`, `i16`, `i32`, `f32` and (feature `half`)
/// `f16`; for arrays of two or four of these; and for the [vectors](crate::vector) of CUDA with two
/// or four components.
///
/// # Safety
///
/// A value consists of `CHANNELS` channels of the type `FORMAT`, and nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of an array",
    label = "not one, two or four channels of 8, 16 or 32 bits",
    note = "use a number such as `f32`, two or four of them such as `[u8; 4]`, or a vector such as `Float4`"
)]
pub unsafe trait Texel: DeviceRepr {
    /// The type of a channel.
    const FORMAT: ChannelFormat;
    /// The number of channels: 1, 2 or 4.
    const CHANNELS: u32;
}

macro_rules! texels {
    ($($(#[$cfg:meta])* $ty:ty: $format:ident, [$($two:ty, $four:ty)?];)*) => {
        $(
            $(#[$cfg])*
            // SAFETY: the value must be one channel of the type ← the C type of the format has the
            // same size and the same values.
            unsafe impl Texel for $ty {
                const FORMAT: ChannelFormat = CUarray_format::$format;
                const CHANNELS: u32 = 1;
            }

            $(#[$cfg])*
            // SAFETY: as above, for two channels.
            unsafe impl Texel for [$ty; 2] {
                const FORMAT: ChannelFormat = CUarray_format::$format;
                const CHANNELS: u32 = 2;
            }

            $(#[$cfg])*
            // SAFETY: as above, for four channels.
            unsafe impl Texel for [$ty; 4] {
                const FORMAT: ChannelFormat = CUarray_format::$format;
                const CHANNELS: u32 = 4;
            }

            $(
                // SAFETY: as above: the vector has two components of the type and no padding.
                unsafe impl Texel for $two {
                    const FORMAT: ChannelFormat = CUarray_format::$format;
                    const CHANNELS: u32 = 2;
                }

                // SAFETY: as above: the vector has four components of the type and no padding.
                unsafe impl Texel for $four {
                    const FORMAT: ChannelFormat = CUarray_format::$format;
                    const CHANNELS: u32 = 4;
                }
            )?
        )*
    };
}

texels! {
    u8: CU_AD_FORMAT_UNSIGNED_INT8, [vector::UChar2, vector::UChar4];
    i8: CU_AD_FORMAT_SIGNED_INT8, [vector::Char2, vector::Char4];
    u16: CU_AD_FORMAT_UNSIGNED_INT16, [vector::UShort2, vector::UShort4];
    i16: CU_AD_FORMAT_SIGNED_INT16, [vector::Short2, vector::Short4];
    u32: CU_AD_FORMAT_UNSIGNED_INT32, [vector::UInt2, vector::UInt4];
    i32: CU_AD_FORMAT_SIGNED_INT32, [vector::Int2, vector::Int4];
    f32: CU_AD_FORMAT_FLOAT, [vector::Float2, vector::Float4];
    #[cfg(feature = "half")]
    half::f16: CU_AD_FORMAT_HALF, [];
}

#[cfg(feature = "half")]
// SAFETY: the value must be two channels of the type ← it is two `f16` without padding.
unsafe impl Texel for vector::Half2 {
    const FORMAT: ChannelFormat = CUarray_format::CU_AD_FORMAT_HALF;
    const CHANNELS: u32 = 2;
}

/// Returns whether textures read channels of this type as numbers without conversion.
pub(super) fn is_float(format: ChannelFormat) -> bool {
    matches!(
        format,
        ChannelFormat::CU_AD_FORMAT_HALF | ChannelFormat::CU_AD_FORMAT_FLOAT
    )
}

/// Returns whether textures can convert channels of this type to numbers from 0 or -1 to 1.
pub(super) fn is_normalizable(format: ChannelFormat) -> bool {
    matches!(
        format,
        ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT8
            | ChannelFormat::CU_AD_FORMAT_SIGNED_INT8
            | ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT16
            | ChannelFormat::CU_AD_FORMAT_SIGNED_INT16
    )
}

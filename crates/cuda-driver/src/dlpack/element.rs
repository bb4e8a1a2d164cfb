//! The types of elements that DLPack and the CUDA array interface can describe.

use super::raw::DLDataType;
use crate::memory::DeviceRepr;

/// A type of elements with a name in DLPack: an integer, a float, and with the features `half` and
/// `float8` the floats of these crates.
///
/// # Safety
///
/// `DTYPE` describes the type.
pub unsafe trait Element: DeviceRepr {
    /// The type in DLPack.
    const DTYPE: DLDataType;

    /// The type in the CUDA array interface, as NumPy writes it, or `None` if it has none.
    const TYPESTR: Option<&'static str>;
}

macro_rules! elements {
    ($($(#[$attribute:meta])* $ty:ty: $code:literal, $typestr:expr;)*) => {
        $(
            $(#[$attribute])*
            // SAFETY: the code and the size must be those of the type ← the code is that of
            // `dlpack.h`, and the size is computed.
            unsafe impl Element for $ty {
                const DTYPE: DLDataType = DLDataType {
                    code: $code,
                    bits: 8 * size_of::<$ty>() as u8,
                    lanes: 1,
                };
                const TYPESTR: Option<&'static str> = $typestr;
            }
        )*
    };
}

elements! {
    i8: 0, Some("|i1");
    i16: 0, Some("<i2");
    i32: 0, Some("<i4");
    i64: 0, Some("<i8");
    u8: 1, Some("|u1");
    u16: 1, Some("<u2");
    u32: 1, Some("<u4");
    u64: 1, Some("<u8");
    f32: 2, Some("<f4");
    f64: 2, Some("<f8");
    #[cfg(feature = "half")]
    half::f16: 2, Some("<f2");
    #[cfg(feature = "half")]
    half::bf16: 4, None;
    #[cfg(feature = "float8")]
    float8::F8E4M3: 10, None;
    #[cfg(feature = "float8")]
    float8::F8E5M2: 12, None;
}

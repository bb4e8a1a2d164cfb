//! The type of a kernel argument, for the comparison with the parameter of the kernel.

use cuda_sys::image::ParameterKind;

/// The type of a kernel argument, as far as it is compared with the parameter of the kernel.
///
/// A newtype around an argument takes it from the inner type: see
/// [`KernelArg::ARG_TYPE`](crate::launch::KernelArg::ARG_TYPE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgType {
    /// Any other type, such as a struct: it fits every parameter of its size.
    Other,
    /// The address of a buffer or view.
    Address,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `u128`.
    U128,
    /// `usize`.
    Usize,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `i128`.
    I128,
    /// `isize`.
    Isize,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl ArgType {
    /// Returns the name for messages; `None` for a type that only its size describes.
    pub(crate) const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Other => return None,
            Self::Address => "a buffer",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::Usize => "usize",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::Isize => "isize",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    pub(crate) const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Other)
    }

    /// Returns whether an argument of this type is certainly wrong for a parameter of the same
    /// size: a float for an integer, or an integer for a float.
    pub(crate) const fn contradicts(self, kind: ParameterKind) -> bool {
        match kind {
            ParameterKind::Float => self.is_integer(),
            ParameterKind::Unsigned | ParameterKind::Signed => self.is_float(),
            ParameterKind::Unknown | ParameterKind::Bits | ParameterKind::Array => false,
        }
    }
}

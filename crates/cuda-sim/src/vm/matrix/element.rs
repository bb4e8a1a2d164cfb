//! The element types of matrices.

use half::{bf16, f16};

use crate::vm::decode::half_narrow;
use crate::vm::rounding::canonical;

/// The type of the elements of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    /// 8 bits: 4 of exponent, 3 of mantissa, no infinity.
    E4m3,
    /// 8 bits: 5 of exponent, 2 of mantissa.
    E5m2,
    S8,
    U8,
    S4,
    U4,
    /// Single bits, 32 of which are handled together.
    B1,
    S32,
}

impl Element {
    pub(in crate::vm) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            "b1" => Self::B1,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// The bits of one element in a register.
    pub(in crate::vm) fn bits(self) -> u32 {
        match self {
            Self::F64 => 64,
            Self::F32 | Self::Tf32 | Self::S32 | Self::B1 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::S8 | Self::U8 | Self::E4m3 | Self::E5m2 => 8,
            Self::S4 | Self::U4 => 4,
        }
    }

    /// The number of elements in one register.
    pub(super) fn packed(self) -> usize {
        match self {
            Self::F64 => 1,
            _ => 32 / self.bits() as usize,
        }
    }

    /// The number of elements, as the matrix shape counts them, in one element here.
    pub(in crate::vm) fn count(self) -> usize {
        if self == Self::B1 { 32 } else { 1 }
    }

    pub(in crate::vm) fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::Bf16 | Self::Tf32 | Self::F32 | Self::F64 | Self::E4m3 | Self::E5m2
        )
    }

    /// The exact value of an element.
    pub(super) fn float(self, bits: u64) -> f64 {
        match self {
            Self::F16 => f16::from_bits(bits as u16).to_f64(),
            Self::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            // The low bits are ignored.
            Self::Tf32 => f32::from_bits(bits as u32 & 0xffff_e000).into(),
            Self::F32 => f32::from_bits(bits as u32).into(),
            Self::F64 => f64::from_bits(bits),
            Self::E4m3 if bits & 0x7f == 0x7f => f64::NAN,
            Self::E4m3 => small_float(bits, 3, 7),
            // An e5m2 number is the high half of an f16.
            Self::E5m2 => f16::from_bits((bits as u16) << 8).to_f64(),
            _ => self.integer(bits) as f64,
        }
    }

    /// The bits of the nearest representable value.
    pub(super) fn nearest(self, value: f64) -> u64 {
        match self {
            Self::F16 => half_narrow(value, 0.0, false).into(),
            Self::F32 => canonical(value as f32).to_bits().into(),
            _ => value.to_bits(),
        }
    }

    pub(super) fn integer(self, bits: u64) -> i64 {
        match self {
            Self::S8 => i64::from(bits as i8),
            Self::S4 => i64::from((bits as i8) << 4 >> 4),
            Self::S32 => i64::from(bits as i32),
            _ => bits as i64,
        }
    }
}

/// The value of an 8-bit number with this many bits of mantissa.
fn small_float(bits: u64, mantissa: u32, bias: i32) -> f64 {
    let exponent = (bits >> mantissa & (0x7f >> mantissa)) as i32;
    let fraction = (bits & ((1 << mantissa) - 1)) as f64 / f64::from(1u32 << mantissa);
    let magnitude = if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    if bits & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

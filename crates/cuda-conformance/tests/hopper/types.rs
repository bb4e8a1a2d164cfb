//! The element types of matrices, and small integers in each of them.

use half::{bf16, f16};

/// The type of the elements of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    B1,
    F32,
    S32,
}

impl Ty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::B1 => "b1",
            Self::F32 => "f32",
            Self::S32 => "s32",
        }
    }

    /// The bits of an element. Single bits are handled 32 at a time.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::Tf32 | Self::B1 | Self::F32 | Self::S32 => 32,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        self.bits() / 8
    }

    /// The `k` of a shape.
    pub(crate) fn shape_depth(self, sparse: bool) -> usize {
        let depth = if self == Self::B1 { 256 } else { self.depth() };
        if sparse { 2 * depth } else { depth }
    }

    /// The number of elements in a row of a dense A: 32 bytes.
    pub(crate) fn depth(self) -> usize {
        256 / self.bits()
    }

    pub(crate) fn is_float(self) -> bool {
        !matches!(self, Self::S8 | Self::U8 | Self::B1 | Self::S32)
    }

    /// Whether both matrices may be transposed.
    pub(crate) fn has_transposes(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// The bits of a small integer, which must be exact in this type.
    pub(crate) fn encode(self, value: i64) -> u32 {
        match self {
            Self::F16 => f16::from_f64(value as f64).to_bits().into(),
            Self::Bf16 => bf16::from_f64(value as f64).to_bits().into(),
            Self::Tf32 | Self::F32 => (value as f32).to_bits(),
            Self::E4m3 => tiny(value, 3, 7),
            Self::E5m2 => tiny(value, 2, 15),
            Self::S8 | Self::U8 => u32::from(value as u8),
            Self::B1 | Self::S32 => value as u32,
        }
    }
}

/// The bits of a small integer as a number of 8 bits with this mantissa and bias.
fn tiny(value: i64, mantissa: u32, bias: u32) -> u32 {
    let magnitude = value.unsigned_abs() as u32;
    if magnitude == 0 {
        return 0;
    }
    let lead = magnitude.ilog2();
    let fraction = (magnitude << mantissa >> lead) & ((1 << mantissa) - 1);
    u32::from(value < 0) << 7 | (lead + bias) << mantissa | fraction
}

#[test]
fn small_integers_have_the_bits_of_the_formats() {
    assert_eq!(Ty::E4m3.encode(1), 0x38);
    assert_eq!(Ty::E4m3.encode(-6), 0xcc);
    assert_eq!(Ty::E5m2.encode(1), 0x3c);
    assert_eq!(Ty::E5m2.encode(-6), 0xc6);
    assert_eq!(Ty::F16.encode(-2), 0xc000);
}

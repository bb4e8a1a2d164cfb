//! The operations of arithmetic opcodes, each of which has a form for several types.
//!
//! Decoders match these instead of names, so the compiler reports an operation without a form.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, unsupported};

/// An integer operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerOp {
    Add,
    AddCarry,
    Sub,
    SubCarry,
    Mul,
    Mul24,
    Mad,
    Mad24,
    MadCarry,
    Div,
    Rem,
    Min,
    Max,
    Abs,
    Neg,
    /// The sum of the third source and the absolute difference of the first two.
    Sad,
}

/// An operation on the bits of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogicOp {
    And,
    Or,
    Xor,
    Not,
    /// 1 if the source is zero, else 0.
    IsZero,
    CountOnes,
    LeadingZeros,
    ReverseBits,
}

/// An operation on floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    /// The older name of `Fma`; only for f32 and f64.
    Mad,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
    Sin,
    Cos,
    Log2,
    Exp2,
    Tanh,
    Neg,
    Abs,
    CopySign,
    Min,
    Max,
}

impl FloatOp {
    /// The number of sources.
    pub(super) fn sources(self) -> usize {
        match self {
            Self::Fma | Self::Mad => 3,
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::CopySign
            | Self::Min
            | Self::Max => 2,
            Self::Sqrt
            | Self::Reciprocal
            | Self::ReciprocalSqrt
            | Self::Sin
            | Self::Cos
            | Self::Log2
            | Self::Exp2
            | Self::Tanh
            | Self::Neg
            | Self::Abs => 1,
        }
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes an opcode that has forms for integers and for floating-point numbers. The last type
    /// selects the form.
    pub(super) fn by_type(
        &mut self,
        form: &mut Form<'a>,
        integer: Option<IntegerOp>,
        float: Option<FloatOp>,
    ) -> Decoded {
        let ty = form.modifiers.iter().rev().find_map(|text| Ty::parse(text));
        match (ty.map(|ty| (ty.class, ty.bits)), integer, float) {
            (Some((Class::Float, 32 | 64)), _, Some(op)) => self.float(form, op),
            (Some((Class::Float | Class::Brain, 16)), _, Some(op)) => self.half(form, op),
            (Some(_), Some(op), _) => self.integer(form, op),
            _ => unsupported(""),
        }
    }
}

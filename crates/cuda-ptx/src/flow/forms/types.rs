//! The types of instructions, and the registers and numbers that they take as operands.

use crate::ast::Literal;

use super::super::names::bits_of;

/// The declaration of an element of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) class: Class,
    pub(super) bits: u32,
}

/// What the declared type of a register permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Predicate,
    /// `.b8` to `.b128`: every use of its size.
    Bits,
    Integer,
    Float,
    /// `.f16` and `.f16x2`
    Half,
    /// A type that no register has.
    Unknown,
}

impl Declared {
    pub(super) fn new(ty: &str) -> Self {
        let class = match ty {
            "pred" => Class::Predicate,
            "b8" | "b16" | "b32" | "b64" | "b128" => Class::Bits,
            "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" => Class::Integer,
            "f32" | "f64" => Class::Float,
            "f16" | "f16x2" => Class::Half,
            _ => Class::Unknown,
        };
        let bits = bits_of(ty);
        Self { class, bits }
    }
}

/// A type of an instruction: the size of its operands, and what they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) bits: u32,
    kind: TypeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeKind {
    Predicate,
    Bits,
    Integer,
    Float,
    /// `.f16` and `.f16x2`
    Half,
    /// A format in a register of type `.b…`.
    Packed,
}

impl Type {
    pub(super) fn parse(name: &str) -> Option<Self> {
        use TypeKind::{Bits, Float, Half, Integer, Packed, Predicate};
        let (bits, kind) = match name {
            "pred" => (1, Predicate),
            "b8" => (8, Bits),
            "b16" => (16, Bits),
            "b32" => (32, Bits),
            "b64" => (64, Bits),
            "b128" => (128, Bits),
            "u8" | "s8" => (8, Integer),
            "u16" | "s16" => (16, Integer),
            "u32" | "s32" => (32, Integer),
            "u64" | "s64" => (64, Integer),
            "f32" => (32, Float),
            "f64" => (64, Float),
            "f16" => (16, Half),
            "f16x2" => (32, Half),
            "e2m1x2" => (8, Packed),
            "bf16" | "e4m3x2" | "e5m2x2" | "e2m3x2" | "e3m2x2" | "ue8m0x2" => (16, Packed),
            "bf16x2" | "u16x2" | "s16x2" | "tf32" => (32, Packed),
            // Fragments of matrices.
            "x32" => (32, Packed),
            "f32x2" => (64, Packed),
            _ => return None,
        };
        Some(Self { bits, kind })
    }

    pub(super) fn is_predicate(self) -> bool {
        self.kind == TypeKind::Predicate
    }

    /// Whether the type is one of floating-point numbers or bits whose register is `.f32` or
    /// `.f64`.
    pub(super) fn is_float(self) -> bool {
        self.kind == TypeKind::Float
    }

    pub(super) fn is_integer(self) -> bool {
        self.kind == TypeKind::Integer
    }

    pub(super) fn is_bits(self) -> bool {
        self.kind == TypeKind::Bits
    }

    /// Whether an element of a register may be an operand. Conversions, loads and stores take
    /// wider registers, too.
    pub(super) fn permits(self, declared: Declared, is_wide: bool) -> bool {
        let is_size = match is_wide {
            true => declared.bits >= self.bits && declared.class != Class::Half,
            false => declared.bits == self.bits,
        };
        let is_class = match (self.kind, declared.class) {
            (TypeKind::Predicate, class) => class == Class::Predicate,
            (_, Class::Predicate | Class::Unknown) => false,
            (TypeKind::Bits, _) | (_, Class::Bits) => true,
            (TypeKind::Integer, class) => class == Class::Integer,
            (TypeKind::Float, class) => class == Class::Float && declared.bits == self.bits,
            (TypeKind::Half, class) => class == Class::Half,
            (TypeKind::Packed, _) => false,
        };
        // A wide half needs a register of its own size or one of bits.
        let is_half = declared.class == Class::Half && declared.bits == self.bits;
        is_class && (is_size || is_half)
    }

    /// Whether a number may be an operand.
    pub(super) fn permits_number(self, literal: Literal) -> bool {
        match (self.kind, literal) {
            (TypeKind::Predicate | TypeKind::Integer | TypeKind::Bits, Literal::Int(_)) => {
                self.bits <= 64
            }
            (TypeKind::Bits, Literal::F32(_)) => self.bits == 32,
            (TypeKind::Bits, Literal::F64(_)) => self.bits == 64,
            (TypeKind::Float, Literal::F32(_) | Literal::F64(_)) => true,
            _ => false,
        }
    }
}

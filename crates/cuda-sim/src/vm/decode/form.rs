//! The parts of an instruction that is being decoded.

use super::{Decoded, unsupported};
use cuda_ptx::{Instruction, Operand};

/// The interpretation of a type's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Class {
    Unsigned,
    Signed,
    Float,
    /// `bf16`
    Brain,
    Bits,
    Pred,
}

/// A type, such as `s32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ty {
    pub(super) class: Class,
    pub(super) bits: u32,
    /// Whether a register holds two values, as for `f16x2`.
    pub(super) packed: bool,
}

impl Ty {
    pub(super) const PRED: Self = Self::new(Class::Pred, 1);
    pub(super) const B32: Self = Self::new(Class::Bits, 32);
    pub(super) const B64: Self = Self::new(Class::Bits, 64);
    pub(super) const U32: Self = Self::new(Class::Unsigned, 32);
    pub(super) const U64: Self = Self::new(Class::Unsigned, 64);

    pub(super) const fn new(class: Class, bits: u32) -> Self {
        Self {
            class,
            bits,
            packed: false,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (class, bits) = match text {
            "pred" => (Class::Pred, 1),
            "u8" => (Class::Unsigned, 8),
            "u16" | "u16x2" => (Class::Unsigned, 16),
            "u32" => (Class::Unsigned, 32),
            "u64" => (Class::Unsigned, 64),
            "s8" => (Class::Signed, 8),
            "s16" | "s16x2" => (Class::Signed, 16),
            "s32" => (Class::Signed, 32),
            "s64" => (Class::Signed, 64),
            "b8" => (Class::Bits, 8),
            "b16" => (Class::Bits, 16),
            "b32" => (Class::Bits, 32),
            "b64" => (Class::Bits, 64),
            "b128" => (Class::Bits, 128),
            "f16" | "f16x2" => (Class::Float, 16),
            "bf16" | "bf16x2" => (Class::Brain, 16),
            "f32" | "f32x2" => (Class::Float, 32),
            "f64" => (Class::Float, 64),
            _ => return None,
        };
        Some(Self {
            class,
            bits,
            packed: text.ends_with("x2"),
        })
    }

    pub(super) fn signed(self) -> bool {
        self.class == Class::Signed
    }

    /// The width of the register in bits.
    pub(super) fn width(self) -> u32 {
        if self.packed {
            self.bits * 2
        } else {
            self.bits
        }
    }
}

/// An instruction from which the decoder takes parts until none is left.
#[derive(Debug)]
pub(super) struct Form<'a> {
    pub(super) opcode: &'a str,
    pub(super) modifiers: Vec<&'a str>,
    pub(super) operands: &'a [Operand<'a>],
    /// The bytes of a load that the program uses, one bit each.
    pub(super) used_bytes: Option<u32>,
}

impl<'a> Form<'a> {
    pub(super) fn new(instruction: &'a Instruction<'a>) -> Self {
        Self {
            opcode: instruction.opcode,
            modifiers: instruction.modifiers.clone(),
            operands: &instruction.operands,
            used_bytes: instruction.used_bytes,
        }
    }

    /// Takes the modifier `name`; returns whether it was present.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let found = self.modifiers.iter().position(|&other| other == name);
        if let Some(index) = found {
            self.modifiers.remove(index);
        }
        found.is_some()
    }

    /// Takes and returns the first modifier that is among `names`.
    pub(super) fn one_of(&mut self, names: &[&'static str]) -> Option<&'static str> {
        for index in 0..self.modifiers.len() {
            if let Some(&name) = names.iter().find(|&&name| name == self.modifiers[index]) {
                self.modifiers.remove(index);
                return Some(name);
            }
        }
        None
    }

    /// Takes the last type.
    pub(super) fn ty(&mut self) -> Decoded<Ty> {
        let index = self
            .modifiers
            .iter()
            .rposition(|text| Ty::parse(text).is_some());
        match index.and_then(|index| Ty::parse(self.modifiers.remove(index))) {
            Some(ty) => Ok(ty),
            None => unsupported("without a type"),
        }
    }

    /// Checks that there are `count` operands.
    pub(super) fn arity(&self, count: usize) -> Decoded {
        if self.operands.len() == count {
            return Ok(());
        }
        // If modifiers are left over, the form is unsupported rather than invalid.
        self.done()?;
        super::invalid(format!(
            "{} operands for instruction '{}', which takes {count}",
            self.operands.len(),
            self.opcode
        ))
    }

    /// Checks that no modifier is left over.
    pub(super) fn done(&self) -> Decoded {
        match self.modifiers.first() {
            None => Ok(()),
            Some(modifier) => unsupported(format!("modifier `.{modifier}`")),
        }
    }
}

//! Prints instructions and operands as PTX.

use std::fmt::{self, Display, Formatter};

use super::ast::{Base, Instruction, Literal, Operand};

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // A decimal number would not show the bits of an address or mask.
            Self::Int(value) if *value > 0xffff_ffff => write!(f, "{value:#x}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::F32(bits) => write!(f, "0f{bits:08X}"),
            Self::F64(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

/// Prints an offset as `+8` or `+-8`, and nothing for 0.
fn offset(f: &mut Formatter<'_>, offset: i64) -> fmt::Result {
    match offset {
        0 => Ok(()),
        offset if offset < 0 => write!(f, "+-{}", offset.unsigned_abs()),
        offset => write!(f, "+{offset}"),
    }
}

fn list(f: &mut Formatter<'_>, operands: &[Operand<'_>]) -> fmt::Result {
    for (index, operand) in operands.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        operand.fmt(f)?;
    }
    Ok(())
}

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Member(name, member) => write!(f, "{name}.{member}"),
            Self::Offset(name, by) => {
                f.write_str(name)?;
                offset(f, *by)
            }
            Self::Element(name, index) => write!(f, "{name}[{index}]"),
            Self::Literal(literal) => literal.fmt(f),
            Self::Not(name) => write!(f, "!{name}"),
            Self::Sink => f.write_str("_"),
            Self::Pair(pair) => write!(f, "{}|{}", pair.0, pair.1),
            Self::Vector(operands) => {
                f.write_str("{")?;
                list(f, operands)?;
                f.write_str("}")
            }
            Self::Address(Base::Name(name), by) => {
                write!(f, "[{name}")?;
                offset(f, *by)?;
                f.write_str("]")
            }
            Self::Address(Base::Absolute, at) => write!(f, "[{}]", *at as u64),
            Self::Bracket(operands) => {
                f.write_str("[")?;
                list(f, operands)?;
                f.write_str("]")
            }
            Self::List(operands) => {
                f.write_str("(")?;
                list(f, operands)?;
                f.write_str(")")
            }
        }
    }
}

/// The instruction with its pragma, its predicate and its semicolon, on one line.
impl Display for Instruction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(mask) = self.used_bytes {
            write!(f, ".pragma \"used_bytes_mask {mask}\"; ")?;
        }
        if let Some(predicate) = self.predicate {
            let not = if predicate.negated { "!" } else { "" };
            write!(f, "@{not}{} ", predicate.name)?;
        }
        f.write_str(self.opcode)?;
        for modifier in &self.modifiers {
            write!(f, ".{modifier}")?;
        }
        if !self.operands.is_empty() {
            f.write_str(" ")?;
            list(f, &self.operands)?;
        }
        f.write_str(";")
    }
}

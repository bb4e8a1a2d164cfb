//! Prints instructions and operands as PTX.

use std::fmt::{self, Display, Formatter, Write};

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

/// Returns the text that a name is printed as.
type Rename<'r, 'a> = &'r mut dyn FnMut(&'a str) -> String;

/// Prints an offset as `+8` or `+-8`, and nothing for 0.
fn offset(out: &mut dyn Write, offset: i64) -> fmt::Result {
    match offset {
        0 => Ok(()),
        offset if offset < 0 => write!(out, "+-{}", offset.unsigned_abs()),
        offset => write!(out, "+{offset}"),
    }
}

fn list<'a>(
    out: &mut dyn Write,
    operands: &[Operand<'a>],
    brackets: (char, char),
    rename: Rename<'_, 'a>,
) -> fmt::Result {
    out.write_char(brackets.0)?;
    for (index, one) in operands.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        operand(out, one, rename)?;
    }
    out.write_char(brackets.1)
}

fn operand<'a>(out: &mut dyn Write, printed: &Operand<'a>, rename: Rename<'_, 'a>) -> fmt::Result {
    match printed {
        Operand::Name(name) => out.write_str(&rename(name)),
        Operand::Member(name, member) => write!(out, "{}.{member}", rename(name)),
        Operand::Offset(name, by) => {
            out.write_str(&rename(name))?;
            offset(out, *by)
        }
        Operand::Element(name, index) => write!(out, "{}[{index}]", rename(name)),
        Operand::Literal(literal) => write!(out, "{literal}"),
        Operand::Not(name) => write!(out, "!{}", rename(name)),
        Operand::Sink => out.write_str("_"),
        Operand::Pair(pair) => {
            operand(out, &pair.0, rename)?;
            out.write_str("|")?;
            operand(out, &pair.1, rename)
        }
        Operand::Vector(operands) => list(out, operands, ('{', '}'), rename),
        Operand::Address(Base::Name(name), by) => {
            write!(out, "[{}", rename(name))?;
            offset(out, *by)?;
            out.write_str("]")
        }
        Operand::Address(Base::Absolute, at) => write!(out, "[{}]", *at as u64),
        Operand::Bracket(operands) => list(out, operands, ('[', ']'), rename),
        Operand::List(operands) => list(out, operands, ('(', ')'), rename),
    }
}

/// Prints an instruction with its pragma, its predicate and its semicolon, on one line. `rename`
/// returns the text for each name of a register, a variable or a label.
pub(crate) fn instruction<'a>(
    out: &mut dyn Write,
    printed: &Instruction<'a>,
    rename: Rename<'_, 'a>,
) -> fmt::Result {
    if let Some(mask) = printed.used_bytes {
        write!(out, ".pragma \"used_bytes_mask {mask}\"; ")?;
    }
    if let Some(predicate) = printed.predicate {
        let not = if predicate.negated { "!" } else { "" };
        write!(out, "@{not}{} ", rename(predicate.name))?;
    }
    out.write_str(printed.opcode)?;
    for modifier in &printed.modifiers {
        write!(out, ".{modifier}")?;
    }
    for (index, one) in printed.operands.iter().enumerate() {
        out.write_str(if index > 0 { ", " } else { " " })?;
        operand(out, one, rename)?;
    }
    out.write_str(";")
}

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        operand(f, self, &mut str::to_owned)
    }
}

/// The instruction with its pragma, its predicate and its semicolon, on one line.
impl Display for Instruction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        instruction(f, self, &mut str::to_owned)
    }
}

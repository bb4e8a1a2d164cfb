//! Decodes the syntax tree into executable code.
//!
//! Each PTX instruction becomes one or more [`Ins`](super::code::Ins). An instruction that is not
//! in the PTX manual makes loading fail. One that is in the manual, but is not implemented here,
//! becomes an instruction that fails when it is executed. Its kernel is marked, so that every
//! launch of the kernel fails before it starts. Both messages name the PTX instruction.

mod bulk;
mod cluster;
mod control;
mod converged;
mod convert;
mod convert_small;
mod declare;
mod dispatch;
mod fields;
mod float;
mod form;
mod function;
mod group;
mod group_check;
mod half;
mod integer;
mod matrix;
mod mbarrier;
mod memory;
mod module;
mod moves;
mod multiply;
mod opcodes;
mod operand;
mod operation;
mod packed;
mod policy;
mod predicate;
mod pressure;
mod rows;
mod surface;
mod symbols;
mod tensor;
mod tensor_map;
mod texture;
mod tile;

pub(super) use form::Class;
pub(super) use half::{add as half_add, narrow as half_narrow};

/// The reason why an instruction cannot be decoded.
#[derive(Debug)]
enum DecodeError {
    /// The text is invalid, and loading fails.
    Invalid(String),
    /// The software device does not implement it, and launching its kernel fails. The string names
    /// the unsupported part, or is empty.
    Unsupported(String),
}

type Decoded<T = ()> = Result<T, DecodeError>;

fn invalid<T>(message: impl Into<String>) -> Decoded<T> {
    Err(DecodeError::Invalid(message.into()))
}

fn unsupported<T>(what: impl Into<String>) -> Decoded<T> {
    Err(DecodeError::Unsupported(what.into()))
}

/// The opcodes of the PTX manual that are not implemented.
#[cfg(test)]
pub(super) fn unimplemented_opcodes() -> &'static [&'static str] {
    opcodes::UNIMPLEMENTED
}

/// The name and the example of each opcode.
#[cfg(test)]
pub(super) fn opcode_examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    opcodes::OPCODES.iter().map(|row| (row.name, row.example))
}

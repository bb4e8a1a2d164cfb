//! Decodes the syntax tree into executable code.
//!
//! Each PTX instruction becomes one or more [`Ins`](super::code::Ins). An unsupported instruction
//! becomes one that fails when it is executed, with the name of the PTX instruction in the message.

mod bulk;
mod cluster;
mod control;
mod convert;
mod convert8;
mod dispatch;
mod fields;
mod float;
mod form;
mod function;
mod half;
mod integer;
mod matrix;
mod mbarrier;
mod memory;
mod module;
mod moves;
mod multiply;
mod operand;
mod packed;
mod policy;
mod predicate;
mod pressure;
mod rows;
mod surface;
mod symbols;
mod tensor;
mod texture;
mod tile;

pub(super) use form::Class;
pub(super) use half::{add as half_add, narrow as half_narrow};
pub(super) use module::program;

/// The reason why an instruction cannot be decoded.
#[derive(Debug)]
enum Refuse {
    /// The text is invalid, and loading fails.
    Invalid(String),
    /// The software device does not implement it, and executing it fails. The string names the
    /// unsupported part, or is empty.
    Missing(String),
}

type Decoded<T = ()> = Result<T, Refuse>;

fn invalid<T>(message: impl Into<String>) -> Decoded<T> {
    Err(Refuse::Invalid(message.into()))
}

fn missing<T>(what: impl Into<String>) -> Decoded<T> {
    Err(Refuse::Missing(what.into()))
}

//! PTX text to a syntax tree.
//!
//! The grammar is the generic one, `@predicate opcode.modifier.modifier operands;`: which instructions exist is
//! decided when a [`Program`](crate::vm::Program) is made, so text of a newer PTX version still parses. Nothing here
//! panics, whatever the text.

mod ast;
mod error;
mod exports;
mod initial;
mod lexer;
mod parser;
mod statement;
#[cfg(test)]
mod tests;

pub use ast::{
    Base, Function, Init, Instruction, Linkage, Literal, Location, Module, Operand, Predicate,
    Prototype, Register, Space, Statement, Target, Variable,
};
pub use error::Error;
pub use exports::{Definition, Exports};

/// Parses one PTX module.
///
/// # Errors
///
/// The first [`Error`] in the text, with its line and column.
pub fn parse(text: &str) -> Result<Module<'_>, Error> {
    parser::Parser::new(text).module()
}

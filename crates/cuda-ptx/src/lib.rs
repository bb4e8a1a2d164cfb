//! A parser for PTX, the assembly language of NVIDIA GPUs.
//!
//! [`parse`] turns the text of one PTX module into a [`Module`]: its variables and functions, and
//! the statements of each function. Names borrow from the text, and statements keep their line
//! numbers.
//!
//! The parser knows the grammar, `@predicate opcode.modifier.modifier operands;`, but no list of
//! instructions. Text of a newer PTX version therefore still parses, and the user of the syntax
//! tree decides which instructions it knows. No text makes the parser panic.
//!
//! ```
//! let module = cuda_ptx::parse(
//!     ".version 8.0\n.target sm_80\n.visible .entry scale(.param .u64 x, .param .u32 n) { ret; }",
//! )?;
//! let kernel = &module.functions[0];
//! assert_eq!(kernel.name, "scale");
//! assert_eq!(kernel.params.len(), 2);
//! assert_eq!(module.target.sm, 80);
//! # Ok::<(), cuda_ptx::Error>(())
//! ```
//!
//! [`Edits`] changes the text by the spans of the tree, [`analysis`] proves for one launch which
//! accesses of a kernel stay in their buffers, and [`instrument`](mod@instrument) rewrites a kernel
//! so that the other accesses are checked when they run.
//!
//! [`Exports`] finds the definition that a name refers to when several modules are linked.

pub mod analysis;
mod ast;
mod calls;
pub mod canonical;
mod check;
mod crashes;
mod edit;
mod error;
mod exports;
mod expression;
mod flow;
mod header;
mod initial;
pub mod instrument;
mod lexer;
mod module;
mod parameters;
mod parser;
mod prefix;
mod print;
mod statement;
mod tables;
#[cfg(test)]
mod tests;
mod variable;

pub use ast::{
    Alias, Attribute, Base, Function, Init, Instruction, Linkage, Literal, Location, Module,
    Operand, Pointer, Predicate, Prototype, Register, Space, Span, Statement, Target, Variable,
};
pub use check::check;
pub use crashes::check_crashes;
pub use edit::Edits;
pub use error::Error;
pub use exports::{Definition, Exports};
pub use flow::{forms, register_number};
pub use parameters::check_parameters;

/// Parses one PTX module.
///
/// # Errors
///
/// Returns the first syntax error in the text, with its line and column.
pub fn parse(text: &str) -> Result<Module<'_>, Error> {
    let mut module = parser::Parser::new(text).module()?;
    tables::mark(&mut module);
    Ok(module)
}

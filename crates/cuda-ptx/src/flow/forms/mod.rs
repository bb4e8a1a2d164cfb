//! The list of instruction forms that a kernel may have to be analysed. A kernel with another form
//! is refused by name. `docs/safe-launch-forms.md` is written from this list.
//!
//! ```text
//!    check      compares an instruction with the forms of its opcode
//!    operand    compares the operands with those of a form
//!    listing    the rows and their examples, for documents and tests
//!    table      the rows, by families
//!    form       one row: modifiers and operands
//!    types      types and the registers that fit
//!    special    special registers
//! ```
//!
//! A form that is not listed refuses the kernel. So the decoders may rely on the number and on the
//! kind of the operands, and no operand is dropped that they do not know.

mod check;
mod form;
mod listing;
mod operand;
mod special;
mod table;
mod types;

pub(crate) use check::{Need, needs};
pub use listing::{
    Example, ExampleOperand, Family, OperandRole, Row, families, refused, row_count, sets,
    special_registers,
};
pub(crate) use special::is_special;

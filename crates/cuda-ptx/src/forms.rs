//! The list of instruction forms that a kernel may have to be analysed.
//!
//! A kernel with another form is refused by name. `docs/safe-launch-forms.md` is written from this
//! list.

pub use crate::flow::forms::{
    Example, ExampleOperand, Family, OperandRole, Row, families, refused, row_count, sets,
    special_registers,
};

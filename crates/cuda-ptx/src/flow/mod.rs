//! The control flow and data flow of one kernel.
//!
//! ```text
//!    uses     variables and parameters that a kernel uses
//!    lower    statements become blocks of operations
//!    decode, admit, memory, moves, texture, predicate, float    one instruction becomes operations
//!    require    requirements on the values of operands
//!    addresses    addresses of variables in registers
//!    cycles   loops that an assembler may delete
//!    effect   instructions that it executes as often as the text says
//!    local, local_loops    loads of local memory that nothing may have written
//!    results  results that may differ from use to use
//!    first    registers that may be read before they are set
//!    ssa      each definition of a register becomes a value of its own
//!    graph    predecessors, order and dominators
//!    names    registers and variables in nested scopes
//!    op       operations and blocks
//!    tile     matrices in memory
//!    object   textures and surfaces
//!    forms    the instruction forms that a kernel may have
//! ```
//!
//! A module uses only modules below it; those of one row are parts of one type. A [`Kernel`] owns
//! its data, so that it can be kept longer than the text.

mod addresses;
mod admit;
mod cycles;
mod decode;
mod effect;
mod first;
mod float;
pub mod forms;
mod graph;
mod local;
mod local_loops;
mod lower;
mod memory;
mod moves;
mod names;
mod object;
mod op;
mod predicate;
mod require;
mod results;
mod ssa;
#[cfg(test)]
mod tests;
mod texture;
mod tile;
mod uses;

pub(crate) use cycles::Loop;
pub(crate) use lower::{Kernel, lower, size_of_variable};
pub use names::register_number;
pub(crate) use names::{Name, Names, Reg, bits_of};
pub(crate) use object::{BoundaryMode, ObjectUse};
pub use object::{Object, ObjectKind, ObjectShape};
pub use op::AccessKind;
pub(crate) use op::{
    Access, Axis, Block, FloatRange, Guard, Ins, Op, Phi, Relation, Source, Special, Value, Var,
};
pub(crate) use results::volatile;
pub(crate) use tile::Tile;

use crate::ast::Space;

/// The reason for which a kernel cannot be analysed at all, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The line in the PTX text.
    pub(crate) line: u32,
    /// The reason.
    pub(crate) reason: String,
}

impl Refused {
    pub(crate) fn new<T>(line: u32, reason: impl Into<String>) -> Result<T, Self> {
        let mut reason = reason.into();
        shorten(&mut reason);
        Err(Self { line, reason })
    }
}

/// The greatest length of a reason. A name in it can be longer, and each kernel has a reason.
const MAX_REASON: usize = 8192;

/// Leaves out the middle of a long text.
fn shorten(text: &mut String) {
    const GAP: &str = " [...] ";
    let Some(more) = text.len().checked_sub(MAX_REASON).filter(|more| *more > 0) else {
        return;
    };
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=MAX_REASON / 2 - GAP.len()).rfind(is_boundary);
    let end = (MAX_REASON / 2 + more..=text.len()).find(is_boundary);
    if let (Some(start), Some(end)) = (start, end) {
        text.replace_range(start..end, GAP);
    }
}

/// Whether addresses in `space` are 32 bits wide or 64.
pub(crate) fn is_window(space: Space) -> bool {
    matches!(
        space,
        Space::Shared | Space::Local | Space::Const | Space::Param
    )
}

/// The largest numbers of blocks, operations and phis of one kernel.
pub(crate) const MAX_BLOCKS: usize = 40_000;
pub(crate) const MAX_OPS: usize = 400_000;
pub(crate) const MAX_PHIS: usize = 400_000;

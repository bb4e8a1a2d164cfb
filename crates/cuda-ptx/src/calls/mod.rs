//! Replaces the calls in a kernel by the bodies of the functions, so that the analysis and the
//! rewriting see one function without calls.
//!
//! ```text
//!    mod       the body of a kernel without calls
//!    expand    one walk over a kernel and the functions that it calls
//!    callees   the functions of the module, and how many statements their calls insert
//!    frame     the names of one function in one place
//!    pass      arguments and results
//!    params    variables in parameter space become registers
//!    dead      removes addresses that nothing uses
//! ```
//!
//! The new text computes the same values and makes the same accesses in the same order. Its lines
//! map to those of the original text. A call of `__assertfail` becomes a `trap`.

mod callees;
mod dead;
mod expand;
mod frame;
mod params;
mod pass;
#[cfg(test)]
mod tests;

use crate::ast::{Function, Instruction, Module, Statement};
use crate::flow::Refused;
use crate::{Error, parse};

use callees::Callees;
use expand::Expander;

/// The body of a kernel without calls.
#[derive(Clone, Debug)]
pub(crate) struct Expanded {
    /// The text with its braces.
    pub(crate) body: String,
    /// The line in the original text for each line of `body`.
    lines: Vec<u32>,
}

/// The text before a body that is parsed alone. It has no line break.
const HEAD: &str = ".version 8.0 .target sm_80 .address_size 64 .visible .entry k() ";

/// The largest number of statements that the calls of all kernels of a module insert. A call of a
/// short function that calls others twice, and so on, inserts many statements, and each kernel of a
/// module can have it.
pub(crate) const MAX_INSERTED: u64 = 1_000_000;

/// Replaces the calls in the kernels of a module.
pub(crate) struct Inliner<'a> {
    module: &'a Module<'a>,
    callees: Option<Callees<'a>>,
    /// The number of statements that can still be inserted.
    left: u64,
}

impl<'a> Inliner<'a> {
    pub(crate) fn new(module: &'a Module<'a>) -> Self {
        Self {
            module,
            callees: None,
            left: MAX_INSERTED,
        }
    }

    /// Replaces the calls in `function`. Returns `None` if it has none.
    pub(crate) fn expand(
        &mut self,
        function: &'a Function<'a>,
    ) -> Result<Option<Expanded>, Refused> {
        let Some(body) = &function.body else {
            return Ok(None);
        };
        let is_call = |statement: &Statement<'_>| matches!(statement, Statement::Instruction(instruction) if instruction.opcode == "call");
        if !function.entry || !body.iter().any(is_call) {
            return Ok(None);
        }
        let module = self.module;
        let callees = self.callees.get_or_insert_with(|| Callees::new(module));
        let mut expander = Expander::new(callees, self.left);
        expander.expect_room(function, callees.inserted(body))?;
        // The first walk finds out how parameters are used. What it inserted counts even if it
        // fails.
        let first = expander.run(function, body);
        self.left = self.left.saturating_sub(expander.inserted);
        first?;
        expander.run(function, body)?;
        let (body, lines, has_asserts) = expander.finish();
        let mut expanded = Expanded { body, lines };
        if has_asserts {
            expanded.body = dead::removed(&expanded).unwrap_or(expanded.body);
        }
        Ok(Some(expanded))
    }
}

impl Expanded {
    /// A text that has only this kernel.
    pub(crate) fn text(&self) -> String {
        format!("{HEAD}{}", self.body)
    }

    /// The statements of [`text`](Self::text), with their lines in the original text.
    pub(crate) fn statements<'t>(&self, text: &'t str) -> Result<Vec<Statement<'t>>, Error> {
        let function = parse(text)?.functions.pop();
        let mut body = function.and_then(|function| function.body);
        let mut body = body.take().unwrap_or_default();
        self.restore_lines(&mut body, 1);
        Ok(body)
    }

    /// Gives statements that were parsed from `body` their lines in the original text. `first` is
    /// the line at which the body begins.
    pub(crate) fn restore_lines(&self, body: &mut [Statement<'_>], first: u32) {
        for statement in body {
            let (Statement::Instruction(Instruction { line, .. }) | Statement::Label(_, line)) =
                statement
            else {
                continue;
            };
            let index = line.saturating_sub(first) as usize;
            *line = self.lines.get(index).copied().unwrap_or(*line);
        }
    }
}

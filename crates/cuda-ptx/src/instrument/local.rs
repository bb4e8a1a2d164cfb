//! Writes zeros to local variables, so that a check and its access see the same number in memory
//! that the kernel never writes.

use std::fmt::Write;

use crate::analysis::Refusal;
use crate::ast::{Space, Statement};
use crate::flow::size_of_variable;

use super::site::Writer;

/// The largest number of stores for one variable. Larger variables are filled by a loop.
const MAX_STORES: u64 = 16;

/// The zeros that have to be written before the next instruction.
#[derive(Debug)]
pub(super) struct Locals {
    is_needed: bool,
    zeros: String,
    loops: u32,
}

impl Locals {
    pub(super) fn new(is_needed: bool) -> Self {
        Self {
            is_needed,
            zeros: String::new(),
            loops: 0,
        }
    }

    /// Takes the code that writes the zeros, if there is some.
    pub(super) fn zeros(&mut self) -> Option<String> {
        (!self.zeros.is_empty()).then(|| std::mem::take(&mut self.zeros))
    }

    /// Adds the zeros of a variable that a statement declares.
    pub(super) fn statement(
        &mut self,
        statement: &Statement<'_>,
        writer: &Writer<'_, '_>,
    ) -> Result<(), Refusal> {
        match statement {
            Statement::Variable(variable) if self.is_needed && variable.space == Space::Local => {
                let (name, line) = (variable.name, variable.line);
                let Some(bytes) = size_of_variable(variable) else {
                    let reason = format!("the local variable {name} has no known size");
                    return writer.refuse(line, reason);
                };
                let element = bytes / variable.count.unwrap_or(1).max(1);
                let align = variable.align.unwrap_or(element).max(1);
                let unit = [8, 4, 2, 1].into_iter();
                let unit = unit
                    .filter(|unit| align % unit == 0 && bytes % unit == 0)
                    .max();
                self.fill(name, bytes, unit.unwrap_or(1), writer);
                Ok(())
            }
            // A branch to the label would write the zeros again.
            Statement::Label(_, line) if !self.zeros.is_empty() => writer.refuse(
                *line,
                "a label after the declaration of a local variable that a check depends on",
            ),
            _ => Ok(()),
        }
    }

    fn fill(&mut self, name: &str, bytes: u64, unit: u64, writer: &Writer<'_, '_>) {
        let (zero, at, end) = (writer.d(0), writer.d(1), writer.d(2));
        let (out, bits) = (&mut self.zeros, 8 * unit);
        let value = match unit {
            8 => zero.clone(),
            _ => writer.r(0),
        };
        let register = if unit == 8 { 64 } else { 32 };
        let _ = write!(out, "mov.b{register} {value}, 0; ");
        if bytes / unit <= MAX_STORES {
            for offset in (0..bytes).step_by(unit as usize) {
                let _ = write!(out, "st.local.b{bits} [{name}+{offset}], {value}; ");
            }
            return;
        }
        self.loops += 1;
        let label = writer.label(&format!("zeros{}", self.loops));
        let is_below = writer.p(0);
        let _ = write!(
            out,
            "mov.u64 {at}, {name}; add.s64 {end}, {at}, {bytes}; {label}: st.local.b{bits} [{at}], \
             {value}; add.s64 {at}, {at}, {unit}; setp.lt.u64 {is_below}, {at}, {end}; \
             @{is_below} bra {label}; "
        );
    }
}

//! Writes zeros where an access is not executed because of its address.

use std::fmt::Write;

use crate::analysis::Refusal;
use crate::ast::names;
use crate::ast::{Instruction, Literal, Operand};

use super::site::{Checked, Writer};

impl<'a> Writer<'a, '_> {
    /// Sets the results to 0 if the instruction is not executed because of its address.
    ///
    /// This is written before the instruction: after it, the zeros would have to wait for the
    /// loaded value. If an operand is also a result, it keeps its value for the instruction,
    /// because then the zeros and the instruction have conditions that exclude each other.
    pub(super) fn zero(
        &mut self,
        out: &mut String,
        instruction: &'a Instruction<'a>,
        guard: Option<&str>,
        run: &str,
        bad: &str,
    ) -> Result<(), Refusal> {
        if !matches!(
            instruction.opcode,
            "ld" | "ldu" | "atom" | "suld" | "ldmatrix"
        ) {
            return Ok(());
        }
        let Some(target) = instruction.operands.first() else {
            return Ok(());
        };
        // A load without a predicate writes the zeros without a condition. With one, the assembler
        // would have to keep the old values, as it does not know that the conditions of the zeros
        // and of the load are opposites. The address has its own register; other operands must not
        // be results.
        let mut results = Vec::new();
        names(target, &mut |name| results.push(name));
        let is_load = matches!(instruction.opcode, "ld" | "ldu" | "ldmatrix");
        let mut is_always = guard.is_none() && is_load;
        for operand in instruction.operands.iter().skip(2) {
            names(operand, &mut |name| is_always &= !results.contains(&name));
        }
        let condition = if is_always {
            String::new()
        } else {
            let _ = write!(out, "not.pred {bad}, {run}; ");
            if let Some(guard) = guard {
                let _ = write!(out, "and.pred {bad}, {bad}, {guard}; ");
            }
            format!("@{bad} ")
        };
        let targets = match target {
            Operand::Vector(targets) => targets.as_slice(),
            target => std::slice::from_ref(target),
        };
        for target in targets {
            match target {
                Operand::Sink => {}
                Operand::Name(name) => {
                    let bits = self.bits(name);
                    if !matches!(bits, 16 | 32 | 64) {
                        let reason = format!(
                            "the access writes the register {name}, whose width is not 16, 32 or \
                             64 bits, so it cannot be checked"
                        );
                        return self.refuse(instruction.line, reason);
                    }
                    let _ = write!(out, "{condition}mov.b{bits} {name}, 0; ");
                }
                _ => {
                    let reason = "the access writes an operand that is not a register, so it \
                                  cannot be checked";
                    return self.refuse(instruction.line, reason);
                }
            }
        }
        Ok(())
    }

    /// Fills the destination of an asynchronous copy with zeros if only its source is out of range.
    pub(super) fn zero_copy(
        &mut self,
        out: &mut String,
        instruction: &'a Instruction<'a>,
        checked: &[(usize, Checked)],
        guard: Option<&str>,
        bad: &str,
    ) -> Result<(), Refusal> {
        let find = |operand| checked.iter().find(|(other, _)| *other == operand);
        let Some((_, source)) = find(1) else {
            return Ok(());
        };
        let _ = write!(out, "not.pred {bad}, {}; ", source.ok);
        let to = match (find(0), instruction.operands.first()) {
            (Some((_, to)), _) => {
                let _ = write!(out, "and.pred {bad}, {bad}, {}; ", to.ok);
                format!("[{}]", to.address)
            }
            (None, Some(operand)) => operand.to_string(),
            (None, None) => return Ok(()),
        };
        if let Some(guard) = guard {
            let _ = write!(out, "and.pred {bad}, {bad}, {guard}; ");
        }
        let zero = self.r(0);
        let vector = match instruction.operands.get(2) {
            Some(Operand::Literal(Literal::Int(4))) => format!(".u32 {to}, {zero}"),
            Some(Operand::Literal(Literal::Int(8))) => {
                format!(".v2.u32 {to}, {{{zero}, {zero}}}")
            }
            Some(Operand::Literal(Literal::Int(16))) => {
                format!(".v4.u32 {to}, {{{zero}, {zero}, {zero}, {zero}}}")
            }
            _ => {
                let reason = "the size of the asynchronous copy is not 4, 8 or 16, so it cannot be \
                              checked";
                return self.refuse(instruction.line, reason);
            }
        };
        let _ = write!(out, "mov.u32 {zero}, 0; @{bad} st.shared{vector}; ");
        Ok(())
    }
}

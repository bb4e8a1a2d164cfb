//! Admits instructions whose form is permitted, and whose operands are all resolved.

use crate::ast::Instruction;

use super::decode::{Decoder, NO};
use super::op::{Ins, Op, UNDEFINED};
use super::require::Requirement;
use super::{Refused, forms};

impl<'a> Decoder<'a> {
    /// Compares the instruction with the list of permitted forms, and records the requirements on
    /// the values of its operands.
    pub(super) fn admit(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let needs = match forms::needs(instruction, &mut self.names, &self.vars) {
            Ok(needs) => needs,
            Err(reason) => return Refused::new(instruction.line, reason),
        };
        for (need, index) in needs {
            let Some(operand) = instruction.operands.get(index) else {
                continue;
            };
            let bits = if need == forms::Need::Policy { 64 } else { 32 };
            let source = self.source(operand, bits);
            let number = self.requirements.len() as u32;
            self.requirements.push(Requirement {
                need,
                line: instruction.line,
                mnemonic: instruction.mnemonic(),
            });
            self.ins.push(Ins {
                op: Op::Require(number),
                sources: [source, NO, NO],
                unmodelled: Vec::new(),
                target: None,
                guard: None,
                previous: UNDEFINED,
            });
        }
        Ok(())
    }

    /// Fails if an operand of an instruction was not resolved. No form permits one.
    pub(super) fn expect_resolved(&mut self, line: u32) -> Result<(), Refused> {
        match self.unresolved.take() {
            Some(name) => Refused::new(line, format!("{name} is not declared")),
            None => Ok(()),
        }
    }

    pub(super) fn note_unresolved(&mut self, name: &str) {
        self.unresolved.get_or_insert_with(|| name.to_owned());
    }
}

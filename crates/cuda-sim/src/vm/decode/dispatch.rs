//! Decodes one instruction: its guard, then the decoder of its opcode (see
//! [`opcodes`](super::opcodes)).

use super::form::Form;
use super::function::{FunctionDecoder, Name, Width};
use super::{DecodeError, Decoded, invalid, opcodes, unsupported};
use crate::vm::code::{ALWAYS, Kind, NEGATED};
use crate::vm::lanes::lanes;
use cuda_ptx::{Instruction, Operand};

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn instruction(&mut self, instruction: &'a Instruction<'a>) -> Decoded {
        self.line = instruction.line;
        for (_, used) in &mut self.temps {
            *used = 0;
        }
        self.guard = ALWAYS;
        if let Some(predicate) = instruction.predicate {
            match self.named(predicate.name)? {
                Name::Reg(reg) if reg.width == Width::Pred => {
                    self.guard = reg.slot | if predicate.negated { NEGATED } else { 0 };
                }
                _ => return invalid(format!("'{}' is not a predicate", predicate.name)),
            }
        }
        self.check_group_registers(instruction);
        let start = self.out.program.code.len();
        let patches = self.patches.len();
        let guard = self.guard;
        self.keep_guard(instruction);
        let mut form = Form::new(instruction);
        let decoded = match opcodes::find(form.opcode) {
            Some(opcode) => (opcode.decode)(self, &mut form).and_then(|()| form.done()),
            None if opcodes::is_in_manual(form.opcode) => unsupported(""),
            None => invalid(format!(
                "Not a name of any known instruction: '{}'",
                form.opcode
            )),
        };
        match decoded {
            Ok(()) => Ok(()),
            Err(DecodeError::Invalid(message)) => Err(DecodeError::Invalid(message)),
            Err(DecodeError::Unsupported(what)) => {
                self.out.program.code.truncate(start);
                self.patches.truncate(patches);
                self.guard = guard;
                let mnemonic = instruction.mnemonic();
                let mut message = format!("the software device does not implement `{mnemonic}`");
                if self.out.strict {
                    return Err(DecodeError::Unsupported(message));
                }
                if !what.is_empty() {
                    message.push_str(&format!(" ({what})"));
                }
                let uses = &mut self.out.uses[self.index];
                uses.unsupported
                    .get_or_insert_with(|| (instruction.line, message.clone()));
                let number = self.message(message);
                self.emit(Kind::Unsupported, 0, 0, 0, 0, number.into());
                Ok(())
            }
        }
    }

    /// Copies the guard if the instruction writes it as one of two results: the other result is
    /// written under the old value of the guard.
    fn keep_guard(&mut self, instruction: &Instruction<'a>) {
        let (Some(guard), Some(Operand::Pair(pair))) =
            (instruction.predicate, instruction.operands.first())
        else {
            return;
        };
        let is_guard = |to: &Operand<'_>| matches!(to, Operand::Name(name) if *name == guard.name);
        if is_guard(&pair.0) || is_guard(&pair.1) {
            let kept = self.temp_pred();
            let negated = self.guard & NEGATED;
            let own = self.guard & !NEGATED;
            self.guard = ALWAYS;
            let copy = lanes!(self.wide(), with w, i, m {
                let value = w.get_pred(i.a);
                w.put_pred(i.d, m, value);
            });
            self.emit(copy, kept, own, 0, 0, 0);
            self.guard = kept | negated;
        }
    }
}

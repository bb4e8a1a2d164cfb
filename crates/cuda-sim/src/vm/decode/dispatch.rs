//! Dispatches each instruction to its decoder.

use super::convert8::TYPES;
use super::form::{Class, Form, Ty};
use super::function::{FunctionDecoder, Name, Width};
use super::{Decoded, Refuse, invalid, missing};
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
        let start = self.out.program.code.len();
        let patches = self.patches.len();
        let guard = self.guard;
        self.keep_guard(instruction);
        let mut form = Form::new(instruction);
        match self.dispatch(&mut form).and_then(|()| form.done()) {
            Ok(()) => Ok(()),
            Err(Refuse::Invalid(message)) => Err(Refuse::Invalid(message)),
            Err(Refuse::Missing(what)) => {
                self.out.program.code.truncate(start);
                self.patches.truncate(patches);
                self.guard = guard;
                let mnemonic = instruction.mnemonic();
                let mut message = format!("the software device does not implement `{mnemonic}`");
                if self.out.strict {
                    return Err(Refuse::Missing(message));
                }
                if !what.is_empty() {
                    message.push_str(&format!(" ({what})"));
                }
                let number = self.message(message);
                self.emit(Kind::Missing, 0, 0, 0, 0, number.into());
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

    fn dispatch(&mut self, form: &mut Form<'a>) -> Decoded {
        match form.opcode {
            "mov" | "ld" | "ldu" | "st" | "cvta" | "isspacep" | "atom" | "red" | "prefetch"
            | "prefetchu" | "discard" | "applypriority" => self.memory(form),
            "mapa" => self.map_address(form),
            "getctarank" => self.rank_of_address(form),
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "bar" | "barrier" | "membar"
            | "fence" | "nanosleep" | "activemask" | "vote" | "shfl" | "match" | "redux"
            | "elect" | "brkpt" | "pmevent" | "griddepcontrol" | "setmaxnreg" => self.control(form),
            "mbarrier" => self.mbarrier(form),
            "cp" => self.copy(form),
            "createpolicy" => self.create_policy(form),
            "mma" => self.mma(form),
            "wmma" => self.wmma(form),
            "ldmatrix" | "stmatrix" | "movmatrix" => self.rows(form),
            "tex" => self.texture(form),
            "tld4" => self.gather(form),
            "txq" | "suq" => self.object_query(form),
            "suld" | "sust" | "sured" => self.surface(form),
            "setp" | "set" | "selp" | "slct" | "testp" => self.compare(form),
            "cvt" if form.modifiers.iter().any(|name| TYPES.contains(name)) => {
                self.convert_bytes(form)
            }
            "cvt" => match form.flag("tf32") {
                true => self.convert_tf32(form),
                false => self.convert(form),
            },
            _ => self.arithmetic(form),
        }
    }

    fn arithmetic(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = match form.opcode {
            "bfe" | "bfi" | "popc" | "clz" | "bfind" | "brev" | "fns" | "prmt" | "shf" | "lop3"
            | "sad" | "mul24" | "mad24" | "dp4a" | "dp2a" | "vabsdiff2" | "vabsdiff4" | "bmsk"
            | "szext" | "cnot" | "shl" | "shr" | "addc" | "subc" | "madc" | "rem" | "not" => {
                return self.integer(form);
            }
            "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" | "copysign"
            | "fma" => form.modifiers.last().and_then(|text| Ty::parse(text)),
            _ => form.modifiers.iter().rev().find_map(|text| Ty::parse(text)),
        };
        match ty.map(|ty| (ty.class, ty.bits)) {
            Some((Class::Float, 32 | 64)) => self.float(form),
            Some((Class::Float | Class::Brain, 16)) => self.half(form),
            Some(_) => self.integer(form),
            None => missing(""),
        }
    }
}

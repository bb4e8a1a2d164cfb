//! Turns one instruction into operations.
//!
//! An instruction that is not modelled exactly gives its destinations an unknown value. A kernel is
//! refused if it has an instruction that is unknown, or that may access memory in a way that is not
//! modelled.

use crate::ast::names;
use crate::ast::{Instruction, Literal, Location, Operand};

use super::Refused;
use super::forms;
use super::names::{Name, Names, Reg, bits_of};
use super::op::{Access, Axis, Guard, Ins, Op, Source, Special, UNDEFINED, Value, Var};
use super::require::Requirement;

/// The state while a function is lowered.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    pub(super) names: Names<'a>,
    pub(super) vars: Vec<Var>,
    pub(super) accesses: Vec<Access>,
    /// The operations of the current block.
    pub(super) ins: Vec<Ins>,
    /// The requirements on the values of operands.
    pub(super) requirements: Vec<Requirement>,
    /// The first operand of the instruction that no rule resolved.
    pub(super) unresolved: Option<String>,
    pub(super) location: Option<Location>,
    pub(super) guard: Option<Guard>,
    /// The line of the last instruction.
    pub(super) line: u32,
    /// The index of the statement in the body.
    pub(super) statement: u32,
}

/// The bits and the signedness of an integer type.
pub(super) fn integer(ty: &str) -> Option<(u32, bool)> {
    // Not `bf16` and `bf16x2`, which begin like the types of bits.
    let is_integer = matches!(ty.as_bytes(), [b'u' | b's' | b'b', b'0'..=b'9', ..]);
    match (is_integer, bits_of(ty)) {
        (true, bits @ (8 | 16 | 32 | 64)) => Some((bits, ty.starts_with('s'))),
        _ => None,
    }
}

pub(super) const NO: Source = Source::Unknown;

impl<'a> Decoder<'a> {
    pub(super) fn new(line: u32) -> Self {
        Self {
            names: Names::new(),
            vars: Vec::new(),
            accesses: Vec::new(),
            ins: Vec::new(),
            requirements: Vec::new(),
            unresolved: None,
            location: None,
            guard: None,
            line,
            statement: 0,
        }
    }

    pub(super) fn register(&mut self, operand: &Operand<'a>) -> Option<Reg> {
        match operand {
            Operand::Name(name) => match self.names.find(name) {
                Some(Name::Reg(reg)) => Some(reg),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn predicate_source(&mut self, name: &'a str) -> Source {
        self.source(&Operand::Name(name), 1)
    }

    fn push(&mut self, op: Op, sources: [Source; 3], target: Reg, guard: Option<Guard>) {
        let previous = if guard.is_some() {
            target.number
        } else {
            UNDEFINED
        };
        self.ins.push(Ins {
            op,
            sources,
            unmodelled: Vec::new(),
            target: Some(target.number),
            guard,
            previous,
        });
    }

    /// Computes `op` in a new register.
    pub(super) fn temporary(&mut self, op: Op, sources: [Source; 3], bits: u32) -> Source {
        let reg = self.names.fresh(bits);
        self.push(op, sources, reg, None);
        Source::Value(reg.number)
    }

    /// Sets `target` to the result of `op`, which has `bits` bits.
    pub(super) fn set(&mut self, op: Op, sources: [Source; 3], bits: u32, target: &Operand<'a>) {
        match self.register(target) {
            Some(reg) if reg.bits == bits => self.push(op, sources, reg, self.guard),
            _ => self.clobber(target),
        }
    }

    /// Gives every register of `target` an unknown value.
    pub(super) fn clobber(&mut self, target: &Operand<'a>) {
        self.clobber_within(target, None);
    }

    /// Works as [`clobber`](Self::clobber) for registers that hold an integer in `range`.
    pub(super) fn clobber_within(&mut self, target: &Operand<'a>, range: Option<(i128, i128)>) {
        match target {
            Operand::Vector(operands) => {
                for operand in operands {
                    self.clobber_within(operand, range);
                }
            }
            Operand::Pair(pair) => {
                self.clobber_within(&pair.0, range);
                self.clobber_within(&pair.1, None);
            }
            Operand::Name(_) => {
                let Some(reg) = self.register(target) else {
                    return self
                        .note_unresolved(&format!("a result that is no register, {target:?},"));
                };
                let op = if reg.bits == 1 {
                    Op::BoolUnknown
                } else {
                    let (low, high) = range.unwrap_or((0, (1 << reg.bits.min(64)) - 1));
                    let bits = reg.bits;
                    Op::Unknown { bits, low, high }
                };
                self.push(op, [NO; 3], reg, self.guard);
            }
            _ => {}
        }
    }

    /// A source of an integer operation with `bits` bits.
    pub(super) fn source(&mut self, operand: &Operand<'a>, bits: u32) -> Source {
        match operand {
            Operand::Literal(Literal::Int(value)) => Source::Number(*value),
            Operand::Literal(Literal::F32(value)) if bits == 32 => Source::Number((*value).into()),
            Operand::Literal(Literal::F64(value)) if bits == 64 => Source::Number(*value),
            Operand::Name(name) | Operand::Offset(name, _) => {
                let offset = match operand {
                    Operand::Offset(_, offset) => *offset,
                    _ => 0,
                };
                match self.names.find(name) {
                    Some(Name::Reg(reg)) if reg.bits == bits && offset == 0 => {
                        Source::Value(reg.number)
                    }
                    Some(Name::Var(var)) if bits >= 32 => Source::Address(var, offset),
                    Some(_) => NO,
                    // A declared name hides a special register.
                    None => match *name {
                        "WARP_SZ" => Source::Special(Special::WarpSize),
                        "%laneid" if bits == 32 => Source::Special(Special::LaneId),
                        "%dynamic_smem_size" if bits == 32 => {
                            Source::Special(Special::DynamicShared)
                        }
                        _ if forms::is_special(name) => NO,
                        _ => {
                            self.note_unresolved(name);
                            NO
                        }
                    },
                }
            }
            Operand::Member(name, _) if self.names.find(name).is_some() => NO,
            Operand::Member(name, axis) if bits == 32 => {
                let Some(axis) = Axis::parse(axis) else {
                    return NO;
                };
                match *name {
                    "%tid" => Source::Special(Special::Tid(axis)),
                    "%ntid" => Source::Special(Special::Ntid(axis)),
                    "%ctaid" => Source::Special(Special::Ctaid(axis)),
                    "%nctaid" => Source::Special(Special::Nctaid(axis)),
                    _ => NO,
                }
            }
            _ => NO,
        }
    }

    /// A predicate, or its negation if the operand is `!p`.
    pub(super) fn predicate(&mut self, operand: &Operand<'a>) -> Source {
        match operand {
            Operand::Not(name) => {
                let source = self.source(&Operand::Name(name), 1);
                self.temporary(Op::BoolNot, [source, NO, NO], 1)
            }
            _ => self.source(operand, 1),
        }
    }

    /// Decodes an instruction that is neither a branch nor an end.
    pub(super) fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        self.line = instruction.line;
        self.guard = instruction.predicate.map(|predicate| Guard {
            predicate: self.source(&Operand::Name(predicate.name), 1),
            negated: predicate.negated,
        });
        // The first of two destinations may be the guard of the second.
        if let (Some(guard), Some(Operand::Pair(_))) = (self.guard, instruction.operands.first()) {
            let sources = [guard.predicate, guard.predicate, NO];
            let predicate = self.temporary(Op::BoolOr, sources, 1);
            self.guard = Some(Guard { predicate, ..guard });
        }
        match instruction.opcode {
            "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "mbarrier" | "ldmatrix" | "stmatrix"
            | "wmma" | "prefetch" | "prefetchu" | "applypriority" | "discard" => {
                self.memory(instruction)
            }
            "tex" | "tld4" | "suld" | "sust" | "sured" | "suq" | "txq" => self.object(instruction),
            "createpolicy" => {
                if let Some(reg) = instruction
                    .operands
                    .first()
                    .and_then(|it| self.register(it))
                {
                    self.push(Op::Policy, [NO; 3], reg, self.guard);
                }
                Ok(())
            }
            // The list of forms has no other instruction that accesses memory or branches.
            opcode => {
                // The first operand of these is no result.
                let is_effect = match opcode {
                    "bar" | "barrier" => !instruction.has("red"),
                    "fence" | "griddepcontrol" | "membar" | "nanosleep" | "pmevent" => true,
                    _ => false,
                };
                if is_effect {
                    return Ok(());
                }
                let first = self.ins.len();
                if self.pure(instruction).is_none()
                    && let Some(target) = instruction.operands.first()
                {
                    self.clobber(target);
                }
                self.depend(first, instruction);
                Ok(())
            }
        }
    }

    /// Records that the unknown numbers among the operations from `first` on depend on the sources
    /// of an instruction, which may not be set.
    fn depend(&mut self, first: usize, instruction: &Instruction<'a>) {
        let mut registers: Vec<Value> = Vec::new();
        for operand in instruction.operands.iter().skip(1) {
            names(operand, &mut |name| {
                if let Some(Name::Reg(reg)) = self.names.find(name) {
                    registers.push(reg.number);
                }
            });
        }
        for ins in self.ins.iter_mut().skip(first) {
            let is_unknown = match ins.op {
                Op::Unknown { .. } | Op::BoolUnknown => true,
                Op::FloatAbs { .. } | Op::FloatSum { .. } => true,
                Op::FloatProduct { .. } | Op::FloatCompare(_) => true,
                Op::Copy { .. } => ins.sources[0] == NO,
                _ => false,
            };
            if is_unknown {
                ins.unmodelled.clone_from(&registers);
            }
        }
    }

    /// Decodes an instruction that accesses no memory, or returns `None` if it is not modelled.
    fn pure(&mut self, instruction: &Instruction<'a>) -> Option<()> {
        let (opcode, operands) = (instruction.opcode, &instruction.operands);
        let ty = *instruction.modifiers.last()?;
        let target = operands.first()?;
        if matches!(ty, "f32" | "f64") && self.float(instruction).is_some() {
            return Some(());
        }
        if instruction.has("sat") || instruction.has("cc") {
            return None;
        }
        if ty == "pred" {
            return self.boolean(instruction);
        }
        match opcode {
            "setp" => return self.comparison(instruction),
            "cvta" => return self.conversion_of_address(instruction),
            "selp" => {
                let bits = bits_of(ty);
                let [_, a, b, p] = operands.as_slice() else {
                    return None;
                };
                let sources = [
                    self.source(a, bits),
                    self.source(b, bits),
                    self.predicate(p),
                ];
                self.set(Op::Select { bits }, sources, bits, target);
                return Some(());
            }
            "mov" => {
                let bits = bits_of(ty);
                return self.copy(operands, bits);
            }
            "cvt" => {
                let [to, from] = instruction.modifiers.as_slice() else {
                    return None;
                };
                let ((to, to_signed), (from, signed)) = (integer(to)?, integer(from)?);
                let [_, a] = operands.as_slice() else {
                    return None;
                };
                let (source, bits) = match self.register(a) {
                    Some(reg) if reg.bits >= from => (Source::Value(reg.number), reg.bits),
                    Some(_) => return None,
                    None => (self.source(a, from), from),
                };
                // Both steps use their own sign: that of the source to widen, and that of the
                // result to fill a wider register.
                let width = self.register(target)?.bits;
                if width < to || bits > 64 || width > 64 {
                    return None;
                }
                let value = Op::Extend {
                    from,
                    signed,
                    bits: 64,
                };
                let value = self.temporary(value, [source, NO, NO], 64);
                let fill = Op::Extend {
                    from: to,
                    signed: to_signed,
                    bits: width,
                };
                self.set(fill, [value, NO, NO], width, target);
                return Some(());
            }
            "popc" | "clz" => {
                let high = i128::from(bits_of(ty));
                self.clobber_within(target, Some((0, high)));
                return Some(());
            }
            _ => {}
        }
        let (bits, signed) = integer(ty)?;
        let mut sources = [NO; 3];
        for (source, operand) in sources.iter_mut().zip(operands.get(1..)?) {
            *source = self.source(operand, bits);
        }
        let [a, b, c] = sources;
        let count = operands.len();
        let plain = instruction.modifiers.len() == 1;
        let op = match (opcode, count, plain) {
            ("add", 3, true) => Op::Add { bits },
            ("sub", 3, true) => Op::Sub { bits },
            ("neg", 2, true) => {
                self.set(Op::Sub { bits }, [Source::Number(0), a, NO], bits, target);
                return Some(());
            }
            ("mul" | "mad", 3 | 4, false) => {
                let wide = instruction.modifiers.first() == Some(&"wide");
                let op = match *instruction.modifiers.first()? {
                    "lo" => Op::Mul { bits },
                    "hi" => Op::MulHigh { bits, signed },
                    "wide" if bits < 64 => Op::MulWide { bits, signed },
                    _ => return None,
                };
                let result = if wide { bits * 2 } else { bits };
                if opcode == "mul" {
                    self.set(op, [a, b, NO], result, target);
                } else {
                    let product = self.temporary(op, [a, b, NO], result);
                    let c = self.source(operands.get(3)?, result);
                    self.set(Op::Add { bits: result }, [product, c, NO], result, target);
                }
                return Some(());
            }
            ("div", 3, true) => Op::Div { bits, signed },
            ("rem", 3, true) => Op::Rem { bits, signed },
            ("min", 3, true) => Op::Min { bits, signed },
            ("max", 3, true) => Op::Max { bits, signed },
            ("and", 3, true) => Op::And { bits },
            ("or", 3, true) => Op::Or { bits },
            ("xor", 3, true) => Op::Xor { bits },
            ("not", 2, true) => Op::Not { bits },
            ("shl" | "shr", 3, true) => {
                let amount = self.source(operands.get(2)?, 32);
                let left = opcode == "shl";
                let op = if left {
                    Op::Shl { bits }
                } else {
                    Op::Shr { bits, signed }
                };
                self.set(op, [a, amount, NO], bits, target);
                return Some(());
            }
            ("bfi", 5, true) => {
                let mut number = |operand| match self.source(operand, 32) {
                    Source::Number(number) => Some(number & 0xff),
                    _ => None,
                };
                let (at, length) = (number(&operands[3])?, number(&operands[4])?);
                let ones = |count: u64| match count {
                    0..64 => (1_u64 << count) - 1,
                    _ => u64::MAX,
                };
                // Bits beyond the width are not inserted.
                let all = ones(bits.into());
                let mask = ones(length).checked_shl(at as u32).unwrap_or(0) & all;
                let (at, mask, rest) = (
                    Source::Number(at),
                    Source::Number(mask),
                    Source::Number(!mask & all),
                );
                let shifted = self.temporary(Op::Shl { bits }, [a, at, NO], bits);
                let field = self.temporary(Op::And { bits }, [shifted, mask, NO], bits);
                let others = self.temporary(Op::And { bits }, [b, rest, NO], bits);
                self.set(Op::Or { bits }, [field, others, NO], bits, target);
                return Some(());
            }
            ("bfe", 4, true) if !signed => {
                let (at, length) = (operands.get(2)?, operands.get(3)?);
                let (at, length) = (self.source(at, 32), self.source(length, 32));
                self.set(Op::Field { bits }, [a, at, length], bits, target);
                return Some(());
            }
            _ => return None,
        };
        self.set(op, [a, b, c], bits, target);
        Some(())
    }
}

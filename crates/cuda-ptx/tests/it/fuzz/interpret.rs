//! Executes a kernel for one thread, from its syntax tree: the integers, not the memory.

use std::collections::HashMap;

use cuda_ptx::{Base, Instruction, Literal, Module, Operand, Statement};
use fastrand::Rng;

use super::frames::{Frame, Routine, is_access};

/// The address of `tile` in shared memory, and the distance of its generic address.
pub(super) const TILE: u64 = 0x400;
pub(super) const WINDOW: u64 = 0x7f00_0000_0000;

/// The parameters of the kernel, their addresses and their sizes.
const PARAMETERS: [(&str, u64, u64); 5] = [
    ("x", 0x210, 8),
    ("y", 0x218, 8),
    ("n", 0x220, 4),
    ("m", 0x224, 4),
    ("w", 0x228, 8),
];

/// The address of a parameter in parameter space, and its size.
pub(super) fn place(parameter: &str) -> (u64, u64) {
    let found = PARAMETERS.into_iter().find(|it| it.0 == parameter);
    let (_, address, size) = found.expect("a parameter");
    (address, size)
}

/// A thread of a launch.
pub(super) struct Thread<'a> {
    pub(super) tid: [u32; 3],
    pub(super) ntid: [u32; 3],
    pub(super) ctaid: [u32; 3],
    pub(super) nctaid: [u32; 3],
    /// The values of the parameters by name.
    pub(super) params: &'a HashMap<&'static str, u64>,
}

/// An access that a thread executes: the number of its instruction among the accesses, the address,
/// and the bytes.
pub(super) struct Executed {
    pub(super) number: usize,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// A kernel and the functions that it calls.
pub(super) struct Program<'a> {
    routines: Vec<Routine<'a>>,
}

fn bits_of(ty: &str) -> u32 {
    ty[1..].parse().unwrap_or_else(|_| panic!("type {ty}"))
}

fn mask(value: u64, bits: u32) -> u64 {
    if bits == 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

/// The integer that the low bits of `value` stand for.
fn integer(value: u64, ty: &str) -> i128 {
    let bits = bits_of(ty);
    let value = i128::from(mask(value, bits));
    match ty.starts_with('s') && value >> (bits - 1) != 0 {
        true => value - (1 << bits),
        false => value,
    }
}

impl<'a> Program<'a> {
    /// The last function is the kernel. A function calls only those before it.
    pub(super) fn new(module: &'a Module<'a>) -> Self {
        let mut routines: Vec<Routine<'a>> = Vec::new();
        for function in &module.functions {
            let next = Routine::new(function, &routines);
            routines.push(next);
        }
        Self { routines }
    }

    /// Runs one thread for a limited number of steps, and returns how many it took.
    pub(super) fn run(
        &self,
        thread: &Thread<'_>,
        steps: u32,
        rng: &mut Rng,
        visit: &mut dyn FnMut(Executed),
    ) -> u32 {
        let kernel = self.routines.len() - 1;
        let params = thread.params.iter();
        let params = params.map(|(name, value)| ((*name).to_owned(), *value));
        let mut state = State {
            thread,
            frame: Frame::new(kernel, 0, params.collect()),
            callers: Vec::new(),
            rng,
        };
        for step in 0..steps {
            let routine = &self.routines[state.frame.routine];
            let index = state.frame.at;
            let Some(statement) = routine.function.body.as_ref().and_then(|it| it.get(index))
            else {
                if state.leave(&self.routines) {
                    continue;
                }
                return step;
            };
            state.frame.at += 1;
            if let Statement::Variable(variable) = statement {
                state.frame.params.remove(variable.name);
            }
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            if let Some(predicate) = instruction.predicate {
                let value = state.read(predicate.name) & 1 != 0;
                if value == predicate.negated {
                    continue;
                }
            }
            match (instruction.opcode, instruction.operands.as_slice()) {
                ("exit", _) => return step,
                ("ret", _) => {
                    if !state.leave(&self.routines) {
                        return step;
                    }
                }
                ("call", _) => {
                    let number = state.frame.first + routine.before[index];
                    state.call(instruction, &self.routines, number);
                }
                ("st", [Operand::Address(Base::Name(name), 0), value])
                    if instruction.has("param") =>
                {
                    let value = state.value(value);
                    state.frame.params.insert((*name).to_owned(), value);
                }
                ("bra", [Operand::Name(label)]) => state.frame.at = routine.labels[label],
                ("brx", [index, Operand::Name(table)]) => {
                    let index = state.value(index) as usize;
                    state.frame.at = routine.labels[routine.tables[table][index]];
                }
                _ if is_access(instruction) => {
                    let number = state.frame.first + routine.before[index];
                    visit(state.access(instruction, number));
                }
                _ => state.compute(instruction),
            }
        }
        steps
    }
}

pub(super) struct State<'t, 'r> {
    thread: &'t Thread<'t>,
    pub(super) frame: Frame,
    pub(super) callers: Vec<Frame>,
    pub(super) rng: &'r mut Rng,
}

impl State<'_, '_> {
    /// A register; one that was never set differs from read to read.
    pub(super) fn read(&mut self, name: &str) -> u64 {
        match self.frame.registers.get(name) {
            Some(value) => *value,
            None => self.rng.u64(..),
        }
    }

    pub(super) fn write(&mut self, operand: &Operand<'_>, value: u64) {
        let Operand::Name(name) = operand else {
            return;
        };
        let bits = match &name[..2] {
            "%p" => 1,
            "%h" => 16,
            // Also `result` and `%result`.
            "%r" | "re" => 32,
            _ => 64,
        };
        let registers = &mut self.frame.registers;
        registers.insert((*name).to_owned(), mask(value, bits));
    }

    pub(super) fn value(&mut self, operand: &Operand<'_>) -> u64 {
        match operand {
            Operand::Literal(Literal::Int(value)) => *value,
            Operand::Name("tile") => TILE,
            Operand::Name(name) if PARAMETERS.iter().any(|it| it.0 == *name) => place(name).0,
            Operand::Offset(name, offset) => place(name).0.wrapping_add(*offset as u64),
            Operand::Name("%laneid") => u64::from(self.thread.tid[0] % 32),
            Operand::Name(name) => self.read(name),
            Operand::Not(name) => !self.read(name) & 1,
            Operand::Member(name, axis) => {
                let index = ["x", "y", "z"]
                    .iter()
                    .position(|a| a == axis)
                    .expect("an axis");
                u64::from(match *name {
                    "%tid" => self.thread.tid[index],
                    "%ntid" => self.thread.ntid[index],
                    "%ctaid" => self.thread.ctaid[index],
                    _ => self.thread.nctaid[index],
                })
            }
            other => panic!("operand {other:?}"),
        }
    }

    fn access(&mut self, instruction: &Instruction<'_>, number: usize) -> Executed {
        let is_load = matches!(instruction.opcode, "ld" | "atom");
        let address = &instruction.operands[usize::from(is_load)];
        let Operand::Address(Base::Name(base), offset) = address else {
            panic!("address {address:?}");
        };
        let ty = instruction.modifiers.last().expect("a type");
        let vector = match instruction.modifiers.iter().rev().nth(1) {
            Some(&"v2") => 2,
            Some(&"v4") => 4,
            _ => 1,
        };
        let address = self.read(base).wrapping_add(*offset as u64);
        if is_load {
            let targets = match &instruction.operands[0] {
                Operand::Vector(targets) => targets.as_slice(),
                target => std::slice::from_ref(target),
            };
            let each = u64::from(bits_of(ty)) / 8;
            for (index, target) in (0..).zip(targets) {
                let value = if instruction.has("param") {
                    self.parameter_at(address + index * each)
                } else if self.rng.u32(..3) == 0 {
                    self.rng.u64(..40)
                } else {
                    self.rng.u64(..)
                };
                self.write(target, integer(value, ty) as u64);
            }
        }
        Executed {
            number,
            address,
            size: vector * u64::from(bits_of(ty)) / 8,
        }
    }

    /// What is at an address in parameter space.
    fn parameter_at(&mut self, address: u64) -> u64 {
        let mut found = PARAMETERS.into_iter();
        let found = found.find(|(_, start, size)| (*start..start + size).contains(&address));
        let (name, start, _) = found.expect("the address is that of a parameter");
        self.thread.params[name] >> (8 * (address - start))
    }

    fn compute(&mut self, instruction: &Instruction<'_>) {
        let operands = &instruction.operands;
        let ty = *instruction.modifiers.last().expect("a type");
        let first = instruction.modifiers[0];
        if instruction.opcode == "ld" {
            let Operand::Address(Base::Name(name), _) = &operands[1] else {
                panic!("parameter");
            };
            let value = self.parameter(name);
            return self.write(&operands[0], value);
        }
        if instruction.opcode == "setp" {
            return self.compare(instruction);
        }
        let values: Vec<u64> = operands[1..]
            .iter()
            .map(|operand| self.value(operand))
            .collect();
        let get = |index: usize| values.get(index).copied().unwrap_or(0);
        let (a, b, c) = (get(0), get(1), get(2));
        if ty == "pred" {
            let value = match instruction.opcode {
                "and" => a & b,
                "or" => a | b,
                "xor" => a ^ b,
                _ => !a & 1,
            };
            return self.write(&operands[0], value);
        }
        let int = |value| integer(value, ty);
        let bits = bits_of(ty);
        let value = match instruction.opcode {
            "mov" => a,
            "cvta" if instruction.has("to") => a,
            "cvta" => a.wrapping_add(WINDOW),
            "add" => a.wrapping_add(b),
            "sub" => a.wrapping_sub(b),
            "neg" => a.wrapping_neg(),
            "not" => !a,
            "and" => a & b,
            "or" => a | b,
            "xor" => a ^ b,
            "mul" | "mad" => {
                // Both products fit: unsigned factors have up to 64 bits, signed ones up to 63.
                let high = match ty.starts_with('s') {
                    true => ((int(a) * int(b)) >> bits) as u64,
                    false => ((int(a) as u128 * int(b) as u128) >> bits) as u64,
                };
                match first {
                    "hi" => high,
                    _ => (int(a).wrapping_mul(int(b)) as u64).wrapping_add(c),
                }
            }
            "div" => (int(a) / int(b)) as u64,
            "rem" => (int(a) % int(b)) as u64,
            "min" => int(a).min(int(b)) as u64,
            "max" => int(a).max(int(b)) as u64,
            "shl" => a
                .checked_shl(u32::try_from(b).unwrap_or(64))
                .filter(|_| b < u64::from(bits))
                .unwrap_or(0),
            "shr" => (int(a) >> b.min(u64::from(bits))) as u64,
            "selp" => {
                if c & 1 != 0 {
                    a
                } else {
                    b
                }
            }
            "bfi" => {
                // Bit by bit, as the manual describes it.
                let (at, length) = (c & 0xff, get(3) & 0xff);
                let bits = (0..length).filter(|bit| at + bit < u64::from(bits));
                bits.fold(b, |all, bit| {
                    let to = 1 << (at + bit);
                    (all & !to) | if a >> bit & 1 != 0 { to } else { 0 }
                })
            }
            "bfe" => {
                let (at, length) = (b & 0xff, c & 0xff);
                let field = u128::from(mask(a, bits)) >> at.min(127);
                (field & ((1u128 << length.min(64)) - 1)) as u64
            }
            "cvt" => integer(integer(a, ty) as u64, first) as u64,
            opcode => panic!("opcode {opcode}"),
        };
        self.write(&operands[0], value);
    }

    fn compare(&mut self, instruction: &Instruction<'_>) {
        let operands = &instruction.operands;
        let ty = *instruction.modifiers.last().expect("a type");
        let (a, b) = (self.value(&operands[1]), self.value(&operands[2]));
        let (a, b) = (integer(a, ty), integer(b, ty));
        let result = match instruction.modifiers[0] {
            "eq" => a == b,
            "ne" => a != b,
            "lt" | "lo" => a < b,
            "le" | "ls" => a <= b,
            "gt" | "hi" => a > b,
            _ => a >= b,
        };
        let c = operands.get(3).map(|operand| self.value(operand) & 1 != 0);
        let combine = |value: bool| {
            u64::from(match (instruction.modifiers[1], c) {
                ("and", Some(c)) => value && c,
                ("or", Some(c)) => value || c,
                ("xor", Some(c)) => value != c,
                _ => value,
            })
        };
        match &operands[0] {
            Operand::Pair(pair) => {
                self.write(&pair.0, combine(result));
                self.write(&pair.1, combine(!result));
            }
            target => self.write(target, combine(result)),
        }
    }
}

//! Executes a kernel for one thread, from its syntax tree: the integers, not the memory.

use std::collections::HashMap;

use cuda_ptx::{Base, Instruction, Literal, Module, Operand, Statement};
use fastrand::Rng;

use super::evaluate;
use super::frames::{Frame, Routine, is_access};

/// A variable.
pub(super) struct Place {
    pub(super) name: &'static str,
    space: &'static str,
    /// The addresses that it may have.
    pub(super) addresses: [u64; 3],
    pub(super) size: u64,
    /// The distance of its generic address.
    pub(super) window: u64,
}

pub(super) const PLACES: [Place; 3] = [
    Place {
        name: "tile",
        space: "shared",
        addresses: [0, 0, (1 << 24) - 512],
        size: 512,
        window: 0x7f00_0000_0000,
    },
    Place {
        name: "stack",
        space: "local",
        addresses: [0, 0x00ff_fd08, (1 << 32) - 96],
        size: 96,
        window: 0x7e00_0000_0000,
    },
    Place {
        name: "bank",
        space: "const",
        addresses: [0, 0x308, (1 << 32) - 200],
        size: 200,
        window: 0x7d00_0000_0000,
    },
];

/// The number of the variable whose name contains that of a place.
pub(super) fn place_of(name: &str) -> Option<usize> {
    PLACES.iter().position(|place| name.contains(place.name))
}

/// The distance between an address in the space of `cvta` and its generic address.
pub(super) fn window_of(instruction: &Instruction<'_>) -> u64 {
    let mut places = PLACES.iter();
    places
        .find(|place| instruction.has(place.space))
        .map_or(0, |place| place.window)
}

/// The parameters of the kernel, their addresses and their sizes.
const PARAMETERS: [(&str, u64, u64); 5] = [
    ("x", 0x210, 8),
    ("y", 0x218, 8),
    ("n", 0x220, 4),
    ("m", 0x224, 4),
    ("w", 0x228, 8),
];

/// The address of a parameter in parameter space, and its size.
pub(super) fn parameter_place(parameter: &str) -> (u64, u64) {
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
    /// The address of each variable in its own space.
    pub(super) variables: [u64; PLACES.len()],
}

impl Thread<'_> {
    /// The index of the thread in its block.
    fn index(&self) -> u32 {
        self.tid[0] + self.ntid[0] * (self.tid[1] + self.ntid[1] * self.tid[2])
    }
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

pub(super) fn bits_of(ty: &str) -> u32 {
    ty[1..].parse().unwrap_or_else(|_| panic!("type {ty}"))
}

pub(super) fn mask(value: u64, bits: u32) -> u64 {
    if bits == 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

/// The integer that the low bits of `value` stand for.
pub(super) fn integer(value: u64, ty: &str) -> i128 {
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

    /// Runs one thread for a limited number of steps. Fails if a jump leaves its table.
    pub(super) fn run(
        &self,
        thread: &Thread<'_>,
        steps: u32,
        rng: &mut Rng,
        visit: &mut dyn FnMut(Executed),
    ) -> Result<(), String> {
        let kernel = self.routines.len() - 1;
        let params = thread.params.iter();
        let params = params.map(|(name, value)| ((*name).to_owned(), *value));
        let mut state = State {
            thread,
            frame: Frame::new(kernel, 0, params.collect()),
            callers: Vec::new(),
            rng,
            is_unset: false,
        };
        for _ in 0..steps {
            state.is_unset = false;
            let routine = &self.routines[state.frame.routine];
            let index = state.frame.at;
            let Some(statement) = routine.function.body.as_ref().and_then(|it| it.get(index))
            else {
                if state.leave(&self.routines) {
                    continue;
                }
                return Ok(());
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
            state.is_unset = false;
            match (instruction.opcode, instruction.operands.as_slice()) {
                ("exit", _) => return Ok(()),
                ("ret", _) => {
                    if !state.leave(&self.routines) {
                        return Ok(());
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
                    if state.is_unset {
                        state.frame.params.remove(*name);
                    }
                }
                ("bra", [Operand::Name(label)]) => state.frame.at = routine.labels[label],
                ("brx", [index, Operand::Name(table)]) => {
                    let (index, table) = (state.value(index), routine.tables[table]);
                    let label = usize::try_from(index).ok().and_then(|at| table.get(at));
                    let label = label.ok_or_else(|| format!("index {index} of {table:?}"))?;
                    state.frame.at = routine.labels[label];
                }
                _ if is_access(instruction) => {
                    let number = state.frame.first + routine.before[index];
                    visit(state.access(instruction, number));
                }
                _ => state.compute(instruction),
            }
        }
        Ok(())
    }
}

pub(super) struct State<'t, 'r> {
    thread: &'t Thread<'t>,
    pub(super) frame: Frame,
    pub(super) callers: Vec<Frame>,
    pub(super) rng: &'r mut Rng,
    /// Whether the instruction has read a register that is not set.
    pub(super) is_unset: bool,
}

impl State<'_, '_> {
    /// A register; one that was never set differs from read to read.
    pub(super) fn read(&mut self, name: &str) -> u64 {
        match self.frame.registers.get(name) {
            Some(value) => *value,
            None => {
                self.is_unset = true;
                self.rng.u64(..)
            }
        }
    }

    /// Sets a register to the result of an instruction. The result is not set if a source is not.
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
        if self.is_unset {
            registers.remove(*name);
            return;
        }
        registers.insert((*name).to_owned(), mask(value, bits));
    }

    pub(super) fn value(&mut self, operand: &Operand<'_>) -> u64 {
        match operand {
            Operand::Literal(Literal::Int(value)) => *value,
            Operand::Name(name) if !name.starts_with('%') && place_of(name).is_some() => {
                place_of(name).map_or(0, |number| self.thread.variables[number])
            }
            Operand::Name(name) if PARAMETERS.iter().any(|it| it.0 == *name) => {
                parameter_place(name).0
            }
            Operand::Offset(name, offset) => parameter_place(name).0.wrapping_add(*offset as u64),
            Operand::Name("WARP_SZ") => 32,
            Operand::Name("%laneid") => u64::from(self.thread.index() % 32),
            Operand::Name("%warpid") => u64::from(self.thread.index() / 32),
            Operand::Vector(halves) => {
                self.value(&halves[0]) & 0xffff_ffff | self.value(&halves[1]) << 32
            }
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
        let base = self.value(&Operand::Name(base));
        let address = base.wrapping_add(*offset as u64);
        self.is_unset = false;
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

    /// The bytes at an address in parameter space.
    fn parameter_at(&mut self, address: u64) -> u64 {
        let mut found = PARAMETERS.into_iter();
        let found = found.find(|(_, start, size)| (*start..start + size).contains(&address));
        let (name, start, _) = found.expect("the address is that of a parameter");
        self.thread.params[name] >> (8 * (address - start))
    }

    fn compute(&mut self, instruction: &Instruction<'_>) {
        let operands = &instruction.operands;
        let ty = *instruction.modifiers.last().expect("a type");
        if instruction.opcode == "ld" {
            return self.load_parameter(instruction);
        }
        if instruction.opcode == "setp" {
            return self.compare(instruction);
        }
        let values: Vec<u64> = operands[1..]
            .iter()
            .map(|operand| self.value(operand))
            .collect();
        let value = match (instruction.opcode, ty) {
            ("and", "pred") => values[0] & values[1],
            ("or", "pred") => values[0] | values[1],
            ("xor", "pred") => values[0] ^ values[1],
            ("mov", "pred") => values[0],
            ("not", "pred") => !values[0] & 1,
            _ => evaluate::result(instruction, &values),
        };
        match &operands[0] {
            Operand::Vector(halves) => {
                self.write(&halves[0], value & 0xffff_ffff);
                self.write(&halves[1], value >> 32);
            }
            target => self.write(target, value),
        }
    }

    /// `ld.param`: a part of a parameter, or several.
    fn load_parameter(&mut self, instruction: &Instruction<'_>) {
        let [target, Operand::Address(Base::Name(name), offset)] = instruction.operands.as_slice()
        else {
            panic!("parameter");
        };
        let ty = *instruction.modifiers.last().expect("a type");
        let value = self.parameter(name);
        let targets = match target {
            Operand::Vector(targets) => targets.as_slice(),
            target => std::slice::from_ref(target),
        };
        let mut at = 8 * *offset as u32;
        for target in targets {
            self.write(target, integer(value >> at, ty) as u64);
            at += bits_of(ty);
        }
    }

    fn compare(&mut self, instruction: &Instruction<'_>) {
        let operands = &instruction.operands;
        let ty = *instruction.modifiers.last().expect("a type");
        let (a, b) = (self.value(&operands[1]), self.value(&operands[2]));
        if ty == "f32" {
            let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            let is_unordered = a.is_nan() || b.is_nan();
            let result = match instruction.modifiers[0] {
                "lt" => a < b,
                "eq" => a == b,
                "geu" => a >= b || is_unordered,
                _ => a != b,
            };
            return self.write(&operands[0], result.into());
        }
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

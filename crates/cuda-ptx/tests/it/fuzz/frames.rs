//! The functions of a program, and the calls that a thread is in.

use std::collections::HashMap;

use cuda_ptx::{Base, Function, Instruction, Operand, Space, Statement};

use super::interpret::State;

/// A function with its labels and the numbers of its accesses.
pub(super) struct Routine<'a> {
    pub(super) function: &'a Function<'a>,
    pub(super) labels: HashMap<&'a str, usize>,
    pub(super) tables: HashMap<&'a str, &'a [&'a str]>,
    /// The number of accesses before each statement, with those of calls.
    pub(super) before: Vec<usize>,
    accesses: usize,
}

/// A call of a function, or the kernel itself.
pub(super) struct Frame {
    pub(super) routine: usize,
    pub(super) at: usize,
    /// The number of its first access.
    pub(super) first: usize,
    pub(super) registers: HashMap<String, u64>,
    /// The variables in parameter space.
    pub(super) params: HashMap<String, u64>,
}

/// Whether an instruction is an access of the analysis: not if it names a variable in parameter
/// space.
pub(super) fn is_access(instruction: &Instruction<'_>) -> bool {
    let is_in_register = |operand: &Operand<'_>| matches!(operand, Operand::Address(Base::Name(name), _) if name.starts_with('%'));
    match instruction.opcode {
        "ld" | "st" => !instruction.has("param") || instruction.operands.iter().any(is_in_register),
        opcode => matches!(opcode, "atom" | "red"),
    }
}

/// The result, the function and the arguments of a call.
fn parts<'i, 'a>(
    instruction: &'i Instruction<'a>,
) -> (&'i Operand<'a>, &'a str, &'i [Operand<'a>]) {
    match instruction.operands.as_slice() {
        [
            Operand::List(results),
            Operand::Name(name),
            Operand::List(arguments),
        ] => (&results[0], name, arguments),
        other => panic!("call {other:?}"),
    }
}

impl<'a> Routine<'a> {
    pub(super) fn new(function: &'a Function<'a>, before: &[Self]) -> Self {
        let body = function.body.as_deref().expect("a body");
        let mut routine = Self {
            function,
            labels: HashMap::new(),
            tables: HashMap::new(),
            before: Vec::new(),
            accesses: 0,
        };
        for (index, statement) in body.iter().enumerate() {
            routine.before.push(routine.accesses);
            match statement {
                Statement::Label(name, _) => {
                    routine.labels.insert(*name, index);
                }
                Statement::BranchTargets(name, targets) => {
                    routine.tables.insert(*name, targets.as_slice());
                }
                Statement::Instruction(instruction) if instruction.opcode == "call" => {
                    let (_, name, _) = parts(instruction);
                    let mut called = before.iter();
                    let called = called.find(|it| it.function.name == name).expect("defined");
                    routine.accesses += called.accesses;
                }
                Statement::Instruction(instruction) => {
                    routine.accesses += usize::from(is_access(instruction));
                }
                _ => {}
            }
        }
        routine
    }
}

impl Frame {
    pub(super) fn new(routine: usize, first: usize, params: HashMap<String, u64>) -> Self {
        Self {
            routine,
            at: 0,
            first,
            registers: HashMap::new(),
            params,
        }
    }
}

impl State<'_, '_> {
    /// A variable in parameter space; one that was never set differs from read to read.
    pub(super) fn parameter(&mut self, name: &str) -> u64 {
        match self.frame.params.get(name) {
            Some(value) => *value,
            None => {
                self.is_unset = true;
                self.rng.u64(..)
            }
        }
    }

    /// Enters a function, whose first access has the number `first`.
    pub(super) fn call(
        &mut self,
        instruction: &Instruction<'_>,
        routines: &[Routine<'_>],
        first: usize,
    ) {
        let (_, name, arguments) = parts(instruction);
        let mut all = routines.iter();
        let number = all
            .position(|it| it.function.name == name)
            .expect("defined");
        let mut params = HashMap::new();
        for (formal, argument) in routines[number].function.params.iter().zip(arguments) {
            let value = match argument {
                Operand::Name(name) if name.starts_with("param") => {
                    self.frame.params.get(*name).copied()
                }
                Operand::Name(name) => self.frame.registers.get(*name).copied(),
                other => Some(self.value(other)),
            };
            let mask = if formal.ty == "b32" {
                u64::from(u32::MAX)
            } else {
                u64::MAX
            };
            if let Some(value) = value {
                params.insert(formal.name.to_owned(), value & mask);
            }
        }
        let inner = Frame::new(number, first, params);
        self.callers.push(std::mem::replace(&mut self.frame, inner));
    }

    /// Returns to the caller. Returns `false` if the thread ends.
    pub(super) fn leave(&mut self, routines: &[Routine<'_>]) -> bool {
        let Some(caller) = self.callers.pop() else {
            return false;
        };
        let inner = std::mem::replace(&mut self.frame, caller);
        let result = match routines[inner.routine].function.returns[0].space {
            Space::Param => inner.params.get("result").copied(),
            _ => inner.registers.get("result").copied(),
        };
        let routine = &routines[self.frame.routine];
        let body = routine.function.body.as_ref().expect("a body");
        let Statement::Instruction(call) = &body[self.frame.at - 1] else {
            panic!("a call");
        };
        let (target, ..) = parts(call);
        match (target, result) {
            (Operand::Name(name), None) => {
                self.frame.registers.remove(*name);
            }
            (target, Some(value)) => self.write(target, value),
            _ => {}
        }
        true
    }
}

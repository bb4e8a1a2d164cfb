//! Finds the instructions that use registers of `wgmma`, for the checks.

use std::collections::BTreeSet;

use super::function::{FunctionDecoder, Name, Width};
use crate::vm::check::{MoveRegister, UseRegisters};
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::memory_fn;
use cuda_ptx::{Instruction, Operand, Statement};

/// The most rounds of the search for copies of registers.
const ROUNDS: usize = 8;

/// The names of the registers of each `wgmma` in a body, and of those that they are moved to.
pub(super) fn names<'a>(body: &'a [Statement<'a>]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    let instructions = || {
        body.iter().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    };
    for instruction in instructions().filter(|it| it.opcode == "wgmma") {
        for operand in instruction.operands.iter().take(2) {
            if let Operand::Vector(registers) = operand {
                names.extend(registers.iter().filter_map(name));
            }
        }
    }
    for _ in 0..ROUNDS {
        let before = names.len();
        if before == 0 {
            break;
        }
        for (to, from) in instructions().filter_map(move_of) {
            if names.contains(from) {
                names.insert(to);
            }
        }
        if names.len() == before {
            break;
        }
    }
    names
}

fn name<'a>(operand: &Operand<'a>) -> Option<&'a str> {
    match operand {
        Operand::Name(name) => Some(name),
        _ => None,
    }
}

/// The registers of an instruction that moves one to another.
fn move_of<'a>(instruction: &Instruction<'a>) -> Option<(&'a str, &'a str)> {
    match (instruction.opcode, &instruction.operands[..]) {
        ("mov", [Operand::Name(to), Operand::Name(from)]) => Some((to, from)),
        _ => None,
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Emits the check of an instruction that uses registers of `wgmma`.
    pub(super) fn check_group_registers(&mut self, instruction: &Instruction<'a>) {
        if self.group_names.is_empty() || instruction.opcode == "wgmma" {
            return;
        }
        let wide = self.wide();
        if instruction.opcode == "mov" {
            if let Some((to, from)) = move_of(instruction)
                && let (Some(to), Some(from)) = (self.group_slot(to), self.group_slot(from))
            {
                let kind = Kind::Memory(memory_fn::<MoveRegister>(wide));
                self.emit(kind, 0, to, from, 0, 0);
            }
            return;
        }
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (index, operand) in instruction.operands.iter().enumerate() {
            let is_result = index == 0
                && matches!(
                    operand,
                    Operand::Name(_) | Operand::Vector(_) | Operand::Pair(_)
                );
            self.group_slots(operand, if is_result { &mut writes } else { &mut reads });
        }
        if reads.is_empty() && writes.is_empty() {
            return;
        }
        let number = self.list(reads) | self.list(writes) << 32;
        let kind = Kind::Memory(memory_fn::<UseRegisters>(wide));
        self.emit(kind, 0, 0, 0, 0, number);
    }

    fn group_slots(&self, operand: &Operand<'a>, slots: &mut Vec<Slot>) {
        match operand {
            Operand::Name(name) if self.group_names.contains(name) => {
                slots.extend(self.group_slot(name));
            }
            Operand::Vector(all) | Operand::List(all) | Operand::Bracket(all) => {
                for operand in all {
                    self.group_slots(operand, slots);
                }
            }
            Operand::Pair(pair) => {
                self.group_slots(&pair.0, slots);
                self.group_slots(&pair.1, slots);
            }
            _ => {}
        }
    }

    /// The slot of a 32-bit register.
    fn group_slot(&self, name: &str) -> Option<Slot> {
        match self.lookup(name) {
            Some(Name::Reg(reg)) if reg.width == Width::W32 => Some(reg.slot),
            _ => None,
        }
    }
}

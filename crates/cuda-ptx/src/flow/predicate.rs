//! Turns instructions that compute predicates into operations.

use crate::ast::{Instruction, Operand};

use super::decode::{Decoder, NO, integer};
use super::op::{Op, Relation};

impl<'a> Decoder<'a> {
    /// An operation on predicates.
    pub(super) fn boolean(&mut self, instruction: &Instruction<'a>) -> Option<()> {
        let op = match instruction.opcode {
            "and" => Op::BoolAnd,
            "or" | "mov" => Op::BoolOr,
            "not" => Op::BoolNot,
            _ => return None,
        };
        let target = instruction.operands.first()?;
        let a = self.predicate(instruction.operands.get(1)?);
        let b = match instruction.operands.get(2) {
            Some(operand) => self.predicate(operand),
            None => a,
        };
        self.set(op, [a, b, NO], 1, target);
        Some(())
    }

    /// `setp`
    pub(super) fn comparison(&mut self, instruction: &Instruction<'a>) -> Option<()> {
        let (relation, ty) = (
            instruction.modifiers.first()?,
            instruction.modifiers.last()?,
        );
        let (bits, mut signed) = integer(ty)?;
        let relation = match *relation {
            "eq" => Relation::Eq,
            "ne" => Relation::Ne,
            "lt" => Relation::Lt,
            "le" => Relation::Le,
            "gt" => Relation::Gt,
            "ge" => Relation::Ge,
            unsigned => {
                signed = false;
                match unsigned {
                    "lo" => Relation::Lt,
                    "ls" => Relation::Le,
                    "hi" => Relation::Gt,
                    "hs" => Relation::Ge,
                    _ => return None,
                }
            }
        };
        let operands = &instruction.operands;
        let sources = [
            self.source(operands.get(1)?, bits),
            self.source(operands.get(2)?, bits),
            NO,
        ];
        let compare = Op::Compare {
            bits,
            signed,
            relation,
        };
        let combine = match (instruction.modifiers.len(), operands.get(3)) {
            (2, None) => None,
            (3, Some(c)) => {
                let op = match *instruction.modifiers.get(1)? {
                    "and" => Op::BoolAnd,
                    "or" => Op::BoolOr,
                    _ => return None,
                };
                Some((op, self.predicate(c)))
            }
            _ => return None,
        };
        let first = self.temporary(compare, sources, 1);
        let second = self.temporary(Op::BoolNot, [first, NO, NO], 1);
        let mut results = [first, second];
        if let Some((op, c)) = combine {
            for result in &mut results {
                *result = self.temporary(op, [*result, c, NO], 1);
            }
        }
        let [first, second] = results;
        match operands.first()? {
            Operand::Pair(pair) => {
                self.set(Op::BoolOr, [first, first, NO], 1, &pair.0);
                self.set(Op::BoolOr, [second, second, NO], 1, &pair.1);
            }
            target => self.set(Op::BoolOr, [first, first, NO], 1, target),
        }
        Some(())
    }
}

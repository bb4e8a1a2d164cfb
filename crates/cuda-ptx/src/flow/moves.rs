//! Turns moves between registers into operations.

use crate::ast::Operand;

use super::decode::{Decoder, NO};
use super::op::{Op, Source};

impl<'a> Decoder<'a> {
    /// `mov`, also between a register and the registers of its two halves.
    pub(super) fn copy(&mut self, operands: &[Operand<'a>], bits: u32) -> Option<()> {
        let [target, a] = operands else {
            return None;
        };
        let half = bits / 2;
        match (target, a) {
            (Operand::Vector(_), _) | (_, Operand::Vector(_)) if !matches!(bits, 32 | 64) => {
                return None;
            }
            (Operand::Vector(targets), a) => {
                let source = self.source(a, bits);
                let [low, high] = targets.as_slice() else {
                    return None;
                };
                // The halves are shorter than the source, so neither is the same register.
                for (target, at) in [(low, 0), (high, half)] {
                    let (at, length) = (Source::Number(at.into()), Source::Number(half.into()));
                    let field = self.temporary(Op::Field { bits }, [source, at, length], bits);
                    let shorter = Op::Extend {
                        from: half,
                        signed: false,
                        bits: half,
                    };
                    self.set(shorter, [field, NO, NO], half, target);
                }
            }
            (target, Operand::Vector(parts)) => {
                let [low, high] = parts.as_slice() else {
                    return None;
                };
                let longer = Op::Extend {
                    from: half,
                    signed: false,
                    bits,
                };
                let mut part = |part| {
                    let source = self.source(part, half);
                    self.temporary(longer, [source, NO, NO], bits)
                };
                let (low, high) = (part(low), part(high));
                let half = Source::Number(half.into());
                let high = self.temporary(Op::Shl { bits }, [high, half, NO], bits);
                self.set(Op::Add { bits }, [low, high, NO], bits, target);
            }
            _ => {
                let source = self.source(a, bits);
                self.set(Op::Copy { bits }, [source, NO, NO], bits, target);
            }
        }
        Some(())
    }
}

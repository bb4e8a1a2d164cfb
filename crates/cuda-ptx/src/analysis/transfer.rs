//! The value of an operation as a form.
//!
//! A value of `bits` bits is known modulo 2^bits. Where an operation depends on the integer that
//! the bits stand for, the form must be shown to lie in the range of its type. If it is not, a
//! quotient takes away the multiples of 2^bits.

use std::rc::Rc;

use crate::flow::{Ins, Op, Source, Value};

use super::condition::Condition;
use super::form::{Form, floor_div};
use super::known::Known;
use super::round::Round;
use super::symbols::Kind;

/// The lowest value of an integer type.
fn lowest(bits: u32, signed: bool) -> i128 {
    if signed { -(1 << (bits - 1)) } else { 0 }
}

impl Round<'_> {
    /// The integer that a form stands for in a type.
    pub(super) fn exact(
        &mut self,
        form: &Form,
        bits: u32,
        signed: bool,
        facts: &[Form],
    ) -> Option<Form> {
        let modulus = 1i128 << bits;
        let shifted = form.plus(lowest(bits, signed).checked_neg()?)?;
        let wraps = match self.quotient_value(&shifted, modulus, facts) {
            Some(value) => Form::number(value),
            None => self.symbols.quotient(&shifted, modulus)?,
        };
        form.combine(1, &wraps, -modulus)
    }

    /// `floor(form / divisor)` if that is one number.
    fn quotient_value(&self, form: &Form, divisor: i128, facts: &[Form]) -> Option<i128> {
        let ends = self.symbols.low(form).zip(self.symbols.high(form));
        let quotients = ends.map(|(a, b)| (floor_div(a, divisor), floor_div(b, divisor)));
        if let Some((low, _)) = quotients.filter(|(low, high)| low == high) {
            return Some(low);
        }
        // Facts are worth a search only for the usual results.
        let prover = self.prover(facts);
        if prover.is_at_least(form, 0) {
            if prover.is_at_most(form, divisor - 1) {
                return Some(0);
            }
            // The complement of an unsigned number plus a larger one: `n - 1 - i` in 32 bits.
            let is_one = divisor >= 1 << 32
                && prover.is_at_least(form, divisor)
                && prover.is_at_most(form, 2 * divisor - 1);
            return is_one.then_some(1);
        }
        let is_negative = prover.is_at_most(form, -1) && prover.is_at_least(form, -divisor);
        is_negative.then_some(-1)
    }

    /// `floor(form / divisor)`
    fn quotient(&mut self, form: &Form, divisor: i128, facts: &[Form]) -> Option<Form> {
        match self.quotient_value(form, divisor, facts) {
            Some(value) => Some(Form::number(value)),
            None => self.symbols.quotient(form, divisor),
        }
    }

    /// Whether the index of a jump is the number of one of its targets.
    pub(super) fn is_in_table(&mut self, index: Source, targets: u32, facts: &[Form]) -> bool {
        let Some(form) = self.number(index, 32) else {
            return false;
        };
        let form = self.exact(&form, 32, false, facts);
        let end = i128::from(targets) - 1;
        form.is_some_and(|form| {
            let prover = self.prover(facts);
            prover.is_at_least(&form, 0) && prover.is_at_most(&form, end)
        })
    }

    /// The value that `ins` computes.
    pub(super) fn transfer(
        &mut self,
        block: u32,
        ins: &Ins,
        target: Value,
        facts: &[Form],
    ) -> Known {
        let [a, b, c] = ins.sources;
        match ins.op {
            Op::BoolAnd | Op::BoolOr | Op::BoolNot => {
                let (a, b) = (self.condition(a), self.condition(b));
                return Known::Predicate(match ins.op {
                    Op::BoolAnd => Condition::and(&a, &b),
                    Op::BoolOr => Condition::or(&a, &b),
                    _ => Condition::not(&a),
                });
            }
            Op::Compare {
                bits,
                signed,
                relation,
            } => {
                let condition = self.compare([a, b], bits, signed, relation, facts);
                return Known::Predicate(Rc::new(condition.unwrap_or(Condition::Unknown)));
            }
            Op::Select { bits } => {
                let condition = self.condition(c);
                let condition = self.kept(block, condition);
                let decided = condition.decide(&self.prover(facts));
                let (a, b) = (self.number(a, bits), self.number(b, bits));
                let chosen = match decided {
                    Some(true) => a,
                    Some(false) => b,
                    None => {
                        let (Some(a), Some(b)) = (a, b) else {
                            return self.unless_undefined(ins, target, block);
                        };
                        let (a, b) = (Known::Number(a), Known::Number(b));
                        return self.select(block, target, &condition, a, b, facts);
                    }
                };
                return match chosen {
                    Some(form) => Known::Number(form),
                    None => self.unless_undefined(ins, target, block),
                };
            }
            Op::Unknown { bits, low, high } => {
                return match bits {
                    2..=64 => self.opaque(target, block, low, high),
                    _ => Known::Undefined,
                };
            }
            Op::BoolUnknown => return Known::Predicate(Rc::new(Condition::Unknown)),
            Op::FloatCompare(range) => {
                let condition = self.compare_float(ins, range, facts);
                return Known::Predicate(Rc::new(condition.unwrap_or(Condition::Unknown)));
            }
            _ => {}
        }
        let width = self.kernel.values[target as usize].0;
        match self.arithmetic(block, ins, target, facts) {
            Some(form) if width <= 64 => Known::Number(form.reduced(width)),
            _ => self.unless_undefined(ins, target, block),
        }
    }

    /// An unknown number, unless a source is undefined.
    fn unless_undefined(&mut self, ins: &Ins, target: Value, block: u32) -> Known {
        let is_undefined = ins.sources.iter().any(|source| match source {
            Source::Value(value) => {
                matches!(self.known[*value as usize], None | Some(Known::Undefined))
            }
            _ => false,
        });
        match is_undefined {
            true => Known::Undefined,
            false => self.unknown(target, block),
        }
    }

    /// The result of an operation on integers, modulo the width of the result.
    fn arithmetic(&mut self, block: u32, ins: &Ins, target: Value, facts: &[Form]) -> Option<Form> {
        let [a, b, c] = ins.sources;
        match ins.op {
            Op::Copy { bits } => self.number(a, bits),
            Op::Add { bits } => self.number(a, bits)?.add(&self.number(b, bits)?),
            Op::Sub { bits } => self.number(a, bits)?.sub(&self.number(b, bits)?),
            Op::Not { bits } => self.number(a, bits)?.scale(-1)?.plus(-1),
            Op::Mul { bits } => {
                let (a, b) = (self.number(a, bits)?, self.number(b, bits)?);
                self.product(&a, &b)
            }
            Op::MulWide { bits, signed } => {
                let (a, b) = self.exact_pair([a, b], bits, signed, facts)?;
                self.product(&a, &b)
            }
            Op::MulHigh { bits, signed } => {
                let (a, b) = self.exact_pair([a, b], bits, signed, facts)?;
                let product = self.product(&a, &b)?;
                self.quotient(&product, 1 << bits, facts)
            }
            Op::Shl { bits } => {
                let amount = self.constant(b, 32)?;
                let form = self.number(a, bits)?;
                match u32::try_from(amount) {
                    Ok(amount) if amount < bits => form.scale(1 << amount),
                    _ => Some(Form::number(0)),
                }
            }
            Op::Shr { bits, signed } => {
                let amount = self.constant(b, 32)?.min(bits.into());
                let form = self.number(a, bits)?;
                let form = self.exact(&form, bits, signed, facts)?;
                self.quotient(&form, 1 << amount, facts)
            }
            Op::Div { bits, signed } | Op::Rem { bits, signed } => {
                let divisor = self.number(b, bits)?;
                let divisor = self.exact(&divisor, bits, signed, facts)?;
                let divisor = self.symbols.value(&divisor).filter(|value| *value > 0)?;
                let form = self.number(a, bits)?;
                let form = self.exact(&form, bits, signed, facts)?;
                let is_positive = self.prover(facts).is_at_least(&form, 0);
                let is_rem = matches!(ins.op, Op::Rem { .. });
                if !is_positive {
                    // The remainder has the sign of the dividend.
                    let Known::Number(form) = self.opaque(target, block, 1 - divisor, divisor - 1)
                    else {
                        return None;
                    };
                    return is_rem.then_some(form);
                }
                let quotient = self.quotient(&form, divisor, facts)?;
                match is_rem {
                    true => form.combine(1, &quotient, -divisor),
                    false => Some(quotient),
                }
            }
            Op::Min { bits, signed } | Op::Max { bits, signed } => {
                let (a, b) = self.exact_pair([a, b], bits, signed, facts)?;
                let is_max = matches!(ins.op, Op::Max { .. });
                self.extreme(block, target, a, b, is_max, facts)
            }
            Op::And { bits } => self.and(block, target, [a, b], bits, facts),
            Op::Or { bits } | Op::Xor { bits } => {
                let is_or = matches!(ins.op, Op::Or { .. });
                self.or(block, target, [a, b], bits, is_or, facts)
            }
            Op::Field { bits } => {
                let at = self.constant(b, 32)?;
                let length = self.constant(c, 32)?;
                // ptxas masks these numbers with 0xff in `bfe.u32`, but not in `bfe.u64`.
                if at >= i128::from(bits) || length > i128::from(bits) {
                    return None;
                }
                let form = self.number(a, bits)?;
                let length = length.min(i128::from(bits).checked_sub(at).filter(|n| *n > 0)?);
                self.field(&form, at as u32, length as u32, facts)
            }
            Op::Extend { from, signed, .. } => {
                let form = self.number(a, from)?.reduced(from);
                self.exact(&form, from, signed, facts)
            }
            Op::ToGeneric { space } => {
                let form = self.number(a, 64)?;
                self.converted(form, space, false, facts)
            }
            Op::FromGeneric { space } => {
                let form = self.number(a, 64)?;
                self.converted(form, space, true, facts)
            }
            Op::Param {
                param,
                offset,
                size,
                signed,
                ..
            } => self.param(param, offset, size, signed),
            _ => None,
        }
    }

    fn exact_pair(
        &mut self,
        [a, b]: [Source; 2],
        bits: u32,
        signed: bool,
        facts: &[Form],
    ) -> Option<(Form, Form)> {
        let (a, b) = (self.number(a, bits)?, self.number(b, bits)?);
        let a = self.exact(&a, bits, signed, facts)?;
        Some((a, self.exact(&b, bits, signed, facts)?))
    }

    /// A product, if one factor is a number.
    fn product(&mut self, a: &Form, b: &Form) -> Option<Form> {
        if let Some(value) = self.symbols.value(b) {
            // Two scalars multiply to a number.
            return match self.symbols.value(a).filter(|_| !b.is_number()) {
                Some(other) => Some(Form::number(value.checked_mul(other)?)),
                None => a.scale(value),
            };
        }
        b.scale(self.symbols.value(a)?)
    }

    /// An unsigned number.
    fn constant(&mut self, source: Source, bits: u32) -> Option<i128> {
        let form = self.number(source, bits)?;
        Some(self.symbols.value(&form)?.rem_euclid(1 << bits))
    }

    /// The `length` bits at `at`. Any number that is congruent to the form has the same ones.
    pub(super) fn field(
        &mut self,
        form: &Form,
        at: u32,
        length: u32,
        facts: &[Form],
    ) -> Option<Form> {
        let shifted = self.quotient(form, 1 << at, facts)?;
        let above = self.quotient(&shifted, 1 << length, facts)?;
        shifted.combine(1, &above, -(1 << length))
    }

    fn and(
        &mut self,
        block: u32,
        target: Value,
        [a, b]: [Source; 2],
        bits: u32,
        facts: &[Form],
    ) -> Option<Form> {
        let (mut a, mut b) = (self.number(a, bits)?, self.number(b, bits)?);
        if self.symbols.value(&a).is_some() {
            (a, b) = (b, a);
        }
        let mask = match self.symbols.value(&b) {
            Some(mask) => mask.rem_euclid(1 << bits),
            None => {
                let (a, b) = (
                    self.exact(&a, bits, false, facts)?,
                    self.exact(&b, bits, false, facts)?,
                );
                let high = self.symbols.high(&a)?.min(self.symbols.high(&b)?);
                let zeros = self.zeros(&a)?.max(self.zeros(&b)?);
                return self.ranged(target, block, high, zeros, facts);
            }
        };
        if mask == 0 {
            return Some(Form::number(0));
        }
        if let Some(value) = self.symbols.value(&a) {
            return Some(Form::number(value.rem_euclid(1 << bits) & mask));
        }
        let at = mask.trailing_zeros();
        let length = (mask >> at).trailing_ones();
        if mask >> at >> length == 0 {
            if at + length == 64
                && let Some(aligned) = self.aligned(&a, at, facts)
            {
                return Some(aligned);
            }
            return self.field(&a, at, length, facts)?.scale(1 << at);
        }
        let a = self.exact(&a, bits, false, facts)?;
        let high = self.prover(facts).upper_value(&a).unwrap_or(mask);
        if high < 1 << mask.trailing_ones() {
            return Some(a);
        }
        self.ranged(target, block, high.min(mask), at, facts)
    }

    /// An address without its `zeros` low bits. They are 0 in the address of a buffer with at least
    /// this alignment, so they are those of the offset.
    fn aligned(&mut self, form: &Form, zeros: u32, facts: &[Form]) -> Option<Form> {
        let terms = form.terms().iter();
        let mut roots = terms.filter(|term| self.symbols.is_root(term.0));
        let (&(root, 1), None) = (roots.next()?, roots.next()) else {
            return None;
        };
        let Kind::Buffer(param, offset) = self.symbols.info(root).kind else {
            return None;
        };
        let buffer = self
            .launch
            .arguments
            .get(param as usize)?
            .buffer_at(offset)?;
        if !buffer.align.is_multiple_of(1 << zeros) {
            return None;
        }
        let units = self.quotient(&form.without(root), 1 << zeros, facts)?;
        Form::symbol(root).combine(1, &units, 1 << zeros)
    }

    fn or(
        &mut self,
        block: u32,
        target: Value,
        [a, b]: [Source; 2],
        bits: u32,
        is_or: bool,
        facts: &[Form],
    ) -> Option<Form> {
        let (a, b) = (self.number(a, bits)?, self.number(b, bits)?);
        let a = self.exact(&a, bits, false, facts)?;
        let b = self.exact(&b, bits, false, facts)?;
        if let (Some(a), Some(b)) = (self.symbols.value(&a), self.symbols.value(&b)) {
            return Some(Form::number(if is_or { a | b } else { a ^ b }));
        }
        let ones = (1i128 << bits) - 1;
        for (form, other) in [(&a, &b), (&b, &a)] {
            if !is_or && self.symbols.value(other) == Some(ones) {
                return form.scale(-1)?.plus(-1);
            }
            // Without a common bit, both are additions.
            let concrete = self.symbols.concrete(form)?;
            let is_sum = |high: i128| {
                power_above(high).is_some_and(|end| end <= ones && concrete.is_multiple_of(end))
            };
            if is_sum(self.symbols.high(other)?)
                || self.prover(facts).upper_value(other).is_some_and(is_sum)
            {
                return form.add(other);
            }
        }
        let high = self.symbols.high(&a)?.max(self.symbols.high(&b)?);
        let high = power_above(high).map_or(ones, |end| end - 1);
        let zeros = self.zeros(&a)?.min(self.zeros(&b)?);
        self.ranged(target, block, high.min(ones), zeros, facts)
    }

    /// The number of low bits that are 0 in every value of the form, at most 16.
    fn zeros(&self, form: &Form) -> Option<u32> {
        let form = self.symbols.concrete(form)?;
        let factors = form.terms().iter().map(|term| term.1);
        let all = factors.fold(form.constant, |all, factor| all | factor);
        Some(all.trailing_zeros().min(16))
    }

    /// An unknown number from 0 to `high` whose `zeros` low bits are 0.
    fn ranged(
        &mut self,
        target: Value,
        block: u32,
        high: i128,
        zeros: u32,
        facts: &[Form],
    ) -> Option<Form> {
        let Known::Number(form) = self.opaque(target, block, 0, high.max(0)) else {
            return None;
        };
        match zeros {
            0 => Some(form),
            _ => self.quotient(&form, 1 << zeros, facts)?.scale(1 << zeros),
        }
    }

    fn extreme(
        &mut self,
        block: u32,
        target: Value,
        a: Form,
        b: Form,
        is_max: bool,
        facts: &[Form],
    ) -> Option<Form> {
        let difference = a.sub(&b)?;
        let prover = self.prover(facts);
        if prover.is_at_most(&difference, 0) {
            return Some(if is_max { b } else { a });
        }
        if prover.is_at_least(&difference, 0) {
            return Some(if is_max { a } else { b });
        }
        self.symbols.extreme(target, block, [&a, &b], is_max)
    }
}

/// The smallest power of two that is above a number and above 0; `None` if it exceeds 127 bits.
fn power_above(number: i128) -> Option<i128> {
    let bits = 128 - number.max(0).leading_zeros();
    (bits < 127).then(|| 1 << bits)
}

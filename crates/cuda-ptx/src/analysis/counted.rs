//! Loops whose iterations an assembler counts before they run.
//!
//! ptxas computes from the condition of a loop how often the loop is repeated, and leaves out the
//! condition in some iterations. It ignores that the counter, the limit, or their difference may
//! leave the range of the type. So a comparison of a counter is a fact only if the analysis shows
//! that none of them does. If the condition of a loop may wrap, this concerns all comparisons in
//! the loop and behind it, because one that follows from the condition of the loop is removed
//! first.

use std::rc::Rc;

use crate::flow::Loop;

use super::condition::Condition;
use super::form::{Form, Symbol};
use super::round::Round;
use super::symbols::Kind;

/// The greatest number of iterations that are made of one, so that the counter may be expected to
/// go this many steps beyond the limit.
const UNROLLED: i128 = 16;

/// The distance from a buffer up to which an address is one of 64 bits.
const NEAR: i128 = 1 << 61;

/// How a side of a comparison changes in a loop.
enum Side {
    /// By a number in each iteration, from the value in the first one.
    Counter { start: Form, step: i128 },
    /// Not at all.
    Fixed(Form),
    /// With data, so that nothing can be counted.
    Data,
    /// In a way that an assembler may know better.
    Hidden,
}

impl Round<'_> {
    /// Whether the condition of the branch at the end of `block` may be a fact. Notes the loops
    /// that it ends although an assembler may count them in another way.
    pub(super) fn is_branch_kept(&mut self, block: u32, condition: &Condition) -> bool {
        let kernel = self.kernel;
        let succs = &kernel.blocks[block as usize].succs;
        let mut is_kept = true;
        for (index, one) in kernel.cycles.around(block) {
            // A thread that ends has no block for it.
            let is_left = succs.len() < 2 || succs.iter().any(|&to| !one.contains(to));
            if is_left && !self.is_kept_in(condition, one) {
                self.wrapping.insert(index);
                is_kept = false;
            }
        }
        is_kept && self.is_condition_kept(block, condition)
    }

    /// Whether a condition that is tested in `block` may be a fact. It may follow from the
    /// condition of a loop around the block, or an earlier one, that an assembler counts in another
    /// way.
    fn is_condition_kept(&mut self, block: u32, condition: &Condition) -> bool {
        if self.assumptions.wrapping.is_empty() {
            return true;
        }
        let cycles = &self.kernel.cycles;
        let mut loops: Vec<u32> = cycles.around(block).map(|(index, _)| index).collect();
        for form in condition.forms() {
            let headers =
                form.terms()
                    .iter()
                    .filter_map(|term| match self.symbols.info(term.0).kind {
                        Kind::Loop(header) => cycles.with_header(header),
                        _ => None,
                    });
            loops.extend(headers);
        }
        let wrapping = &self.assumptions.wrapping;
        let mut wrapping = loops.into_iter().filter(|index| wrapping.contains(index));
        wrapping.all(|index| self.is_kept_in(condition, &cycles.loops[index as usize]))
    }

    /// The condition, or nothing if it is not a fact in `block`.
    pub(super) fn kept(&mut self, block: u32, condition: Rc<Condition>) -> Rc<Condition> {
        if matches!(*condition, Condition::Constant(_)) {
            return condition;
        }
        let is_kept =
            !self.is_uncertain_at_guard(block) && self.is_condition_kept(block, &condition);
        if is_kept { condition } else { Rc::default() }
    }

    fn is_kept_in(&mut self, condition: &Condition, one: &Loop) -> bool {
        let Some(header) = one.header else {
            // In a graph that is not understood, every branch may repeat something.
            return self.is_without_counters(condition);
        };
        let kind = Kind::Loop(header);
        let counter = self.symbols.simple(kind, Some(0), None, Some(header));
        counter.is_some_and(|k| self.is_kept_with(condition, one, k))
    }

    fn is_without_counters(&self, condition: &Condition) -> bool {
        condition.forms().into_iter().all(|form| {
            let mut terms = form.terms().iter();
            terms.all(|term| self.symbols.info(term.0).blocks.is_empty())
        })
    }

    fn is_kept_with(&self, condition: &Condition, one: &Loop, k: Symbol) -> bool {
        match condition {
            Condition::Constant(_) | Condition::Unknown | Condition::Range { .. } => true,
            Condition::Not(inner, _) => self.is_kept_with(inner, one, k),
            Condition::And(a, b, _) => self.is_kept_with(a, one, k) && self.is_kept_with(b, one, k),
            Condition::Equal {
                form, bits, sides, ..
            } => match self.side(form, one, k) {
                Side::Counter { start, step } => {
                    self.is_reached(&start, step, *bits, one)
                        && sides.as_ref().is_some_and(|(a, b)| {
                            self.is_kept_between([a, b], (*bits, true), one, k)
                        })
                }
                Side::Fixed(_) | Side::Data => true,
                Side::Hidden => false,
            },
            Condition::Ordered {
                exact: (a, b),
                bits,
                is_signed,
                ..
            } => self.is_kept_between([a, b], (*bits, *is_signed), one, k),
        }
    }

    fn is_kept_between(&self, [a, b]: [&Form; 2], ty: (u32, bool), one: &Loop, k: Symbol) -> bool {
        match (self.side(a, one, k), self.side(b, one, k)) {
            (Side::Hidden, _) | (_, Side::Hidden) => false,
            (Side::Data, _) | (_, Side::Data) => true,
            (Side::Fixed(_), Side::Fixed(_)) => true,
            (Side::Counter { start, step }, Side::Fixed(limit))
            | (Side::Fixed(limit), Side::Counter { start, step }) => {
                self.is_in_range(&start, step, &limit, ty, one)
            }
            (Side::Counter { .. }, Side::Counter { .. }) => false,
        }
    }

    fn side(&self, form: &Form, one: &Loop, k: Symbol) -> Side {
        let step = form.coefficient(k);
        let start = form.without(k);
        let is_own = |block| one.contains(block);
        if self.symbols.is_fixed(&start, is_own) {
            return match step {
                0 => Side::Fixed(start),
                step => Side::Counter { start, step },
            };
        }
        let is_data = |symbol: Symbol| match self.symbols.info(symbol).kind {
            Kind::Opaque(value, ..) | Kind::Behind(value) => !self.kernel.is_hidden[value as usize],
            _ => self.symbols.is_fixed(&Form::symbol(symbol), is_own),
        };
        match start.terms().iter().all(|term| is_data(term.0)) {
            true => Side::Data,
            false => Side::Hidden,
        }
    }

    /// Whether a counter comes to 0 without a wrap. `start` is its difference from the limit in the
    /// first iteration.
    fn is_reached(&self, start: &Form, step: i128, bits: u32, one: &Loop) -> bool {
        let half = 1i128 << (bits - 1);
        let step = match step.rem_euclid(half << 1) {
            step if step >= half => step - (half << 1),
            step => step,
        };
        let start = start.clone().reduced(bits);
        let facts = Rc::clone(&self.facts[one.before as usize]);
        let prover = self.prover(&facts);
        let is_towards = match step {
            0 => return false,
            1.. => prover.is_at_most(&start, 0) && prover.is_at_least(&start, 1 - half),
            _ => prover.is_at_least(&start, 0) && prover.is_at_most(&start, half - 1),
        };
        is_towards && self.symbols.is_multiple(&start, step.abs(), 1)
    }

    /// Whether the counter, the limit and their difference stay in the range of the type.
    fn is_in_range(
        &self,
        start: &Form,
        step: i128,
        limit: &Form,
        (bits, is_signed): (u32, bool),
        one: &Loop,
    ) -> bool {
        let facts = Rc::clone(&self.facts[one.before as usize]);
        let prover = self.prover(&facts);
        let lies = |form: Option<Form>, low: i128, high: i128| {
            form.is_some_and(|form| {
                prover.is_at_least(&form, low) && prover.is_at_most(&form, high)
            })
        };
        let Some(beyond) = step.checked_mul(UNROLLED) else {
            return false;
        };
        let half = 1i128 << (bits - 1);
        let (mut low, mut high) = match is_signed {
            true => (-half, half - 1),
            false => (0, 2 * half - 1),
        };
        let (mut start, mut limit) = (start.clone(), limit.clone());
        // Two addresses in or near the same buffer.
        let root = start
            .terms()
            .iter()
            .find(|term| self.symbols.is_root(term.0));
        if let Some(&(root, 1)) = root
            && limit.coefficient(root) == 1
            && bits == 64
        {
            (start, limit) = (start.without(root), limit.without(root));
            (low, high) = (-NEAR, NEAR);
        }
        let difference = limit.sub(&start);
        lies(Some(start), low, high)
            && lies(Some(limit.clone()), low, high)
            && lies(limit.plus(beyond), low, high)
            && (!is_signed || {
                let room = half - 1 - beyond.abs();
                lies(difference, -room, room)
            })
    }
}

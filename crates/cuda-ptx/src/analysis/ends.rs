//! Loops that end, and what the other loops make uncertain.
//!
//! An assembler may delete a loop without effects although it never ends (see `flow/cycles`).
//! Unless the analysis shows that such a loop ends,
//!
//! - the conditions of its exits are no facts, and do not show that a block is unreached;
//! - a condition in the loop that does not change between iterations is no fact either, because an
//!   assembler may move it out of the loop, and then delete the loop of one of its sides;
//! - a value that the loop computes is an unknown number behind the loop.

use std::collections::BTreeSet;

use crate::flow::{Loop, Op, Relation, Source, Value};

use super::condition::Condition;
use super::form::Form;
use super::known::Known;
use super::round::Round;
use super::symbols::Kind;

/// The deepest nesting of predicates that is followed.
const DEPTH: u32 = 8;

impl<'a> Round<'a> {
    /// The loops around a block that may be endless.
    fn open_around(&self, block: u32) -> impl Iterator<Item = &'a Loop> {
        let kernel = self.kernel;
        let ending = &self.assumptions.ending;
        let all = kernel.cycles.around(block);
        all.filter(|(index, _)| !ending.contains(index))
            .map(|(_, one)| one)
    }

    /// The block whose facts hold at the beginning of `block`, which is not the entry: its
    /// dominator, but not one in a loop that may be endless and that does not contain the block.
    pub(super) fn origin_of_facts(&self, block: u32) -> u32 {
        let mut from = self.kernel.graph.parent[block as usize];
        loop {
            let left = self.open_around(from).find(|one| !one.contains(block));
            match left {
                Some(one) => from = one.before,
                None => return from,
            }
        }
    }

    /// The loops in which the condition of an edge from `from` to `to` is uncertain: while the
    /// condition is false, threads can stay in the loop without an effect.
    pub(super) fn uncertain_at_edge(&self, from: u32, to: u32) -> Vec<&'a Loop> {
        let succs = &self.kernel.blocks[from as usize].succs;
        let stays = |one: &&Loop| {
            let is_quiet = |&other: &u32| other != to && one.is_quiet_at(other);
            one.is_quiet_at(from) && succs.iter().any(is_quiet)
        };
        self.open_around(from).filter(stays).collect()
    }

    /// The loops in which the guard of an instruction in `block` is uncertain.
    pub(super) fn uncertain_at_guard(&self, block: u32) -> Vec<&'a Loop> {
        let around = self.open_around(block);
        around.filter(|one| one.is_quiet_at(block)).collect()
    }

    /// Removes the facts that come from a condition that does not change in one of `loops`, or by
    /// which a thread leaves it.
    pub(super) fn retain_certain(&self, facts: &mut Vec<Form>, loops: &[&Loop], to: u32) {
        if loops.iter().any(|one| !one.contains(to)) {
            facts.clear();
        }
        let changes = |fact: &Form, one: &Loop| {
            let mut symbols = fact.terms().iter();
            symbols.any(|term| match self.symbols.info(term.0).kind {
                Kind::Loop(header) => one.contains(header),
                _ => false,
            })
        };
        facts.retain(|fact| loops.iter().all(|one| changes(fact, one)));
    }

    /// A value as it is in all of these blocks.
    pub(super) fn read(&mut self, value: Value, blocks: &[u32]) -> Option<Known> {
        let known = self.known[value as usize].as_ref()?;
        let (bits, from) = self.kernel.values[value as usize];
        if blocks.iter().all(|&block| block == from) {
            return Some(known.clone());
        }
        let is_left = |one: &&Loop| blocks.iter().any(|&block| !one.contains(block));
        let is_same = self
            .open_around(from)
            .filter(is_left)
            .all(|one| match known {
                Known::Number(form) => self.symbols.is_fixed(form, |block| one.contains(block)),
                Known::Predicate(condition) => matches!(**condition, Condition::Constant(_)),
                Known::Undefined => true,
            });
        if is_same {
            return Some(known.clone());
        }
        if bits == 1 {
            return Some(Known::Predicate(Default::default()));
        }
        let high = 1i128.checked_shl(bits).map_or(0, |end| end - 1);
        let kind = Kind::Behind(value);
        let symbol = self.symbols.simple(kind, Some(0), Some(high), Some(from))?;
        if self.kernel.is_unstable[value as usize] {
            self.symbols.set_unstable(symbol);
        }
        Some(Known::Number(Form::symbol(symbol)))
    }

    /// The loops that end in every launch for which this round holds.
    pub(super) fn ending(&mut self) -> BTreeSet<u32> {
        let kernel = self.kernel;
        let loops = kernel.cycles.loops.iter().enumerate();
        loops
            .filter(|(_, one)| self.ends(one))
            .map(|(index, _)| index as u32)
            .collect()
    }

    fn ends(&mut self, one: &Loop) -> bool {
        let Some(header) = one.header else {
            return false;
        };
        if !self.is_live[header as usize] {
            return true;
        }
        let graph = &self.kernel.graph;
        let preds = graph.preds[header as usize].iter().copied();
        let latches: Vec<u32> = preds
            .filter(|&pred| graph.is_back_edge(pred, header))
            .collect();
        let counter = Kind::Loop(header);
        let Some(k) = self.symbols.simple(counter, Some(0), None, Some(header)) else {
            return false;
        };
        let k = Form::symbol(k);
        // The number of the iteration is limited.
        let is_last = |&latch: &u32| {
            !self.is_live[latch as usize]
                || self
                    .prover(&self.facts[latch as usize])
                    .upper_value(&k)
                    .is_some()
        };
        if latches.iter().all(is_last) {
            return true;
        }
        // Every iteration tests a number that sooner or later has a value that ends the loop.
        let tests = one.body.iter().copied().filter(|&block| {
            let all = latches.iter();
            all.into_iter().all(|&latch| graph.dominates(block, latch))
        });
        tests.into_iter().any(|block| {
            let Some(guard) = self.kernel.blocks[block as usize].edge else {
                return false;
            };
            self.fails_once(guard.predicate, guard.negated, one, &k, DEPTH)
        })
    }

    /// Whether a predicate, or its negation, that each iteration tests is false in one of them.
    fn fails_once(
        &mut self,
        predicate: Source,
        negated: bool,
        one: &Loop,
        k: &Form,
        depth: u32,
    ) -> bool {
        let Source::Value(value) = predicate else {
            return false;
        };
        let from = self.kernel.values[value as usize].1;
        let block = &self.kernel.blocks[from as usize];
        let mut all = block.ins.iter();
        let Some(ins) = all.find(|ins| ins.target == Some(value) && ins.guard.is_none()) else {
            return false;
        };
        if depth == 0 || !one.contains(from) {
            return false;
        }
        let [a, b, _] = ins.sources;
        // Its sources are read there, and not behind the loop.
        self.block = from;
        match ins.op {
            Op::BoolNot => self.fails_once(a, !negated, one, k, depth - 1),
            // The result of a comparison is copied in this way.
            Op::BoolOr if a == b => self.fails_once(a, negated, one, k, depth - 1),
            Op::BoolAnd if !negated => {
                self.fails_once(a, false, one, k, depth - 1)
                    || self.fails_once(b, false, one, k, depth - 1)
            }
            Op::BoolOr if negated => {
                self.fails_once(a, true, one, k, depth - 1)
                    || self.fails_once(b, true, one, k, depth - 1)
            }
            Op::Compare { bits, relation, .. } => {
                let relation = match (relation, negated) {
                    (relation, false) => relation,
                    (Relation::Eq, true) => Relation::Ne,
                    (Relation::Ne, true) => Relation::Eq,
                    (Relation::Lt, true) => Relation::Ge,
                    (Relation::Le, true) => Relation::Gt,
                    (Relation::Gt, true) => Relation::Le,
                    (Relation::Ge, true) => Relation::Lt,
                };
                self.comparison_fails([a, b], bits, relation, one, k)
            }
            _ => false,
        }
    }

    fn comparison_fails(
        &mut self,
        [a, b]: [Source; 2],
        bits: u32,
        relation: Relation,
        one: &Loop,
        k: &Form,
    ) -> bool {
        let (Some(a), Some(b)) = (self.number(a, bits), self.number(b, bits)) else {
            return false;
        };
        let Some(difference) = a.sub(&b) else {
            return false;
        };
        let Some(&(counter, 1)) = k.terms().first() else {
            return false;
        };
        let rest = difference.without(counter);
        let is_fixed = |form: &Form| {
            let mut terms = form.terms().iter();
            terms.all(|term| !self.symbols.info(term.0).is_unstable)
                && self.symbols.is_fixed(form, |block| one.contains(block))
        };
        // The step modulo 2^bits. An odd one visits all numbers of the type.
        let step = difference.coefficient(counter).rem_euclid(1 << bits);
        if step == 0 || !is_fixed(&rest) {
            return false;
        }
        match relation {
            Relation::Ne => {
                let unit = 1i128 << step.trailing_zeros();
                self.symbols.is_multiple(&rest, unit, 1)
            }
            Relation::Eq => true,
            // The greatest number is not below any, and the least one not above any.
            Relation::Lt | Relation::Gt => step % 2 == 1 && (is_fixed(&a) || is_fixed(&b)),
            Relation::Le | Relation::Ge => false,
        }
    }
}

//! A round, which is one walk over a kernel: the values of all operations as forms, and the facts
//! at each block.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::flow::{Block, Guard, Ins, Kernel, Op, Phi, Source, Value};

use super::bound::{DEPTH, DEPTH_OF_BRANCH, Prover};
use super::condition::Condition;
use super::form::Form;
use super::known::{Assumptions, Known};
use super::launch::LaunchValues;
use super::symbols::{Alternative, Kind, Selection, Symbols};

/// The largest number of facts at a block.
const MAX_FACTS: usize = 80;
/// The largest number of alternatives of a choice.
const MAX_ALTERNATIVES: usize = 4;

/// The access with this number, at this address, under these facts. For a surface, the second form
/// is the coordinate in bytes; for a matrix, the stride in elements.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&mut Round<'_>, u32, [Option<Form>; 2], &[Form]);

/// The state of one round.
pub(super) struct Round<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) launch: &'a LaunchValues,
    pub(super) symbols: &'a mut Symbols,
    pub(super) work: &'a Cell<u64>,
    pub(super) assumptions: &'a Assumptions,
    /// Distinguishes the choices of this round from those of other rounds.
    pub(super) number: u32,
    /// The depth of searches for bounds.
    pub(super) depth: u32,
    pub(super) known: Vec<Option<Known>>,
    pub(super) facts: Vec<Rc<Vec<Form>>>,
    /// The condition of each block that has one.
    pub(super) conditions: Vec<Option<Rc<Condition>>>,
    pub(super) is_live: Vec<bool>,
    /// The block that is evaluated.
    pub(super) block: u32,
    /// The instruction that is evaluated: its block, and its position in it.
    pub(super) site: u64,
    /// The loops whose condition an assembler may compute with numbers that wrap, by their indices
    /// in the kernel's `cycles`.
    pub(super) wrapping: BTreeSet<u32>,
    /// The line of a jump whose index may be outside of its table.
    pub(super) wild_jump: Option<u32>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a LaunchValues,
        symbols: &'a mut Symbols,
        work: &'a Cell<u64>,
        assumptions: &'a Assumptions,
        number: u32,
    ) -> Self {
        Self {
            kernel,
            launch,
            symbols,
            work,
            assumptions,
            number,
            depth: DEPTH,
            known: vec![None; kernel.values.len()],
            facts: vec![Rc::default(); kernel.blocks.len()],
            conditions: vec![None; kernel.blocks.len()],
            is_live: vec![false; kernel.blocks.len()],
            block: 0,
            site: 0,
            wild_jump: None,
            wrapping: BTreeSet::new(),
        }
    }

    pub(super) fn prover<'p>(&'p self, facts: &'p [Form]) -> Prover<'p> {
        Prover {
            symbols: self.symbols,
            facts,
            depth: self.depth,
            work: self.work,
        }
    }

    /// Walks all blocks, and calls `visit` for each access that a thread may reach. Without
    /// `visit`, it computes only what loops depend on.
    pub(super) fn run(&mut self, mut visit: Option<Visit<'_>>) {
        let kernel = self.kernel;
        let is_needed = match visit {
            Some(_) => &kernel.needed.by_all,
            None => &kernel.needed.by_loops,
        };
        for &number in &kernel.graph.order {
            let block = &kernel.blocks[number as usize];
            self.block = number;
            if !self.enter(number, block) {
                continue;
            }
            for phi in block
                .phis
                .iter()
                .filter(|phi| is_needed[phi.target as usize])
            {
                let known = match kernel.is_undefined[phi.target as usize] {
                    true => Known::Undefined,
                    false => self.phi(number, phi),
                };
                self.known[phi.target as usize] = Some(known);
            }
            let facts = Rc::clone(&self.facts[number as usize]);
            for (index, ins) in block.ins.iter().enumerate() {
                self.site = u64::from(number) << 32 | index as u64;
                if let Op::Access(access) = ins.op {
                    if let Some(visit) = &mut visit {
                        self.access(ins, access, &facts, visit);
                    }
                } else if let Op::Jump { targets, line } = ins.op {
                    if visit.is_some() && !self.is_in_table(ins.sources[0], targets, &facts) {
                        self.wild_jump.get_or_insert(line);
                    }
                } else if let Some(target) = ins.target
                    && is_needed[target as usize]
                {
                    let known = match kernel.is_undefined[target as usize] {
                        true => Known::Undefined,
                        false => self.guarded(number, ins, target, &facts),
                    };
                    self.known[target as usize] = Some(known);
                }
            }
        }
    }

    /// Computes the facts at the beginning of a block. Returns whether a thread may reach it.
    fn enter(&mut self, number: u32, block: &Block) -> bool {
        let kernel = self.kernel;
        let graph = &kernel.graph;
        let preds = &graph.preds[number as usize];
        let is_live = number == 0
            || preds.iter().any(|&pred| {
                self.is_live[pred as usize]
                    || graph.is_retreating(pred, number) && !graph.is_back_edge(pred, number)
            });
        if !is_live {
            return false;
        }
        let mut facts = match number {
            0 => Rc::default(),
            _ => Rc::clone(&self.facts[self.origin_of_facts(number) as usize]),
        };
        if let (Some(guard), Some(&pred)) = (block.edge, preds.first()) {
            // The condition belongs to the end of the predecessor.
            self.block = pred;
            let condition = self.guard(guard);
            self.block = number;
            let is_certain =
                !self.is_uncertain_at_edge(pred, number) && self.is_branch_kept(pred, &condition);
            let mut new = Vec::new();
            let prover = self.prover(&facts);
            let depth = DEPTH_OF_BRANCH;
            if is_certain && condition.is_always(false, &Prover { depth, ..prover }) {
                return false;
            }
            if is_certain {
                condition.facts(true, &prover, false, &mut new);
            }
            self.conditions[number as usize] = Some(condition);
            self.extend(number, &mut facts, new);
        }
        if let Some(assumed) = self.assumptions.at_headers.get(&number) {
            let room = MAX_FACTS.saturating_sub(facts.len());
            Rc::make_mut(&mut facts).extend(assumed.iter().take(room).cloned());
        }
        self.facts[number as usize] = facts;
        self.is_live[number as usize] = true;
        true
    }

    /// Adds the facts that stay true in all blocks that `block` dominates.
    fn extend(&self, block: u32, facts: &mut Rc<Vec<Form>>, new: Vec<Form>) {
        let is_below = |other| self.kernel.graph.dominates(block, other);
        let mut new: Vec<Form> = new
            .into_iter()
            .filter(|form| !form.is_number() && self.symbols.is_fixed(form, is_below))
            .filter(|form| !facts.contains(form))
            .collect();
        if !new.is_empty() {
            new.truncate(MAX_FACTS.saturating_sub(facts.len()));
            Rc::make_mut(facts).extend(new);
        }
    }

    /// The condition that a guard is true.
    pub(super) fn guard(&mut self, guard: Guard) -> Rc<Condition> {
        let condition = self.condition(guard.predicate);
        match guard.negated {
            true => Condition::not(&condition),
            false => condition,
        }
    }

    pub(super) fn condition(&mut self, source: Source) -> Rc<Condition> {
        match source {
            Source::Number(value) => Rc::new(Condition::Constant(value != 0)),
            Source::Value(value) => match self.read(value, &[self.block]) {
                Some(Known::Predicate(condition)) => {
                    let is_unstable = self.kernel.is_unstable[value as usize];
                    match *condition {
                        Condition::Constant(_) => condition,
                        _ if is_unstable => Rc::default(),
                        _ => condition,
                    }
                }
                _ => Rc::new(Condition::Unknown),
            },
            _ => Rc::new(Condition::Unknown),
        }
    }

    /// A number with the range of its type, or a predicate, for the result `value` in `block`.
    pub(super) fn unknown(&mut self, value: Value, block: u32) -> Known {
        let (bits, _) = self.kernel.values[value as usize];
        let high = 1i128.checked_shl(bits).map_or(0, |end| end - 1);
        match bits {
            1 => Known::Predicate(Rc::new(Condition::Unknown)),
            2..=64 => self.opaque(value, block, 0, high),
            _ => Known::Undefined,
        }
    }

    /// A number of which only the range is known.
    pub(super) fn opaque(&mut self, value: Value, block: u32, low: i128, high: i128) -> Known {
        let kind = Kind::Opaque(value, low, high);
        match self
            .symbols
            .simple(kind, Some(low), Some(high), Some(block))
        {
            Some(symbol) => {
                if self.kernel.is_unstable[value as usize] {
                    self.symbols.set_unstable(symbol);
                }
                Known::Number(Form::symbol(symbol))
            }
            None => Known::Undefined,
        }
    }

    fn guarded(&mut self, block: u32, ins: &Ins, target: Value, facts: &[Form]) -> Known {
        let Some(guard) = ins.guard else {
            return self.transfer(block, ins, target, facts);
        };
        let condition = self.guard(guard);
        let condition = self.kept(block, condition);
        let decided = condition.decide(&self.prover(facts));
        let previous = self.read(ins.previous, &[block]);
        let previous = previous.unwrap_or(Known::Undefined);
        match decided {
            Some(true) => return self.transfer(block, ins, target, facts),
            Some(false) => return previous,
            None => {}
        }
        let mut inner = facts.to_vec();
        condition.facts(true, &self.prover(facts), false, &mut inner);
        let new = self.transfer(block, ins, target, &inner);
        self.select(block, target, &condition, new, previous, facts)
    }

    /// `condition ? a : b`
    pub(super) fn select(
        &mut self,
        block: u32,
        target: Value,
        condition: &Rc<Condition>,
        a: Known,
        b: Known,
        facts: &[Form],
    ) -> Known {
        match (a, b) {
            (Known::Number(a), Known::Number(b)) => {
                let prover = self.prover(facts);
                let alternatives = [(a, true), (b, false)].map(|(form, truth)| {
                    let mut facts = Vec::new();
                    condition.facts(truth, &prover, false, &mut facts);
                    Alternative { form, facts }
                });
                self.choice(block, target, alternatives.into(), false)
            }
            (Known::Predicate(a), Known::Predicate(b)) => {
                let first = Condition::and(condition, &a);
                let second = Condition::and(&Condition::not(condition), &b);
                Known::Predicate(Condition::or(&first, &second))
            }
            _ => Known::Undefined,
        }
    }

    /// One of several forms. Those of a phi must not change below its block.
    fn choice(
        &mut self,
        block: u32,
        target: Value,
        mut alternatives: Vec<Alternative>,
        is_phi: bool,
    ) -> Known {
        let graph = &self.kernel.graph;
        let is_below = |other| is_phi && graph.dominates(block, other);
        let mut merged: Vec<Alternative> = Vec::new();
        for mut alternative in alternatives.drain(..) {
            if !self.symbols.is_fixed(&alternative.form, is_below) {
                return self.unknown(target, block);
            }
            let symbols = &self.symbols;
            alternative
                .facts
                .retain(|fact| symbols.is_fixed(fact, is_below));
            match merged
                .iter_mut()
                .find(|other| other.form == alternative.form)
            {
                Some(same) => same.facts.retain(|fact| alternative.facts.contains(fact)),
                None => merged.push(alternative),
            }
        }
        let Some(first) = merged.first().map(|first| first.form.clone()) else {
            return Known::Undefined;
        };
        if merged.len() == 1 {
            return Known::Number(first);
        }
        if merged.len() > MAX_ALTERNATIVES {
            return self.unknown(target, block);
        }
        // Terms that all alternatives share stay outside of the choice, so that a root does.
        let common = first.only(|symbol, by| {
            merged
                .iter()
                .all(|other| other.form.coefficient(symbol) == by)
        });
        for alternative in &mut merged {
            let Some(rest) = alternative.form.sub(&common) else {
                return self.unknown(target, block);
            };
            if rest.terms().iter().any(|term| self.symbols.is_root(term.0)) {
                return self.unknown(target, block);
            }
            alternative.form = rest;
        }
        let ends = self.symbols.ends(&merged);
        let facts = |choice: &Form| {
            let facts = ends.iter();
            facts
                .map(|(form, sign)| choice.combine(*sign, form, -sign))
                .collect()
        };
        let selection = Selection::Any(self.number);
        let choice = self.symbols.choice(target, block, selection, merged, facts);
        match choice.and_then(|choice| choice.add(&common)) {
            Some(form) => Known::Number(form),
            None => self.unknown(target, block),
        }
    }

    fn phi(&mut self, number: u32, phi: &Phi) -> Known {
        let graph = &self.kernel.graph;
        let preds = &graph.preds[number as usize];
        let mut entries = Vec::new();
        let mut has_back_edge = false;
        for (&pred, &arg) in preds.iter().zip(&phi.args) {
            if graph.is_back_edge(pred, number) {
                has_back_edge = true;
            } else if graph.is_retreating(pred, number) {
                // An irreducible loop.
                return self.unknown(phi.target, number);
            } else if self.is_live[pred as usize] {
                entries.push((pred, arg));
            }
        }
        let step = self.assumptions.steps.get(&phi.target).copied();
        if has_back_edge && step.is_none() {
            return self.unknown(phi.target, number);
        }
        let start = self.join(number, phi.target, &entries);
        let (Some(step), Known::Number(form)) = (step, &start) else {
            return start;
        };
        if step == 0 {
            return start;
        }
        let is_below = |other| self.kernel.graph.dominates(number, other);
        if !self.symbols.is_fixed(form, is_below) {
            return self.unknown(phi.target, number);
        }
        let counter = self
            .symbols
            .simple(Kind::Loop(number), Some(0), None, Some(number));
        let bits = self.kernel.values[phi.target as usize].0;
        let sum = counter.and_then(|k| form.combine(1, &Form::symbol(k), step));
        match sum {
            Some(form) => Known::Number(form.reduced(bits)),
            None => self.unknown(phi.target, number),
        }
    }

    /// The merge of the values that arrive from these predecessors.
    fn join(&mut self, block: u32, target: Value, entries: &[(u32, Value)]) -> Known {
        let mut alternatives = Vec::new();
        let mut conditions: Vec<Rc<Condition>> = Vec::new();
        let parent = self.kernel.graph.parent[block as usize];
        let shared = self.facts[parent as usize].len();
        for &(pred, arg) in entries {
            // The value moves along the edge, which may leave a loop.
            let value = self.read(arg, &[pred, block]);
            match &value {
                Some(Known::Number(form)) => {
                    // The facts of the predecessor begin with those of the common dominator.
                    let all = &self.facts[pred as usize];
                    let mut facts = all.get(shared..).unwrap_or(&[]).to_vec();
                    let mut form = form.clone();
                    // What left a loop may have one value.
                    let prover = self.prover(all);
                    let upper = prover.upper_value(&form);
                    if let Some(value) = upper.filter(|_| upper == prover.lower(&form)) {
                        (form, facts) = (Form::number(value), Vec::new());
                    }
                    alternatives.push(Alternative { form, facts });
                }
                Some(Known::Predicate(condition)) => conditions.push(Rc::clone(condition)),
                _ => return Known::Undefined,
            }
        }
        if !alternatives.is_empty() && conditions.is_empty() {
            return self.choice(block, target, alternatives, true);
        }
        let constants = conditions.iter().map(|condition| match **condition {
            Condition::Constant(value) => Some(value),
            _ => None,
        });
        let constants: Option<Vec<bool>> = constants.collect();
        let condition = match constants.as_deref() {
            Some([first, rest @ ..]) if rest.iter().all(|other| other == first) => {
                Condition::Constant(*first)
            }
            _ => Condition::Unknown,
        };
        match alternatives.is_empty() {
            true => Known::Predicate(Rc::new(condition)),
            false => Known::Undefined,
        }
    }

    fn access(&mut self, ins: &Ins, access: u32, facts: &Rc<Vec<Form>>, visit: Visit<'_>) {
        let mut facts = Rc::clone(facts);
        if let Some(guard) = ins.guard {
            let condition = self.guard(guard);
            let condition = self.kept(self.block, condition);
            let prover = self.prover(&facts);
            if condition.is_always(false, &prover) {
                return;
            }
            let mut new = Vec::new();
            condition.facts(true, &prover, false, &mut new);
            Rc::make_mut(&mut facts).extend(new);
        }
        let kernel = self.kernel;
        let info = &kernel.accesses[access as usize];
        let address = self.number(ins.sources[0], info.bits);
        let second = match (info.object, info.tile) {
            (Some(_), _) => self.number(ins.sources[1], 32),
            (None, Some(tile)) if tile.has_stride => {
                let stride = self.number(ins.sources[1], 32);
                stride.and_then(|stride| self.exact(&stride, 32, false, &facts))
            }
            (None, Some(tile)) => Some(Form::number(tile.elements.into())),
            (None, None) => None,
        };
        visit(self, access, [address, second], &facts);
    }
}

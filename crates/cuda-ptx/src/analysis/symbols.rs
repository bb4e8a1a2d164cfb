//! Symbols: the unknown integers that a thread's values are made of.
//!
//! A symbol is an integer, not a bit pattern. Its range and its facts hold always, without any
//! assumption about loops or branches.

use std::collections::HashMap;

use crate::flow::Axis;

use super::form::{Form, Symbol, floor_div};

/// The quantity that a symbol represents. Two symbols are equal if their kinds are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A coordinate of the thread in its block.
    Tid(Axis),
    /// A coordinate of the block in the grid.
    Ctaid(Axis),
    /// The number of blocks along an axis of the grid, in a proof for a range of this number. In
    /// other proofs it is a number.
    Nctaid(Axis),
    /// A number from the parameter at this offset with this size. Its range is one number, except
    /// in a proof for a range of numbers.
    Scalar(u32, u64, u32),
    /// The address of the buffer that the parameter holds at this offset.
    Buffer(u32, u64),
    /// The handle of the texture or surface that the parameter holds. It may be any number.
    Object(u32),
    /// The address of a variable, as a generic address or in its own space.
    Variable(u32, bool),
    /// How often the back edges of the loop with this header were taken since it was entered.
    Loop(u32),
    /// The value that an operation computed, with its lowest and highest value.
    Opaque(u32, i128, i128),
    /// The value that an operation in a loop computed, behind the loop, which may be endless.
    Behind(u32),
    /// One evaluation of a form that may differ from use to use, for the use with this number.
    Use(Form, u64),
    /// `floor(form / divisor)`
    Quotient(Form, i128),
    /// One of several forms, for the result of an operation.
    Choice(u32, Vec<Alternative>, Selection),
}

/// Which one of several forms a choice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Selection {
    /// Any of them. The number tells choices in different rounds apart if their facts depend on the
    /// round.
    Any(u32),
    /// The smallest one.
    Min,
    /// The largest one.
    Max,
}

/// A possible value of a choice, and the facts that hold if the choice has that value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Alternative {
    pub(super) form: Form,
    pub(super) facts: Vec<Form>,
}

/// The facts about a symbol.
#[derive(Clone, Debug)]
pub(super) struct Info {
    pub(super) kind: Kind,
    pub(super) low: Option<i128>,
    pub(super) high: Option<i128>,
    /// Forms that are at most 0.
    pub(super) facts: Vec<Form>,
    /// The blocks that change the symbol when they execute, sorted.
    pub(super) blocks: Vec<u32>,
    /// Whether it means the same in every round.
    pub(super) is_stable: bool,
    /// Whether it may differ from use to use.
    pub(super) is_unstable: bool,
}

/// The largest number of symbols.
const MAX_SYMBOLS: usize = 200_000;
/// The largest number of facts about a quotient.
const MAX_FACTS: usize = 8;
/// The largest number of blocks that a symbol may depend on.
const MAX_BLOCKS: usize = 64;

/// All symbols of one evaluation.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    infos: Vec<Info>,
    numbers: HashMap<Kind, Symbol>,
    /// The numbers of one launch in place of those that have ranges.
    references: Vec<(Symbol, i128)>,
}

impl Symbols {
    pub(super) fn info(&self, symbol: Symbol) -> &Info {
        &self.infos[symbol as usize]
    }

    /// The one value of a symbol that has only one.
    pub(super) fn point(&self, symbol: Symbol) -> Option<i128> {
        let info = self.info(symbol);
        info.low.filter(|_| info.low == info.high)
    }

    /// Remembers the number that a symbol with a range has in one launch.
    pub(super) fn add_reference(&mut self, symbol: Symbol, value: i128) {
        if !self.references.iter().any(|it| it.0 == symbol) {
            self.references.push((symbol, value));
        }
    }

    /// Whether a scalar has a range.
    pub(super) fn has_ranges(&self) -> bool {
        !self.references.is_empty()
    }

    /// The value of a form over scalars in that launch.
    pub(super) fn at_reference(&self, form: &Form) -> Option<i128> {
        let mut terms = form.terms().iter();
        terms.try_fold(form.constant, |sum, &(symbol, by)| {
            let known = self.references.iter().find(|it| it.0 == symbol);
            let value = known.map(|it| it.1).or_else(|| self.point(symbol))?;
            sum.checked_add(value.checked_mul(by)?)
        })
    }

    pub(super) fn is_root(&self, symbol: Symbol) -> bool {
        matches!(
            self.info(symbol).kind,
            Kind::Buffer(..) | Kind::Variable(..)
        )
    }

    /// Marks the result of an operation that may differ from use to use.
    pub(super) fn set_unstable(&mut self, symbol: Symbol) {
        self.infos[symbol as usize].is_unstable = true;
    }

    /// The number that one instruction in `block` sees of a form that may differ from use to use.
    pub(super) fn one_use(
        &mut self,
        form: Form,
        site: u64,
        low: Option<i128>,
        high: Option<i128>,
        block: u32,
    ) -> Option<Symbol> {
        let (mut blocks, is_stable) = self.origin([&form]);
        if !blocks.contains(&block) {
            blocks.push(block);
            blocks.sort_unstable();
        }
        self.intern(Info {
            kind: Kind::Use(form, site),
            low,
            high,
            facts: Vec::new(),
            blocks,
            is_stable,
            is_unstable: true,
        })
    }

    fn intern(&mut self, mut info: Info) -> Option<Symbol> {
        if let Some(&symbol) = self.numbers.get(&info.kind) {
            return Some(symbol);
        }
        if self.infos.len() >= MAX_SYMBOLS || info.blocks.len() > MAX_BLOCKS {
            return None;
        }
        let is_unstable = |form: &Form| {
            let mut terms = form.terms().iter();
            terms.any(|term| self.info(term.0).is_unstable)
        };
        info.is_unstable |= match &info.kind {
            Kind::Quotient(form, _) => is_unstable(form),
            Kind::Choice(_, alternatives, _) => {
                let mut all = alternatives.iter();
                all.any(|one| one.facts.iter().chain([&one.form]).any(is_unstable))
            }
            _ => false,
        };
        let symbol = self.infos.len() as Symbol;
        self.numbers.insert(info.kind.clone(), symbol);
        self.infos.push(info);
        Some(symbol)
    }

    /// A symbol with a range, which the given block changes.
    pub(super) fn simple(
        &mut self,
        kind: Kind,
        low: Option<i128>,
        high: Option<i128>,
        block: Option<u32>,
    ) -> Option<Symbol> {
        self.intern(Info {
            kind,
            low,
            high,
            facts: Vec::new(),
            blocks: block.into_iter().collect(),
            is_stable: true,
            is_unstable: false,
        })
    }

    /// Lets the number of blocks along an axis have any value in a range. `value` is that of one
    /// launch.
    pub(super) fn set_blocks(
        &mut self,
        axis: Axis,
        low: i128,
        high: i128,
        value: i128,
    ) -> Option<()> {
        let symbol = self.simple(Kind::Nctaid(axis), Some(low), Some(high), None)?;
        if low != high {
            self.add_reference(symbol, value);
        }
        Some(())
    }

    /// The number of blocks along an axis, if it has a range.
    pub(super) fn blocks(&self, axis: Axis) -> Option<Symbol> {
        self.numbers.get(&Kind::Nctaid(axis)).copied()
    }

    /// The coordinate of the block along an axis with this number of blocks.
    pub(super) fn block_of(&mut self, axis: Axis, blocks: Symbol) -> Option<Symbol> {
        let high = self.info(blocks).high?.checked_sub(1);
        let symbol = self.simple(Kind::Ctaid(axis), Some(0), high, None)?;
        // coordinate + 1 ≤ number of blocks
        let fact = Form::symbol(symbol).sub(&Form::symbol(blocks))?.plus(1)?;
        self.infos[symbol as usize].facts = vec![fact];
        Some(symbol)
    }

    /// All blocks that change one of the symbols of `forms`, and whether all symbols are stable.
    fn origin<'f>(&self, forms: impl IntoIterator<Item = &'f Form>) -> (Vec<u32>, bool) {
        let (mut blocks, mut is_stable) = (Vec::new(), true);
        for (symbol, _) in forms.into_iter().flat_map(Form::terms) {
            let info = self.info(*symbol);
            blocks.extend_from_slice(&info.blocks);
            is_stable &= info.is_stable;
        }
        blocks.sort_unstable();
        blocks.dedup();
        (blocks, is_stable)
    }

    /// `floor(form / divisor)` for a positive divisor.
    pub(super) fn quotient(&mut self, form: &Form, divisor: i128) -> Option<Form> {
        let low = self.low(form).map(|low| floor_div(low, divisor));
        let high = self.high(form).map(|high| floor_div(high, divisor));
        if let Some(value) = low.filter(|_| low == high) {
            return Some(Form::number(value));
        }
        // floor((d·x + y) / d) = x + floor(y / d)
        let multiples = form.only(|_, by| by % divisor == 0);
        if !multiples.is_number() || form.is_multiple_of(divisor) {
            let mut terms = multiples.terms().iter();
            let whole = terms.try_fold(Form::default(), |sum, &(symbol, by)| {
                sum.combine(1, &Form::symbol(symbol), by / divisor)
            });
            let rest = form.sub(&multiples)?;
            return match form.is_multiple_of(divisor) {
                true => whole?.plus(form.constant / divisor),
                false => whole?.add(&self.quotient(&rest, divisor)?),
            };
        }
        if let Some(known) = self.nested_quotient(form, divisor) {
            return Some(known);
        }
        let (blocks, is_stable) = self.origin([form]);
        let kind = Kind::Quotient(form.clone(), divisor);
        let known = self.numbers.contains_key(&kind);
        let symbol = self.intern(Info {
            kind,
            low,
            high,
            facts: Vec::new(),
            blocks,
            is_stable,
            is_unstable: false,
        })?;
        if !known {
            // 0 ≤ form - divisor · q ≤ divisor - 1
            let rest = form.combine(1, &Form::symbol(symbol), divisor.checked_neg()?);
            if let Some(rest) = rest {
                let facts = [rest.scale(-1), rest.plus(1 - divisor)];
                self.infos[symbol as usize]
                    .facts
                    .extend(facts.into_iter().flatten());
            }
        }
        Some(Form::symbol(symbol))
    }

    /// floor((floor(x / c) + n) / d) as floor((x + n·c) / (c·d)), so that a bit field has one form.
    fn nested_quotient(&mut self, form: &Form, divisor: i128) -> Option<Form> {
        let &[(inner, 1)] = form.terms() else {
            return None;
        };
        let Kind::Quotient(dividend, by) = &self.info(inner).kind else {
            return None;
        };
        let number = form.constant.checked_mul(*by)?;
        let (dividend, all) = (dividend.plus(number)?, by.checked_mul(divisor)?);
        let result = self.quotient(&dividend, all)?;
        // What would be known about a quotient of the inner one is known about this one, too.
        let rest = form.combine(1, &result, divisor.checked_neg()?)?;
        if let &[(symbol, 1)] = result.terms()
            && let Kind::Quotient(..) = self.info(symbol).kind
        {
            let known = &mut self.infos[symbol as usize].facts;
            let mut facts = vec![rest.scale(-1)?, rest.plus(1 - divisor)?];
            facts.retain(|fact| known.len() < MAX_FACTS && !known.contains(fact));
            known.append(&mut facts);
        }
        Some(result)
    }

    /// The smaller or the larger one of two forms, for the result of the operation that defines
    /// `value` in `block`.
    pub(super) fn extreme(
        &mut self,
        value: u32,
        block: u32,
        forms: [&Form; 2],
        is_max: bool,
    ) -> Option<Form> {
        let alternatives = forms.map(|form| Alternative {
            form: form.clone(),
            facts: Vec::new(),
        });
        let sign = if is_max { 1 } else { -1 };
        let facts = |result: &Form| {
            let fact = |form: &Form| form.combine(sign, result, -sign);
            forms.map(fact).into()
        };
        let selection = if is_max {
            Selection::Max
        } else {
            Selection::Min
        };
        let result = self.choice(value, block, selection, alternatives.into(), facts)?;
        // The maximum is not below either form, and the minimum is not above.
        if let Some(&(symbol, 1)) = result.terms().first() {
            let lows = forms.iter().filter_map(|form| self.low(form));
            let highs = forms.iter().filter_map(|form| self.high(form));
            let (low, high) = (lows.max(), highs.min());
            let info = &mut self.infos[symbol as usize];
            match is_max {
                true => info.low = info.low.max(low),
                false => info.high = [info.high, high].into_iter().flatten().min(),
            }
        }
        Some(result)
    }

    /// One of `alternatives`, for the result of the operation that defines `value` in `block`.
    /// `facts` gives forms over the new symbol that are at most 0.
    pub(super) fn choice(
        &mut self,
        value: u32,
        block: u32,
        mut selection: Selection,
        alternatives: Vec<Alternative>,
        facts: impl Fn(&Form) -> Vec<Option<Form>>,
    ) -> Option<Form> {
        let forms = alternatives
            .iter()
            .flat_map(|a| a.facts.iter().chain([&a.form]));
        let (mut blocks, mut is_stable) = self.origin(forms);
        if !blocks.contains(&block) {
            blocks.push(block);
            blocks.sort_unstable();
        }
        let lows = alternatives.iter().map(|a| self.low(&a.form));
        let low = lows
            .collect::<Option<Vec<_>>>()
            .and_then(|ends| ends.into_iter().min());
        let highs = alternatives.iter().map(|a| self.high(&a.form));
        let high = highs
            .collect::<Option<Vec<_>>>()
            .and_then(|ends| ends.into_iter().max());
        // In the first round, nothing is assumed about loops, so that its facts hold in all rounds.
        let has_facts = alternatives.iter().any(|a| !a.facts.is_empty());
        if let Selection::Any(round) = &mut selection {
            let general = || Kind::Choice(value, alternatives.clone(), Selection::Any(0));
            let is_general = *round == 1 || self.numbers.contains_key(&general());
            is_stable &= !has_facts || is_general;
            if is_stable {
                *round = 0;
            }
        }
        let kind = Kind::Choice(value, alternatives, selection);
        let known = self.numbers.contains_key(&kind);
        let symbol = self.intern(Info {
            kind,
            low,
            high,
            facts: Vec::new(),
            blocks,
            is_stable,
            is_unstable: false,
        })?;
        let form = Form::symbol(symbol);
        if !known {
            let facts = facts(&form).into_iter().flatten().collect();
            self.infos[symbol as usize].facts = facts;
        }
        Some(form)
    }
}

//! Bounds of forms under facts.
//!
//! A fact is a form F with F ≤ 0. If E and F have a coefficient of the same sign at one symbol,
//! then a positive multiple of F can be subtracted so that the symbol disappears, and E ≤ E - λF.
//! The search tries such steps to a small depth and uses the intervals of the remaining symbols.
//! A result is a valid bound even if the search ends early; it is then only larger.

use std::cell::Cell;

use super::form::{Form, floor_div, gcd};
use super::symbols::{Kind, Symbols};

/// How many subtractions in a row a search tries: for the bounds of an access, for other bounds,
/// and for whether a branch is ever taken. A larger depth proves more and takes longer.
pub(super) const DEPTH_OF_ACCESS: u32 = 3;
pub(super) const DEPTH: u32 = 2;
pub(super) const DEPTH_OF_BRANCH: u32 = 1;
/// The number of steps of one search.
const STEPS: u32 = 500;
/// The number of choices that are tried one by one.
const SPLITS: u32 = 2;

/// An upper bound: its value, and a form over scalars. If the scalars have one value each, the form
/// has this value. If some have ranges, the form is a bound for each of their values, and the value
/// is one for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: i128,
    pub(super) form: Form,
}

/// Finds bounds under the given facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prover<'a> {
    pub(super) symbols: &'a Symbols,
    pub(super) facts: &'a [Form],
    /// The largest number of subtractions in a row.
    pub(super) depth: u32,
    /// The steps that remain for the whole evaluation.
    pub(super) work: &'a Cell<u64>,
}

impl Prover<'_> {
    /// An upper bound of `form`.
    pub(super) fn upper(&self, form: &Form) -> Option<Bound> {
        self.split::<true>(form, SPLITS, &Cell::new(STEPS), i128::MIN)
    }

    /// The value of an upper bound of `form`. This is faster than the bound.
    pub(super) fn upper_value(&self, form: &Form) -> Option<i128> {
        let bound = self.split::<false>(form, SPLITS, &Cell::new(STEPS), i128::MIN);
        Some(bound?.value)
    }

    /// The largest number that is known not to be above `form`.
    pub(super) fn lower(&self, form: &Form) -> Option<i128> {
        self.upper_value(&form.scale(-1)?)?.checked_neg()
    }

    /// Whether `form` is at most `end`. This is faster than the best bound.
    pub(super) fn is_at_most(&self, form: &Form, end: i128) -> bool {
        self.symbols.high(form).is_some_and(|high| high <= end)
            || self
                .split::<false>(form, SPLITS, &Cell::new(STEPS), end)
                .is_some_and(|bound| bound.value <= end)
    }

    /// Whether `form` is at least `end`.
    pub(super) fn is_at_least(&self, form: &Form, end: i128) -> bool {
        if self.symbols.low(form).is_some_and(|low| low >= end) {
            return true;
        }
        let negative = form.scale(-1).zip(end.checked_neg());
        negative.is_some_and(|(form, end)| self.is_at_most(&form, end))
    }

    /// Searches, and also takes the worst of the alternatives of a choice. A bound that is at most
    /// `goal` ends the search. Without `FORMS`, the forms of bounds are not computed.
    fn split<const FORMS: bool>(
        &self,
        form: &Form,
        splits: u32,
        steps: &Cell<u32>,
        goal: i128,
    ) -> Option<Bound> {
        let best = self.search::<FORMS>(form, self.depth, steps, goal);
        let is_enough = best.as_ref().is_some_and(|bound| bound.value <= goal);
        if is_enough || splits == 0 || steps.get() == 0 || self.work.get() == 0 {
            return best;
        }
        let choice = form.terms().iter().rev().find_map(|&(symbol, _)| {
            match &self.symbols.info(symbol).kind {
                Kind::Choice(_, alternatives, _) => Some((symbol, alternatives)),
                _ => None,
            }
        });
        let Some((symbol, alternatives)) = choice else {
            return best;
        };
        let mut worst: Option<Bound> = None;
        for alternative in alternatives {
            // Replacing a symbol copies the facts.
            let cost = self.facts.len() as u64 + 1;
            let Some(left) = self.work.get().checked_sub(cost) else {
                self.work.set(0);
                return best;
            };
            self.work.set(left);
            let replaced = |form: &Form| form.substitute(symbol, &alternative.form);
            let mut facts: Vec<Form> = self.facts.iter().filter_map(replaced).collect();
            facts.extend(alternative.facts.iter().cloned());
            let prover = Prover {
                facts: &facts,
                ..*self
            };
            let bound = replaced(form)
                .and_then(|form| prover.split::<FORMS>(&form, splits - 1, steps, goal));
            // One alternative without a bound leaves the choice without one.
            let Some(bound) = bound else {
                return best;
            };
            worst = Some(match worst {
                Some(worst) => self.larger(worst, bound),
                None => bound,
            });
        }
        self.smaller(best, worst)
    }

    /// The better one of two bounds. If scalars have ranges, the value of one and the form of the
    /// other may be better.
    fn smaller(&self, a: Option<Bound>, b: Option<Bound>) -> Option<Bound> {
        let (a, b) = match (a, b) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.or(b),
        };
        let value = a.value.min(b.value);
        let form = if self.symbols.has_ranges() {
            let at = |bound: &Bound| self.symbols.at_reference(&bound.form);
            match (at(&a), at(&b)) {
                (Some(x), Some(y)) if y < x => b.form,
                (None, Some(_)) => b.form,
                _ => a.form,
            }
        } else if b.value < a.value {
            b.form
        } else {
            a.form
        };
        Some(Bound { value, form })
    }

    /// A bound that is at least both.
    fn larger(&self, a: Bound, b: Bound) -> Bound {
        if !self.symbols.has_ranges() {
            return if a.value >= b.value { a } else { b };
        }
        let is_above = |a: &Bound, b: &Bound| {
            let low = a.form.sub(&b.form).and_then(|form| self.symbols.low(&form));
            low.is_some_and(|low| low >= 0)
        };
        let is_above_by_value = |a: &Bound, b: &Bound| a.value >= b.value && is_above(a, b);
        if is_above_by_value(&a, &b) {
            return a;
        }
        if is_above_by_value(&b, &a) {
            return b;
        }
        // Which one is larger depends on numbers that have a range.
        let value = a.value.max(b.value);
        Bound {
            value,
            form: Form::number(value),
        }
    }

    fn search<const FORMS: bool>(
        &self,
        form: &Form,
        depth: u32,
        steps: &Cell<u32>,
        goal: i128,
    ) -> Option<Bound> {
        let mut best = self.interval::<FORMS>(form);
        if depth == 0 || best.as_ref().is_some_and(|bound| bound.value <= goal) {
            return best;
        }
        // A symbol without an end has to disappear, so it comes first.
        let is_open = best.is_none();
        for &(symbol, by) in form.terms() {
            let info = self.symbols.info(symbol);
            if info.low.is_some() && info.low == info.high {
                continue;
            }
            let end = if by > 0 { info.high } else { info.low };
            if is_open && end.is_some() {
                continue;
            }
            for fact in self.facts.iter().chain(&info.facts) {
                let other = fact.coefficient(symbol);
                if other == 0 || (other > 0) != (by > 0) {
                    continue;
                }
                let (Some(left), Some(all)) =
                    (steps.get().checked_sub(1), self.work.get().checked_sub(1))
                else {
                    return best;
                };
                steps.set(left);
                self.work.set(all);
                let divisor = gcd(by, other);
                let (Some(times), Some(factor)) = (
                    (other / divisor).checked_abs(),
                    (by / divisor).checked_abs(),
                ) else {
                    continue;
                };
                let bound = if depth == 1 && !FORMS {
                    // Most steps end here, so they make no form.
                    let value = self.symbols.high_of_sum(form, times, fact, -factor);
                    value.map(|value| Bound {
                        value,
                        form: Form::default(),
                    })
                } else {
                    // The goal of the rest, before it is divided.
                    let inner = goal.checked_mul(times).unwrap_or(i128::MIN);
                    let rest = form.combine(times, fact, -factor);
                    rest.and_then(|rest| self.search::<FORMS>(&rest, depth - 1, steps, inner))
                };
                let Some(bound) = bound else {
                    continue;
                };
                let bound = self.divided(form, bound, times);
                best = self.smaller(best, bound);
                if best.as_ref().is_some_and(|bound| bound.value <= goal) {
                    return best;
                }
            }
        }
        best
    }

    /// The bound of `form`, given one of `form · times`.
    fn divided(&self, form: &Form, bound: Bound, times: i128) -> Option<Bound> {
        let value = self.rounded(form, floor_div(bound.value, times))?;
        let is_same = value == bound.value || self.symbols.has_ranges();
        let form = match times == 1 && is_same {
            true => bound.form,
            false => Form::number(value),
        };
        Some(Bound { value, form })
    }

    /// The largest value of `form` that is at most `end`, as far as its coefficients show.
    fn rounded(&self, form: &Form, end: i128) -> Option<i128> {
        let (mut divisor, mut constant) = (0, form.constant);
        for &(symbol, by) in form.terms() {
            match self.symbols.point(symbol) {
                Some(value) => constant = constant.checked_add(value.checked_mul(by)?)?,
                None => divisor = gcd(divisor, by),
            }
        }
        if divisor <= 1 {
            return Some(end);
        }
        let steps = floor_div(end.checked_sub(constant)?, divisor);
        steps.checked_mul(divisor)?.checked_add(constant)
    }

    fn interval<const FORMS: bool>(&self, form: &Form) -> Option<Bound> {
        let value = self.symbols.high(form)?;
        if !FORMS {
            let form = Form::default();
            return Some(Bound { value, form });
        }
        let is_scalar = |symbol| {
            let kind = &self.symbols.info(symbol).kind;
            matches!(kind, Kind::Scalar(..) | Kind::Nctaid(_))
        };
        let scalars = form.only(|symbol, _| is_scalar(symbol));
        // What remains is a number.
        let rest = value.checked_sub(self.symbols.high(&scalars)?)?;
        let form = scalars.plus(rest)?;
        Some(Bound { value, form })
    }
}

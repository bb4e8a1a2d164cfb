//! Ranges, divisors and values of forms over symbols.

use super::form::{Form, Symbol, floor_div, gcd};
use super::symbols::{Alternative, Kind, Symbols};

impl Symbols {
    /// The upper end of the interval of a form.
    pub(super) fn high(&self, form: &Form) -> Option<i128> {
        form.terms()
            .iter()
            .try_fold(form.constant, |sum, &(symbol, by)| {
                let info = self.info(symbol);
                let end = if by > 0 { info.high } else { info.low };
                sum.checked_add(end?.checked_mul(by)?)
            })
    }

    /// The upper end of the interval of `a · times + b · factor`.
    pub(super) fn high_of_sum(
        &self,
        a: &Form,
        times: i128,
        b: &Form,
        factor: i128,
    ) -> Option<i128> {
        let mut sum = 0_i128;
        let constant = a.combined(times, b, factor, |symbol, by| {
            let info = self.info(symbol);
            let end = if by > 0 { info.high } else { info.low };
            sum = sum.checked_add(end?.checked_mul(by)?)?;
            Some(())
        })?;
        sum.checked_add(constant)
    }

    /// The lower end of the interval of a form.
    pub(super) fn low(&self, form: &Form) -> Option<i128> {
        form.terms()
            .iter()
            .try_fold(form.constant, |sum, &(symbol, by)| {
                let info = self.info(symbol);
                let end = if by > 0 { info.low } else { info.high };
                sum.checked_add(end?.checked_mul(by)?)
            })
    }

    /// The form with numbers in the place of symbols that have only one value.
    pub(super) fn concrete(&self, form: &Form) -> Option<Form> {
        let points = form
            .terms()
            .iter()
            .filter(|term| self.point(term.0).is_some());
        let mut result = form.clone();
        for &(symbol, by) in points {
            result = result
                .without(symbol)
                .plus(self.point(symbol)?.checked_mul(by)?)?;
        }
        Some(result)
    }

    /// Whether every value of a form is a multiple of `divisor`. A choice is one if each of its
    /// alternatives is; `depth` choices are looked into, one inside the other.
    pub(super) fn is_multiple(&self, form: &Form, divisor: i128, depth: u32) -> bool {
        let Some(form) = self.concrete(form) else {
            return false;
        };
        let is_term = |&(symbol, by): &(Symbol, i128)| {
            let Kind::Choice(_, alternatives, _) = &self.info(symbol).kind else {
                return by % divisor == 0;
            };
            let is_alternative = |alternative: &Alternative| {
                let form = alternative.form.scale(by);
                form.is_some_and(|form| self.is_multiple(&form, divisor, depth - 1))
            };
            by % divisor == 0 || depth > 0 && alternatives.iter().all(is_alternative)
        };
        form.constant % divisor == 0 && form.terms().iter().all(is_term)
    }

    /// Removes the terms −2ⁿ·q with n ≥ 16 that a conversion added. This is correct only for
    /// assumptions, which are verified later.
    pub(super) fn without_wraps(&self, form: &Form) -> Form {
        let is_wrap = |symbol, by: i128| match self.info(symbol).kind {
            Kind::Quotient(_, divisor) => {
                divisor >= 1 << 16 && divisor & (divisor - 1) == 0 && by == -divisor
            }
            _ => false,
        };
        let mut result = form.only(|symbol, by| !is_wrap(symbol, by));
        result.constant = form.constant;
        result
    }

    /// The value of a form that has only one.
    pub(super) fn value(&self, form: &Form) -> Option<i128> {
        let form = self.concrete(form)?;
        form.is_number().then_some(form.constant)
    }

    /// A stronger form of the fact `form ≤ 0`, by the divisor that its coefficients share.
    pub(super) fn tightened(&self, form: Form) -> Form {
        let is_point = |symbol| self.point(symbol).is_some();
        let terms = form.terms().iter();
        let divisor = terms.filter(|t| !is_point(t.0)).fold(0, |g, t| gcd(g, t.1));
        if divisor <= 1 {
            return form;
        }
        let divided = |form: &Form| {
            let terms = form
                .terms()
                .iter()
                .try_fold(Form::default(), |sum, &(symbol, by)| {
                    sum.combine(1, &Form::symbol(symbol), by / divisor)
                });
            // divisor · t + c ≤ 0 means t ≤ floor(-c / divisor)
            let end = floor_div(form.constant.checked_neg()?, divisor);
            terms?.plus(-end)
        };
        let points_divide = form.terms().iter().all(|t| t.1 % divisor == 0);
        let result = match points_divide && form.constant % divisor == 0 {
            true => divided(&form),
            false => self.concrete(&form).and_then(|form| divided(&form)),
        };
        result.unwrap_or(form)
    }

    /// Whether no symbol of `form` changes in a block that `is_below` selects.
    pub(super) fn is_fixed(&self, form: &Form, is_below: impl Fn(u32) -> bool) -> bool {
        let symbols = form.terms().iter();
        let mut blocks = symbols.flat_map(|term| &self.info(term.0).blocks);
        !blocks.any(|&block| is_below(block))
    }

    pub(super) fn is_stable(&self, form: &Form) -> bool {
        form.terms().iter().all(|term| self.info(term.0).is_stable)
    }
}

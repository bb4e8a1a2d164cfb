//! The conditions of comparisons.

use crate::flow::{FloatRange, Ins, Relation, Source};

use super::condition::Condition;
use super::form::Form;
use super::known::Known;
use super::round::Round;
use super::symbols::Kind;

impl Round<'_> {
    pub(super) fn compare(
        &mut self,
        [a, b]: [Source; 2],
        bits: u32,
        signed: bool,
        relation: Relation,
        facts: &[Form],
    ) -> Option<Condition> {
        let (a, b) = (self.number(a, bits)?, self.number(b, bits)?);
        if matches!(relation, Relation::Eq | Relation::Ne) {
            let form = a.sub(&b)?.reduced(bits);
            let is_counter = |symbol| matches!(self.symbols.info(symbol).kind, Kind::Loop(_));
            let is_counted = form.terms().iter().any(|term| is_counter(term.0));
            let root = |form: &Form| {
                let mut terms = form.terms().iter();
                terms.any(|term| self.symbols.is_root(term.0))
            };
            let sides = match (is_counted, root(&a) && root(&b)) {
                (false, _) => None,
                (true, true) => Some((a, b)),
                (true, false) => {
                    let a = self.exact(&a, bits, true, facts);
                    a.zip(self.exact(&b, bits, true, facts))
                }
            };
            return Some(Condition::Equal {
                is_equal: relation == Relation::Eq,
                bits,
                form,
                sides,
            });
        }
        let left = self.exact(&a, bits, signed, facts)?;
        let right = self.exact(&b, bits, signed, facts)?;
        let unwrapped = |form: Form, exact: &Form| match self.symbols.value(exact) {
            Some(_) => exact.clone(),
            None => self.symbols.without_wraps(&form),
        };
        let unwrapped = (unwrapped(a, &left), unwrapped(b, &right));
        Some(Condition::Ordered {
            relation,
            bits,
            is_signed: signed,
            exact: (left, right),
            unwrapped,
        })
    }

    /// What a comparison of a floating-point number says about its bits. They are known only if an
    /// address or a branch depends on them.
    pub(super) fn compare_float(
        &mut self,
        ins: &Ins,
        range: FloatRange,
        facts: &[Form],
    ) -> Option<Condition> {
        let &[value] = ins.unmodelled() else {
            return None;
        };
        let Some(Known::Number(form)) = &self.known[value as usize] else {
            return None;
        };
        let form = form.clone();
        let form = self.exact(&form, range.bits, false, facts)?;
        let form = match range.is_absolute {
            true => self.field(&form, 0, range.bits - 1, facts)?,
            false => form,
        };
        // Without the sign, only NaN is above infinity, and it has the same exponent.
        let is_high_known = !range.is_absolute || range.high < range.infinity();
        Some(Condition::Range {
            truth: range.truth,
            form,
            low: (range.low > 0).then(|| range.low.into()),
            high: is_high_known.then(|| range.high.into()),
        })
    }
}

//! The ends of choices.

use super::form::Form;
use super::symbols::{Alternative, Symbols};

impl Symbols {
    /// Returns the alternatives that the choice never exceeds, with the sign 1, and those that it
    /// never falls below, with the sign -1, as far as one fact of each case shows it. Then a search
    /// for a bound does not have to try the alternatives one by one.
    ///
    /// An example is the minimum of two numbers, if a compiler makes a branch of it.
    pub(super) fn ends(&self, alternatives: &[Alternative]) -> Vec<(Form, i128)> {
        let forms = alternatives.iter().map(|alternative| &alternative.form);
        if forms.clone().all(Form::is_number) {
            return Vec::new();
        }
        let ends = forms.flat_map(|end| [(end, 1), (end, -1)]);
        let is_end = |&(end, sign): &(&Form, i128)| {
            let mut all = alternatives.iter();
            all.all(|case| self.is_below(case, end, sign))
        };
        let ends = ends.filter(is_end);
        ends.map(|(end, sign)| (end.clone(), sign)).collect()
    }

    /// Whether the form of a case is at most `end`, or at least `end` if `sign` is -1, if the facts
    /// of the case hold.
    fn is_below(&self, case: &Alternative, end: &Form, sign: i128) -> bool {
        let Some(above) = case.form.combine(sign, end, -sign) else {
            return false;
        };
        let is_above_fact = |fact: &Form| {
            let rest = above.sub(fact);
            rest.is_none_or(|rest| !rest.is_number() || rest.constant > 0)
        };
        self.high(&above).is_some_and(|high| high <= 0) || !case.facts.iter().all(is_above_fact)
    }
}

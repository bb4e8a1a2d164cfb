//! Values that may differ from use to use.
//!
//! An assembler repeats some instructions instead of keeping their results. A value that depends on
//! such a result has another, unrelated number for each instruction that uses it.

use super::form::{Form, gcd};
use super::round::Round;

impl Round<'_> {
    /// The number that the current instruction sees of a value with this form.
    pub(super) fn used(&mut self, form: Form) -> Option<Form> {
        let unstable = form.only(|symbol, _| self.symbols.info(symbol).is_unstable);
        let factor = unstable
            .terms()
            .iter()
            .fold(0, |all, term| gcd(all, term.1));
        if factor == 0 {
            return Some(form);
        }
        let mut unit = Form::default();
        for &(symbol, by) in unstable.terms() {
            unit = unit.combine(1, &Form::symbol(symbol), by / factor)?;
        }
        let prover = self.prover(&[]);
        let (low, high) = (prover.lower(&unit), prover.upper_value(&unit));
        let symbol = self
            .symbols
            .one_use(unit, self.site, low, high, self.block)?;
        form.sub(&unstable)?
            .combine(1, &Form::symbol(symbol), factor)
    }
}

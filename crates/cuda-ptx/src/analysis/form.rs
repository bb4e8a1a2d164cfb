//! Affine forms: a sum of symbols with coefficients, and a constant.
//!
//! All arithmetic is checked. An operation returns `None` if a coefficient leaves 128 bits, or if
//! the form gets too long.

use std::fmt::Debug;

/// The number of a symbol.
pub(super) type Symbol = u32;

/// The largest number of terms of a form.
const MAX_TERMS: usize = 20;

/// `Σ coefficient · symbol + constant`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Form {
    /// Sorted by symbol, without coefficients that are 0.
    terms: Vec<(Symbol, i128)>,
    pub(super) constant: i128,
}

/// The largest number that is not above `a / b`, for a positive `b`.
pub(super) fn floor_div(a: i128, b: i128) -> i128 {
    // A division of 128 bits takes much longer than the others.
    if b.count_ones() == 1 && b > 0 {
        return a >> b.trailing_zeros();
    }
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) if b > 0 => a.div_euclid(b).into(),
        _ => a.div_euclid(b),
    }
}

/// The greatest common divisor; 0 for two zeros.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    if let (Ok(mut a), Ok(mut b)) = (u64::try_from(a), u64::try_from(b)) {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        return a.into();
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

/// The number in `-2^(bits-1) .. 2^(bits-1)` that is congruent to `value`.
fn reduce(value: i128, bits: u32) -> i128 {
    let modulus = 1i128 << bits;
    let value = value & (modulus - 1);
    if value >= modulus / 2 {
        value - modulus
    } else {
        value
    }
}

impl Form {
    pub(super) fn number(constant: i128) -> Self {
        Self {
            terms: Vec::new(),
            constant,
        }
    }

    pub(super) fn symbol(symbol: Symbol) -> Self {
        Self {
            terms: vec![(symbol, 1)],
            constant: 0,
        }
    }

    pub(super) fn terms(&self) -> &[(Symbol, i128)] {
        &self.terms
    }

    pub(super) fn is_number(&self) -> bool {
        self.terms.is_empty()
    }

    pub(super) fn coefficient(&self, symbol: Symbol) -> i128 {
        match self.terms.binary_search_by_key(&symbol, |term| term.0) {
            Ok(index) => self.terms[index].1,
            Err(_) => 0,
        }
    }

    /// `self · a + other · b`
    pub(super) fn combine(&self, a: i128, other: &Self, b: i128) -> Option<Self> {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let constant = self.combined(a, other, b, |symbol, by| {
            terms.push((symbol, by));
            Some(())
        })?;
        Some(Self { terms, constant })
    }

    /// Calls `each` with the terms of `self · a + other · b`, and returns the constant.
    pub(super) fn combined(
        &self,
        a: i128,
        other: &Self,
        b: i128,
        mut each: impl FnMut(Symbol, i128) -> Option<()>,
    ) -> Option<i128> {
        let (mut left, mut right) = (&*self.terms, &*other.terms);
        let mut count = 0;
        loop {
            let (symbol, value) = match (left, right) {
                ([], []) => break,
                ([(x, m), left_rest @ ..], [(y, n), right_rest @ ..]) if x == y => {
                    (left, right) = (left_rest, right_rest);
                    (*x, m.checked_mul(a)?.checked_add(n.checked_mul(b)?)?)
                }
                ([(x, m), rest @ ..], next) if next.first().is_none_or(|(y, _)| x < y) => {
                    left = rest;
                    (*x, m.checked_mul(a)?)
                }
                (_, [(y, n), rest @ ..]) => {
                    right = rest;
                    (*y, n.checked_mul(b)?)
                }
                // The case before the last covers it.
                ([_, ..], []) => break,
            };
            if value != 0 {
                count += 1;
                if count > MAX_TERMS {
                    return None;
                }
                each(symbol, value)?;
            }
        }
        self.constant
            .checked_mul(a)?
            .checked_add(other.constant.checked_mul(b)?)
    }

    pub(super) fn add(&self, other: &Self) -> Option<Self> {
        self.combine(1, other, 1)
    }

    pub(super) fn sub(&self, other: &Self) -> Option<Self> {
        self.combine(1, other, -1)
    }

    pub(super) fn scale(&self, by: i128) -> Option<Self> {
        self.combine(by, &Self::default(), 0)
    }

    pub(super) fn plus(&self, constant: i128) -> Option<Self> {
        let mut form = self.clone();
        form.constant = form.constant.checked_add(constant)?;
        Some(form)
    }

    /// This form with `value` in the place of `symbol`.
    pub(super) fn substitute(&self, symbol: Symbol, value: &Self) -> Option<Self> {
        let coefficient = self.coefficient(symbol);
        if coefficient == 0 {
            return Some(self.clone());
        }
        self.without(symbol).combine(1, value, coefficient)
    }

    pub(super) fn without(&self, symbol: Symbol) -> Self {
        let mut form = self.clone();
        form.terms.retain(|term| term.0 != symbol);
        form
    }

    /// The terms whose symbols `keep` selects, without the constant.
    pub(super) fn only(&self, keep: impl Fn(Symbol, i128) -> bool) -> Self {
        let mut form = self.clone();
        form.terms.retain(|term| keep(term.0, term.1));
        form.constant = 0;
        form
    }

    /// A form that is congruent modulo 2^bits, with the smallest coefficients.
    pub(super) fn reduced(mut self, bits: u32) -> Self {
        for term in &mut self.terms {
            term.1 = reduce(term.1, bits);
        }
        self.terms.retain(|term| term.1 != 0);
        self.constant = reduce(self.constant, bits);
        self
    }

    /// Whether every value of this form is a multiple of `divisor`.
    pub(super) fn is_multiple_of(&self, divisor: i128) -> bool {
        let is_multiple = |value: i128| match (i64::try_from(value), i64::try_from(divisor)) {
            (Ok(value), Ok(divisor)) if divisor > 0 => value % divisor == 0,
            _ => value % divisor == 0,
        };
        is_multiple(self.constant) && self.terms.iter().all(|term| is_multiple(term.1))
    }
}

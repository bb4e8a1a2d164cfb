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
    a.div_euclid(b)
}

/// The greatest common divisor; 0 for two zeros.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

/// The number in `-2^(bits-1) .. 2^(bits-1)` that is congruent to `value`.
fn reduce(value: i128, bits: u32) -> i128 {
    let modulus = 1i128 << bits;
    let value = value.rem_euclid(modulus);
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
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let (symbol, value) = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(&&(x, m)), Some(&&(y, n))) if x == y => {
                    left.next();
                    right.next();
                    (x, m.checked_mul(a)?.checked_add(n.checked_mul(b)?)?)
                }
                (Some(&&(x, m)), next) if next.is_none_or(|&&(y, _)| x < y) => {
                    left.next();
                    (x, m.checked_mul(a)?)
                }
                (_, Some(&&(y, n))) => {
                    right.next();
                    (y, n.checked_mul(b)?)
                }
                (Some(_), None) => break,
            };
            if value != 0 {
                terms.push((symbol, value));
            }
        }
        if terms.len() > MAX_TERMS {
            return None;
        }
        let constant = self
            .constant
            .checked_mul(a)?
            .checked_add(other.constant.checked_mul(b)?)?;
        Some(Self { terms, constant })
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
        self.constant % divisor == 0 && self.terms.iter().all(|term| term.1 % divisor == 0)
    }
}

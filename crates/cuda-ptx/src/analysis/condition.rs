//! Predicates: what they say about forms, and whether they are decided.

use std::rc::Rc;

use crate::flow::Relation;

use super::bound::Prover;
use super::form::Form;
use super::symbols::Kind;

/// A predicate.
#[derive(Clone, Debug, Default)]
pub(super) enum Condition {
    Constant(bool),
    #[default]
    Unknown,
    /// A comparison: `left relation right`.
    Ordered {
        relation: Relation,
        bits: u32,
        is_signed: bool,
        /// The integers that are compared.
        exact: (Form, Form),
        /// The two sides if nothing wraps.
        unwrapped: (Form, Form),
    },
    /// Equality, or its opposite, modulo 2^bits.
    Equal {
        is_equal: bool,
        bits: u32,
        /// The difference.
        form: Form,
        /// The two sides as signed numbers, if a loop counts the difference.
        sides: Option<(Form, Form)>,
    },
    /// A comparison of a floating-point number: if its value is `truth`, the number whose bits are
    /// `form` is in the range. An end that says nothing is `None`.
    Range {
        truth: bool,
        form: Form,
        low: Option<i128>,
        high: Option<i128>,
    },
    And(Rc<Condition>, Rc<Condition>, u32),
    Not(Rc<Condition>, u32),
}

/// The deepest nesting of a predicate.
const DEPTH: u32 = 24;

impl Condition {
    fn depth(&self) -> u32 {
        match self {
            Self::And(_, _, depth) | Self::Not(_, depth) => *depth,
            _ => 0,
        }
    }

    /// The forms that it compares.
    pub(super) fn forms(&self) -> Vec<&Form> {
        match self {
            Self::Constant(_) | Self::Unknown => Vec::new(),
            Self::Ordered { exact, .. } => vec![&exact.0, &exact.1],
            Self::Equal { form, .. } | Self::Range { form, .. } => vec![form],
            Self::And(a, b, _) => [a.forms(), b.forms()].concat(),
            Self::Not(inner, _) => inner.forms(),
        }
    }

    pub(super) fn and(a: &Rc<Self>, b: &Rc<Self>) -> Rc<Self> {
        match (&**a, &**b) {
            (Self::Constant(true), _) => Rc::clone(b),
            (_, Self::Constant(true)) => Rc::clone(a),
            (Self::Constant(false), _) | (_, Self::Constant(false)) => {
                Rc::new(Self::Constant(false))
            }
            _ => {
                let depth = a.depth().max(b.depth()) + 1;
                if depth > DEPTH {
                    return Rc::new(Self::Unknown);
                }
                Rc::new(Self::And(Rc::clone(a), Rc::clone(b), depth))
            }
        }
    }

    pub(super) fn not(a: &Rc<Self>) -> Rc<Self> {
        match &**a {
            Self::Constant(value) => Rc::new(Self::Constant(!value)),
            Self::Not(inner, _) => Rc::clone(inner),
            Self::Unknown => Rc::clone(a),
            _ if a.depth() >= DEPTH => Rc::new(Self::Unknown),
            _ => Rc::new(Self::Not(Rc::clone(a), a.depth() + 1)),
        }
    }

    pub(super) fn or(a: &Rc<Self>, b: &Rc<Self>) -> Rc<Self> {
        if Rc::ptr_eq(a, b) {
            return Rc::clone(a);
        }
        Self::not(&Self::and(&Self::not(a), &Self::not(b)))
    }

    /// Appends what follows if this condition is `truth`: forms that are at most 0.
    ///
    /// `optimistic` assumes that no difference wraps, for loop assumptions that are verified later.
    pub(super) fn facts(
        &self,
        truth: bool,
        prover: &Prover<'_>,
        optimistic: bool,
        facts: &mut Vec<Form>,
    ) {
        match self {
            Self::Constant(_) | Self::Unknown => {}
            Self::Not(inner, _) => inner.facts(!truth, prover, optimistic, facts),
            Self::And(a, b, _) => {
                if truth {
                    a.facts(true, prover, optimistic, facts);
                    b.facts(true, prover, optimistic, facts);
                } else if a.is_always(true, prover) {
                    b.facts(false, prover, optimistic, facts);
                } else if b.is_always(true, prover) {
                    a.facts(false, prover, optimistic, facts);
                }
            }
            Self::Ordered {
                relation,
                exact,
                unwrapped,
                ..
            } => {
                let (a, b) = if optimistic { unwrapped } else { exact };
                let new = match (relation, truth) {
                    (Relation::Lt, true) | (Relation::Ge, false) => below(a, b, 1),
                    (Relation::Le, true) | (Relation::Gt, false) => below(a, b, 0),
                    (Relation::Gt, true) | (Relation::Le, false) => below(b, a, 1),
                    (Relation::Ge, true) | (Relation::Lt, false) => below(b, a, 0),
                    // Equality has its own variant.
                    (Relation::Eq | Relation::Ne, _) => None,
                };
                facts.extend(new.map(|form| prover.symbols.tightened(form)));
            }
            Self::Range {
                truth: known,
                form,
                low,
                high,
            } => {
                if truth == *known {
                    let above = low.map(|low| form.plus(-low)?.scale(-1));
                    let below = high.map(|high| form.plus(-high));
                    facts.extend([above, below].into_iter().flatten().flatten());
                }
            }
            Self::Equal {
                is_equal,
                bits,
                form,
                ..
            } => {
                let modulus = 1i128 << bits;
                let (positive, negative) = (Some(form.clone()), form.scale(-1));
                let mut push = |form: Option<Form>| {
                    facts.extend(form.map(|form| prover.symbols.tightened(form)));
                };
                if *is_equal == truth {
                    // The difference is a multiple of the modulus, so it is 0 if it is smaller.
                    let is_small = prover.is_at_most(form, modulus - 1)
                        && prover.is_at_least(form, 1 - modulus);
                    if is_small || optimistic {
                        push(positive);
                        push(negative);
                    }
                    // A known quotient bounds its dividend.
                    if let ([(symbol, _)], true) = (form.terms(), is_small && !optimistic) {
                        let info = prover.symbols.info(*symbol);
                        if matches!(info.kind, Kind::Quotient(..)) {
                            facts.extend(info.facts.iter().cloned());
                        }
                    }
                    return;
                }
                // The difference is not 0. If it is neither above nor below, the facts contradict
                // each other, as they do after the last iteration of a loop.
                if optimistic || prover.is_at_most(form, 0) {
                    push(positive.and_then(|form| form.plus(1)));
                }
                if optimistic || prover.is_at_least(form, 0) {
                    push(negative.and_then(|form| form.plus(1)));
                }
            }
        }
    }

    /// The value of the condition, if the facts decide it.
    pub(super) fn decide(&self, prover: &Prover<'_>) -> Option<bool> {
        let mut values = [true, false].into_iter();
        values.find(|value| self.is_always(*value, prover))
    }

    /// Whether the facts decide that the condition has this value. This is faster than
    /// [`decide`](Self::decide).
    pub(super) fn is_always(&self, value: bool, prover: &Prover<'_>) -> bool {
        match self {
            Self::Constant(constant) => *constant == value,
            Self::Unknown => false,
            Self::Not(inner, _) => inner.is_always(!value, prover),
            Self::And(a, b, _) if value => a.is_always(true, prover) && b.is_always(true, prover),
            Self::And(a, b, _) => a.is_always(false, prover) || b.is_always(false, prover),
            Self::Ordered {
                relation, exact, ..
            } => {
                let Some(difference) = exact.0.sub(&exact.1) else {
                    return false;
                };
                match (relation, value) {
                    (Relation::Lt, true) | (Relation::Ge, false) => {
                        prover.is_at_most(&difference, -1)
                    }
                    (Relation::Le, true) | (Relation::Gt, false) => {
                        prover.is_at_most(&difference, 0)
                    }
                    (Relation::Gt, true) | (Relation::Le, false) => {
                        prover.is_at_least(&difference, 1)
                    }
                    (Relation::Ge, true) | (Relation::Lt, false) => {
                        prover.is_at_least(&difference, 0)
                    }
                    (Relation::Eq | Relation::Ne, _) => false,
                }
            }
            Self::Range {
                truth,
                form,
                low,
                high,
            } => {
                let is_below = |low: i128| prover.is_at_most(form, low - 1);
                let is_above = |high: i128| prover.is_at_least(form, high + 1);
                value != *truth && (low.is_some_and(is_below) || high.is_some_and(is_above))
            }
            Self::Equal {
                is_equal,
                bits,
                form,
                ..
            } => {
                if let Some(number) = prover.symbols.value(form) {
                    return ((number.rem_euclid(1 << bits) == 0) == *is_equal) == value;
                }
                let end = (1i128 << bits) - 1;
                let is_unequal = || {
                    (prover.is_at_least(form, 1) && prover.is_at_most(form, end))
                        || (prover.is_at_most(form, -1) && prover.is_at_least(form, -end))
                };
                *is_equal != value && is_unequal()
            }
        }
    }
}

/// The fact `a + by ≤ b`.
fn below(a: &Form, b: &Form, by: i128) -> Option<Form> {
    a.sub(b)?.plus(by)
}

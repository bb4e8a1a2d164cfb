//! What is known about the values and the loops of a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::flow::Value;

use super::condition::Condition;
use super::form::Form;

/// The facts about a value.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// It depends on a register that was never set, so it may differ from use to use.
    Undefined,
    /// A number modulo 2^width.
    Number(Form),
    Predicate(Rc<Condition>),
}

/// The assumptions about the loops of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Assumptions {
    /// The step of each phi that grows by the same number in each iteration.
    pub(super) steps: BTreeMap<Value, i128>,
    /// The forms that are assumed to be at most 0 at each loop header.
    pub(super) at_headers: BTreeMap<u32, Vec<Form>>,
    /// The loops that are assumed to end, by their indices in the kernel's `cycles`.
    pub(super) ending: BTreeSet<u32>,
    /// The loops whose condition an assembler may compute with numbers that wrap. The others are
    /// assumed to be repeated as often as the text says.
    pub(super) wrapping: BTreeSet<u32>,
}

impl Assumptions {
    /// Returns these assumptions and the new ones, or `None` if none is new.
    pub(super) fn with(&self, new: BTreeMap<u32, Vec<Form>>) -> Option<Self> {
        let mut all = self.clone();
        let mut is_new = false;
        for (header, forms) in new {
            let known = all.at_headers.entry(header).or_default();
            for form in forms {
                if !known.contains(&form) {
                    known.push(form);
                    is_new = true;
                }
            }
        }
        is_new.then_some(all)
    }
}

//! Compares an instruction with the forms of the table.

use crate::ast::Instruction;

use super::super::names::{Name, Names};
use super::super::op::Var;
use super::form::{Count, Form, Kind, Slot, TypeName};
use super::operand::Checker;
use super::table;
use super::types::Type;

/// The most places for modifiers in a form.
const MOST_PARTS: usize = 16;

/// The modifier that each part of a form chose: its index plus 1, or 0 without one.
pub(super) type Choices = [u8; MOST_PARTS];

/// A requirement that concerns the value of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// `createpolicy` made the value in every path.
    Policy,
    /// The value is a constant below 16.
    Barrier,
    /// The value is a constant: a positive multiple of 32 and at most the threads of the block.
    Threads,
}

/// The requirements of an instruction, with the indices of the operands.
pub(crate) type Needs = Vec<(Need, usize)>;

/// Compares an instruction with the forms of its opcode.
///
/// # Errors
///
/// Returns the reason if no form fits.
pub(crate) fn needs<'a>(
    instruction: &Instruction<'a>,
    names: &mut Names<'a>,
    vars: &[Var],
) -> Result<Needs, String> {
    if let Some(predicate) = instruction.predicate {
        match names.find(predicate.name) {
            Some(Name::Reg(reg)) if names.type_of(reg) == "pred" => {}
            Some(_) => return Err(format!("{} is not a predicate register", predicate.name)),
            None => return Err(format!("{} is not a register", predicate.name)),
        }
    }
    let mnemonic = instruction.mnemonic();
    let forms = table::forms(instruction.opcode);
    if forms.is_empty() {
        let reason = table::refusal(instruction.opcode);
        return Err(format!("{reason}: {mnemonic}"));
    }
    let mut closest: Option<(usize, String)> = None;
    for form in forms {
        let Some(choices) = modifiers(form, &instruction.modifiers) else {
            continue;
        };
        let mut checker = Checker {
            form,
            choices,
            names: &mut *names,
            vars,
            needs: Needs::new(),
        };
        match checker.operands(&instruction.operands) {
            Ok(()) => return Ok(checker.needs),
            Err((at, reason)) => {
                if closest.as_ref().is_none_or(|(best, _)| *best < at) {
                    closest = Some((at, reason));
                }
            }
        }
    }
    Err(match closest {
        Some((_, reason)) => format!("{mnemonic}: {reason}"),
        None => format!(
            "{mnemonic}: no form of `{}` in the list of permitted forms has these modifiers",
            instruction.opcode
        ),
    })
}

/// The choices with which `form` has exactly these modifiers in this order.
pub(super) fn modifiers(form: &Form, modifiers: &[&str]) -> Option<Choices> {
    fn fits(form: &Form, part: usize, modifiers: &[&str], choices: &mut Choices) -> bool {
        let Some(place) = form.parts.get(part) else {
            return modifiers.is_empty();
        };
        if let Some((first, rest)) = modifiers.split_first()
            && let Some(index) = place.alternatives.iter().position(|it| it == first)
        {
            choices[part] = index as u8 + 1;
            if fits(form, part + 1, rest, choices) {
                return true;
            }
        }
        choices[part] = 0;
        place.is_optional && fits(form, part + 1, modifiers, choices)
    }
    let mut choices = [0; MOST_PARTS];
    let is_small = form.parts.len() <= MOST_PARTS;
    let is_found = is_small && fits(form, 0, modifiers, &mut choices);
    (is_found && form.is_vector_permitted(&choices)).then_some(choices)
}

impl Form {
    /// The modifier that a part chose, or nothing.
    pub(super) fn chosen(&self, choices: &Choices, part: usize) -> &'static str {
        let choice = choices.get(part).copied().unwrap_or(0);
        let alternatives = self.parts.get(part).map(|part| &part.alternatives);
        alternatives
            .and_then(|all| all.get(usize::from(choice).checked_sub(1)?))
            .copied()
            .unwrap_or("")
    }

    pub(super) fn type_of(&self, choices: &Choices, name: TypeName) -> Option<Type> {
        match name {
            TypeName::Fixed(ty) => Some(ty),
            TypeName::Part(part) => Type::parse(self.chosen(choices, part)),
        }
    }

    /// The number of elements, or `None` for one register that is no vector.
    pub(super) fn count(&self, choices: &Choices, count: Count) -> Option<u32> {
        match count {
            Count::One => None,
            Count::Fixed(number) => Some(number),
            Count::Part(part) => self.chosen(choices, part).strip_prefix('v')?.parse().ok(),
        }
    }

    /// Whether vectors have at most 128 bits. Those of 256 bits have rows of their own, with one
    /// number of elements.
    pub(super) fn is_vector_permitted(&self, choices: &Choices) -> bool {
        self.slots.iter().all(|slot| match slot.kind {
            Kind::Result {
                count: Count::Part(part),
                ty,
                ..
            }
            | Kind::Source {
                count: Count::Part(part),
                ty,
                ..
            } => {
                let is_only = self
                    .parts
                    .get(part)
                    .is_some_and(|it| it.alternatives.len() == 1);
                let count = self.count(choices, Count::Part(part)).unwrap_or(1);
                let bits = self.type_of(choices, ty).map_or(0, |ty| ty.bits);
                is_only || count * bits <= 128
            }
            _ => true,
        })
    }

    /// The places for operands with these modifiers, if there are `count` operands.
    pub(super) fn slots(&self, choices: &Choices, count: usize) -> Option<Vec<&Slot>> {
        let parts = 0..self.parts.len();
        let has_policy = parts
            .into_iter()
            .any(|part| self.chosen(choices, part) == "L2::cache_hint");
        let is_needed = |slot: &Slot| match slot.kind {
            Kind::Policy => has_policy,
            _ => !slot.is_optional,
        };
        let needed = self.slots.iter().filter(|slot| is_needed(slot)).count();
        let mut optional = count.checked_sub(needed)?;
        let mut slots = Vec::new();
        for slot in &self.slots {
            if is_needed(slot) {
                slots.push(slot);
            } else if optional > 0 && slot.kind != Kind::Policy {
                optional -= 1;
                slots.push(slot);
            }
        }
        (optional == 0).then_some(slots)
    }
}

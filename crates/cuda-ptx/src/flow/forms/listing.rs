//! The rows of the list with examples, for documents and for tests.

use std::collections::HashSet;
use std::fmt::Write;

use super::super::op::AccessKind;
use super::check::Choices;
use super::form::{Form, Kind, Size, Slot, TypeName, Use};
use super::special;
use super::table::{self, Row as Entry};
use super::types::Type;

/// A family of instruction forms.
#[derive(Clone, Debug)]
pub struct Family {
    /// The title.
    pub title: &'static str,
    /// What holds for all forms of the family, or nothing.
    pub note: &'static str,
    /// The forms.
    pub rows: Vec<Row>,
}

/// A row of the list: the permitted forms of an instruction.
#[derive(Clone, Debug)]
pub struct Row {
    /// The forms, in the notation of `docs/safe-launch-forms.md`.
    pub form: &'static str,
    /// The PTX version that has the form, at least 7.0.
    pub version: &'static str,
    /// The target that has the form, at least `sm_75`.
    pub target: &'static str,
    /// A requirement or a reason, or nothing.
    pub note: &'static str,
    parsed: Form,
}

/// An instruction with one of the permitted forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The instruction with its semicolon.
    pub text: String,
    /// Its operands.
    pub operands: Vec<ExampleOperand>,
    /// The PTX version that has the form with these modifiers.
    pub version: &'static str,
    /// The target that has the form with these modifiers.
    pub target: &'static str,
}

/// An operand of an [`Example`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleOperand {
    /// The text in the instruction.
    pub text: String,
    /// What the operand is.
    pub role: OperandRole,
}

/// What an operand of an [`Example`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperandRole {
    /// Registers that the instruction sets.
    Result,
    /// Registers that it reads.
    Source,
    /// A number.
    Number,
    /// An address.
    Address {
        /// The kind of the access.
        kind: AccessKind,
        /// The number of bytes, if the row alone determines it.
        bytes: Option<u32>,
    },
    /// The handle of a texture or a surface, with its coordinates.
    Handle,
    /// A cache policy.
    Policy,
    /// The number of a barrier.
    Barrier,
    /// A number of threads.
    Threads,
    /// A label, or a list of labels.
    Label,
}

/// The list of permitted instruction forms.
pub fn families() -> Vec<Family> {
    let row = |entry: &Entry| {
        Some(Row {
            form: entry.form,
            version: entry.version,
            target: entry.target,
            note: entry.note,
            parsed: Form::parse(entry.form)?,
        })
    };
    let family = |chapter: &table::Chapter| Family {
        title: chapter.title,
        note: chapter.note,
        rows: chapter.rows.iter().filter_map(row).collect(),
    };
    table::CHAPTERS.iter().map(family).collect()
}

/// The sets of modifiers that the notation of the rows uses: their names and members.
pub fn sets() -> Vec<(&'static str, Vec<&'static str>)> {
    let sets = table::SETS.iter();
    sets.map(|(name, list)| (*name, list.split('|').collect()))
        .collect()
}

/// The opcodes that are refused for a reason of their own.
pub fn refused() -> Vec<(&'static str, &'static str)> {
    table::REFUSED.to_vec()
}

/// The names of the special registers, without those that have a number in their name.
pub fn special_registers() -> Vec<&'static str> {
    special::SPECIAL.iter().map(|it| it.name).collect()
}

/// The number of rows that the table has. Rows that cannot be parsed are in no family.
pub fn row_count() -> usize {
    table::CHAPTERS
        .iter()
        .map(|chapter| chapter.rows.len())
        .sum()
}

impl Row {
    /// The opcode.
    pub fn opcode(&self) -> &'static str {
        self.parsed.opcode
    }

    /// Instructions in which every modifier occurs at least once with every other modifier of
    /// another place, and every kind of operand at least once.
    ///
    /// Predicates are named `%p0`, `%p1`, …, other registers `%b`, `%h`, `%r`, `%d` and `%q` with a
    /// number (8, 16, 32, 64 and 128 bits), or `%f` and `%g` (`.f32`, `.f64`). Addresses are in
    /// `%a0`, `%a1`, …, which have 64 bits, or in `%s0`, … with 32 bits in shared memory.
    pub fn examples(&self) -> Vec<Example> {
        let mut examples = Vec::new();
        for (index, choices) in self.choices().iter().enumerate() {
            for count in 0..=self.parsed.slots.len() {
                let Some(slots) = self.parsed.slots(choices, count) else {
                    continue;
                };
                // Every variant of the operands with the first modifiers, then one with each.
                let variants = if index == 0 {
                    0..4
                } else {
                    index % 4..index % 4 + 1
                };
                for variant in variants {
                    let example = self.example(choices, &slots, variant);
                    if !examples.contains(&example) {
                        examples.push(example);
                    }
                }
            }
        }
        examples
    }

    /// The modifiers of the examples: each pair of alternatives of two places.
    fn choices(&self) -> Vec<Choices> {
        let parts = &self.parsed.parts;
        let alternatives = |part: usize| {
            let first = if parts[part].is_optional { 0 } else { 1 };
            first..=parts[part].alternatives.len() as u8
        };
        let mut covered = HashSet::new();
        let mut all: Vec<Choices> = Vec::new();
        let mut turn = 0_usize;
        let mut add = |fixed: &[(usize, u8)]| {
            let is_covered = |pair: &(usize, u8, usize, u8)| covered.contains(pair);
            let wanted = match *fixed {
                [(a, x), (b, y)] => (a, x, b, y),
                [(a, x), ..] => (a, x, a, x),
                [] => (0, 0, 0, 0),
            };
            if is_covered(&wanted) {
                return;
            }
            turn += 1;
            let mut choices = Choices::default();
            for (part, choice) in choices.iter_mut().enumerate().take(parts.len()) {
                let range = alternatives(part);
                let count = usize::from(*range.end() - *range.start()) + 1;
                let given = fixed.iter().find(|(at, _)| *at == part);
                *choice = match given {
                    Some((_, given)) => *given,
                    None => *range.start() + ((turn * (part + 1)) % count) as u8,
                };
            }
            for a in 0..parts.len() {
                for b in 0..parts.len() {
                    covered.insert((a, choices[a], b, choices[b]));
                }
            }
            if self.parsed.is_vector_permitted(&choices) {
                all.push(choices);
            }
        };
        if parts.is_empty() {
            add(&[]);
        }
        for a in 0..parts.len() {
            for x in alternatives(a) {
                add(&[(a, x)]);
                for b in a + 1..parts.len() {
                    for y in alternatives(b) {
                        add(&[(a, x), (b, y)]);
                    }
                }
            }
        }
        all
    }

    /// The PTX version and the target that have the form with these modifiers.
    fn since(&self, choices: &Choices) -> (&'static str, &'static str) {
        let (mut version, mut target) = (self.version, self.target);
        for part in 0..self.parsed.parts.len() {
            let modifier = self.parsed.chosen(choices, part);
            for &(opcode, newer, since, on) in table::SINCE {
                if newer == modifier && (opcode.is_empty() || opcode == self.parsed.opcode) {
                    // Versions have one digit before the point, and one behind it.
                    version = version.max(since);
                    let number = |text: &str| {
                        let digits = text.trim_start_matches("sm_").trim_end_matches('a');
                        digits.parse::<u32>().unwrap_or(0)
                    };
                    if number(on) > number(target) {
                        target = on;
                    }
                }
            }
        }
        (version, target)
    }

    fn example(&self, choices: &Choices, slots: &[&Slot], variant: usize) -> Example {
        let mut text = String::from(self.parsed.opcode);
        for part in 0..self.parsed.parts.len() {
            let modifier = self.parsed.chosen(choices, part);
            if !modifier.is_empty() {
                let _ = write!(text, ".{modifier}");
            }
        }
        let mut writer = Writer {
            form: &self.parsed,
            choices,
            next: 0,
            variant,
        };
        let mut operands = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            let operand = writer.operand(slot.kind, index);
            text += if index == 0 { " " } else { ", " };
            text += &operand.text;
            operands.push(operand);
        }
        text.push(';');
        let (version, target) = self.since(choices);
        Example {
            text,
            operands,
            version,
            target,
        }
    }
}

/// Writes the operands of an example.
struct Writer<'f> {
    form: &'f Form,
    choices: &'f Choices,
    next: u32,
    variant: usize,
}

impl Writer<'_> {
    /// A new register for a type.
    fn register(&mut self, ty: Option<Type>) -> String {
        let number = self.next;
        self.next += 1;
        let letter = match ty {
            Some(ty) if ty.is_float() && ty.bits == 32 => 'f',
            Some(ty) if ty.is_float() => 'g',
            Some(ty) => match ty.bits {
                1 => 'p',
                8 => 'b',
                16 => 'h',
                32 => 'r',
                64 => 'd',
                _ => 'q',
            },
            None => 'r',
        };
        format!("%{letter}{number}")
    }

    fn type_of(&self, name: TypeName) -> Option<Type> {
        self.form.type_of(self.choices, name)
    }

    /// A vector, or one element.
    fn counted(
        &mut self,
        count: Option<u32>,
        mut element: impl FnMut(&mut Self) -> String,
    ) -> String {
        match count {
            None => element(self),
            Some(count) => {
                let all: Vec<String> = (0..count).map(|_| element(self)).collect();
                format!("{{{}}}", all.join(", "))
            }
        }
    }

    fn operand(&mut self, kind: Kind, index: usize) -> ExampleOperand {
        let (text, role) = match kind {
            Kind::Result {
                count,
                ty,
                can_discard,
                ..
            } => {
                let ty = self.type_of(ty);
                let count = self.form.count(self.choices, count);
                let text = match (can_discard || self.form.opcode == "ld")
                    && count.is_some()
                    && self.variant == 1
                {
                    true => self.counted(count, |writer| {
                        writer.next += 1;
                        match writer.next {
                            1 => String::from("_"),
                            _ => writer.register(ty),
                        }
                    }),
                    false => self.counted(count, |writer| writer.register(ty)),
                };
                (text, OperandRole::Result)
            }
            Kind::Results {
                count,
                first,
                second,
                is_second_needed,
                can_discard,
            } => {
                let (first, second) = (self.type_of(first), self.type_of(second));
                let count = self.form.count(self.choices, count);
                let first = self.counted(count, |writer| writer.register(first));
                let second = self.register(second);
                let text = match self.variant {
                    1 if can_discard && count.is_none() => format!("_|{second}"),
                    0 if !is_second_needed => first,
                    _ => format!("{first}|{second}"),
                };
                (text, OperandRole::Result)
            }
            Kind::Source {
                count,
                ty,
                is_register,
                is_special,
                ..
            } => {
                let ty = self.type_of(ty);
                let count = self.form.count(self.choices, count);
                let number = match ty {
                    _ if is_register => None,
                    Some(ty) if ty.is_predicate() => (self.variant == 2).then_some("1"),
                    Some(ty) if ty.is_float() => Some("0f3F800000"),
                    Some(ty) if ty.bits <= 64 && (ty.is_integer() || ty.is_bits()) => Some("3"),
                    _ => None,
                };
                let is_predicate = ty.is_some_and(Type::is_predicate);
                let text = match (self.variant, number) {
                    (2, Some(number)) if count.is_none() && index > 0 => String::from(number),
                    (1, _) if is_predicate && !is_register => {
                        format!("!{}", self.register(ty))
                    }
                    (3, _) if is_special && count.is_none() && !is_predicate => {
                        String::from(match ty {
                            Some(ty) if ty.bits == 64 => "%clock64",
                            Some(ty) if ty.bits == 32 => "%tid.x",
                            _ => return self.operand_with_register(ty),
                        })
                    }
                    _ => self.counted(count, |writer| writer.register(ty)),
                };
                (text, OperandRole::Source)
            }
            Kind::Limited(ty, most) => {
                let ty = self.type_of(ty);
                let text = match self.variant {
                    2 => most.to_string(),
                    _ => self.register(ty),
                };
                (text, OperandRole::Source)
            }
            Kind::Number(low, high) => {
                let number = if self.variant == 0 { low } else { high };
                (number.to_string(), OperandRole::Number)
            }
            Kind::OneOf(list) => {
                let all: Vec<&str> = list.split('|').collect();
                let number = all[self.variant % all.len()];
                (number.to_owned(), OperandRole::Number)
            }
            Kind::Address {
                used,
                size,
                part,
                space,
            } => {
                let space = part.map_or(space, |part| self.form.chosen(self.choices, part));
                (self.address(space), self.address_role(used, size))
            }
            Kind::Handle { count, ty } => {
                let handle = format!("%a{index}");
                let text = match ty {
                    None => format!("[{handle}]"),
                    Some(ty) => {
                        let (ty, count) = (self.type_of(ty), self.form.count(self.choices, count));
                        let place = self.counted(count, |writer| writer.register(ty));
                        format!("[{handle}, {place}]")
                    }
                };
                (text, OperandRole::Handle)
            }
            Kind::Policy => (String::from("%d99"), OperandRole::Policy),
            Kind::Barrier => (String::from("1"), OperandRole::Barrier),
            Kind::Threads => (String::from("32"), OperandRole::Threads),
            Kind::Fraction => (String::from("0.5"), OperandRole::Number),
            Kind::Label => (String::from("L"), OperandRole::Label),
            Kind::Table => (String::from("T"), OperandRole::Label),
        };
        ExampleOperand { text, role }
    }

    fn operand_with_register(&mut self, ty: Option<Type>) -> ExampleOperand {
        ExampleOperand {
            text: self.register(ty),
            role: OperandRole::Source,
        }
    }

    fn address(&mut self, space: &str) -> String {
        let number = self.next;
        self.next += 1;
        match (space, self.variant) {
            ("param" | "param::entry", _) => String::from("[n]"),
            ("shared" | "shared::cta", 0) => format!("[%s{number}]"),
            (_, 1) => format!("[%a{number}+128]"),
            _ => format!("[%a{number}]"),
        }
    }

    fn address_role(&self, used: Use, size: Size) -> OperandRole {
        let kind = match used {
            Use::Read => AccessKind::Read,
            Use::Write => AccessKind::Write,
            Use::Atomic => AccessKind::Atomic,
        };
        let bytes = match size {
            Size::Bytes(bytes) => Some(bytes),
            Size::Other => None,
            Size::Of(count, ty) => {
                let count = self.form.count(self.choices, count).unwrap_or(1);
                self.type_of(ty).map(|ty| ty.bits / 8 * count)
            }
        };
        OperandRole::Address { kind, bytes }
    }
}

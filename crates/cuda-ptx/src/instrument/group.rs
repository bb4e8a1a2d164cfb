//! Groups of accesses whose addresses differ by constants, and how their addresses are computed at
//! the beginning of a region.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::Root;
use crate::ast::names;
use crate::ast::{Base, Instruction, Literal, Operand, Predicate, Space};
use crate::flow::{AccessKind, Name};

use super::Check;
use super::region::{Region, Regions};
use super::site::Writer;

/// The greatest distance between the addresses of a group.
pub(super) const MAX_SPAN: i64 = 1 << 20;

/// Instructions that give the same result whenever they are repeated with the same operands.
/// Divisions are missing because of those by 0. Operations on floating-point numbers are excluded
/// by their types, because an assembler may contract them.
pub(super) const PURE: &[&str] = &[
    "abs", "add", "and", "bfe", "bfi", "clz", "cvt", "cvta", "lop3", "mad", "max", "min", "mov",
    "mul", "neg", "not", "or", "popc", "prmt", "selp", "setp", "shf", "shl", "shr", "sub", "xor",
];

/// The types of numbers whose operations are exact.
fn is_exact(ty: &str) -> bool {
    let bits = ty.trim_start_matches(['b', 'u', 's']);
    ty == "pred" || (bits.len() < ty.len() && bits.parse::<u32>().is_ok())
}

/// A value that can be computed at the beginning of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Value<'a> {
    /// The value that a register has at the beginning of the region.
    Entry(&'a str),
    /// The result of a hoisted instruction.
    Hoisted(usize),
}

/// An instruction of the region that is also executed at its beginning, for the check.
pub(super) struct Hoisted<'a> {
    pub(super) statement: usize,
    pub(super) bits: u32,
    /// The values of its source registers.
    pub(super) sources: HashMap<&'a str, Value<'a>>,
}

/// A 64-bit number as a sum of multiples of registers, modulo 2⁶⁴.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sum<'a> {
    terms: BTreeMap<Value<'a>, i64>,
    constant: i64,
}

impl<'a> Sum<'a> {
    fn of(value: Value<'a>) -> Self {
        Self {
            terms: BTreeMap::from([(value, 1)]),
            constant: 0,
        }
    }

    /// `self + other * factor`.
    fn plus(mut self, other: &Self, factor: i64) -> Self {
        for (value, count) in &other.terms {
            let term = self.terms.entry(*value).or_default();
            *term = term.wrapping_add(count.wrapping_mul(factor));
        }
        self.terms.retain(|_, count| *count != 0);
        let constant = other.constant.wrapping_mul(factor);
        self.constant = self.constant.wrapping_add(constant);
        self
    }
}

/// Accesses whose addresses differ by constants.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) terms: BTreeMap<Value<'a>, i64>,
    pub(super) root: Option<Root>,
    pub(super) is_write: bool,
    /// The predicate of the accesses, and whether it is negated.
    pub(super) guard: Option<(Value<'a>, bool)>,
    /// The index of one of the accesses.
    pub(super) access: usize,
    /// The register from which the addresses are counted.
    pub(super) base: Value<'a>,
    pub(super) is_wide: bool,
    space: Option<Space>,
    /// The constant of the base.
    pub(super) constant: i64,
    /// The smallest address, counted from the base.
    pub(super) low: i64,
    /// The end of the largest one.
    pub(super) high: i64,
    /// Sizes of which an address has to be a multiple, and the address, counted from the base.
    pub(super) aligned: Vec<(u32, i64)>,
    /// Whether the addresses lie between those of two other groups.
    pub(super) is_between: bool,
}

impl Group<'_> {
    /// Whether the addresses of two groups differ by a small constant, and their accesses need the
    /// same check.
    fn fits(&self, other: &Self) -> bool {
        let delta = other.constant.wrapping_sub(self.constant);
        let is_near = delta.checked_abs().is_some_and(|delta| delta < MAX_SPAN);
        is_near
            && self.terms == other.terms
            && self.root == other.root
            && self.is_write == other.is_write
            && self.guard == other.guard
            && self.is_wide == other.is_wide
            && self.space == other.space
    }

    /// Adds an access of `size` bytes at an address that is counted from the base.
    fn add(&mut self, at: i64, size: u32, is_aligned: bool) {
        let bytes = i64::from(size);
        self.low = self.low.min(at);
        self.high = self.high.max(at + bytes);
        if !self.is_wide {
            // The instruction adds its offset to the register: that must not wrap, so the register
            // has to be in the range, too.
            self.low = self.low.min(0);
            self.high = self.high.max(0);
        }
        let need = (size, at.rem_euclid(bytes));
        if !is_aligned && size > 1 && !self.aligned.contains(&need) {
            self.aligned.push(need);
        }
    }
}

/// The state of the registers at a statement of a region.
pub(super) struct Scan<'a> {
    /// The statement that set a register, and its value if that can be computed at the beginning.
    pub(super) values: HashMap<&'a str, (usize, Option<Value<'a>>)>,
    pub(super) sums: HashMap<usize, Sum<'a>>,
    pub(super) region: Region<'a>,
}

impl<'a> Scan<'a> {
    fn value(&self, name: &'a str) -> Option<Value<'a>> {
        match self.values.get(name) {
            Some((_, value)) => *value,
            None => Some(Value::Entry(name)),
        }
    }

    fn sum(&self, value: Value<'a>) -> Sum<'a> {
        match value {
            Value::Hoisted(hoisted) => self.sums.get(&hoisted).cloned(),
            Value::Entry(_) => None,
        }
        .unwrap_or_else(|| Sum::of(value))
    }

    /// Follows what an instruction sets.
    pub(super) fn step(
        &mut self,
        regions: &Regions<'_, 'a, '_>,
        index: usize,
        instruction: &Instruction<'a>,
        writer: &mut Writer<'a, '_>,
    ) {
        if super::slice::NO_TARGET.contains(&instruction.opcode) {
            return;
        }
        let Some(target) = instruction.operands.first() else {
            return;
        };
        let hoisted = self.hoist(regions, index, instruction, writer);
        names(target, &mut |name| {
            self.values.insert(name, (index, None));
        });
        if let (Some(hoisted), Operand::Name(name)) = (hoisted, target) {
            let number = self.region.hoisted.len();
            if hoisted.bits == 64 {
                let sum = self.sum_of(instruction, &hoisted).unwrap_or_default();
                let sum = match sum.terms.is_empty() {
                    true => Sum::of(Value::Hoisted(number)),
                    false => sum,
                };
                self.sums.insert(number, sum);
            }
            self.region.hoisted.push(hoisted);
            self.values
                .insert(name, (index, Some(Value::Hoisted(number))));
        }
    }

    /// The instruction for the beginning of the region, if it can be hoisted.
    fn hoist(
        &self,
        regions: &Regions<'_, 'a, '_>,
        statement: usize,
        instruction: &Instruction<'a>,
        writer: &mut Writer<'a, '_>,
    ) -> Option<Hoisted<'a>> {
        let opcode = instruction.opcode;
        let is_param = opcode == "ld" && instruction.has("param") && !instruction.has("volatile");
        if instruction.predicate.is_some() || !(is_param || PURE.contains(&opcode)) {
            return None;
        }
        let ty = instruction.modifiers.last()?;
        let is_selection = matches!(opcode, "setp" | "selp" | "mov");
        if instruction.has("cc") || !(is_selection || is_param || is_exact(ty)) {
            return None;
        }
        let (Operand::Name(target), sources) = instruction.operands.split_first()? else {
            return None;
        };
        // In a conversion, the type of the result comes before that of the source.
        let bits = writer.bits(target);
        if !matches!(bits, 1 | 16 | 32 | 64) {
            return None;
        }
        let mut hoisted = Hoisted {
            statement,
            bits,
            sources: HashMap::new(),
        };
        for source in sources {
            match source {
                Operand::Literal(_) => {}
                Operand::Member("%tid" | "%ntid" | "%ctaid" | "%nctaid", _) => {}
                Operand::Address(Base::Name(name), _)
                    if is_param && regions.params.contains(name) && writer.is_unique(name) => {}
                Operand::Name(name) | Operand::Not(name) => match writer.find(name)? {
                    Name::Reg(_) => drop(hoisted.sources.insert(name, self.value(name)?)),
                    Name::Var(_) => {}
                },
                _ => return None,
            }
        }
        Some(hoisted)
    }

    /// The result of an instruction as a sum, if it is one.
    fn sum_of(&self, instruction: &Instruction<'a>, hoisted: &Hoisted<'a>) -> Option<Sum<'a>> {
        let number = |operand: &Operand<'a>| match operand {
            Operand::Literal(Literal::Int(value)) => Some(Sum {
                terms: BTreeMap::new(),
                constant: value.cast_signed(),
            }),
            Operand::Name(name) => hoisted.sources.get(name).map(|value| self.sum(*value)),
            _ => None,
        };
        let is_64 = matches!(instruction.modifiers.as_slice(), ["s64" | "u64" | "b64"]);
        match (instruction.opcode, instruction.operands.as_slice()) {
            ("mov", [_, source]) if is_64 => number(source),
            ("add", [_, a, b]) if is_64 => Some(number(a)?.plus(&number(b)?, 1)),
            ("sub", [_, a, b]) if is_64 => Some(number(a)?.plus(&number(b)?, -1)),
            _ => None,
        }
    }

    /// Adds a checked access to a group. Returns `None` if its address cannot be computed at the
    /// beginning of the region.
    pub(super) fn access(
        &mut self,
        regions: &Regions<'_, 'a, '_>,
        instruction: &Instruction<'a>,
        checks: &[(usize, &Check)],
        writer: &mut Writer<'a, '_>,
    ) -> Option<()> {
        let [(operand, check)] = checks else {
            return None;
        };
        let Operand::Address(Base::Name(name), offset) = instruction.operands.get(*operand)? else {
            return None;
        };
        let access = regions.kernel.accesses.get(check.access)?;
        if !access.is_simple || access.size == 0 || !access.size.is_power_of_two() {
            return None;
        }
        if offset.checked_abs()? > MAX_SPAN {
            return None;
        }
        let new = self.group(regions, instruction, name, check, writer)?;
        let constant = new.constant;
        let groups = &mut self.region.groups;
        let group = match groups.iter().position(|group| group.fits(&new)) {
            Some(index) => groups.get_mut(index)?,
            None => {
                groups.push(new);
                groups.last_mut()?
            }
        };
        let at = constant.wrapping_sub(group.constant) + offset;
        group.add(at, access.size, check.is_aligned);
        Some(())
    }

    /// A group without a range for an access whose address is in a register.
    fn group(
        &self,
        regions: &Regions<'_, 'a, '_>,
        instruction: &Instruction<'a>,
        name: &'a str,
        check: &Check,
        writer: &mut Writer<'a, '_>,
    ) -> Option<Group<'a>> {
        let opcode = instruction.opcode;
        let is_unstable = regions.unstable.contains(&check.access);
        if is_unstable || !matches!(opcode, "ld" | "ldu" | "st" | "atom" | "red") {
            return None;
        }
        let access = regions.kernel.accesses.get(check.access)?;
        let is_wide = match (writer.find(name)?, writer.bits(name)) {
            (Name::Reg(_), 64) => true,
            (Name::Reg(_), 32) => false,
            _ => return None,
        };
        let base = self.value(name)?;
        let guard = match instruction.predicate {
            Some(_) if regions.unset.contains(&check.access) => return None,
            Some(Predicate { name, negated }) => Some((self.value(name)?, negated)),
            None => None,
        };
        let sum = if is_wide {
            self.sum(base)
        } else {
            Sum::of(base)
        };
        Some(Group {
            terms: sum.terms,
            root: check.root.clone(),
            is_write: access.kind != AccessKind::Read,
            guard,
            access: check.access,
            base,
            is_wide,
            space: access.space,
            constant: sum.constant,
            low: i64::MAX,
            high: i64::MIN,
            aligned: Vec::new(),
            is_between: false,
        })
    }
}

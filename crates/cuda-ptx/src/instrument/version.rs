//! Writes the code around a region: the common check, and the slow version with a check for each
//! access.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::analysis::Refusal;
use crate::ast::{Instruction, Operand, Statement};

use super::ChecksByStatement;
use super::group::{Group, Value};
use super::region::{Region, Regions};
use super::site::Writer;

/// The code around a region.
pub(super) struct Versions {
    /// The code before the first instruction.
    pub(super) before: String,
    /// The code after the last instruction.
    pub(super) after: String,
}

/// An operand in which names are replaced.
fn renamed<'n>(operand: &Operand<'n>, name: impl Fn(&'n str) -> &'n str) -> Operand<'n> {
    match operand {
        Operand::Name(old) => Operand::Name(name(old)),
        Operand::Not(old) => Operand::Not(name(old)),
        other => other.clone(),
    }
}

impl<'a, 'k> Writer<'a, 'k> {
    /// The code around a region. Its own instructions stay as they are between the two parts.
    pub(super) fn versions(
        &mut self,
        regions: &Regions<'_, 'a, '_>,
        region: &Region<'a>,
        body: &'a [Statement<'a>],
        checks: &ChecksByStatement<'_>,
        is_volatile: impl Fn(usize) -> bool,
    ) -> Result<Versions, Refusal> {
        let number = self.regions;
        self.regions += 1;
        let (slow, join) = (self.numbered("slow", number), self.numbered("join", number));
        let mut before = String::new();
        let registers = self.hoisted(&mut before, region, body);
        let ok = self.p(9);
        let mut first = true;
        for group in region.groups.iter().filter(|group| !group.is_between) {
            let one = if first { ok.clone() } else { self.p(10) };
            self.group(&mut before, group, &registers, &one)?;
            if !first {
                let _ = write!(before, "and.pred {ok}, {ok}, {one}; ");
            }
            first = false;
        }
        self.align_groups(&mut before, region, &registers, &ok);
        let _ = write!(before, "@!{ok} bra {slow}; ");
        let mut after = format!(" bra {join}; {slow}: ");
        let labels = regions.labels_in(region);
        let places: Vec<String> = (0..labels.len())
            .map(|label| self.numbered(&format!("at{label}_"), number))
            .collect();
        let mut seen = 0;
        let statements = body.iter().enumerate();
        for (index, statement) in statements.take(region.end).skip(region.first) {
            match statement {
                Statement::Label(..) => {
                    if let Some(place) = places.get(seen) {
                        let _ = write!(after, "{place}: ");
                    }
                    seen += 1;
                }
                Statement::Instruction(instruction) => {
                    let checks = checks.get(&index).map_or(&[][..], Vec::as_slice);
                    if let Some(new) = self.instruction(instruction, checks, is_volatile(index))? {
                        let _ = write!(after, "{new} ");
                        continue;
                    }
                    let mut new: Instruction<'_> = instruction.clone();
                    if instruction.opcode == "bra" {
                        let place = |name| {
                            let label = labels.iter().position(|label| *label == name);
                            let place = label.and_then(|label| places.get(label));
                            place.map_or(name, String::as_str)
                        };
                        let operands = instruction.operands.iter();
                        new.operands = operands.map(|it| renamed(it, place)).collect();
                    }
                    let _ = write!(after, "{new} ");
                }
                _ => {}
            }
        }
        let _ = write!(after, "{join}: ");
        Ok(Versions { before, after })
    }

    /// Writes the hoisted instructions that the check needs. Returns the register of each.
    fn hoisted(
        &mut self,
        out: &mut String,
        region: &Region<'a>,
        body: &'a [Statement<'a>],
    ) -> Vec<String> {
        let mut registers: Vec<String> = Vec::with_capacity(region.hoisted.len());
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for (hoisted, is_needed) in region.hoisted.iter().zip(region.needed()) {
            let instruction = match body.get(hoisted.statement) {
                Some(Statement::Instruction(instruction)) if is_needed => instruction,
                _ => {
                    registers.push(String::new());
                    continue;
                }
            };
            let count = counts.entry(hoisted.bits).or_default();
            let register = self.hoisted_register(hoisted.bits, *count);
            *count += 1;
            let most = self.hoisted_registers.entry(hoisted.bits).or_default();
            *most = (*most).max(*count);
            let source = |name| match hoisted.sources.get(name) {
                Some(value) => self::register(*value, &registers),
                None => name,
            };
            let mut new: Instruction<'_> = instruction.clone();
            let operands = instruction.operands.iter();
            new.operands = operands.map(|it| renamed(it, source)).collect();
            if let Some(target) = new.operands.first_mut() {
                *target = Operand::Name(&register);
            }
            let _ = write!(out, "{new} ");
            registers.push(register);
        }
        registers
    }

    /// Sets a predicate if all accesses of a group are in range, or are not executed.
    fn group(
        &mut self,
        out: &mut String,
        group: &Group<'a>,
        registers: &[String],
        ok: &str,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let Some(access) = kernel.accesses.get(group.access) else {
            return self.refuse(kernel.line, "a check of an access that does not exist");
        };
        let base = (register(group.base, registers), group.is_wide);
        let range = (group.low, group.high);
        self.compare_range(out, access, group.root.as_ref(), base, range, ok)?;
        if group.guard.is_some() {
            self.align_each(out, group, base, ok);
        }
        if let Some((guard, is_negated)) = group.guard {
            let (guard, other) = (register(guard, registers), self.p(8));
            let op = if is_negated { "mov" } else { "not" };
            let _ = write!(
                out,
                "{op}.pred {other}, {guard}; or.pred {ok}, {ok}, {other}; "
            );
        }
        Ok(())
    }

    /// Clears a predicate if an address of a group is not aligned.
    fn align_each(&self, out: &mut String, group: &Group<'a>, base: (&str, bool), ok: &str) {
        let low = self.r(0);
        for &(size, at) in &group.aligned {
            self.low_half(out, base, at, &low);
            let _ = write!(out, "and.b32 {low}, {low}, {}; ", size - 1);
            let _ = write!(out, "setp.eq.and.b32 {ok}, {low}, 0, {ok}; ");
        }
    }

    /// Clears a predicate if an address of the groups without a predicate is not aligned. The bits
    /// of all addresses that need the same alignment are collected first.
    fn align_groups(&self, out: &mut String, region: &Region<'a>, registers: &[String], ok: &str) {
        let groups = region.groups.iter().filter(|group| group.guard.is_none());
        let mut sizes: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for group in groups {
            for &(size, at) in &group.aligned {
                let base = (register(group.base, registers), group.is_wide);
                sizes.entry(size).or_default().push((base, at));
            }
        }
        let (low, all) = (self.r(0), self.r(1));
        for (size, places) in sizes {
            let _ = write!(out, "mov.u32 {all}, 0; ");
            for (base, at) in places {
                self.low_half(out, base, at, &low);
                let _ = write!(out, "or.b32 {all}, {all}, {low}; ");
            }
            let _ = write!(out, "and.b32 {all}, {all}, {}; ", size - 1);
            let _ = write!(out, "setp.eq.and.b32 {ok}, {all}, 0, {ok}; ");
        }
    }

    /// Writes the low half of an address.
    fn low_half(&self, out: &mut String, (base, is_wide): (&str, bool), at: i64, low: &str) {
        let convert = if is_wide { "cvt.u32.u64" } else { "mov.b32" };
        let _ = write!(out, "{convert} {low}, {base}; ");
        if at != 0 {
            let _ = write!(out, "add.s32 {low}, {low}, {at}; ");
        }
    }
}

/// The name of the register with a value.
fn register<'n>(value: Value<'n>, registers: &'n [String]) -> &'n str {
    match value {
        Value::Entry(name) => name,
        Value::Hoisted(hoisted) => registers.get(hoisted).map_or("", String::as_str),
    }
}

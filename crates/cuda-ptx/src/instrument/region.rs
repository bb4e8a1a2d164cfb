//! Parts of a body whose accesses are checked together.
//!
//! A region is a part of the body that is entered at its beginning only, and in which all branches
//! lead forward. At its beginning, the addresses of its checked accesses are computed, and the
//! smallest and the largest address of each base are compared once. If all are in range, the
//! original instructions follow. Otherwise the thread continues in a slow version of the region, in
//! which each access has a check of its own, and returns after it.
//!
//! An access whose address cannot be computed at the beginning, such as one that the region loads,
//! has a check of its own in both versions. Ending the region there would add branches, over which
//! the assembler does not move loads.
//!
//! Threads of a warp may take different ways through a region, as in a conditional statement of the
//! source. A region therefore has no instruction that several threads execute together, such as a
//! barrier or a shuffle, and every thread that does not end in it leaves it at its end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::analysis::Root;
use crate::ast::names;
use crate::ast::{Instruction, Literal, Operand, Statement};
use crate::flow::{Kernel, Op, Source};

use super::ChecksByStatement;
use super::group::{Group, Hoisted, MAX_SPAN, PURE, Scan, Value};
use super::site::Writer;

/// The greatest number of statements of a region.
const MAX_STATEMENTS: usize = 1000;

/// The number of later beginnings that a region is compared with.
const MAX_STARTS: usize = 4;

/// The greatest number of accesses in a region that have a separate check.
const MAX_SEPARATE: usize = 64;

/// The cost of the branch at the beginning of a region, in comparisons of addresses.
const BRANCH_COST: usize = 3;

/// Other instructions that may be in a region: each thread executes them independently.
const PER_THREAD: &[&str] = &[
    "addc", "atom", "bfind", "bra", "brev", "cnot", "copysign", "cos", "div", "dp2a", "dp4a",
    "ex2", "exit", "fma", "isspacep", "ld", "ldu", "lg2", "mad24", "madc", "mul24", "rcp", "red",
    "rem", "ret", "rsqrt", "sad", "set", "sin", "slct", "sqrt", "st", "subc", "szext", "tanh",
    "testp",
];

/// A region: the statements from `first` to `end`, without `end`.
#[derive(Default)]
pub(super) struct Region<'a> {
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) hoisted: Vec<Hoisted<'a>>,
    pub(super) groups: Vec<Group<'a>>,
    /// The number of accesses that are checked at the beginning.
    pub(super) accesses: usize,
    /// The statements of the accesses that have a separate check.
    pub(super) separate: BTreeSet<usize>,
}

/// Finds the regions of a body.
pub(super) struct Regions<'b, 'a, 'k> {
    body: &'b [Statement<'a>],
    pub(super) kernel: &'k Kernel,
    checks: &'b ChecksByStatement<'b>,
    /// The statement of each label with a unique name, and the branches to it.
    labels: HashMap<&'a str, (usize, Vec<usize>)>,
    /// Accesses whose predicate is possibly not set, or differs from use to use.
    pub(super) unset: HashSet<usize>,
    /// Accesses whose address differs from use to use.
    pub(super) unstable: HashSet<usize>,
    pub(super) params: HashSet<&'a str>,
    /// The statement that sets a register, if there is only one.
    setters: HashMap<&'a str, Option<usize>>,
    /// Whether each statement is the first instruction after a label or a branch.
    starts: Vec<bool>,
    /// The first statement from each one on that is neither a label nor a line number.
    next: Vec<usize>,
    /// The results of `count`.
    counts: HashMap<usize, usize>,
}

impl<'b, 'a, 'k> Regions<'b, 'a, 'k> {
    pub(super) fn new(
        body: &'b [Statement<'a>],
        kernel: &'k Kernel,
        checks: &'b ChecksByStatement<'b>,
        params: HashSet<&'a str>,
    ) -> Self {
        let mut labels: HashMap<&str, (usize, Vec<usize>)> = HashMap::new();
        let mut bad = HashSet::new();
        for (index, statement) in body.iter().enumerate() {
            if let Statement::Label(name, _) = statement
                && labels.insert(*name, (index, Vec::new())).is_some()
            {
                bad.insert(*name);
            }
        }
        for (index, statement) in body.iter().enumerate() {
            match statement {
                Statement::BranchTargets(_, targets) => bad.extend(targets.iter().copied()),
                Statement::Instruction(instruction) => {
                    for operand in &instruction.operands {
                        names(operand, &mut |name| match labels.get_mut(name) {
                            Some(label) if instruction.opcode == "bra" => label.1.push(index),
                            Some(_) => drop(bad.insert(name)),
                            None => {}
                        });
                    }
                }
                _ => {}
            }
        }
        labels.retain(|name, _| !bad.contains(name));
        let mut setters: HashMap<&str, Option<usize>> = HashMap::new();
        for (index, statement) in body.iter().enumerate() {
            if let Statement::Instruction(instruction) = statement
                && let Some(target) = instruction.operands.first()
            {
                names(target, &mut |name| {
                    let setter = setters.entry(name).or_insert(Some(index));
                    *setter = setter.filter(|setter| *setter == index);
                });
            }
        }
        let mut unset = HashSet::new();
        let order = kernel.graph.order.iter();
        let blocks = order.map(|&block| &kernel.blocks[block as usize]);
        let mut unstable = HashSet::new();
        for ins in blocks.flat_map(|block| &block.ins) {
            if let (Op::Access(access), Source::Value(address)) = (ins.op, ins.sources[0])
                && kernel.is_unstable[address as usize]
            {
                unstable.insert(access as usize);
            }
            if let (Op::Access(access), Some(guard)) = (ins.op, &ins.guard)
                && let Source::Value(value) = guard.predicate
                && (kernel.is_unset[value as usize] || kernel.is_unstable[value as usize])
            {
                unset.insert(access as usize);
            }
        }
        Self {
            body,
            kernel,
            checks,
            labels,
            unset,
            unstable,
            params,
            setters,
            starts: starts(body),
            next: next(body),
            counts: HashMap::new(),
        }
    }

    /// Returns the region that begins at a statement. Returns `None` if a region that begins later,
    /// up to the first checked access, would check as many accesses together.
    pub(super) fn at(&mut self, index: usize, writer: &mut Writer<'a, 'k>) -> Option<Region<'a>> {
        let (&access, _) = self.checks.range(index..).next()?;
        if index != access && (access - index > MAX_STATEMENTS || !self.is_start(index)) {
            return None;
        }
        let count = self.count(index, writer);
        if count == 0 {
            return None;
        }
        let later: Vec<usize> = (index + 1..=access)
            .filter(|&other| other == access || self.is_start(other))
            .collect();
        // The others are compared when they are reached.
        let others = later.iter().rev().take(MAX_STARTS);
        for &other in others {
            if self.count(other, writer) >= count {
                return None;
            }
        }
        let mut region = self.scan(index, true, writer);
        if let Some(&separate) = region.separate.first() {
            let parts = [
                self.scan(index, false, writer),
                self.scan(separate, true, writer),
            ];
            let cost: usize = parts.iter().map(Region::cost).sum();
            if parts[0].accesses > 0 && cost <= region.cost() {
                [region, _] = parts;
            }
        }
        self.merge(&mut region, writer.memories);
        Some(region)
    }

    /// Finds groups whose addresses lie between those of two others: x + s and x + 2·s lie between
    /// x and x + 3·s. The differences must not wrap, so s has to be a number of few bits.
    ///
    /// If s is not set, no access with an s in its address is executed. So all factors of s have
    /// the same sign, or the group without s might be between the others.
    fn merge(&self, region: &mut Region<'a>, memories: &[Option<Root>]) {
        let groups = region.groups.iter().enumerate();
        let fits = |group: &Group<'a>| {
            let is_buffer = matches!(group.root, Some(Root::Buffer { .. }));
            let places = memories.iter().filter(|memory| **memory == group.root);
            is_buffer && group.is_wide && group.guard.is_none() && places.count() == 1
        };
        let mut open: Vec<usize> = groups.filter(|it| fits(it.1)).map(|it| it.0).collect();
        let terms = open.iter().filter_map(|&index| region.groups.get(index));
        let steps: BTreeSet<Value<'a>> = terms
            .flat_map(|group| group.terms.keys().copied())
            .filter(|step| self.is_short(*step, region))
            .collect();
        for step in steps {
            let mut lines: BTreeMap<_, Vec<(i64, usize)>> = BTreeMap::new();
            for &index in &open {
                if let Some(group) = region.groups.get(index) {
                    let mut terms = group.terms.clone();
                    let factor = terms.remove(&step).unwrap_or(0);
                    let place = (terms, group.root.clone(), group.is_write);
                    lines.entry(place).or_default().push((factor, index));
                }
            }
            for (_, mut line) in lines {
                line.sort_unstable();
                if merge_line(region, &line) {
                    open.retain(|index| line.iter().all(|it| it.1 != *index));
                }
            }
        }
    }

    /// Whether a 64-bit register, if it is set, has an absolute value of less than 2⁴⁰.
    fn is_short(&self, value: Value<'a>, region: &Region<'a>) -> bool {
        let setter = match value {
            Value::Hoisted(hoisted) => region.hoisted.get(hoisted).map(|hoisted| hoisted.statement),
            Value::Entry(name) => self.setters.get(name).copied().flatten(),
        };
        let setter = setter.and_then(|setter| self.body.get(setter));
        let Some(Statement::Instruction(setter)) = setter else {
            return false;
        };
        if setter.predicate.is_some() {
            return false;
        }
        match (setter.opcode, setter.modifiers.as_slice()) {
            ("cvt", ["s64", "s32"] | ["u64", "u32"]) => true,
            ("mul", ["wide", "s32" | "u32"]) => {
                matches!(
                    setter.operands.last(),
                    Some(Operand::Literal(Literal::Int(0..=255)))
                )
            }
            _ => false,
        }
    }

    /// Whether a statement is the first instruction after a label or a branch.
    fn is_start(&self, index: usize) -> bool {
        self.starts.get(index) == Some(&true)
    }

    /// The number of checked accesses in the region that begins at a statement.
    fn count(&mut self, index: usize, writer: &mut Writer<'a, 'k>) -> usize {
        if let Some(count) = self.counts.get(&index) {
            return *count;
        }
        let count = self.scan(index, true, writer).accesses;
        self.counts.insert(index, count);
        count
    }

    /// The largest region that begins at a statement. If `with_separate` is false, it has
    /// no access with a separate check.
    fn scan(&self, first: usize, with_separate: bool, writer: &mut Writer<'a, 'k>) -> Region<'a> {
        let mut scan = Scan {
            values: HashMap::new(),
            sums: HashMap::new(),
            region: Region {
                first,
                end: first,
                ..Region::default()
            },
        };
        // The last end at which no branch leads further, with the state there.
        let (mut hoisted, mut groups, mut accesses) = (0, Vec::new(), 0);
        let mut open = first;
        let statements = self.body.iter().enumerate().skip(first);
        for (index, statement) in statements.take(MAX_STATEMENTS) {
            let instruction = match statement {
                Statement::Loc { .. } | Statement::Pragma(_) => continue,
                Statement::Label(name, _) if self.join(name, index, &mut scan) => continue,
                Statement::Instruction(instruction) if is_allowed(instruction) => instruction,
                _ => break,
            };
            if instruction.opcode == "bra" {
                match self.target(instruction).filter(|target| *target > index) {
                    Some(target) => open = open.max(target),
                    None => break,
                }
            }
            if let Some(checks) = self.checks.get(&index) {
                match scan.access(self, instruction, checks, writer) {
                    Some(()) => scan.region.accesses += 1,
                    None if with_separate && scan.region.separate.len() < MAX_SEPARATE => {
                        scan.region.separate.insert(index);
                    }
                    None => break,
                }
            }
            scan.step(self, index, instruction, writer);
            if open <= self.skip(index + 1) && scan.region.accesses > accesses {
                scan.region.end = index + 1;
                hoisted = scan.region.hoisted.len();
                groups.clone_from(&scan.region.groups);
                accesses = scan.region.accesses;
            }
        }
        let mut region = scan.region;
        region.hoisted.truncate(hoisted);
        region.groups = groups;
        region.accesses = accesses;
        let end = region.end;
        region.separate.retain(|it| *it < end);
        region
    }

    /// Forgets the values that a branch to a label may have skipped. Returns whether all branches
    /// to the label are in the region so far.
    fn join(&self, label: &str, index: usize, scan: &mut Scan<'a>) -> bool {
        let Some((_, branches)) = self.labels.get(label) else {
            return false;
        };
        let region = scan.region.first..=index;
        let first_branch = branches.iter().copied().min().unwrap_or(index);
        for (set, value) in scan.values.values_mut() {
            if *set > first_branch {
                *value = None;
            }
        }
        branches.iter().all(|from| region.contains(from))
    }

    /// The statement to which a branch leads: the first after its label that is an instruction.
    fn target(&self, branch: &Instruction<'a>) -> Option<usize> {
        let [Operand::Name(name)] = branch.operands.as_slice() else {
            return None;
        };
        let (label, _) = self.labels.get(name)?;
        Some(self.skip(*label))
    }

    /// The first statement from `index` on that is neither a label nor a line number.
    fn skip(&self, index: usize) -> usize {
        self.next.get(index).copied().unwrap_or(index)
    }

    /// The labels in a region, which its slow version replaces.
    pub(super) fn labels_in(&self, region: &Region<'a>) -> Vec<&'a str> {
        let statements = self.body.get(region.first..region.end).unwrap_or_default();
        let labels = statements.iter().filter_map(|statement| match statement {
            Statement::Label(name, _) => Some(*name),
            _ => None,
        });
        labels.collect()
    }
}

/// Whether each statement is the first instruction after a label or a branch.
fn starts(body: &[Statement<'_>]) -> Vec<bool> {
    let mut is_after = false;
    let is_start = |statement: &Statement<'_>| match statement {
        Statement::Loc { .. } | Statement::Pragma(_) => false,
        Statement::Instruction(instruction) => {
            std::mem::replace(&mut is_after, instruction.opcode == "bra")
        }
        other => {
            is_after = matches!(other, Statement::Label(..));
            false
        }
    };
    body.iter().map(is_start).collect()
}

/// The first statement from each one on that is neither a label nor a line number.
fn next(body: &[Statement<'_>]) -> Vec<usize> {
    let mut next: Vec<usize> = (0..=body.len()).collect();
    for (index, statement) in body.iter().enumerate().rev() {
        if matches!(
            statement,
            Statement::Label(..) | Statement::Loc { .. } | Statement::Pragma(_)
        ) {
            next[index] = next[index + 1];
        }
    }
    next
}

/// Whether an instruction may be in a region.
fn is_allowed(instruction: &Instruction<'_>) -> bool {
    let opcode = instruction.opcode;
    let is_together = instruction.has("sync") || instruction.has("aligned");
    !is_together && (PURE.contains(&opcode) || PER_THREAD.contains(&opcode))
}

impl<'a> Region<'a> {
    /// The cost of the region if all addresses are in range, in comparisons of addresses.
    fn cost(&self) -> usize {
        self.groups.len() + self.separate.len() + BRANCH_COST
    }

    /// The hoisted instructions that the groups need, directly or through others.
    pub(super) fn needed(&self) -> Vec<bool> {
        let mut is_needed = vec![false; self.hoisted.len()];
        let mark = |value: &Value<'a>, is_needed: &mut [bool]| {
            if let Value::Hoisted(hoisted) = value
                && let Some(flag) = is_needed.get_mut(*hoisted)
            {
                *flag = true;
            }
        };
        for group in &self.groups {
            mark(&group.base, &mut is_needed);
            if let Some((guard, _)) = &group.guard {
                mark(guard, &mut is_needed);
            }
        }
        // An instruction comes after those that it uses.
        for (index, hoisted) in self.hoisted.iter().enumerate().rev() {
            if is_needed.get(index) == Some(&true) {
                for source in hoisted.sources.values() {
                    mark(source, &mut is_needed);
                }
            }
        }
        is_needed
    }
}

/// Merges groups whose addresses differ in multiples of one step only, if those at the ends enclose
/// the others. `line` has the factor of the step and the index of each group, in order.
fn merge_line(region: &mut Region<'_>, line: &[(i64, usize)]) -> bool {
    let [(least, first), _, .., (greatest, last)] = *line else {
        return false;
    };
    let is_small = |factor: i64| factor.checked_abs().is_some_and(|it| it < 1 << 15);
    let has_one_sign = least >= 0 || greatest <= 0;
    if least >= greatest || !has_one_sign || !is_small(least) || !is_small(greatest) {
        return false;
    }
    let all = line.iter().filter_map(|it| region.groups.get(it.1));
    let is_near = |constant: i64| constant.checked_abs().is_some_and(|it| it < MAX_SPAN);
    if !all.clone().all(|group| is_near(group.constant)) {
        return false;
    }
    let low = all.clone().map(|group| group.constant + group.low).min();
    let high = all.map(|group| group.constant + group.high).max();
    let (Some(low), Some(high)) = (low, high) else {
        return false;
    };
    for &(_, index) in line {
        if let Some(group) = region.groups.get_mut(index) {
            group.low = low - group.constant;
            group.high = high - group.constant;
            group.is_between = index != first && index != last;
        }
    }
    true
}

//! Finds loads from local memory that nothing may have written.
//!
//! ptxas keeps local arrays in registers. An element that was never written has no value: each use
//! may see another one, like that of a register that was never set.

use super::graph::Graph;
use super::local_loops::{Base, Fill, fills};
use super::op::{Access, Block, Ins, Op, Source, Value, Var};
use super::results::{Cause, Results};
use crate::ast::Space;

/// The largest local variable whose bytes are followed.
const MAX_BYTES: u64 = 1 << 14;
/// The number of times that all blocks are visited. If that is not enough, every load of local
/// memory counts as one of memory that nothing has written.
const MAX_VISITS: u32 = 40;
/// The number of words in which it is noted what the blocks have written. The same holds beyond it.
const MAX_WORDS: usize = 1 << 23;

/// The bases of all values.
struct Bases<'a> {
    vars: &'a [Var],
    of: Vec<Base>,
    /// Whether an address in local memory is stored somewhere.
    is_stored: bool,
}

impl Bases<'_> {
    fn source(&self, source: Source) -> Base {
        match source {
            Source::Value(value) => self.of[value as usize],
            Source::Address(var, offset) => match self.vars[var as usize].space {
                Space::Local => Base::At(var, offset),
                _ => Base::None,
            },
            _ => Base::None,
        }
    }

    fn all(&self, ins: &Ins) -> Base {
        let sources = ins.sources.iter().map(|&source| self.source(source));
        let others = ins.unmodelled.iter().map(|&value| self.of[value as usize]);
        sources.chain(others).fold(Base::None, Base::join)
    }

    fn result(&self, ins: &Ins) -> Base {
        let [a, b, _] = ins.sources;
        let base = match ins.op {
            Op::Copy { .. } | Op::ToGeneric { .. } | Op::FromGeneric { .. }
                if a != Source::Unknown =>
            {
                self.source(a)
            }
            Op::Add { .. } => match (a, b) {
                (base, Source::Number(by)) | (Source::Number(by), base) => {
                    self.source(base).plus(by)
                }
                _ => self.all(ins).moved(),
            },
            Op::Sub { .. } => match b {
                Source::Number(by) => self.source(a).plus(by.wrapping_neg()),
                _ => self.all(ins).moved(),
            },
            // Also the results of loads.
            Op::Unknown { .. } if self.is_stored => Base::Any,
            Op::Select { .. } => self.source(a).join(self.source(b)),
            _ => self.all(ins).moved(),
        };
        match ins.guard {
            Some(_) => base.join(self.of[ins.previous as usize]),
            None => base,
        }
    }

    /// Returns whether there was no change.
    fn set(&mut self, value: Value, base: Base) -> bool {
        let known = &mut self.of[value as usize];
        let base = known.join(base);
        std::mem::replace(known, base) == base
    }

    /// Returns whether there was no change.
    fn visit(&mut self, block: &Block) -> bool {
        let mut is_same = true;
        for phi in &block.phis {
            let args = phi.args.iter().map(|&arg| self.of[arg as usize]);
            let base = args.fold(Base::None, Base::join);
            is_same &= self.set(phi.target, base);
        }
        for ins in &block.ins {
            if let Some(target) = ins.target {
                let base = self.result(ins);
                is_same &= self.set(target, base);
            } else {
                let mut stored = ins.unmodelled.iter();
                let is_stored = stored.any(|&value| self.of[value as usize] != Base::None);
                if is_stored && !std::mem::replace(&mut self.is_stored, true) {
                    is_same = false;
                }
            }
        }
        is_same
    }
}

/// The bytes of each local variable that were written, as one bit each.
type Written = Vec<Vec<u64>>;

fn write(bits: &mut [u64], from: i64, size: u64) {
    for byte in (0..size).filter_map(|byte| usize::try_from(from.checked_add(byte as i64)?).ok()) {
        if let Some(word) = bits.get_mut(byte / 64) {
            *word |= 1 << (byte % 64);
        }
    }
}

fn is_written(bits: &[u64], from: i64, size: u64) -> bool {
    (0..size).all(|byte| {
        let byte = from.checked_add(byte as i64);
        let byte = byte.and_then(|byte| usize::try_from(byte).ok());
        byte.is_some_and(|byte| {
            let word = bits.get(byte / 64);
            word.is_some_and(|word| word >> (byte % 64) & 1 == 1)
        })
    })
}

/// A kernel with local variables.
struct Locals<'a> {
    vars: &'a [Var],
    accesses: &'a [Access],
    bases: Vec<Base>,
    fills: Vec<Fill>,
}

impl Locals<'_> {
    fn nothing(&self) -> Written {
        let words = |var: &Var| match (var.space, var.size) {
            (Space::Local, Some(size @ 1..=MAX_BYTES)) => vec![0; size.div_ceil(64) as usize],
            _ => Vec::new(),
        };
        self.vars.iter().map(words).collect()
    }

    fn base(&self, ins: &Ins) -> Base {
        match ins.sources[0] {
            Source::Value(value) => self.bases[value as usize],
            Source::Address(var, offset) if self.vars[var as usize].space == Space::Local => {
                Base::At(var, offset)
            }
            _ => Base::None,
        }
    }

    fn enter(&self, block: u32, written: &mut Written) {
        for fill in self.fills.iter().filter(|fill| fill.block == block) {
            for step in 0..fill.count {
                let from = fill.from.wrapping_add(fill.step.wrapping_mul(step));
                write(&mut written[fill.var as usize], from, fill.size);
            }
        }
    }

    fn pass(&self, ins: &Ins, written: &mut Written) {
        let (Op::Access(number), None) = (ins.op, ins.guard) else {
            return;
        };
        let access = &self.accesses[number as usize];
        let is_local = matches!(access.space, None | Some(Space::Local)) && access.is_simple;
        if let (Base::At(var, offset), true) = (self.base(ins), access.is_store && is_local) {
            let from = offset.wrapping_add(access.offset);
            write(&mut written[var as usize], from, access.size.into());
        }
    }

    /// Whether a load reads only bytes that were written.
    fn is_set(&self, ins: &Ins, written: &Written) -> bool {
        let Op::Access(number) = ins.op else {
            return true;
        };
        let access = &self.accesses[number as usize];
        let is_all = |var: u32| match self.vars[var as usize].size {
            Some(size) => is_written(&written[var as usize], 0, size),
            None => false,
        };
        match self.base(ins) {
            Base::None => access.space != Some(Space::Local),
            Base::At(var, offset) => {
                let from = offset.wrapping_add(access.offset);
                is_written(&written[var as usize], from, access.size.into())
            }
            Base::In(var) => is_all(var),
            Base::Any => {
                let vars = 0..self.vars.len() as u32;
                let mut locals = vars.filter(|&var| self.vars[var as usize].space == Space::Local);
                locals.all(is_all)
            }
        }
    }
}

/// Returns the loads among `results` that may read local memory that nothing has written.
pub(super) fn unset(
    blocks: &[Block],
    graph: &Graph,
    vars: &[Var],
    accesses: &[Access],
    values: usize,
    results: &[Results],
) -> Vec<Results> {
    let loads = results
        .iter()
        .filter(|it| it.cause == Cause::Local)
        .copied();
    let loads: Vec<Results> = loads.collect();
    let has_locals = vars.iter().any(|var| var.space == Space::Local);
    if !has_locals || loads.is_empty() {
        return Vec::new();
    }
    let mut bases = Bases {
        vars,
        of: vec![Base::None; values],
        is_stored: false,
    };
    let settled = (0..MAX_VISITS).any(|_| {
        let mut is_same = true;
        for &block in &graph.order {
            is_same &= bases.visit(&blocks[block as usize]);
        }
        is_same
    });
    if !settled {
        return loads;
    }
    let fills = fills(blocks, graph, accesses, &bases.of);
    let locals = Locals {
        vars,
        accesses,
        bases: bases.of,
        fills,
    };
    let words: usize = locals.nothing().iter().map(|words| 1 + words.len()).sum();
    if words.saturating_mul(blocks.len()) > MAX_WORDS {
        return loads;
    }
    let mut after: Vec<Option<Written>> = vec![None; blocks.len()];
    let before = |after: &[Option<Written>], block: u32| {
        let mut written: Option<Written> = None;
        for &pred in &graph.preds[block as usize] {
            let Some(other) = &after[pred as usize] else {
                continue;
            };
            match &mut written {
                None => written = Some(other.clone()),
                Some(written) => {
                    let words = written.iter_mut().flatten().zip(other.iter().flatten());
                    words.for_each(|(word, other)| *word &= other);
                }
            }
        }
        let mut written = written.unwrap_or_else(|| locals.nothing());
        locals.enter(block, &mut written);
        written
    };
    let settled = (0..MAX_VISITS).any(|_| {
        let mut is_same = true;
        for &block in &graph.order {
            let mut written = before(&after, block);
            for ins in &blocks[block as usize].ins {
                locals.pass(ins, &mut written);
            }
            is_same &= after[block as usize].as_ref() == Some(&written);
            after[block as usize] = Some(written);
        }
        is_same
    });
    if !settled {
        return loads;
    }
    let is_unset = |load: &Results| {
        let mut written = before(&after, load.block);
        let all = blocks[load.block as usize].ins.iter().enumerate();
        for (index, ins) in all {
            let is_inside = (load.first as usize..load.end as usize).contains(&index);
            if is_inside && !locals.is_set(ins, &written) {
                return true;
            }
            locals.pass(ins, &mut written);
        }
        false
    };
    loads.into_iter().filter(is_unset).collect()
}

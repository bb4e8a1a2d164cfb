//! Results that may differ from use to use, although they are in one register.
//!
//! ptxas repeats some instructions instead of keeping their results, if it has too few registers.
//! The tests `assembler_` show which.

use crate::ast::{Instruction, Operand, Space};

use super::graph::Graph;
use super::op::{Access, AccessKind, Block, Op, UNDEFINED, Value};

/// Why a result may differ from use to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The assembler may repeat the instruction.
    Repeated,
    /// The assembler may repeat the load, but not if it is volatile.
    ReadOnly,
    /// The load may read local memory that nothing has written.
    Local,
    /// The load reads shared memory.
    Shared,
}

/// The operations of one instruction with such a result: a range in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results {
    pub(super) cause: Cause,
    pub(super) block: u32,
    pub(super) first: u32,
    pub(super) end: u32,
    /// The index of the statement in the body.
    pub(super) statement: u32,
}

impl Results {
    /// The values that the instruction sets.
    pub(super) fn targets(self, blocks: &[Block]) -> impl Iterator<Item = Value> {
        let ins = &blocks[self.block as usize].ins[self.first as usize..self.end as usize];
        ins.iter().filter_map(|ins| ins.target)
    }

    /// Lets the values depend on a register that was never set.
    pub(super) fn unset(self, blocks: &mut [Block]) {
        let ins = &mut blocks[self.block as usize].ins[self.first as usize..self.end as usize];
        for ins in ins.iter_mut().filter(|ins| ins.target.is_some()) {
            ins.unmodelled.push(UNDEFINED);
        }
    }
}

/// The way of values through memory that only the threads of a kernel know: local and shared
/// memory, and generic addresses. An assembler may replace a load from there by the register that
/// the thread has stored before. Which addresses are equal is not followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// The values that are stored.
    pub(super) stored: Vec<Value>,
    /// The results of loads.
    pub(super) loaded: Vec<Value>,
}

impl Memory {
    pub(super) fn new(
        blocks: &[Block],
        graph: &Graph,
        accesses: &[Access],
        results: &[Results],
    ) -> Self {
        let is_load = |it: &&Results| matches!(it.cause, Cause::Local | Cause::Shared);
        let loads = results.iter().filter(is_load);
        let blocks_in_order = graph.order.iter().map(|&block| &blocks[block as usize]);
        let all = blocks_in_order.flat_map(|block| &block.ins);
        let stores = all.filter(|ins| match ins.op {
            Op::Access(number) => {
                let access = &accesses[number as usize];
                access.kind != AccessKind::Read && access.space != Some(Space::Global)
            }
            _ => false,
        });
        Self {
            stored: stores.flat_map(|ins| ins.unmodelled()).copied().collect(),
            loaded: loads.flat_map(|it| it.targets(blocks)).collect(),
        }
    }
}

/// Returns why the results of an instruction may differ from use to use, if they may.
pub(super) fn cause(instruction: &Instruction<'_>) -> Option<Cause> {
    match instruction.opcode {
        "vote" | "match" | "activemask" | "elect" | "shfl" | "redux" | "tex" | "tld4" | "suld" => {
            Some(Cause::Repeated)
        }
        "ld" if instruction.has("const") => Some(Cause::Repeated),
        "ld" if instruction.has("nc") => Some(match can_be_volatile(instruction) {
            true => Cause::ReadOnly,
            false => Cause::Repeated,
        }),
        "ldu" => Some(Cause::ReadOnly),
        // ptxas assumes that the result is not negative, although `abs` of the least number is. So
        // it may remove one comparison of the result, but not another.
        "abs" => {
            let ty = instruction.modifiers.last()?;
            ty.starts_with('s').then_some(Cause::Repeated)
        }
        "ld" => {
            let others = ["global", "shared", "shared::cta", "param", "param::entry"];
            if !others.iter().any(|space| instruction.has(space)) {
                return Some(Cause::Local);
            }
            let is_shared = instruction.has("shared") || instruction.has("shared::cta");
            is_shared.then_some(Cause::Shared)
        }
        _ => {
            let mut sources = instruction.operands.iter().skip(1);
            let is_repeated = sources.any(|source| match source {
                Operand::Name(name) => is_changing(name),
                _ => false,
            });
            is_repeated.then_some(Cause::Repeated)
        }
    }
}

/// Whether `ld.volatile` has a form with the type and vector size of a load.
fn can_be_volatile(load: &Instruction<'_>) -> bool {
    !load.has("v8") && !load.has("b128")
}

/// Whether a special register may change while a thread runs.
fn is_changing(name: &str) -> bool {
    let changing = ["%clock", "%globaltimer", "%smid", "%warpid", "%pm"];
    changing.iter().any(|prefix| name.starts_with(prefix))
}

/// The volatile form of a weak load.
pub(crate) fn volatile<'a>(instruction: &Instruction<'a>) -> Instruction<'a> {
    let mut new = instruction.clone();
    new.opcode = "ld";
    let is_kept = |modifier: &&str| {
        let space = matches!(*modifier, "global" | "shared" | "shared::cta");
        space || matches!(*modifier, "v2" | "v4")
    };
    let ty = instruction.modifiers.last().copied();
    let mut modifiers = vec!["volatile"];
    modifiers.extend(instruction.modifiers.iter().copied().filter(is_kept));
    modifiers.extend(ty);
    new.modifiers = modifiers;
    // The operand after the address is a cache policy.
    new.operands.truncate(2);
    new
}

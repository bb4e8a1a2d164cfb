//! Gives each definition of a register a value of its own, and merges values with phis (the
//! algorithm of Cytron and others).

use super::graph::Graph;
use super::op::{Block, Guard, Ins, Phi, Source, UNDEFINED, Value};
use super::results::Memory;
use super::{MAX_PHIS, op::Op};

/// Rewrites registers to values. Returns the width and the block of each value, or `None` if there
/// are too many.
pub(super) fn construct(
    blocks: &mut [Block],
    graph: &Graph,
    widths: &[u32],
) -> Option<Vec<(u32, u32)>> {
    insert_phis(blocks, graph, widths.len())?;
    Some(Renaming::new(widths).run(blocks, graph))
}

/// Which values the analysis computes.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    /// An address or a branch depends on the value.
    pub(crate) by_all: Vec<bool>,
    /// A branch, or a needed phi at the header of a loop, depends on the value.
    pub(crate) by_loops: Vec<bool>,
    /// An address or a branch depends on the value, also through instructions that are not
    /// modelled, and through memory.
    pub(crate) in_any_way: Vec<bool>,
}

pub(super) fn needed(blocks: &[Block], graph: &Graph, memory: &Memory, count: usize) -> Needed {
    let mut sources: Vec<Vec<Value>> = vec![Vec::new(); count];
    let mut unmodelled: Vec<(Value, &[Value])> = Vec::new();
    let (mut by_branches, mut by_accesses, mut at_headers) = (Vec::new(), Vec::new(), Vec::new());
    for &number in &graph.order {
        let block = &blocks[number as usize];
        let value = |source| match source {
            Source::Value(value) => Some(value),
            _ => None,
        };
        by_branches.extend(block.edge.and_then(|guard| value(guard.predicate)));
        let preds = &graph.preds[number as usize];
        let is_header = preds.iter().any(|&pred| graph.is_back_edge(pred, number));
        for phi in &block.phis {
            sources[phi.target as usize].extend_from_slice(&phi.args);
            at_headers.extend(is_header.then_some(phi.target));
        }
        for ins in &block.ins {
            let guard = ins.guard.map(|guard| guard.predicate);
            let all = ins.sources.into_iter().chain(guard).filter_map(value);
            match ins.target {
                Some(target) => {
                    sources[target as usize].extend(all.chain([ins.previous]));
                    unmodelled.push((target, &ins.unmodelled));
                }
                None => by_accesses.extend(all),
            }
        }
    }
    let closure = |sources: &[Vec<Value>], mut work: Vec<Value>| {
        let mut is_needed = vec![false; sources.len()];
        while let Some(value) = work.pop() {
            if !std::mem::replace(&mut is_needed[value as usize], true) {
                work.extend_from_slice(&sources[value as usize]);
            }
        }
        is_needed
    };
    let all = [by_branches.clone(), by_accesses].concat();
    let by_all = closure(&sources, all.clone());
    at_headers.retain(|&phi| by_all[phi as usize]);
    let by_loops = closure(&sources, [by_branches, at_headers].concat());
    for (target, values) in unmodelled {
        sources[target as usize].extend_from_slice(values);
    }
    // Each load returns any of the values that are stored. The last element stands for memory.
    sources.push(memory.stored.clone());
    for &loaded in &memory.loaded {
        sources[loaded as usize].push(count as Value);
    }
    let in_any_way = closure(&sources, all);
    Needed {
        by_all,
        by_loops,
        in_any_way,
    }
}

/// The results of instructions that are not modelled.
pub(super) fn hidden<'b>(
    blocks: &'b [Block],
    graph: &'b Graph,
) -> impl Iterator<Item = Value> + 'b {
    let blocks = graph.order.iter().map(|&block| &blocks[block as usize]);
    let all = blocks.flat_map(|block| &block.ins);
    let unmodelled = all.filter(|ins| ins.unmodelled.iter().any(|&value| value != UNDEFINED));
    unmodelled.filter_map(|ins| ins.target)
}

/// Returns which values depend on one of `origins`.
pub(super) fn dependent(
    blocks: &[Block],
    graph: &Graph,
    memory: &Memory,
    count: usize,
    origins: Vec<Value>,
) -> Vec<bool> {
    // The last element stands for memory.
    let mut is_dependent = vec![false; count + 1];
    let mut users: Vec<Vec<Value>> = vec![Vec::new(); count];
    users.push(memory.loaded.clone());
    for &stored in &memory.stored {
        users[stored as usize].push(count as Value);
    }
    let mut work = origins;
    for &number in &graph.order {
        let block = &blocks[number as usize];
        for phi in &block.phis {
            for &arg in &phi.args {
                users[arg as usize].push(phi.target);
            }
        }
        for ins in &block.ins {
            let Some(target) = ins.target else {
                continue;
            };
            let guard = ins.guard.map(|guard| guard.predicate);
            for source in ins.sources.into_iter().chain(guard) {
                if let Source::Value(value) = source {
                    users[value as usize].push(target);
                }
            }
            for &value in &ins.unmodelled {
                users[value as usize].push(target);
            }
            if guard.is_some() {
                users[ins.previous as usize].push(target);
            }
        }
    }
    while let Some(value) = work.pop() {
        if !std::mem::replace(&mut is_dependent[value as usize], true) {
            work.append(&mut users[value as usize]);
        }
    }
    is_dependent
}

/// Calls `visit` for each source of an operation that is a value.
fn uses(ins: &mut Ins, mut visit: impl FnMut(&mut Value)) {
    for source in &mut ins.sources {
        if let Source::Value(value) = source {
            visit(value);
        }
    }
    if let Some(Guard {
        predicate: Source::Value(value),
        ..
    }) = &mut ins.guard
    {
        visit(value);
    }
    ins.unmodelled.iter_mut().for_each(&mut visit);
    visit(&mut ins.previous);
}

fn insert_phis(blocks: &mut [Block], graph: &Graph, registers: usize) -> Option<()> {
    // A register that is used only in the blocks that define it, after the definition, needs none.
    let mut is_global = vec![false; registers];
    let mut defined_in: Vec<Vec<u32>> = vec![Vec::new(); registers];
    let mut seen = vec![u32::MAX; registers];
    for &number in &graph.order {
        let block = &mut blocks[number as usize];
        if let Some(Guard {
            predicate: Source::Value(value),
            ..
        }) = block.edge
        {
            is_global[value as usize] = true;
        }
        for ins in &mut block.ins {
            uses(ins, |value| {
                if seen[*value as usize] != number {
                    is_global[*value as usize] = true;
                }
            });
            if let Some(target) = ins.target {
                if seen[target as usize] != number {
                    defined_in[target as usize].push(number);
                }
                seen[target as usize] = number;
            }
        }
    }
    let frontiers = frontiers(graph)?;
    let mut phis = 0;
    let mut has_phi = vec![UNDEFINED; blocks.len()];
    for register in 1..registers as Value {
        if !is_global[register as usize] {
            continue;
        }
        let mut work = std::mem::take(&mut defined_in[register as usize]);
        while let Some(block) = work.pop() {
            for &join in &frontiers[block as usize] {
                if std::mem::replace(&mut has_phi[join as usize], register) == register {
                    continue;
                }
                let count = graph.preds[join as usize].len();
                phis += count + 1;
                if phis > MAX_PHIS {
                    return None;
                }
                blocks[join as usize].phis.push(Phi {
                    register,
                    target: register,
                    args: vec![UNDEFINED; count],
                });
                work.push(join);
            }
        }
    }
    Some(())
}

/// The dominance frontier of each block, or `None` if it is too large.
fn frontiers(graph: &Graph) -> Option<Vec<Vec<u32>>> {
    let mut frontiers: Vec<Vec<u32>> = vec![Vec::new(); graph.preds.len()];
    let mut work = 0usize;
    for &join in &graph.order {
        // No branch leads to the entry: a label begins a block of its own.
        if graph.preds[join as usize].len() < 2 {
            continue;
        }
        for &pred in &graph.preds[join as usize] {
            let mut runner = pred;
            while runner != graph.parent[join as usize] {
                work += 1;
                if work > 8_000_000 {
                    return None;
                }
                if frontiers[runner as usize].last() != Some(&join) {
                    frontiers[runner as usize].push(join);
                }
                runner = graph.parent[runner as usize];
            }
        }
    }
    Some(frontiers)
}

struct Renaming<'a> {
    widths: &'a [u32],
    /// The current value of each register.
    current: Vec<Value>,
    /// The values to restore when a block of the dominator tree is left.
    undo: Vec<(Value, Value)>,
    values: Vec<(u32, u32)>,
}

impl<'a> Renaming<'a> {
    fn new(widths: &'a [u32]) -> Self {
        Self {
            widths,
            current: vec![UNDEFINED; widths.len()],
            undo: Vec::new(),
            values: vec![(0, 0)],
        }
    }

    fn define(&mut self, register: Value, block: u32) -> Value {
        let value = self.values.len() as Value;
        self.values.push((self.widths[register as usize], block));
        self.undo.push((register, self.current[register as usize]));
        self.current[register as usize] = value;
        value
    }

    fn run(mut self, blocks: &mut [Block], graph: &Graph) -> Vec<(u32, u32)> {
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); blocks.len()];
        for &block in graph.order.iter().skip(1) {
            children[graph.parent[block as usize] as usize].push(block);
        }
        // A block, its next child, and the length of `undo` before it.
        let mut stack = vec![(0u32, 0usize, 0usize)];
        while let Some(&mut (block, ref mut next, before)) = stack.last_mut() {
            let child = children[block as usize].get(*next).copied();
            *next += 1;
            if *next == 1 {
                self.block(blocks, graph, block);
            }
            match child {
                Some(child) => stack.push((child, 0, self.undo.len())),
                None => {
                    while self.undo.len() > before {
                        if let Some((register, value)) = self.undo.pop() {
                            self.current[register as usize] = value;
                        }
                    }
                    stack.pop();
                }
            }
        }
        self.values
    }

    fn block(&mut self, blocks: &mut [Block], graph: &Graph, number: u32) {
        let block = &mut blocks[number as usize];
        // The guard of an edge is evaluated at the end of the predecessor, which dominates it.
        if let Some(Guard {
            predicate: Source::Value(value),
            ..
        }) = &mut block.edge
        {
            *value = self.current[*value as usize];
        }
        for index in 0..block.phis.len() {
            let register = block.phis[index].register;
            block.phis[index].target = self.define(register, number);
        }
        for ins in &mut block.ins {
            uses(ins, |value| *value = self.current[*value as usize]);
            if matches!(ins.op, Op::Access(_)) {
                continue;
            }
            ins.target = ins.target.map(|register| self.define(register, number));
        }
        let succs = block.succs.clone();
        for succ in succs {
            let preds = &graph.preds[succ as usize];
            let Some(slot) = preds.iter().position(|&pred| pred == number) else {
                continue;
            };
            for phi in &mut blocks[succ as usize].phis {
                if let Some(arg) = phi.args.get_mut(slot) {
                    *arg = self.current[phi.register as usize];
                }
            }
        }
    }
}

//! Registers that may be read before they are set.
//!
//! ptxas gives such a register no value. Each use may read another number, and ptxas even drops a
//! mask, `and.b32 r, x, 15`, if x has no other bits on the paths that set it. Compilers write such
//! registers where a program fills a vector byte by byte. So the text that is launched sets those
//! registers to 0 first, if an address depends on one of them.

use super::graph::Graph;
use super::op::{Block, Guard, Ins, Op, Source, Value};

/// The largest number of bits that are followed.
const MAX_BITS: usize = 1 << 28;

/// Calls `visit` for each register that an operation reads.
fn reads(ins: &Ins, mut visit: impl FnMut(Value)) {
    let guard = ins.guard.map(|guard| guard.predicate);
    for source in ins.sources.into_iter().chain(guard) {
        if let Source::Value(register) = source {
            visit(register);
        }
    }
    ins.unmodelled.iter().copied().for_each(&mut visit);
    visit(ins.previous);
}

/// The registers that some path from the entry reads before it sets them, in order. The values of
/// the blocks must still be registers.
pub(super) fn read_first(blocks: &[Block], graph: &Graph, registers: usize) -> Vec<Value> {
    let words = registers.div_ceil(64);
    if words.saturating_mul(64).saturating_mul(blocks.len()) > MAX_BITS {
        return Vec::new();
    }
    let (word, bit) = (|it: Value| it as usize / 64, |it: Value| 1u64 << (it % 64));
    let mut first = vec![vec![0u64; words]; blocks.len()];
    let mut set = first.clone();
    for &number in &graph.order {
        let (block, at) = (&blocks[number as usize], number as usize);
        if let Some(Guard {
            predicate: Source::Value(register),
            ..
        }) = block.edge
        {
            first[at][word(register)] |= bit(register);
        }
        for ins in &block.ins {
            reads(ins, |register| {
                first[at][word(register)] |= bit(register) & !set[at][word(register)];
            });
            if let (Some(target), false) = (ins.target, matches!(ins.op, Op::Access(_))) {
                set[at][word(target)] |= bit(target);
            }
        }
    }
    let mut is_new = true;
    while is_new {
        is_new = false;
        for &number in graph.order.iter().rev() {
            let mut all = first[number as usize].clone();
            for &succ in &blocks[number as usize].succs {
                let later = first[succ as usize].iter().zip(&set[number as usize]);
                for (all, (later, set)) in all.iter_mut().zip(later) {
                    *all |= later & !set;
                }
            }
            is_new |= all != first[number as usize];
            first[number as usize] = all;
        }
    }
    let found = 1..registers as Value;
    let entry = graph.order.first().map(|&entry| &first[entry as usize]);
    found
        .filter(|&it| entry.is_some_and(|first| first[word(it)] & bit(it) != 0))
        .collect()
}

/// Whether the address of an access depends on a value.
pub(super) fn is_address(blocks: &[Block], graph: &Graph, values: &[bool]) -> bool {
    let all = graph.order.iter().map(|&block| &blocks[block as usize]);
    let mut accesses = all
        .flat_map(|block| &block.ins)
        .filter(|ins| matches!(ins.op, Op::Access(_)));
    accesses.any(|ins| {
        let mut sources = ins.sources.iter();
        sources.any(|source| matches!(source, Source::Value(value) if values[*value as usize]))
    })
}

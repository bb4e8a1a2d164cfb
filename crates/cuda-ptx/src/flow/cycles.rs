//! Loops that an assembler may delete.
//!
//! ptxas assumes that a loop ends unless each iteration has an effect that it must keep. It deletes
//! an endless loop without effects, and continues at an exit as if its condition were met. So the
//! conditions by which threads leave such a cycle, or stay on its other side, are facts only if the
//! cycle provably ends. A turn of the cycle is a branch between two ways that stay in the loop.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::op::{Block, Op};

/// A loop: the blocks that a back edge repeats.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// The header, or `None` if the loop has several entries.
    pub(crate) header: Option<u32>,
    /// The block that ends before the loop is entered and dominates it.
    pub(crate) before: u32,
    /// Its blocks, sorted.
    pub(crate) body: Vec<u32>,
    /// The blocks on a path from the header to the header on which every block is without an effect
    /// that an assembler must keep, sorted.
    pub(crate) quiet: Vec<u32>,
    /// The quiet blocks with a condition on one side of which threads can stay on a quiet path,
    /// while the other side does something else in the loop: a branch, or the guard of an access.
    pub(crate) turns: Vec<u32>,
}

impl Loop {
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.body.binary_search(&block).is_ok()
    }

    pub(crate) fn has_quiet_path(&self) -> bool {
        !self.quiet.is_empty()
    }

    pub(crate) fn is_quiet_at(&self, block: u32) -> bool {
        self.quiet.binary_search(&block).is_ok()
    }
}

/// The loops of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cycles {
    pub(crate) loops: Vec<Loop>,
    /// The indices in `loops` of the loops that contain a block, for each block.
    of_block: Vec<Vec<u32>>,
    /// The index of the loop with each header.
    of_header: BTreeMap<u32, u32>,
}

/// The largest number of pairs of a loop and a block in it. Beyond it, all blocks that a back edge
/// repeats are one loop with several entries.
const MAX_PAIRS: usize = 2_000_000;

impl Cycles {
    pub(super) fn new(blocks: &[Block], graph: &Graph) -> Self {
        let natural = natural(blocks, graph);
        let loops = natural.unwrap_or_else(|| vec![whole(blocks, graph)]);
        let mut of_block = vec![Vec::new(); blocks.len()];
        for (index, one) in loops.iter().enumerate() {
            for &block in &one.body {
                of_block[block as usize].push(index as u32);
            }
        }
        let headers = loops.iter().zip(0..);
        let of_header = headers
            .filter_map(|(one, index)| Some((one.header?, index)))
            .collect();
        Self {
            loops,
            of_block,
            of_header,
        }
    }

    /// The index of the loop with a header.
    pub(crate) fn with_header(&self, header: u32) -> Option<u32> {
        self.of_header.get(&header).copied()
    }

    /// The indices of the loops with a quiet path.
    pub(crate) fn quiet(&self) -> BTreeSet<u32> {
        let loops = self.loops.iter().enumerate();
        let quiet = loops.filter(|(_, one)| one.has_quiet_path());
        quiet.map(|(index, _)| index as u32).collect()
    }

    /// The loops that contain a block.
    pub(crate) fn around(&self, block: u32) -> impl Iterator<Item = (u32, &Loop)> {
        let indices = self.of_block[block as usize].iter();
        indices.map(|&index| (index, &self.loops[index as usize]))
    }
}

/// The natural loops, and one loop for all cycles with several entries. `None` if there are too
/// many.
fn natural(blocks: &[Block], graph: &Graph) -> Option<Vec<Loop>> {
    let mut loops = Vec::new();
    let mut pairs = 0;
    for &header in &graph.order {
        let preds = graph.preds[header as usize].iter().copied();
        if preds
            .clone()
            .any(|pred| graph.is_retreating(pred, header) && !graph.is_back_edge(pred, header))
        {
            return None;
        }
        let latches: Vec<u32> = preds
            .filter(|&pred| graph.is_back_edge(pred, header))
            .collect();
        if latches.is_empty() {
            continue;
        }
        let body = before(graph, latches, |block| block == header, |_| true);
        pairs += body.len();
        if pairs > MAX_PAIRS {
            return None;
        }
        let quiet = quiet(blocks, graph, header, &body);
        loops.push(Loop {
            header: Some(header),
            before: graph.parent[header as usize],
            turns: turns(blocks, &body, &quiet),
            body,
            quiet,
        });
    }
    Some(loops)
}

/// The blocks from which one of `ends` can be reached, sorted. A block with `is_last` belongs to
/// them, but not those before it.
fn before(
    graph: &Graph,
    ends: Vec<u32>,
    is_last: impl Fn(u32) -> bool,
    is_allowed: impl Fn(u32) -> bool,
) -> Vec<u32> {
    let mut seen = vec![false; graph.preds.len()];
    let mut found = Vec::new();
    let mut open = ends;
    while let Some(block) = open.pop() {
        if !is_allowed(block) || std::mem::replace(&mut seen[block as usize], true) {
            continue;
        }
        found.push(block);
        if !is_last(block) {
            open.extend_from_slice(&graph.preds[block as usize]);
        }
    }
    found.sort_unstable();
    found
}

/// The blocks on paths without effects from the header to the header.
fn quiet(blocks: &[Block], graph: &Graph, header: u32, body: &[u32]) -> Vec<u32> {
    let is_free =
        |block: u32| !blocks[block as usize].has_effect && body.binary_search(&block).is_ok();
    if !is_free(header) {
        return Vec::new();
    }
    let latches = graph.preds[header as usize].iter().copied();
    let latches = latches.filter(|&pred| graph.is_back_edge(pred, header));
    let to_header = before(graph, latches.collect(), |block| block == header, is_free);
    if to_header.binary_search(&header).is_err() {
        return Vec::new();
    }
    let mut seen = vec![false; blocks.len()];
    let mut found = Vec::new();
    let mut open = vec![header];
    while let Some(block) = open.pop() {
        let is_allowed = to_header.binary_search(&block).is_ok();
        if is_allowed && !std::mem::replace(&mut seen[block as usize], true) {
            found.push(block);
            open.extend_from_slice(&blocks[block as usize].succs);
        }
    }
    found.sort_unstable();
    found
}

/// The quiet blocks with a branch between two ways in the loop, or with a guarded access.
fn turns(blocks: &[Block], body: &[u32], quiet: &[u32]) -> Vec<u32> {
    let is_turn = |&&block: &&u32| {
        let block = &blocks[block as usize];
        let ways = block.succs.iter();
        let ways = ways.filter(|to| body.binary_search(to).is_ok()).count();
        let mut guarded = block.ins.iter().filter(|ins| ins.guard.is_some());
        ways > 1 || guarded.any(|ins| matches!(ins.op, Op::Access(_)))
    };
    quiet.iter().filter(is_turn).copied().collect()
}

/// All blocks that may be repeated, as one loop with several entries that has no effects. The
/// entry block is never repeated: no branch leads to it.
fn whole(blocks: &[Block], graph: &Graph) -> Loop {
    let retreating = graph.order.iter().flat_map(|&block| {
        let preds = graph.preds[block as usize].iter();
        preds.filter(move |&&pred| graph.is_retreating(pred, block))
    });
    let mut body = before(graph, retreating.copied().collect(), |_| false, |_| true);
    body.retain(|&block| block != 0);
    debug_assert!(body.iter().all(|&block| (block as usize) < blocks.len()));
    Loop {
        header: None,
        before: 0,
        turns: turns(blocks, &body, &body),
        quiet: body.clone(),
        body,
    }
}

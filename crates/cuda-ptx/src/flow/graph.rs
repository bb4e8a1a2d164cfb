//! Predecessors, order and dominators of blocks.

/// A control-flow graph. Block 0 is the entry.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// The reachable blocks in reverse postorder.
    pub(crate) order: Vec<u32>,
    /// The position of each block in `order`; `u32::MAX` for an unreachable block.
    pub(crate) position: Vec<u32>,
    /// The immediate dominator of each block; the entry's is itself.
    pub(crate) parent: Vec<u32>,
    /// The interval of each block in a walk of the dominator tree.
    interval: Vec<(u32, u32)>,
    /// The predecessors of each block, without unreachable ones.
    pub(crate) preds: Vec<Vec<u32>>,
}

const NONE: u32 = u32::MAX;

impl Graph {
    /// Computes the graph of blocks with these successors, or `None` if that takes too long.
    pub(crate) fn new(succs: &[Vec<u32>]) -> Option<Self> {
        let order = reverse_postorder(succs);
        let mut position = vec![NONE; succs.len()];
        for (index, &block) in order.iter().enumerate() {
            position[block as usize] = index as u32;
        }
        let mut preds = vec![Vec::new(); succs.len()];
        for &block in &order {
            for &next in &succs[block as usize] {
                preds[next as usize].push(block);
            }
        }
        let parent = dominators(&order, &position, &preds)?;
        let interval = intervals(&order, &parent);
        Some(Self {
            order,
            position,
            parent,
            interval,
            preds,
        })
    }

    /// Whether every path to `below` contains `above`. A block dominates itself.
    pub(crate) fn dominates(&self, above: u32, below: u32) -> bool {
        let (above, below) = (self.interval[above as usize], self.interval[below as usize]);
        above.0 <= below.0 && below.1 <= above.1
    }

    /// Whether the edge closes a loop: its target dominates its source.
    pub(crate) fn is_back_edge(&self, from: u32, to: u32) -> bool {
        self.dominates(to, from)
    }

    /// Whether the edge goes backwards in the order. If it is not a back edge, the graph is
    /// irreducible.
    pub(crate) fn is_retreating(&self, from: u32, to: u32) -> bool {
        self.position[to as usize] <= self.position[from as usize]
    }
}

fn reverse_postorder(succs: &[Vec<u32>]) -> Vec<u32> {
    let mut order = Vec::new();
    let mut seen = vec![false; succs.len()];
    let mut stack = vec![(0u32, 0usize)];
    if let Some(entry) = seen.first_mut() {
        *entry = true;
    } else {
        return order;
    }
    while let Some((block, next)) = stack.last_mut() {
        match succs[*block as usize].get(*next) {
            Some(&to) => {
                *next += 1;
                if !seen[to as usize] {
                    seen[to as usize] = true;
                    stack.push((to, 0));
                }
            }
            None => {
                order.push(*block);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}

/// The algorithm of Cooper, Harvey and Kennedy.
fn dominators(order: &[u32], position: &[u32], preds: &[Vec<u32>]) -> Option<Vec<u32>> {
    let mut parent = vec![NONE; preds.len()];
    let entry = *order.first()?;
    parent[entry as usize] = entry;
    let mut work = 0u64;
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &order[1..] {
            let mut new = NONE;
            for &pred in &preds[block as usize] {
                if parent[pred as usize] == NONE {
                    continue;
                }
                if new == NONE {
                    new = pred;
                    continue;
                }
                let (mut a, mut b) = (new, pred);
                while a != b {
                    work += 1;
                    if position[a as usize] > position[b as usize] {
                        a = parent[a as usize];
                    } else {
                        b = parent[b as usize];
                    }
                }
                if work > 20_000_000 {
                    return None;
                }
                new = a;
            }
            if parent[block as usize] != new {
                parent[block as usize] = new;
                changed = true;
            }
        }
    }
    Some(parent)
}

/// The first and last visit of each block in a walk of the dominator tree. An unreachable block
/// has an interval that no other contains.
fn intervals(order: &[u32], parent: &[u32]) -> Vec<(u32, u32)> {
    let mut children = vec![Vec::new(); parent.len()];
    for &block in order.iter().skip(1) {
        children[parent[block as usize] as usize].push(block);
    }
    let mut interval = vec![(NONE, 0); parent.len()];
    let mut clock = 0;
    let mut stack: Vec<(u32, usize)> = order.first().map(|&entry| (entry, 0)).into_iter().collect();
    while let Some((block, next)) = stack.last_mut() {
        let index = *block as usize;
        if *next == 0 {
            interval[index].0 = clock;
            clock += 1;
        }
        match children[index].get(*next) {
            Some(&child) => {
                *next += 1;
                stack.push((child, 0));
            }
            None => {
                interval[index].1 = clock;
                clock += 1;
                stack.pop();
            }
        }
    }
    interval
}

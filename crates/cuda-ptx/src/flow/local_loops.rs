//! Loops that fill a local array: a pointer moves by a constant step, and a counter ends the loop
//! after a constant number of iterations.

use super::graph::Graph;
use super::op::{Access, Block, Ins, Op, Phi, Relation, Source, Value};

/// The largest number of iterations that is followed.
const MAX_COUNT: i64 = 4096;

/// The local memory to which a number may point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    None,
    /// The address of this variable, plus a number.
    At(u32, i64),
    /// An address in this variable.
    In(u32),
    /// An address in any variable.
    Any,
}

impl Base {
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, base) | (base, Self::None) => base,
            (a, b) if a == b => a,
            (Self::At(a, _) | Self::In(a), Self::At(b, _) | Self::In(b)) if a == b => Self::In(a),
            _ => Self::Any,
        }
    }

    /// The base of an unknown number that depends on this one.
    pub(super) fn moved(self) -> Self {
        match self {
            Self::At(var, _) => Self::In(var),
            base => base,
        }
    }

    pub(super) fn plus(self, by: u64) -> Self {
        match self {
            Self::At(var, offset) => Self::At(var, offset.wrapping_add(by as i64)),
            base => base,
        }
    }
}

/// Stores that a loop has executed when `block` begins: `size` bytes at `from + step · k` for k
/// below `count`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) block: u32,
    pub(super) var: u32,
    pub(super) from: i64,
    pub(super) step: i64,
    pub(super) count: i64,
    pub(super) size: u64,
}

/// A value that a loop changes by a number in each iteration.
struct Counter {
    phi: Value,
    /// The index of the entry among the arguments of the phi.
    entry: Value,
    step: i64,
}

struct Search<'a> {
    blocks: &'a [Block],
    graph: &'a Graph,
    definitions: Vec<Option<(u32, u32)>>,
}

/// Finds all fills of a kernel. `bases` are those of its values, where a value that a loop changes
/// is somewhere in its variable.
pub(super) fn fills(
    blocks: &[Block],
    graph: &Graph,
    accesses: &[Access],
    bases: &[Base],
) -> Vec<Fill> {
    let mut definitions = vec![None; bases.len()];
    for &block in &graph.order {
        for (index, ins) in blocks[block as usize].ins.iter().enumerate() {
            if let (Some(target), None) = (ins.target, ins.guard) {
                definitions[target as usize] = Some((block, index as u32));
            }
        }
    }
    let search = Search {
        blocks,
        graph,
        definitions,
    };
    let mut fills = Vec::new();
    for &header in &graph.order {
        search.of_loop(header, accesses, bases, &mut fills);
    }
    fills
}

impl Search<'_> {
    fn definition(&self, value: Value) -> Option<&Ins> {
        let (block, index) = self.definitions[value as usize]?;
        self.blocks[block as usize].ins.get(index as usize)
    }

    /// A number that an instruction copies to a register.
    fn number(&self, source: Source) -> Option<i64> {
        match source {
            Source::Number(number) => Some(number as i64),
            Source::Value(value) => match self.definition(value)? {
                Ins {
                    op: Op::Copy { .. },
                    sources: [Source::Number(number), ..],
                    ..
                } => Some(*number as i64),
                _ => None,
            },
            _ => None,
        }
    }

    /// A value as another one plus a number.
    fn sum(&self, value: Value) -> (Value, i64) {
        match self.definition(value) {
            Some(Ins {
                op: Op::Add { .. },
                sources: [Source::Value(base), by, _],
                ..
            }) => match self.number(*by) {
                Some(by) => (*base, by),
                None => (value, 0),
            },
            _ => (value, 0),
        }
    }

    fn counter(&self, phi: &Phi, entry: usize, latch: usize) -> Option<Counter> {
        let (base, step) = self.sum(*phi.args.get(latch)?);
        (base == phi.target && step != 0).then_some(Counter {
            phi: phi.target,
            entry: *phi.args.get(entry)?,
            step,
        })
    }

    fn of_loop(&self, header: u32, accesses: &[Access], bases: &[Base], fills: &mut Vec<Fill>) {
        let graph = self.graph;
        let preds = graph.preds[header as usize].as_slice();
        let (latch, entry) = match preds {
            [a, b] if graph.is_back_edge(*b, header) && !graph.is_back_edge(*a, header) => (1, 0),
            [a, b] if graph.is_back_edge(*a, header) && !graph.is_back_edge(*b, header) => (0, 1),
            _ => return,
        };
        // The back edge is that of a conditional branch, and so is the only exit that counts.
        let end = &self.blocks[preds[latch] as usize];
        let (Some(guard), &[test]) = (end.edge, graph.preds[preds[latch] as usize].as_slice())
        else {
            return;
        };
        let mut others = self.blocks[test as usize].succs.iter();
        let (Some(&exit), Source::Value(predicate)) =
            (others.find(|&&succ| succ != preds[latch]), guard.predicate)
        else {
            return;
        };
        let phis = self.blocks[header as usize].phis.iter();
        let counters: Vec<Counter> = phis
            .filter_map(|phi| self.counter(phi, entry, latch))
            .collect();
        let Some(count) = self.count(&counters, predicate, guard.negated) else {
            return;
        };
        let stores = graph
            .order
            .iter()
            .filter(|&&block| graph.dominates(header, block) && graph.dominates(block, test));
        for ins in stores.flat_map(|&block| &self.blocks[block as usize].ins) {
            let (Op::Access(number), None, Source::Value(address)) =
                (ins.op, ins.guard, ins.sources[0])
            else {
                continue;
            };
            let access = &accesses[number as usize];
            let (base, by) = self.sum(address);
            let Some(pointer) = counters.iter().find(|it| it.phi == base) else {
                continue;
            };
            let is_store = access.is_store && access.is_simple;
            if let (Base::At(var, offset), true) = (bases[pointer.entry as usize], is_store) {
                fills.push(Fill {
                    block: exit,
                    var,
                    from: offset.wrapping_add(by).wrapping_add(access.offset),
                    step: pointer.step,
                    count,
                    size: access.size.into(),
                });
            }
        }
    }

    /// The number of iterations of a loop that repeats while a predicate is true.
    fn count(&self, counters: &[Counter], predicate: Value, negated: bool) -> Option<i64> {
        let mut ins = self.definition(predicate)?;
        // The result of a comparison is copied in this way.
        if let (Op::BoolOr, [Source::Value(a), b, _]) = (ins.op, ins.sources)
            && b == Source::Value(a)
        {
            ins = self.definition(a)?;
        }
        let Op::Compare { bits, relation, .. } = ins.op else {
            return None;
        };
        let [Source::Value(tested), limit, _] = ins.sources else {
            return None;
        };
        let limit = self.number(limit)?;
        let (base, by) = self.sum(tested);
        let counter = counters.iter().find(|it| it.phi == base)?;
        let start = self.number(Source::Value(counter.entry))?;
        let short = |number: i64| {
            if bits == 32 {
                i64::from(number as i32)
            } else {
                number
            }
        };
        let is_inequality = matches!(
            (relation, negated),
            (Relation::Ne, false) | (Relation::Eq, true)
        );
        let (first, step) = (start.checked_add(by)?, counter.step);
        let distance = short(limit.checked_sub(first)?);
        let steps = distance.checked_div(short(step))?;
        let is_met =
            is_inequality && matches!(bits, 32 | 64) && steps.checked_mul(short(step))? == distance;
        (is_met && (0..MAX_COUNT).contains(&steps)).then_some(steps + 1)
    }
}

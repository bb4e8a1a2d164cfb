//! Addresses of variables in registers: which parameter a load reads, and which variables are used.

use super::graph::Graph;
use super::op::{Block, Op, Source, Var};

/// Replaces loads of parameters whose address is in a register. The register must always have the
/// address of a parameter, plus a number. Compilers take the address of a struct in this way. What
/// is loaded from any other address is unknown.
pub(super) fn params_at(blocks: &mut [Block], graph: &Graph, vars: &[Var], values: usize) {
    let mut addresses: Vec<Option<(u32, i64)>> = vec![None; values];
    for &number in &graph.order {
        for ins in &mut blocks[number as usize].ins {
            let address = |source| match source {
                Source::Address(var, offset) => Some((var, offset)),
                Source::Value(value) => addresses[value as usize],
                _ => None,
            };
            let base = match (ins.op, ins.sources) {
                (Op::Copy { bits: 64 } | Op::ParamAt { .. }, [base, ..]) => address(base),
                (Op::Add { bits: 64 }, [base, Source::Number(number), _]) => {
                    address(base).map(|(var, offset)| (var, offset.wrapping_add(number as i64)))
                }
                _ => None,
            };
            if let Op::ParamAt {
                offset,
                size,
                signed,
                bits,
            } = ins.op
            {
                let found = base.and_then(|(var, start)| {
                    let var = &vars[var as usize];
                    let offset = u64::try_from(start.checked_add(offset)?).ok()?;
                    let end = offset.checked_add(size.into())?;
                    Some((var.param?, offset)).filter(|_| var.size.is_some_and(|size| end <= size))
                });
                ins.sources = [Source::Unknown; 3];
                ins.op = match found {
                    Some((param, offset)) => Op::Param {
                        param,
                        offset,
                        size,
                        signed,
                        bits,
                    },
                    None => Op::Unknown {
                        bits,
                        low: 0,
                        high: (1 << if signed { bits } else { 8 * size }) - 1,
                    },
                };
            } else if let (Some(target), None) = (ins.target, ins.guard) {
                addresses[target as usize] = base;
            }
        }
    }
}

/// Marks the variables whose addresses the code takes.
pub(super) fn mark_used(vars: &mut [Var], blocks: &[Block], graph: &Graph) {
    let blocks = graph.order.iter().map(|&block| &blocks[block as usize]);
    let sources = blocks
        .flat_map(|block| &block.ins)
        .flat_map(|ins| ins.sources);
    for source in sources {
        if let Source::Address(var, _) = source {
            vars[var as usize].is_used = true;
        }
    }
}

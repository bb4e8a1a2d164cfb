//! Requirements on the values of operands, which hold in every path: a cache policy that
//! `createpolicy` made, and the constants of barriers.

use super::Refused;
use super::forms::Need;
use super::graph::Graph;
use super::op::{Block, Ins, Op, Source, Value};

/// A requirement on an operand.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    pub(crate) need: Need,
    pub(crate) line: u32,
    pub(crate) mnemonic: String,
}

/// The definition of a value.
#[derive(Clone, Debug)]
enum Definition {
    /// It has the value of one of these.
    OneOf(Vec<Source>),
    /// `createpolicy` made it.
    Policy,
    Other,
}

/// Checks all requirements. What is left of them has no source, target or effect. Returns the threads that a block must
/// have, and the line of the barrier that needs them.
pub(super) fn check(
    blocks: &mut [Block],
    graph: &Graph,
    requirements: &[Requirement],
    values: usize,
) -> Result<(u32, u32), Refused> {
    let is_policy = |ins: &Ins| ins.op == Op::Policy;
    let has_policies = blocks.iter().any(|block| block.ins.iter().any(is_policy));
    if requirements.is_empty() && !has_policies {
        return Ok((0, 0));
    }
    let definitions = definitions(blocks, graph, values);
    let mut least = (0, 0);
    // No thread reaches the other blocks, whose operations have registers in place of values.
    for &block in &graph.order {
        for ins in &blocks[block as usize].ins {
            let Op::Require(number) = ins.op else {
                continue;
            };
            let Some(requirement) = requirements.get(number as usize) else {
                continue;
            };
            let threads = fulfilled(requirement, ins.sources[0], &definitions)?;
            if threads > least.0 {
                least = (threads, requirement.line);
            }
        }
    }
    for block in blocks {
        // They stay as operations without an effect: others are known by their position.
        let required = block.ins.iter_mut();
        for ins in required.filter(|ins| matches!(ins.op, Op::Require(_))) {
            ins.sources = [Source::Unknown; 3];
        }
        for ins in block.ins.iter_mut().filter(|ins| is_policy(ins)) {
            ins.op = Op::Unknown {
                bits: 64,
                low: 0,
                high: u64::MAX.into(),
            };
        }
    }
    Ok(least)
}

fn definitions(blocks: &[Block], graph: &Graph, values: usize) -> Vec<Definition> {
    let mut definitions = vec![Definition::Other; values];
    for &number in &graph.order {
        let block = &blocks[number as usize];
        for phi in &block.phis {
            let sources = phi.args.iter().map(|&value| Source::Value(value));
            definitions[phi.target as usize] = Definition::OneOf(sources.collect());
        }
        for ins in &block.ins {
            let Some(target) = ins.target else {
                continue;
            };
            let previous = ins.guard.map(|_| Source::Value(ins.previous));
            definitions[target as usize] = match (ins.op, previous) {
                (Op::Policy, None) => Definition::Policy,
                (Op::Copy { .. }, _) => {
                    Definition::OneOf([ins.sources[0]].into_iter().chain(previous).collect())
                }
                _ => Definition::Other,
            };
        }
    }
    definitions
}

/// Returns the threads that a block must have, or 0.
fn fulfilled(
    requirement: &Requirement,
    source: Source,
    definitions: &[Definition],
) -> Result<u32, Refused> {
    let fail = |what: &str| {
        let mnemonic = &requirement.mnemonic;
        Refused::new(requirement.line, format!("{mnemonic}: {what}"))
    };
    if requirement.need == Need::Policy {
        return match only_policies(source, definitions) {
            true => Ok(0),
            false => fail(
                "the cache policy must be a result of `createpolicy.fractional` in every path; \
                 another number is a fault",
            ),
        };
    }
    let Some(number) = constant(source, definitions) else {
        return match requirement.need {
            Need::Threads => fail(
                "the number of threads must be a constant: one that is not a multiple of 32 is a \
                 fault",
            ),
            _ => fail("the number of the barrier must be a constant"),
        };
    };
    match requirement.need {
        Need::Threads if number % 32 != 0 || !(32..=1024).contains(&number) => fail(&format!(
            "{number} threads; the number must be a multiple of 32 from 32 to 1024"
        )),
        Need::Threads => Ok(number as u32),
        _ if number >= 16 => fail(&format!("barrier {number}; the number must be below 16")),
        _ => Ok(0),
    }
}

/// Whether `createpolicy` made the value in every path.
fn only_policies(source: Source, definitions: &[Definition]) -> bool {
    let mut seen: Vec<Value> = Vec::new();
    let mut work = vec![source];
    while let Some(source) = work.pop() {
        let Source::Value(value) = source else {
            return false;
        };
        if seen.contains(&value) {
            continue;
        }
        seen.push(value);
        match definitions.get(value as usize) {
            Some(Definition::Policy) => {}
            Some(Definition::OneOf(sources)) => work.extend_from_slice(sources),
            _ => return false,
        }
    }
    true
}

/// The number that the value has in every path.
fn constant(source: Source, definitions: &[Definition]) -> Option<u64> {
    let mut found = None;
    let mut seen: Vec<Value> = Vec::new();
    let mut work = vec![source];
    while let Some(source) = work.pop() {
        let number = match source {
            Source::Number(number) => number & u64::from(u32::MAX),
            Source::Value(value) => {
                if !seen.contains(&value) {
                    seen.push(value);
                    match definitions.get(value as usize) {
                        Some(Definition::OneOf(sources)) => work.extend_from_slice(sources),
                        _ => return None,
                    }
                }
                continue;
            }
            _ => return None,
        };
        if found.is_some_and(|found| found != number) {
            return None;
        }
        found = Some(number);
    }
    found
}

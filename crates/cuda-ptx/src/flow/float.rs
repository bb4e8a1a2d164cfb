//! Floating-point instructions: what a comparison says about the bits of a number.
//!
//! The functions of CUDA that reduce a large argument compare it with a constant first, and then
//! compute an index from the bits of its exponent.

use crate::ast::{Instruction, Literal, Operand};

use super::decode::{Decoder, NO};
use super::graph::Graph;
use super::op::{Block, FloatRange, Op, Source, Value};

/// The bits of the smallest normal number, and of infinity.
fn limits(bits: u32) -> (u64, u64) {
    match bits {
        32 => (1 << 23, 0xff << 23),
        _ => (1 << 52, 0x7ff << 52),
    }
}

/// The bits that `number` has if `number relation constant` has the value `truth`. `constant` is
/// positive and normal, or infinity. So the comparison is the same if the instruction counts
/// numbers that are not normal as 0.
///
/// Numbers that are not NaN and not negative have the order of their bits.
fn range(relation: &str, constant: u64, infinity: u64) -> Option<(bool, u64, u64)> {
    Some(match relation {
        // False for NaN.
        "gt" => (true, constant + 1, infinity),
        "ge" => (true, constant, infinity),
        "eq" => (true, constant, constant),
        // True for NaN.
        "ltu" => (false, constant, infinity),
        "leu" => (false, constant + 1, infinity),
        "neu" => (false, constant, constant),
        _ => return None,
    })
}

/// As [`range`], for a number that is not negative, or NaN.
fn range_of_absolute(relation: &str, constant: u64) -> Option<(bool, u64, u64)> {
    Some(match relation {
        "lt" => (true, 0, constant - 1),
        "le" => (true, 0, constant),
        "gtu" => (false, 0, constant),
        "geu" => (false, 0, constant - 1),
        _ => return None,
    })
}

/// The relation with its sides exchanged.
fn exchanged(relation: &str) -> &str {
    match relation {
        "lt" => "gt",
        "le" => "ge",
        "gt" => "lt",
        "ge" => "le",
        "ltu" => "gtu",
        "leu" => "geu",
        "gtu" => "ltu",
        "geu" => "leu",
        same => same,
    }
}

/// What `number relation constant` says about the bits of the number, or of the number whose
/// absolute value it is.
pub(super) fn comparison(
    relation: &str,
    constant: u64,
    bits: u32,
    is_absolute: bool,
) -> Option<FloatRange> {
    let (smallest, infinity) = limits(bits);
    if !(smallest..=infinity).contains(&constant) {
        return None;
    }
    let found = range(relation, constant, infinity);
    let of_absolute = || range_of_absolute(relation, constant).filter(|_| is_absolute);
    let (truth, low, high) = found.or_else(of_absolute)?;
    Some(FloatRange {
        bits,
        is_absolute,
        truth,
        low,
        high,
    })
    .filter(|range| range.low <= range.high)
}

impl<'a> Decoder<'a> {
    /// Decodes an instruction on numbers of the type `f32` or `f64`, or returns `None` if nothing
    /// is known about its result.
    pub(super) fn float(&mut self, instruction: &Instruction<'a>) -> Option<()> {
        let bits = match *instruction.modifiers.last()? {
            "f32" => 32,
            "f64" => 64,
            _ => return None,
        };
        let target = instruction.operands.first()?;
        let is_rounded = ["rn", "rz", "rm", "rp"]
            .iter()
            .any(|it| instruction.has(it));
        let op = match instruction.opcode {
            "abs" => Op::FloatAbs { bits },
            "add" | "sub" if !is_rounded => Op::FloatSum { bits },
            "mul" if !is_rounded => Op::FloatProduct { bits },
            "setp" => Op::FloatCompare(self.compared(instruction, bits)?),
            _ => return None,
        };
        let width = if instruction.opcode == "setp" {
            1
        } else {
            bits
        };
        self.set(op, [NO; 3], width, target);
        Some(())
    }

    /// A comparison with a constant.
    fn compared(&mut self, instruction: &Instruction<'a>, bits: u32) -> Option<FloatRange> {
        let relation = match instruction.modifiers.as_slice() {
            [relation, _] | [relation, "ftz", _] => *relation,
            _ => return None,
        };
        let [_, a, b] = instruction.operands.as_slice() else {
            return None;
        };
        let constant = |operand: &Operand<'_>| match (operand, bits) {
            (Operand::Literal(Literal::F32(value)), 32) => Some(u64::from(*value)),
            (Operand::Literal(Literal::F64(value)), 64) => Some(*value),
            _ => None,
        };
        let (number, relation, constant) = match (constant(a), constant(b)) {
            (None, Some(constant)) => (a, relation, constant),
            (Some(constant), None) => (b, exchanged(relation), constant),
            _ => return None,
        };
        // The register is the only one among the sources, so it will be in `unmodelled`.
        self.register(number).filter(|reg| reg.bits == bits)?;
        // Whether it is an absolute value is not known yet. What follows from it then is more.
        comparison(relation, constant, bits, true)
    }
}

/// Replaces the number of each comparison by the one whose absolute value it is. A comparison says
/// nothing if the number may differ between two uses.
pub(super) fn find_sources(blocks: &mut [Block], graph: &Graph, values: usize) {
    let mut all = blocks.iter().flat_map(|block| &block.ins);
    if !all.any(|ins| matches!(ins.op, Op::FloatCompare(_))) {
        return;
    }
    let is_varying = varying(blocks, graph, values);
    // For copies and absolute values: the number, and whether this is its absolute value.
    let mut sources: Vec<Option<(Value, bool)>> = vec![None; values];
    for &number in &graph.order {
        for ins in &mut blocks[number as usize].ins {
            let Some(target) = ins.target else {
                continue;
            };
            let is_always = ins.guard.is_none();
            match (ins.op, ins.unmodelled.as_slice(), ins.sources) {
                (Op::FloatAbs { .. }, &[value], _) if is_always => {
                    let (value, _) = sources[value as usize].unwrap_or((value, false));
                    sources[target as usize] = Some((value, true));
                }
                (Op::Copy { .. }, _, [Source::Value(value), ..]) if is_always => {
                    let source = sources[value as usize].unwrap_or((value, false));
                    sources[target as usize] = Some(source);
                }
                (Op::FloatCompare(range), &[value], _) => {
                    let (value, is_absolute) = sources[value as usize].unwrap_or((value, false));
                    // A range from 0 holds for absolute values only.
                    let is_known = is_absolute || range.low > 0;
                    ins.op = match is_known && !is_varying[value as usize] {
                        true => Op::FloatCompare(FloatRange {
                            is_absolute,
                            ..range
                        }),
                        false => Op::BoolUnknown,
                    };
                    ins.unmodelled = vec![value];
                }
                _ => {}
            }
        }
    }
}

/// Returns which values may differ between two uses: the assembler may combine a sum with a product
/// if neither has a rounding modifier, and it may do so for one use only.
fn varying(blocks: &[Block], graph: &Graph, values: usize) -> Vec<bool> {
    let (mut is_product, mut is_varying) = (vec![false; values], vec![false; values]);
    // Values come before their uses, except at the headers of loops.
    let mut is_new = true;
    while is_new {
        is_new = false;
        let mut mark = |target: Value, inputs: &[Value], op: Option<Op>| {
            let any = |marked: &[bool]| inputs.iter().any(|&input| marked[input as usize]);
            let product = matches!(op, Some(Op::FloatProduct { .. })) || any(&is_product);
            let sum = matches!(op, Some(Op::FloatSum { .. })) && any(&is_product);
            let both = (product, sum || any(&is_varying));
            let target = target as usize;
            is_new |= both != (is_product[target], is_varying[target]);
            (is_product[target], is_varying[target]) = both;
        };
        for &number in &graph.order {
            let block = &blocks[number as usize];
            for phi in &block.phis {
                mark(phi.target, &phi.args, None);
            }
            for ins in &block.ins {
                let Some(target) = ins.target else {
                    continue;
                };
                let mut inputs = ins.unmodelled.clone();
                inputs.extend(ins.sources.iter().filter_map(|source| match source {
                    Source::Value(value) => Some(*value),
                    _ => None,
                }));
                inputs.extend(ins.guard.map(|_| ins.previous));
                mark(target, &inputs, Some(ins.op));
            }
        }
    }
    is_varying
}

#[cfg(test)]
mod tests {
    use super::comparison;

    /// Numbers around every boundary between exponents, and around the constants.
    fn numbers(constants: &[f32]) -> Vec<f32> {
        let boundaries = (0..512_u32).map(|top| top << 23);
        let constants = constants.iter().map(|constant| constant.to_bits());
        let centers = boundaries.chain(constants);
        let around = centers.flat_map(|at| (0..7).map(move |by| at.wrapping_add(by)));
        around
            .map(|bits| f32::from_bits(bits.wrapping_sub(3)))
            .collect()
    }

    fn holds(relation: &str, a: f64, b: f64) -> bool {
        let is_nan = a.is_nan() || b.is_nan();
        match relation {
            "eq" => a == b,
            "ne" => !is_nan && a != b,
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            "ge" => a >= b,
            "equ" => is_nan || a == b,
            "neu" => is_nan || a != b,
            "ltu" => is_nan || a < b,
            "leu" => is_nan || a <= b,
            "gtu" => is_nan || a > b,
            "geu" => is_nan || a >= b,
            "num" => !is_nan,
            _ => is_nan,
        }
    }

    const RELATIONS: [&str; 14] = [
        "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
    ];

    /// A number that is not normal counts as 0 with `.ftz`.
    fn flushed(number: f32) -> f32 {
        if number.is_subnormal() {
            number * 0.0
        } else {
            number
        }
    }

    /// Checks that the bits of all numbers for which the comparison holds are in the range, and
    /// that the range is not larger than necessary.
    fn check(relation: &str, constant: f32, is_absolute: bool, numbers: &[f32]) -> bool {
        let bits = u64::from(constant.to_bits());
        let Some(range) = comparison(relation, bits, 32, is_absolute) else {
            return false;
        };
        let (mut low, mut high) = (u64::MAX, 0);
        for x in numbers {
            let (y, mask) = match is_absolute {
                true => (x.abs(), u32::MAX >> 1),
                false => (*x, u32::MAX),
            };
            let found = u64::from(x.to_bits() & mask);
            if holds(relation, flushed(y).into(), flushed(constant).into()) == range.truth {
                let is_in = (range.low..=range.high).contains(&found);
                assert!(
                    is_in,
                    "{relation} {constant} {is_absolute}: {x:?}, with `.ftz`"
                );
            }
            if holds(relation, y.into(), constant.into()) == range.truth {
                (low, high) = (low.min(found), high.max(found));
            }
        }
        let expected = (range.low, range.high);
        assert_eq!((low, high), expected, "{relation} {constant} {is_absolute}");
        true
    }

    #[test]
    fn comparisons_of_floats_bound_their_bits() {
        let constants = [
            105_615.0,
            1.5,
            0.0,
            -2.0,
            1e-40,
            f32::INFINITY,
            f32::MIN_POSITIVE,
            3e38,
        ];
        let numbers = numbers(&constants);
        let mut known = 0;
        for constant in constants {
            for relation in RELATIONS {
                known += u32::from(check(relation, constant, false, &numbers));
                known += u32::from(check(relation, constant, true, &numbers));
            }
        }
        // Five constants are positive and normal, or infinity: 6 relations say something about the
        // number, and 4 more about the absolute value. Nothing is above infinity.
        assert_eq!(known, 5 * (6 + 10) - 4);
    }

    #[test]
    fn comparisons_of_doubles_bound_their_bits() {
        let limit = 2_147_483_648.0_f64;
        let range = comparison("ltu", limit.to_bits(), 64, true).unwrap();
        assert!(!range.truth);
        assert_eq!((range.low, range.high), (1054 << 52, 0x7ff << 52));
        for x in [limit, limit * 1.5, f64::MAX, f64::INFINITY] {
            assert!((range.low..=range.high).contains(&x.to_bits()), "{x}");
        }
        for constant in [0.0_f64, -1.0, f64::NAN, 5e-324] {
            let known = comparison("ltu", constant.to_bits(), 64, true);
            assert_eq!(known, None, "{constant}");
        }
    }
}

//! Proofs that hold for all numbers in a range, so that launches with new numbers or another grid
//! need no evaluation.

use std::cell::Cell;

use crate::flow::{AccessKind, Axis};

use super::form::Form;
use super::launch::mismatch;
use super::symbols::{Kind, Symbols};
use super::{Analysis, LaunchValues, MAX_STEPS, Outcome, Root};

/// The axes of [`OpenNumber::Blocks`].
const AXES: [Axis; 3] = [Axis::X, Axis::Y, Axis::Z];

/// A number of a launch that is left open in a proof for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenNumber {
    /// A number among the arguments.
    Argument {
        /// The number of the parameter, from 0.
        parameter: u32,
        /// The offset in bytes in the parameter.
        offset: u64,
        /// The size in bytes, at most 8.
        size: u32,
    },
    /// The number of blocks of the grid along an axis.
    Blocks {
        /// 0 for x, 1 for y, 2 for z.
        axis: usize,
    },
}

/// A number of a launch that may have any value from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The number.
    pub number: OpenNumber,
    /// The smallest value.
    pub low: u64,
    /// The largest value.
    pub high: u64,
}

/// The size that a buffer must have, as a sum of multiples of numbers of the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The number of the parameter with the address, from 0.
    pub parameter: u32,
    /// The offset of the address in the parameter.
    pub offset: u64,
    /// Whether the kernel writes to the buffer.
    pub is_written: bool,
    /// Indices of ranges, and the factors of their numbers.
    pub terms: Vec<(usize, i128)>,
    /// The number of bytes that is added to the terms.
    pub constant: i128,
}

impl Need {
    /// The number of bytes for these numbers, one for each range; `None` if it is too large.
    pub fn bytes(&self, numbers: &[u64]) -> Option<u64> {
        let sum = self.terms.iter().try_fold(self.constant, |sum, &(at, by)| {
            sum.checked_add(i128::from(*numbers.get(at)?).checked_mul(by)?)
        });
        u64::try_from(sum?.max(0)).ok()
    }
}

impl Analysis {
    /// Returns what the buffers need so that every access is proven, for all launches that differ
    /// from `launch` only in numbers with these ranges. Returns `None` if not every access is
    /// proven for all of them.
    ///
    /// The numbers must not be negative in their types: `high` is below half of what `size` bytes
    /// can hold. The number of blocks is from 1 to 2³¹ - 1. No number may have two ranges.
    pub fn evaluate_ranges(
        &self,
        launch: &LaunchValues,
        ranges: &[NumberRange],
    ) -> Option<Vec<Need>> {
        let kernel = self.kernel.as_ref().ok()?;
        let mut launch = launch.clone();
        let mut symbols = Symbols::default();
        for (index, range) in ranges.iter().enumerate() {
            let NumberRange { number, low, high } = *range;
            let mut earlier = ranges.iter().take(index);
            if low > high || earlier.any(|earlier| earlier.number == number) {
                return None;
            }
            match number {
                OpenNumber::Argument {
                    parameter,
                    offset,
                    size,
                } => {
                    let argument = launch.arguments.get_mut(parameter as usize)?;
                    let param = kernel.params.get(parameter as usize)?;
                    let is_positive = matches!(size, 1..=8) && high >> (8 * size - 1) == 0;
                    argument.number(offset, size)?;
                    // The alignment of an address is not known for a range.
                    if !is_positive || param.target_align > 1 {
                        return None;
                    }
                    argument.ranges.push((offset, size, low, high));
                }
                OpenNumber::Blocks { axis } => {
                    let value = launch.grid.get(axis).copied()?;
                    if low == 0 || high > i32::MAX as u64 {
                        return None;
                    }
                    symbols.set_blocks(AXES[axis], low.into(), high.into(), value.into())?;
                }
            }
        }
        if mismatch(kernel, &launch).is_some() {
            return None;
        }
        let work = Cell::new(MAX_STEPS);
        let (findings, wild_jump) = self.findings(kernel, &launch, &mut symbols, &work);
        if wild_jump.is_some() {
            return None;
        }
        let mut needs: Vec<Need> = Vec::new();
        for (access, finding) in kernel.accesses.iter().zip(findings) {
            let Some(finding) = finding else {
                continue;
            };
            let (Outcome::Proven { root, .. }, Some(end)) = (&finding.outcome, &finding.end) else {
                return None;
            };
            let Root::Buffer { parameter, offset } = *root else {
                continue;
            };
            let (terms, constant) = of_numbers(&symbols, end, ranges)?;
            let is_written = access.kind != AccessKind::Read;
            let new = Need {
                parameter,
                offset,
                is_written,
                terms,
                constant,
            };
            let is_same = |old: &&mut Need| {
                (old.parameter, old.offset) == (parameter, offset) && old.terms == new.terms
            };
            match needs.iter_mut().find(is_same) {
                Some(old) => {
                    old.constant = old.constant.max(constant);
                    old.is_written |= is_written;
                }
                None => needs.push(new),
            }
        }
        Some(needs)
    }
}

/// A form over scalars as multiples of the numbers with ranges, and a constant.
fn of_numbers(
    symbols: &Symbols,
    form: &Form,
    ranges: &[NumberRange],
) -> Option<(Vec<(usize, i128)>, i128)> {
    let form = symbols.concrete(form)?;
    let mut terms = Vec::new();
    for &(symbol, by) in form.terms() {
        let is_range = |range: &NumberRange| match (range.number, &symbols.info(symbol).kind) {
            (
                OpenNumber::Argument {
                    parameter,
                    offset,
                    size,
                },
                kind,
            ) => *kind == Kind::Scalar(parameter, offset, size),
            (OpenNumber::Blocks { axis }, Kind::Nctaid(of)) => AXES.get(axis) == Some(of),
            (OpenNumber::Blocks { .. }, _) => false,
        };
        terms.push((ranges.iter().position(is_range)?, by));
    }
    Some((terms, form.constant))
}

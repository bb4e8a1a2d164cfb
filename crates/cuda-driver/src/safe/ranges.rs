//! Proofs for ranges of numbers, so that a program whose numbers change at every launch needs no
//! evaluation for each. The grid is three of these numbers.
//!
//! If a launch differs from an earlier one only in numbers, both are proven, and a proof holds for
//! all numbers in ranges around them, then later launches only compare their numbers with the
//! ranges, and compute the sizes that the buffers must have.

use std::sync::atomic::Ordering;

use cuda_ptx::analysis::{NumberRange, OpenNumber};

use super::certificate::{Certificate, MAX_PROOFS};
use super::kernel::Inner;
use super::memories::{Memories, kind};
use super::plan::{Key, grid_of, launch_values, words_before_numbers};
use crate::launch::KernelArgs;
use crate::types::LaunchConfig;

/// The largest number of attempts to prove a range for one kernel.
const MAX_ATTEMPTS: u32 = 2 * MAX_PROOFS as u32;

/// The largest number of values with a range in one proof.
const MAX_NUMBERS: usize = 4;

/// The largest number of blocks in y and z.
const MAX_BLOCKS_YZ: u64 = 65_535;

/// A number that differs between two launches.
struct Changed {
    number: OpenNumber,
    values: [u64; 2],
    /// The largest value of a range that is tried first.
    most: u64,
}

impl Changed {
    /// A number with `size` bytes among the arguments. The range that is tried first ends at a
    /// quarter of what the type can hold. The rest leaves room for an index that exceeds the
    /// number by the size of the grid.
    fn argument(parameter: u32, size: u32, values: [u64; 2]) -> Self {
        let number = OpenNumber::Argument {
            parameter,
            offset: 0,
            size,
        };
        let most = 1_u64 << (8 * size - 2);
        Self {
            number,
            values,
            most,
        }
    }

    /// The number of blocks along an axis. The range that is tried first ends at 2³⁰ threads in x,
    /// because kernels compute the index of a thread with 32 bits.
    fn blocks(axis: usize, values: [u64; 2], block: u32) -> Self {
        let most = match axis {
            0 => (1_u64 << 30) / u64::from(block.max(1)),
            _ => MAX_BLOCKS_YZ,
        };
        Self {
            number: OpenNumber::Blocks { axis },
            values,
            most,
        }
    }

    /// Returns the range from 1 (or 0, if a launch passed 0) to the largest value that is tried.
    fn most(&self) -> NumberRange {
        let [a, b] = self.values;
        let high = self.most.max(a).max(b);
        self.range(u64::from(a != 0 && b != 0), high)
    }

    /// Returns the range from half the smaller to twice the larger value.
    fn near(&self) -> NumberRange {
        let [a, b] = self.values;
        let most = self.most();
        let low = (a.min(b) / 2).max(most.low);
        self.range(low, a.max(b).saturating_mul(2).min(most.high))
    }

    fn range(&self, low: u64, high: u64) -> NumberRange {
        NumberRange {
            number: self.number,
            low,
            high,
        }
    }
}

/// Returns a proof that holds for this launch, for an earlier one that differs from it only in
/// numbers, and for the numbers around them.
pub(super) fn certificate<A: KernelArgs>(
    kernel: &Inner,
    config: &LaunchConfig,
    args: &A,
    memories: &Memories,
    key: &Key,
) -> Option<Certificate> {
    let words = words_before_numbers(kernel);
    let similar = kernel.plans.similar(key, words)?;
    let mut changed = changed(kernel, memories, [&similar.key, key], words)?;
    let [old, new] = [grid_of(&similar.key)?, grid_of(key)?];
    for (axis, values) in old.into_iter().zip(new).enumerate() {
        if values.0 != values.1 {
            let values = [values.0.into(), values.1.into()];
            changed.push(Changed::blocks(axis, values, config.block.x));
        }
    }
    if !(1..=MAX_NUMBERS).contains(&changed.len()) {
        return None;
    }
    if kernel.range_attempts.fetch_add(1, Ordering::Relaxed) >= MAX_ATTEMPTS {
        kernel.range_attempts.store(MAX_ATTEMPTS, Ordering::Relaxed);
        return None;
    }
    let values = launch_values(config, args, memories);
    [Changed::most, Changed::near].iter().find_map(|range| {
        let ranges: Vec<NumberRange> = changed.iter().map(range).collect();
        let needs = kernel.analysis.evaluate_ranges(&values, &ranges)?;
        Certificate::of_ranges(kernel, config, args, memories, &ranges, &needs)
    })
}

/// Returns the numbers among the arguments in which two keys differ, or `None` if a proof for
/// ranges is not possible: one is negative, or one is only a part of its argument.
fn changed(
    kernel: &Inner,
    memories: &Memories,
    keys: [&Key; 2],
    words: usize,
) -> Option<Vec<Changed>> {
    let [old, new] = keys.map(|key| key.get(words..).unwrap_or(&[]));
    // The numbers of a key are in this order.
    let numbers = kernel.relevant.iter();
    let numbers = numbers.filter(|part| kind(memories, part.0) == 0);
    let mut changed = Vec::new();
    for (&(parameter, offset, size), values) in numbers.zip(old.iter().zip(new)) {
        let values = [*values.0, *values.1];
        if values[0] == values[1] {
            continue;
        }
        let parts = kernel.relevant.iter().filter(|part| part.0 == parameter);
        let is_alone = parts.count() == 1 && offset == 0;
        let is_small = matches!(kernel.sizes.get(parameter as usize), Some(..=8));
        let is_negative = |value: u64| !matches!(size, 1..=8) || value >> (8 * size - 1) != 0;
        if !is_alone || !is_small || values.into_iter().any(is_negative) {
            return None;
        }
        changed.push(Changed::argument(parameter, size, values));
    }
    Some(changed)
}

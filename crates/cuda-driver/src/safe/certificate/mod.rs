//! Proofs for the first shapes of launches of a kernel, in a form that a launch compares in one
//! pass over its arguments, without a lock and without an allocation.
//!
//! A proof is for one shape, or for all numbers in some ranges, of which the grid may be some. The
//! sizes that the latter requires are sums of multiples of these numbers.

use std::sync::OnceLock;

use cuda_ptx::analysis::{Need, NumberRange, OpenNumber};

use super::kernel::Inner;
use super::memories::{Memories, MemoryArg};
use crate::function::packing::{PACKED, UNPACKED};
use crate::launch::{KernelArgs, Tracked};
use crate::memory::is_array_number;
use crate::types::LaunchConfig;

/// The number of proofs of either kind that a kernel keeps.
pub(super) const MAX_PROOFS: usize = 4;

/// The proofs of a kernel. They are never replaced, so that a launch takes no lock.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    /// Proofs for one shape.
    exact: [OnceLock<Certificate>; MAX_PROOFS],
    /// Proofs for ranges of numbers.
    ranges: [OnceLock<Certificate>; MAX_PROOFS],
}

/// A proof that a launch of the original kernel stays in its arguments.
#[derive(Debug)]
pub(super) struct Certificate {
    /// The sizes of the arguments: see [`pack`](crate::function::packing::pack).
    packed: u128,
    /// The smallest grid, the block, and the dynamic shared memory.
    config: LaunchConfig,
    /// The difference between the largest and the smallest number of blocks in x, y and z.
    grid_spans: [u32; 3],
    /// One for each argument.
    conditions: Box<[Condition]>,
    /// The numbers in arguments of more than 8 bytes that the proof depends on.
    parts: Box<[Part]>,
    /// The sizes that depend on numbers with ranges.
    sums: Box<[Sum]>,
}

/// The conditions of the proof for one argument.
#[derive(Clone, Copy, Debug)]
struct Condition {
    kind: Kind,
    /// The bits of the value that the proof depends on: of a number its relevant bytes, of an
    /// address those that give its alignment.
    mask: u64,
    /// The smallest value of these bits.
    low: u64,
    /// The difference between their largest and their smallest value.
    span: u64,
    /// The number of bytes that the memory must have.
    bytes: u64,
}

/// The number of bytes that the memory of an argument must have: a constant, and multiples of
/// numbers among the arguments.
#[derive(Clone, Debug)]
struct Sum {
    argument: usize,
    constant: i128,
    /// Indices of [`Numbers`], and their factors.
    terms: Box<[(usize, i128)]>,
}

/// The numbers of a launch: one for each argument, and those of blocks in x, y and z. A packed word
/// describes at most [`PACKED`] arguments.
type Numbers = [u64; PACKED + 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number of at most 8 bytes, or a null pointer.
    Number,
    /// A value of more than 8 bytes.
    Large,
    /// The address of memory that the kernel reads or does not use.
    Read,
    /// The address of memory that the kernel writes.
    Written,
}

/// A number of at most 8 bytes in a larger argument.
#[derive(Clone, Copy, Debug)]
struct Part {
    argument: u32,
    offset: u64,
    count: u32,
    value: u64,
}

impl Certificates {
    /// Returns whether a proof covers this launch.
    #[inline]
    pub(super) fn prove<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> bool {
        let exact = self.exact.iter().map_while(OnceLock::get);
        for certificate in exact {
            if certificate.covers(config, args)
                && args.all_arguments(|index, bytes, tracked| {
                    certificate.admits(index, bytes, tracked.as_ref())
                })
            {
                return true;
            }
        }
        let mut ranges = self.ranges.iter().map_while(OnceLock::get);
        ranges.any(|certificate| certificate.proves_range(config, args))
    }

    /// Keeps a proof, unless there are enough of its kind.
    pub(super) fn add(&self, mut certificate: Certificate) {
        let slots = match certificate.is_exact() {
            true => &self.exact,
            false => &self.ranges,
        };
        for slot in slots {
            match slot.set(certificate) {
                Ok(()) => return,
                Err(back) => certificate = back,
            }
        }
    }
}

/// A value of at most 8 bytes, extended by zeros.
#[inline(always)]
pub(super) fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    if let Some(start) = word.get_mut(..bytes.len()) {
        start.copy_from_slice(bytes);
    }
    u64::from_le_bytes(word)
}

/// The bits of an address that give its alignment, up to 256, and their value.
fn alignment(memory: &MemoryArg) -> (u64, u64) {
    match memory.align() {
        align @ 0..=7 => ((2 << align) - 1, 1 << align),
        _ => (0xff, 0),
    }
}

impl Certificate {
    /// Creates the proof of this launch. It also holds for launches that differ only in values that
    /// the proof does not use. `needs` lists the parameters whose memory the kernel accesses, the
    /// bytes that it must have, and whether the kernel writes to it.
    ///
    /// The sizes of the arguments were compared with those of the parameters. Returns `None` if
    /// there are too many arguments.
    pub(super) fn new<A: KernelArgs>(
        kernel: &Inner,
        config: &LaunchConfig,
        args: &A,
        memories: &Memories,
        needs: &[(u32, u64, bool)],
    ) -> Option<Self> {
        let packed = args.packed();
        if packed == UNPACKED {
            return None;
        }
        let mut conditions = Vec::with_capacity(kernel.sizes.len());
        let mut parts = Vec::new();
        let is_complete = args.all_arguments(|index, bytes, _| {
            let Ok(argument) = u32::try_from(index) else {
                return false;
            };
            let mut memory = memories.iter();
            let memory = memory.find(|memory| memory.parameter == Some(argument));
            let need = needs.iter().find(|need| need.0 == argument);
            let relevant = kernel.relevant.iter().filter(|part| part.0 == argument);
            conditions.push(match memory {
                Some(memory) => {
                    let (mask, low) = alignment(memory);
                    let is_written = need.is_some_and(|need| need.2);
                    Condition {
                        kind: if is_written {
                            Kind::Written
                        } else {
                            Kind::Read
                        },
                        mask,
                        low,
                        span: 0,
                        bytes: need.map_or(0, |need| need.1),
                    }
                }
                None if bytes.len() <= 8 => {
                    // Each byte that the proof depends on has the bits 0xff.
                    let mut mask = [0; 8];
                    for &(_, offset, count) in relevant {
                        let from = usize::try_from(offset).unwrap_or(usize::MAX);
                        let mask = mask.iter_mut().skip(from).take(count as usize);
                        mask.for_each(|byte| *byte = 0xff);
                    }
                    let mask = u64::from_le_bytes(mask);
                    Condition {
                        kind: Kind::Number,
                        mask,
                        low: word(bytes) & mask,
                        span: 0,
                        bytes: 0,
                    }
                }
                None => {
                    for &(_, offset, count) in relevant {
                        let Some(value) = part(bytes, offset, count) else {
                            return false;
                        };
                        parts.push(Part {
                            argument,
                            offset,
                            count,
                            value,
                        });
                    }
                    Condition {
                        kind: Kind::Large,
                        mask: 0,
                        low: 0,
                        span: 0,
                        bytes: 0,
                    }
                }
            });
            true
        });
        // Memory without a known argument cannot be needed.
        let is_known = |need: &(u32, u64, bool)| {
            let mut memories = memories.iter();
            memories.any(|memory| memory.parameter == Some(need.0))
        };
        let is_complete = is_complete && needs.iter().all(is_known);
        is_complete.then(|| Self {
            packed,
            config: *config,
            grid_spans: [0; 3],
            conditions: conditions.into(),
            parts: parts.into(),
            sums: Box::default(),
        })
    }

    /// The proof for launches that differ from this one only in numbers with these ranges, and in
    /// what a proof does not depend on. Each number among the arguments is all that the proof
    /// depends on in its argument, at offset 0. `needs` is what the analysis requires for all
    /// numbers in the ranges.
    pub(super) fn of_ranges<A: KernelArgs>(
        kernel: &Inner,
        config: &LaunchConfig,
        args: &A,
        memories: &Memories,
        ranges: &[NumberRange],
        needs: &[Need],
    ) -> Option<Self> {
        let mut least: Vec<(u32, u64, bool)> = Vec::new();
        let mut sums = Vec::new();
        for need in needs {
            if need.offset != 0 {
                return None;
            }
            let constant = match need.terms.is_empty() {
                true => u64::try_from(need.constant.max(0)).ok()?,
                false => 0,
            };
            match least.iter_mut().find(|other| other.0 == need.parameter) {
                Some(other) => {
                    other.1 = other.1.max(constant);
                    other.2 |= need.is_written;
                }
                None => least.push((need.parameter, constant, need.is_written)),
            }
            if !need.terms.is_empty() {
                let terms = need.terms.iter().map(|&(range, by)| {
                    let number = match ranges.get(range)?.number {
                        OpenNumber::Argument { parameter, .. } => parameter as usize,
                        OpenNumber::Blocks { axis } => PACKED + axis,
                    };
                    Some((number, by))
                });
                sums.push(Sum {
                    argument: need.parameter as usize,
                    constant: need.constant,
                    terms: terms.collect::<Option<_>>()?,
                });
            }
        }
        let mut certificate = Self::new(kernel, config, args, memories, &least)?;
        for range in ranges {
            let span = range.high.checked_sub(range.low)?;
            match range.number {
                OpenNumber::Argument { parameter, .. } => {
                    let condition = certificate.conditions.get_mut(parameter as usize)?;
                    if condition.kind != Kind::Number {
                        return None;
                    }
                    condition.low = range.low;
                    condition.span = span;
                }
                OpenNumber::Blocks { axis } => {
                    let grid = &mut certificate.config.grid;
                    let mut low = [&mut grid.x, &mut grid.y, &mut grid.z];
                    **low.get_mut(axis)? = u32::try_from(range.low).ok()?;
                    *certificate.grid_spans.get_mut(axis)? = u32::try_from(span).ok()?;
                }
            }
        }
        certificate.sums = sums.into();
        Some(certificate)
    }

    /// Whether the proof is for one shape.
    fn is_exact(&self) -> bool {
        let mut conditions = self.conditions.iter();
        self.sums.is_empty()
            && self.grid_spans == [0; 3]
            && conditions.all(|condition| condition.span == 0)
    }

    /// Returns whether the proof is for this configuration and for arguments of these sizes.
    #[inline]
    fn covers<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> bool {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = *config;
        let (low, [x, y, z]) = (self.config.grid, self.grid_spans);
        self.packed == args.packed()
            && grid.x.wrapping_sub(low.x) <= x
            && grid.y.wrapping_sub(low.y) <= y
            && grid.z.wrapping_sub(low.z) <= z
            && block == self.config.block
            && shared_bytes == self.config.shared_bytes
    }

    /// Returns whether an argument meets its condition. There is one for each argument if the proof
    /// [covers](Self::covers) them, because equal packed words mean equal sizes.
    #[inline(always)]
    fn admits(&self, index: usize, bytes: &[u8], tracked: Option<&Tracked<'_>>) -> bool {
        let Some(condition) = self.conditions.get(index) else {
            return false;
        };
        let value = word(bytes);
        let is_memory = is_memory(bytes, value, tracked);
        let bits = value & condition.mask;
        let is_admitted = bits.wrapping_sub(condition.low) <= condition.span;
        match condition.kind {
            Kind::Number => !is_memory && is_admitted,
            Kind::Large => self.has_parts(index, bytes),
            Kind::Read | Kind::Written => {
                is_memory
                    && is_admitted
                    && tracked.is_some_and(|memory| {
                        condition.bytes <= memory.bytes as u64
                            && (condition.kind == Kind::Read || memory.access.is_write())
                    })
            }
        }
    }

    /// Returns whether a proof for ranges of numbers covers this launch.
    #[inline]
    fn proves_range<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> bool {
        let mut numbers: Numbers = [0; PACKED + 3];
        let grid = config.grid;
        numbers[PACKED..].copy_from_slice(&[grid.x, grid.y, grid.z].map(u64::from));
        let mut sizes = [0_u64; PACKED];
        let is_admitted = self.covers(config, args)
            && args.all_arguments(|index, bytes, tracked| {
                if let (Some(number), Some(size)) = (numbers.get_mut(index), sizes.get_mut(index)) {
                    let condition = self.conditions.get(index);
                    *number = word(bytes) & condition.map_or(0, |it| it.mask);
                    *size = tracked.as_ref().map_or(0, |it| it.bytes as u64);
                }
                self.admits(index, bytes, tracked.as_ref())
            });
        is_admitted && self.has_room(&numbers, &sizes)
    }

    /// Returns whether the memory of each argument is large enough for these numbers.
    fn has_room(&self, numbers: &Numbers, sizes: &[u64; PACKED]) -> bool {
        self.sums.iter().all(|sum| {
            let mut terms = sum.terms.iter();
            let bytes = terms.try_fold(sum.constant, |bytes, &(argument, by)| {
                bytes.checked_add(i128::from(*numbers.get(argument)?).checked_mul(by)?)
            });
            let size = sizes.get(sum.argument).copied().map(i128::from);
            bytes.zip(size).is_some_and(|(bytes, size)| bytes <= size)
        })
    }

    /// Returns whether a large argument has the numbers that the proof depends on.
    fn has_parts(&self, argument: usize, bytes: &[u8]) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|it| {
            it.argument as usize != argument || part(bytes, it.offset, it.count) == Some(it.value)
        })
    }
}

/// Returns whether an argument is the address of its memory, and nothing else. An argument of no
/// bytes may have any address.
#[inline(always)]
pub(super) fn is_memory(bytes: &[u8], value: u64, tracked: Option<&Tracked<'_>>) -> bool {
    let is_its_address = tracked.is_some_and(|memory| memory.address == value);
    // An array has no address.
    bytes.len() == 8 && value != 0 && is_its_address && !is_array_number(value)
}

/// The number of `count` bytes at `offset`.
fn part(bytes: &[u8], offset: u64, count: u32) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let bytes = bytes.get(start..start.checked_add(count as usize)?)?;
    (bytes.len() <= 8).then(|| word(bytes))
}

#[cfg(test)]
mod tests;

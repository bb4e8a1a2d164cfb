//! Proofs for the first shapes of launches of a kernel, in a form that a launch compares in one pass
//! over its arguments, without a lock and without an allocation.

use std::sync::OnceLock;

use super::kernel::Inner;
use super::memories::{Memories, MemoryArg};
use crate::function::packing::UNPACKED;
use crate::launch::{KernelArgs, Tracked};
use crate::types::LaunchConfig;

/// The number of shapes that a kernel keeps in this form.
const MOST: usize = 4;

/// The proofs of a kernel. They are never replaced, so that a launch takes no lock.
#[derive(Debug, Default)]
pub(super) struct Certificates([OnceLock<Certificate>; MOST]);

/// A proof that a launch of the original kernel stays in its arguments.
#[derive(Debug)]
pub(super) struct Certificate {
    /// The sizes of the arguments: see [`pack`](crate::function::packing::pack).
    packed: u128,
    config: LaunchConfig,
    /// One for each argument.
    conditions: Box<[Condition]>,
    /// The numbers in arguments of more than 8 bytes that the proof depends on.
    parts: Box<[Part]>,
}

/// What the proof requires of one argument.
#[derive(Clone, Copy, Debug)]
struct Condition {
    kind: Kind,
    /// The bits of the value that the proof depends on: of a number its relevant bytes, of an
    /// address those that give its alignment.
    mask: u64,
    /// The value of these bits.
    bits: u64,
    /// The number of bytes that the memory must have.
    bytes: u64,
}

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
        for slot in &self.0 {
            match slot.get() {
                Some(certificate) if certificate.proves(config, args) => return true,
                Some(_) => {}
                None => return false,
            }
        }
        false
    }

    /// Keeps a proof, unless there are enough.
    pub(super) fn add(&self, mut certificate: Certificate) {
        for slot in &self.0 {
            match slot.set(certificate) {
                Ok(()) => return,
                Err(back) => certificate = back,
            }
        }
    }
}

/// A value of at most 8 bytes, extended by zeros.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
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
    /// The proof for launches that differ from this one only in what a proof does not depend on.
    /// `needs` lists the parameters whose memory the kernel accesses, the bytes that it must have,
    /// and whether the kernel writes to it.
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
                    let (mask, bits) = alignment(memory);
                    let is_written = need.is_some_and(|need| need.2);
                    Condition {
                        kind: if is_written {
                            Kind::Written
                        } else {
                            Kind::Read
                        },
                        mask,
                        bits,
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
                        bits: word(bytes) & mask,
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
                        bits: 0,
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
            conditions: conditions.into(),
            parts: parts.into(),
        })
    }

    /// Returns whether the proof covers this launch.
    #[inline]
    fn proves<A: KernelArgs>(&self, config: &LaunchConfig, args: &A) -> bool {
        // Equal words mean equal sizes, so there is a condition for each argument.
        if self.packed != args.packed() || self.config != *config {
            return false;
        }
        let conditions = &*self.conditions;
        args.all_arguments(|index, bytes, tracked| {
            let Some(condition) = conditions.get(index) else {
                return false;
            };
            let value = word(bytes);
            let is_memory = is_memory(bytes, value, tracked.as_ref());
            match condition.kind {
                Kind::Number => !is_memory && value & condition.mask == condition.bits,
                Kind::Large => self.has_parts(index, bytes),
                Kind::Read | Kind::Written => {
                    is_memory
                        && value & condition.mask == condition.bits
                        && tracked.is_some_and(|memory| {
                            condition.bytes <= memory.bytes as u64
                                && (condition.kind == Kind::Read || memory.access.is_write())
                        })
                }
            }
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
fn is_memory(bytes: &[u8], value: u64, tracked: Option<&Tracked<'_>>) -> bool {
    bytes.len() == 8 && value != 0 && tracked.is_some_and(|memory| memory.address == value)
}

/// The number of `count` bytes at `offset`.
fn part(bytes: &[u8], offset: u64, count: u32) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let bytes = bytes.get(start..start.checked_add(count as usize)?)?;
    (bytes.len() <= 8).then(|| word(bytes))
}

#[cfg(test)]
mod tests;

//! Operand sets: the values of the sources of an instruction, one set for each thread.

use fastrand::Rng;

use crate::item::{Item, Mask, Register};

/// The threads of a block.
pub(crate) const BLOCK: usize = 32;
/// The operand sets with ranges that share what the analysis knows.
const GROUP: usize = 16;

/// What the analysis knows about a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// The number itself.
    Number,
    /// What a load of this type returns.
    Load(&'static str),
    /// The load of this type, multiplied by a power of two, plus a number.
    Scaled(&'static str, u32, u32),
}

/// An operand set.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// The number of the case in [`Sets`].
    pub(crate) case: usize,
    /// Whether the thread executes the instruction.
    pub(crate) is_active: bool,
    /// The values of the sources, two words for one of 128 bits.
    pub(crate) words: Vec<u64>,
}

/// The operand sets of one instruction.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// What the analysis knows about each source. In the first case, it knows all numbers.
    pub(crate) cases: Vec<Vec<Knowledge>>,
    pub(crate) sets: Vec<Set>,
}

/// The lowest bits of a number.
pub(crate) fn low_bits(value: u64, bits: u32) -> u64 {
    match bits {
        64.. => value,
        _ => value & ((1 << bits) - 1),
    }
}

/// A number extended by its sign.
pub(crate) fn signed(value: u64, bits: u32) -> u64 {
    match bits {
        64.. => value,
        _ => ((value << (64 - bits)) as i64 >> (64 - bits)) as u64,
    }
}

/// Numbers at the edges of a type: of integers, of floating-point numbers, and of pairs of halves.
fn edges(bits: u32) -> Vec<u64> {
    let top = 1_u64 << (bits.min(64) - 1);
    let mut all = vec![
        0,
        1,
        u64::MAX,
        top,
        top - 1,
        2,
        3,
        top + 1,
        31,
        32,
        33,
        7,
        8,
        255,
        64,
        128,
    ];
    all.extend(match bits {
        ..=16 => vec![
            0x3c00, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x3f80, 0x7f80, 0x7fc0,
        ],
        17..=32 => vec![
            0x3f80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x7f80_0001,
            0x0080_0000,
            0x4f00_0000,
            0x7f7f_ffff,
            0x7c00_fc00,
            0x3c00_7e00,
            0x47ce_4780,
            0x0001_ffff,
        ],
        _ => vec![
            0x3ff0_0000_0000_0000,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            0x7ff0_0000_0000_0001,
            0x0010_0000_0000_0000,
            0x41e0_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            0xffff_ffff,
            0x1_0000_0000,
            0x8000_0000,
            0x7fff_ffff,
        ],
    });
    all.iter().map(|value| low_bits(*value, bits)).collect()
}

/// A number that is often near an edge.
fn any(bits: u32, rng: &mut Rng) -> u64 {
    let width = bits.min(64);
    let value = match rng.u32(..8) {
        0..3 => {
            let edges = edges(width);
            edges[rng.usize(..edges.len())]
        }
        3 => rng.u64(..).wrapping_shr(rng.u32(..width)),
        4 => (1_u64 << rng.u32(..width)).wrapping_sub(rng.u64(..3)),
        5 => rng.u64(..300).wrapping_neg(),
        6 => rng.u64(..300),
        _ => rng.u64(..),
    };
    low_bits(value, width)
}

/// The ranges that the analysis may know of a source.
fn knowledge(bits: u32, rng: &mut Rng) -> Knowledge {
    const NARROW: [&str; 2] = ["u8", "s8"];
    const WIDE: [&str; 4] = ["u8", "s8", "u16", "s16"];
    const ALL: [&str; 6] = ["u8", "s8", "u16", "s16", "u32", "s32"];
    let types: &[&'static str] = match bits {
        1 | 8 | 128 => &[],
        16 => &NARROW,
        32 => &WIDE,
        _ => &ALL,
    };
    let full = match bits {
        8 => "b8",
        16 => "b16",
        32 => "b32",
        _ => "b64",
    };
    if types.is_empty() {
        return match rng.bool() && bits != 128 {
            true => Knowledge::Number,
            false => Knowledge::Load(full),
        };
    }
    match rng.u32(..8) {
        0 | 1 => Knowledge::Number,
        2 => Knowledge::Load(full),
        3 if bits >= 32 => {
            let ty = ["u8", "u16"][rng.usize(..2)];
            Knowledge::Scaled(ty, rng.u32(..8), [0, 1, 5, 1000][rng.usize(..4)])
        }
        _ => Knowledge::Load(types[rng.usize(..types.len())]),
    }
}

/// A number that fits what the analysis knows.
fn within(known: Knowledge, bits: u32, rng: &mut Rng) -> u64 {
    let load = |ty: &str, rng: &mut Rng| {
        let size: u32 = ty[1..].parse().unwrap_or(64);
        let value = match rng.u32(..3) {
            0 => [0, u64::MAX, 1 << (size - 1), (1 << (size - 1)) - 1][rng.usize(..4)],
            _ => any(size, rng),
        };
        let value = low_bits(value, size);
        match ty.starts_with('s') {
            true => low_bits(signed(value, size), bits),
            false => value,
        }
    };
    match known {
        Knowledge::Number => any(bits, rng),
        Knowledge::Load(ty) => load(ty, rng),
        Knowledge::Scaled(ty, shift, plus) => {
            let value = load(ty, rng) << shift;
            low_bits(value.wrapping_add(plus.into()), bits)
        }
    }
}

impl Sets {
    /// Returns `count` operand sets, which is a multiple of the threads of a block.
    pub(crate) fn new(item: &Item, count: usize, rng: &mut Rng) -> Self {
        let sources = &item.sources;
        let mut cases = vec![vec![Knowledge::Number; sources.len()]];
        let mut sets = Vec::with_capacity(count);
        let core: Vec<Vec<u64>> = sources.iter().map(|it| edges(it.bits)).collect();
        let exact = count / 2;
        let pick = |at: usize, value: u64| core[at][value as usize % core[at].len()];
        for number in 0..exact {
            let mut words = Vec::new();
            for (at, source) in sources.iter().enumerate() {
                // All pairs of edges of the first two sources.
                let value = match (at, number as u64) {
                    (0, number) if number < 24 * 16 => pick(0, number % 24),
                    (1, number) if number < 24 * 16 => pick(1, number / 24),
                    _ => any(source.bits, rng),
                };
                push(&mut words, source, value, rng);
            }
            sets.push(Set {
                case: 0,
                is_active: true,
                words,
            });
        }
        let mut fixed: Vec<u64> = Vec::new();
        for number in exact..count {
            if (number - exact).is_multiple_of(GROUP) {
                let known = sources.iter().enumerate().map(|(at, source)| {
                    match item.mask() == Some(Mask::Source(at)) {
                        true => Knowledge::Number,
                        false => knowledge(source.bits, rng),
                    }
                });
                cases.push(known.collect());
                fixed = sources.iter().map(|source| any(source.bits, rng)).collect();
            }
            let case = cases.len() - 1;
            let mut words = Vec::new();
            for (at, source) in sources.iter().enumerate() {
                let value = match cases[case][at] {
                    Knowledge::Number => fixed[at],
                    known => within(known, source.bits, rng),
                };
                push(&mut words, source, value, rng);
            }
            sets.push(Set {
                case,
                is_active: true,
                words,
            });
        }
        let mut all = Self { cases, sets };
        all.restrict(item);
        all.deactivate(item, rng);
        all
    }

    /// Replaces operands for which the instruction would not end soon.
    fn restrict(&mut self, item: &Item) {
        for set in &mut self.sets {
            match item.opcode.as_str() {
                "nanosleep" | "brx" => {
                    let most = if item.opcode == "brx" { 0 } else { 255 };
                    for word in &mut set.words {
                        *word = (*word).min(most);
                    }
                }
                _ => {}
            }
        }
    }

    /// Chooses the threads that execute the instruction, and sets the member masks.
    fn deactivate(&mut self, item: &Item, rng: &mut Rng) {
        let mask = item.mask();
        for (warp, sets) in self.sets.chunks_mut(BLOCK).enumerate() {
            let lanes: u32 = match (mask, warp % 3) {
                _ if item.is_aligned() => u32::MAX,
                (Some(Mask::Number(number)), _) => number,
                (_, 1) => rng.u32(..) | 1 << rng.u32(..32),
                (_, 2) if warp % 2 == 0 => 1 << rng.u32(..32),
                _ => u32::MAX,
            };
            for (lane, set) in sets.iter_mut().enumerate() {
                set.is_active = lanes >> lane & 1 == 1;
                if let Some(Mask::Source(at)) = mask {
                    let slot: usize = item.sources[..at].iter().map(Register::slots).sum();
                    set.words[slot] = lanes.into();
                }
            }
        }
    }
}

fn push(words: &mut Vec<u64>, source: &Register, value: u64, rng: &mut Rng) {
    words.push(low_bits(value, source.bits));
    if source.slots() == 2 {
        words.push(any(64, rng));
    }
}
